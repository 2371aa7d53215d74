"""A recurrence in the unit's form, with what the host computes before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.operations import apply

__all__ = ["HostNode", "Recurrent"]


@dataclass(frozen=True)
class HostNode:
    """An operation without the state, or a leaf: an input by its name, a constant, or the unit's output."""

    op: str
    inputs: tuple[int, ...]
    attrs: Mapping[str, Any]

    def to_json(self) -> list[Any]:
        attrs = {k: np.asarray(v).tolist() if k == "value" else v for k, v in self.attrs.items()}
        return [self.op, list(self.inputs), attrs]


@dataclass(frozen=True)
class Recurrent:
    """A recurrence in the unit's form.

    `mode`: "update", "score" (a cache's rows times q) or "attend" (weights times a cache's rows); `d`, `k`,
    `v`, `q`: which nodes give the unit's operands (None: ones for d, none for the others); `output`: the node
    of the result; `state`, `inputs`: names; `sizes`: of the state, None where they are not known; `turned`: the
    unit's rows are the state's columns, because the output is S @ q.
    """

    name: str
    mode: str
    state: str
    inputs: tuple[str, ...]
    sizes: tuple[int | None, int | None]
    nodes: tuple[HostNode, ...]
    d: int | None
    k: int | None
    v: int | None
    q: int | None
    output: int
    source: str = ""
    dims: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    extra_sizes: tuple[tuple[str, int], ...] = ()  #: of other dimensions by name
    turned: bool = False

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """The unit's rows (dim_head) and columns (dim_state)."""
        return (self.sizes[1], self.sizes[0]) if self.turned else self.sizes

    @property
    def form(self) -> tuple[str, int, int]:
        """The mode, and dim_head and dim_state as `models.pim.layout` takes them; all sizes are known."""
        rows, columns = self.shape
        assert rows is not None and columns is not None
        return (self.mode, rows, columns) if self.mode == "update" else (self.mode, columns, rows)

    def decays(self) -> set[str]:
        """Return the inputs that are decays as they are."""
        leaf = None if self.d is None else self.leaf(self.d)
        return set() if leaf is None else {leaf}

    def rates(self) -> set[str]:
        """Return the inputs that are 1 less a decay as they are."""
        node = None if self.d is None else self.rate(self.d)
        leaf = None if node is None else self.leaf(node)
        return set() if leaf is None else {leaf}

    def rate(self, node: int) -> int | None:
        """Return the node of c where a decay is written as 1 − c (or S − c S), None where it is written in another way."""
        own = self.nodes[node]
        if own.op not in ("sub", "add"):
            return None
        one, rest = (self.nodes[n] for n in own.inputs)
        if one.op != "const" or not np.all(one.attrs["value"] == 1):
            return None
        if own.op == "sub":
            return own.inputs[1]
        return rest.inputs[0] if rest.op == "neg" else None

    def leaf(self, node: int) -> str | None:
        """Return the input that a node is as it is, None where it is another operation."""
        own = self.nodes[node]
        while own.op in ("flat", "expand"):
            own = self.nodes[own.inputs[0]]
        return str(own.attrs["name"]) if own.op == "input" else None

    def host(self, values: Mapping[str, np.ndarray], wanted: int) -> np.ndarray:
        """Return a node's values: `values` has those of inputs, and of the unit's output as "", with an axis of
        heads and tokens in front; so has what is returned."""
        done: dict[int, tuple[np.ndarray, bool]] = {}
        todo = [wanted]
        while todo:
            number = todo[-1]
            node = self.nodes[number]
            if number in done:
                todo.pop()
                continue
            missing = [n for n in node.inputs if n not in done]
            if missing:
                todo += missing
                continue
            todo.pop()
            if node.op == "const":
                done[number] = np.asarray(node.attrs["value"], dtype=np.float64), False
            elif node.op in ("input", "unit"):
                done[number] = values[node.attrs["name"]], True
            elif node.op == "flat":
                value, batched = done[node.inputs[0]]
                done[number] = np.squeeze(value, node.attrs["axis"] + int(batched)), batched
            else:
                own = [done[n] for n in node.inputs]
                with np.errstate(all="ignore"):
                    value = apply(
                        node.op, [v for v, _ in own], dict(node.attrs), [f for _, f in own]
                    )
                done[number] = value, any(f for _, f in own)
        value, batched = done[wanted]
        count = len(next(iter(values.values())))
        return value if batched else np.broadcast_to(value, (count, *value.shape))
