"""A recurrence in the unit's form, with what the host computes before and after."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from ..core.operations import apply
from ..core.scores import computed


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
class Pass:
    """One pass of the units over the state: S' = d ⊙ S + k vᵀ where it has a `k`, and Sᵀ q of the new state where it has a `q`. Operands are nodes."""

    d: int | None = None  #: None: ones
    k: int | None = None  #: in a cache that grows, the row that it takes before
    v: int | None = None  #: the only operand of an attend
    q: int | None = None
    #: name that the nodes of op "unit" have which stand for what it reads
    result: str | None = None
    #: operands depend on results of the same token or of earlier ones, which the host must have
    #: first
    waits: bool = False


@dataclass(frozen=True)
class Recurrent:
    """A recurrence in the unit's form."""

    name: str
    #: "update", "score" (a cache's rows times q) or "attend" (weights times a cache's rows)
    mode: str
    state: str  #: its name
    inputs: tuple[str, ...]  #: their names
    sizes: tuple[int | None, int | None]  #: sizes of the state, None where they are not known
    nodes: tuple[HostNode, ...]
    passes: tuple[Pass, ...]  #: passes of a token, in order
    output: int  #: the node of the result
    source: str = ""
    dims: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    extra_sizes: tuple[tuple[str, int], ...] = ()  #: of other dimensions by name
    turned: bool = False  #: the unit's rows are the state's columns, because the output is S @ q
    #: states that are the host's, vectors and numbers, with the nodes of their new values
    held: tuple[tuple[str, int], ...] = ()
    late: tuple[str, ...] = ()  #: states of the host that depend on results
    #: in attention ("attention"): the cache of values with its sizes
    values: tuple[str, int | None, int | None] | None = None
    scores: int = -1  #: in attention: the node that the keys give

    @property
    def parts(self) -> tuple[Recurrent, ...]:
        """The recurrences that the device steps: itself, or of attention the scores, and what reads the values by weights."""
        if self.values is None:
            return (self,)
        score, attend = self.passes
        name, *sizes = self.values
        rest = lambda gone: tuple(pair for pair in self.dims if pair[0] != gone)
        keys = replace(
            self, mode="score", passes=(score,), output=self.scores, dims=rest(name), values=None
        )
        assert attend.v is not None
        weights = self.nodes[attend.v].attrs["name"]
        known = tuple(
            (str(n), int(s))
            for n, s in zip(dict(self.dims)[self.state], self.sizes, strict=True)
            if s is not None
        )
        return keys, replace(
            keys,
            mode="attend",
            state=name,
            sizes=(sizes[0], sizes[1]),
            passes=(attend,),
            output=self.output,
            inputs=(*self.inputs, weights),
            dims=(*rest(self.state), (weights, dict(self.dims)[name][:1])),
            extra_sizes=(*known, *self.extra_sizes),
        )

    @property
    def states(self) -> tuple[str, ...]:
        """The names of all states, the unit's first."""
        more = (name for name, _ in self.held) if self.values is None else self.values[:1]
        return (self.state, *more)

    @property
    def grows(self) -> bool:
        """Whether a token appends a row to a cache before it is read."""
        return self.mode != "update" and self.passes[0].k is not None

    @property
    def of_cache(self) -> frozenset[str]:
        """The parameters that query heads of a group share: caches, and the inputs of which their rows are made."""
        rows = [one.k for one in self.passes if self.mode != "update" and one.k is not None]
        nodes = [self.nodes[n] for n in reached(rows, self.nodes.__getitem__)]
        names = {str(node.attrs["name"]) for node in nodes if node.op == "input"}
        return frozenset(names if self.mode == "update" else names.union(self.states))

    @property
    def results(self) -> tuple[str, ...]:
        """What the passes read, by name."""
        return tuple(one.result for one in self.passes if one.result is not None)

    @property
    def depends(self) -> bool:
        """Whether the host makes operands of results, so that a run has several programs."""
        return any(one.waits for one in self.passes)

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """The unit's rows (dim_head) and columns (dim_state)."""
        return (self.sizes[1], self.sizes[0]) if self.turned else self.sizes

    @property
    def form(self) -> tuple[tuple[tuple[str, bool], ...], int, int]:
        """The passes of a token, dim_head and dim_state as `models.pim.layout` takes them; all sizes are known."""
        rows, columns = self.shape
        assert rows is not None and columns is not None
        if self.mode != "update":
            return ((self.mode, True),), columns, rows
        modes = ("score" if one.k is None else "update" for one in self.passes)
        reads = (one.result is not None for one in self.passes)
        return tuple(zip(modes, reads, strict=True)), rows, columns

    @property
    def digest(self) -> str:
        """What two recurrences that compute the same, of states of the same names, have alike."""
        nodes = [node.to_json() for node in self.nodes]
        fields = [self.mode, self.state, self.values, nodes, [astuple(one) for one in self.passes]]
        return sha256(json.dumps([*fields, self.output, self.held]).encode()).hexdigest()[:8]

    @property
    def _decay(self) -> int | None:
        return next((one.d for one in self.passes if one.d is not None), None)

    def decays(self) -> set[str]:
        """Return the inputs that are decays as they are."""
        leaf = None if self._decay is None else self.leaf(self._decay)
        return set() if leaf is None else {leaf}

    def rates(self) -> set[str]:
        """Return the inputs that are 1 less a decay as they are."""
        node = None if self._decay is None else self.rate(self._decay)
        leaf = None if node is None else self.leaf(node)
        return set() if leaf is None else {leaf}

    def rate(self, node: int) -> int | None:
        """Return the node of c where a decay is written as 1 − c (or S − c S), None where it is written in another way."""
        operation = self.nodes[node]
        if operation.op not in ("sub", "add"):
            return None
        one, rest = (self.nodes[n] for n in operation.inputs)
        if one.op != "const" or not np.all(one.attrs["value"] == 1):
            return None
        if operation.op == "sub":
            return operation.inputs[1]
        return rest.inputs[0] if rest.op == "neg" else None

    def leaf(self, node: int) -> str | None:
        """Return the input that a node is as it is, None where it is another operation."""
        source = self.nodes[node]
        while source.op in ("flat", "expand"):
            source = self.nodes[source.inputs[0]]
        return str(source.attrs["name"]) if source.op == "input" else None

    def host(
        self, values: Mapping[str, np.ndarray], wanted: int, most: int | None = None
    ) -> np.ndarray:
        """Return a node's values: `values` has those of inputs, of the host's states and of results by name, with an axis of
        heads and tokens in front; so has what is returned. Raises ValueError for a value of over `most` elements."""
        done: dict[int, tuple[np.ndarray, bool]] = {}
        for number, node in in_turn(wanted, self.nodes.__getitem__, done):
            if node.op == "const":
                done[number] = np.asarray(node.attrs["value"], dtype=np.float64), False
            elif node.op in ("input", "unit", "state"):
                done[number] = values[node.attrs["name"]], True
            elif node.op == "flat":
                value, batched = done[node.inputs[0]]
                done[number] = np.squeeze(value, node.attrs["axis"] + int(batched)), batched
            else:
                inputs = [done[n] for n in node.inputs]
                shape = () if most is None else computed(node.op, [v.shape[f:] for v, f in inputs])
                if most is not None and math.prod(shape or ()) > most:
                    raise ValueError(f"{node.op!r:.40} gives the shape {shape}")
                with np.errstate(all="ignore"):
                    value = apply(
                        node.op, [v for v, _ in inputs], dict(node.attrs), [f for _, f in inputs]
                    )
                done[number] = value, any(f for _, f in inputs)
        value, batched = done[wanted]
        count = len(next(iter(values.values())))
        return value if batched else np.broadcast_to(value, (count, *value.shape))


def reached(wanted: Iterable[int], node: Callable[[int], Any]) -> set[int]:
    """Return the nodes that some are made of, with them; `node` gives the one of a number."""
    todo, seen = list(wanted), set[int]()
    while todo:
        number = todo.pop()
        if number not in seen:
            seen.add(number)
            todo += node(number).inputs
    return seen


def in_turn(
    wanted: int, node: Callable[[int], Any], done: Container[int]
) -> Iterator[tuple[int, Any]]:
    """Yield the number of each node that one is made of and itself, behind those that it is made of, unless it is `done`, which whoever takes it
    has it be."""
    todo = [wanted]
    while todo:
        number = todo[-1]
        if number in done:
            todo.pop()
        elif missing := [n for n in node(number).inputs if n not in done]:
            todo += missing
        else:
            yield todo.pop(), node(number)
