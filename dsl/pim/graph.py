"""A recurrence's operations, and how they fit the unit's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.builder import GraphBuilder
from ..core.dims import Dim
from ..core.operations import OPERATIONS, apply
from ..core.operations import spoken as _spoken

if TYPE_CHECKING:
    from .kernel import Recurrence

__all__ = ["HostNode", "Recurrent", "matched"]


def spoken(op: str) -> str:
    """What messages call an operation."""
    return _spoken(op) if op in OPERATIONS else op


_FORM = "the unit computes S = d[:, None] * S + outer(k, v), then q @ S"


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
    of the result; `state`, `inputs`: names; `sizes`: of the state, None where they are not known.
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

    def decays(self) -> set[str]:
        """Return the inputs that are decays as they are."""
        found, node = set(), self.d
        while node is not None:
            own = self.nodes[node]
            if own.op == "input":
                found.add(own.attrs["name"])
            node = own.inputs[0] if own.op in ("flat", "expand") else None
        return found

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


def matched(
    kernel: Recurrence, builder: GraphBuilder, state: int, new: int | None, output: int
) -> Recurrent:
    """Return a traced recurrence in the unit's form. Raises KernelError (E462) for what does not fit."""
    return _Matcher(kernel, builder, state, new).match(output)


class _Matcher:
    def __init__(
        self, kernel: Recurrence, builder: GraphBuilder, state: int, new: int | None
    ) -> None:
        self.kernel, self.builder, self.state, self.new = kernel, builder, state, new
        self.nodes = builder.nodes
        self._with: dict[int, bool] = {}
        self._extra: list[HostNode] = []

    def uses_state(self, number: int) -> bool:
        """Whether a value depends on the state."""
        if number not in self._with:
            todo = [number]
            while todo:
                n = todo[-1]
                inputs = [i for i in self.nodes[n].inputs if i not in self._with]
                if inputs:
                    todo += inputs
                    continue
                todo.pop()
                self._with[n] = n == self.state or any(self._with[i] for i in self.nodes[n].inputs)
        return self._with[number]

    def misfit(self, number: int, message: str, hint: str = "") -> Exception:
        return self.kernel.fits(message, self.nodes[number].span, hint=hint or _FORM)

    # -- the new state

    def match(self, output: int) -> Recurrent:
        d = k = v = None
        if self.new is not None:
            decay, products = self.terms(self.new)
            if decay is None:
                raise self.misfit(self.new, "the new state does not depend on the old one")
            if not products:
                raise self.misfit(
                    self.new,
                    "nothing is added to the state",
                    "add an outer product, as in d[:, None] * S + outer(k, v)",
                )
            d = self.vector_of(decay, self.new)
            (k, v) = self.joined(products)
        unit, operand, mode = self.read(output)
        nodes = [self._host(n, node, unit) for n, node in enumerate(self.nodes)]
        kernel, shape = self.kernel, self.nodes[self.state].shape
        known = [None if isinstance(n, Dim) and not n.known else int(n) for n in shape]
        # operands that are made of several operations
        extra = self._extra
        nodes += extra
        return Recurrent(
            kernel.name,
            mode,
            self.nodes[self.state].attrs["name"],
            tuple(p.name for p in kernel.of_kind("input")),
            (known[0], known[1]),
            tuple(nodes),
            d if d != -1 else None,
            k,
            operand if mode == "attend" else v,
            None if mode == "attend" else operand,
            output,
            kernel.source or "",
            tuple((p.name, tuple(p.dims)) for p in kernel.parameters),
            tuple((name, int(n)) for name, n in self.builder.names.items() if n.known),
        )

    def _host(self, number: int, node: Any, unit: int) -> HostNode:
        if number == unit:
            return HostNode("unit", (), {"name": ""})
        return HostNode(node.op, node.inputs, node.attrs)

    def new_node(self, op: str, inputs: tuple[int, ...], attrs: Mapping[str, Any]) -> int:
        """Add an operation for the host; return its number."""
        self._extra.append(HostNode(op, inputs, attrs))
        return len(self.nodes) + len(self._extra) - 1

    def terms(
        self, number: int, sign: float = 1.0
    ) -> tuple[list[tuple[int, str]] | None, list[tuple[int, float, list[int]]]]:
        """Take a value apart: (factors of the state, None without it; outer products with their signs and
        factors)."""
        node = self.nodes[number]
        if number == self.state:
            return [] if sign > 0 else [(number, "neg")], []
        if not self.uses_state(number):
            return None, [(number, sign, [])]
        if node.op in ("add", "sub"):
            a = self.terms(node.inputs[0], sign)
            b = self.terms(node.inputs[1], sign if node.op == "add" else -sign)
            if a[0] is not None and b[0] is not None:
                raise self.misfit(
                    number, "the state is added to itself", "multiply it by the sum of the decays"
                )
            return a[0] if a[0] is not None else b[0], a[1] + b[1]
        if node.op == "neg":
            return self.terms(node.inputs[0], -sign)
        if node.op in ("mul", "div"):
            x, y = node.inputs
            if self.uses_state(x) and self.uses_state(y):
                raise self.misfit(number, f"{spoken(node.op)} of the state by itself")
            if self.uses_state(y) and node.op == "div":
                raise self.misfit(number, "a division by the state")
            inner, factor = (y, x) if self.uses_state(y) else (x, y)
            decay, products = self.terms(inner, sign)
            if products:
                raise self.misfit(
                    number,
                    f"{spoken(node.op)} of a sum that has the state in it",
                    "multiply each part: d[:, None] * S + outer(d * k, v)",
                )
            assert decay is not None
            return [*decay, (factor, node.op)], []
        name = {"matmul": "@", "transpose": ".T"}.get(node.op, spoken(node.op))
        raise self.misfit(number, f"{name} of the state does not fit in the new state")

    def vector_of(self, factors: list[tuple[int, str]], at: int) -> int:
        """Return the node of the decay as a vector along the state's rows; −1 where it is 1."""
        rows = self.nodes[self.state].shape[0]
        product = -1
        for factor, op in factors:
            if op == "neg":
                minus = self.new_node("const", (), {"value": -1.0})
                product = minus if product < 0 else self.new_node("mul", (product, minus), {})
                continue
            shape = self.nodes[factor].shape
            if len(shape) == 2 and shape[1] == 1 and shape[0] in (rows, 1):
                vector = self.new_node("flat", (factor,), {"axis": 1})
            elif not shape or (len(shape) == 1 and shape[0] == 1):
                vector = factor
            else:
                raise self.misfit(
                    factor,
                    "a decay that differs from column to column of the state",
                    "the unit decays whole rows: write d[:, None] * S with a d for each row, or declare the state "
                    "the other way round",
                )
            if op == "div":
                one = self.new_node("const", (), {"value": 1.0})
                vector = self.new_node("div", (one, vector), {})
            product = vector if product < 0 else self.new_node("mul", (product, vector), {})
        return product

    def joined(self, products: list[tuple[int, float, list[int]]]) -> tuple[int, int]:
        """Return the nodes of k and v whose outer product is added to the state."""
        found = [(*self.outer(number), sign) for number, sign, _ in products]
        if len(found) > 1:
            place = products[1][0]
            raise self.misfit(
                place,
                "two outer products are added to the state; the unit adds one a step",
                "join them where they share a factor: outer(k, v + w)",
            )
        k, v, sign = found[0]
        if sign < 0:
            v = self.new_node("neg", (v,), {})
        return k, v

    def outer(self, number: int) -> tuple[int, int]:
        """Return the nodes of the two vectors whose outer product a value is."""
        node = self.nodes[number]
        rows, columns = self.nodes[self.state].shape
        if node.op == "outer":
            return node.inputs[0], node.inputs[1]
        if node.op == "neg":
            k, v = self.outer(node.inputs[0])
            return k, self.new_node("neg", (v,), {})
        if node.op in ("mul", "div"):
            a, b = (self.nodes[n].shape for n in node.inputs)
            first, second = node.inputs
            if node.op == "mul" and a == (rows, 1) and b == (1, columns):
                return self._flat(first, 1), self._flat(second, 0)
            if node.op == "mul" and b == (rows, 1) and a == (1, columns):
                return self._flat(second, 1), self._flat(first, 0)
            for matrix, factor in ((first, second), (second, first)):
                shape = self.nodes[factor].shape
                if len(self.nodes[matrix].shape) != 2 or (node.op == "div" and factor == first):
                    continue
                k, v = (0, 0)
                if shape in ((), (1,)) or shape == (1, 1):
                    k, v = self.outer(matrix)
                    return k, self.new_node(
                        node.op, (v, self._flat(factor, 0) if shape == (1, 1) else factor), {}
                    )
                if shape == (rows, 1):
                    k, v = self.outer(matrix)
                    return self.new_node(node.op, (k, self._flat(factor, 1)), {}), v
                if shape == (1, columns):
                    k, v = self.outer(matrix)
                    return k, self.new_node(node.op, (v, self._flat(factor, 0)), {})
        raise self.misfit(
            number,
            f"{self._called(number)} is added to the state; the unit adds an outer product",
            "write outer(k, v), or k[:, None] * v[None, :]",
        )

    def _flat(self, number: int, axis: int) -> int:
        return self.new_node("flat", (number,), {"axis": axis})

    def _called(self, number: int) -> str:
        node = self.nodes[number]
        if node.op in ("input", "state"):
            return f"the {node.op} {node.attrs['name']}"
        return "a constant" if node.op == "const" else f"the result of {spoken(node.op)}"

    # -- the output

    def read(self, output: int) -> tuple[int, int, str]:
        """Return the node that reads the state, its other operand, and the mode."""
        source = self.state if self.new is None else self.new
        found: list[int] = []
        todo, seen = [output], set()
        while todo:
            number = todo.pop()
            if number in seen or not self.uses_state(number):
                continue
            seen.add(number)
            node = self.nodes[number]
            if node.op == "matmul":
                found.append(number)
                continue
            if number in (source, self.state) or not node.inputs:
                raise self.misfit(output, "the output is the state itself", "the output is q @ S")
            for inner in node.inputs:
                if inner in (source, self.state):
                    raise self.misfit(
                        number,
                        f"{spoken(node.op)} of the state in the output",
                        "the output reads the state by q @ S alone",
                    )
            todo += node.inputs
        if not found:
            raise self.misfit(
                output,
                "the output does not read the state",
                "return S, q @ S (as text: `y <- q @ S`)",
            )
        if len(found) > 1:
            raise self.misfit(
                min(found), "the output reads the state twice; the unit reads it once a step"
            )
        [number] = found
        left, right = self.nodes[number].inputs
        matrix, operand = (left, right) if self.uses_state(left) else (right, left)
        if self.uses_state(left) and self.uses_state(right):
            raise self.misfit(number, "a product of the state with itself")
        turned = False
        while self.nodes[matrix].op == "transpose":
            matrix, turned = self.nodes[matrix].inputs[0], not turned
        if matrix != source:
            if matrix == self.state:
                raise self.misfit(
                    number,
                    "the output reads the old state; the unit reads the new one",
                    "write the new state first, and q @ S behind it",
                )
            if self.new is None:
                raise self.misfit(
                    number,
                    "the output reads a new state that is not the recurrence's",
                    "return it as well, as in `return S, q @ S` (as text: `S <- …`)",
                )
            raise self.misfit(
                number, "the output reads something else than the new state", "the output is q @ S"
            )
        if len(self.nodes[operand].shape) != 1:
            raise self.misfit(
                number,
                "the state is multiplied by a matrix",
                "the unit takes one vector a step: q @ S",
            )
        by_rows = (not self.uses_state(left)) ^ turned
        if self.new is not None and not by_rows:
            raise self.misfit(
                number,
                "S @ q adds along the columns of the state",
                "the unit adds along its rows: write q @ S, or declare the state the other way round",
            )
        mode = "update" if self.new is not None else "attend" if by_rows else "score"
        return number, operand, mode
