"""How a recurrence's operations fit the unit's form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.builder import GraphBuilder
from ..core.dims import Dim
from ..core.operations import OPERATIONS
from ..core.operations import spoken as _spoken
from .products import ONE, HostNodes, Product
from .recurrent import HostNode, Recurrent

if TYPE_CHECKING:
    from .kernel import Recurrence

__all__ = ["matched"]


def spoken(op: str) -> str:
    """What messages call an operation."""
    return _spoken(op) if op in OPERATIONS else op


_FORM = "the unit computes S = d[:, None] * S + outer(k, v), then q @ S"


_Terms = tuple[int | None, list[Product]]
_Reading = tuple[int, int, int]


def matched(
    kernel: Recurrence, builder: GraphBuilder, state: int, new: int | None, output: int
) -> Recurrent:
    """Return a traced recurrence in the unit's form. Raises KernelError (E462) for what does not fit."""
    return _Matcher(kernel, builder, state, new).match(output)


class _Matcher:
    def __init__(
        self, kernel: Recurrence, builder: GraphBuilder, state: int, new: int | None
    ) -> None:
        self.kernel, self.builder = kernel, builder
        self.state, self.new = state, new
        self.nodes = builder.nodes
        self._with: dict[int, bool] = {}
        self.host = HostNodes(builder.nodes)
        self.turned = False  # whether the unit's rows are the state's columns

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
        if self.new is not None and not self.uses_state(self.new):
            raise self.misfit(self.new, "the new state does not depend on the old one")
        units, operand, mode = self.read(output)
        if self.new is not None:
            decay, products = self.terms(self.new)
            if not products:
                raise self.misfit(
                    self.new,
                    "nothing is added to the state",
                    "add an outer product, as in d[:, None] * S + outer(k, v)",
                )
            d = decay
            if len(products) > 1:
                raise self.misfit(
                    products[1].at,
                    "two outer products are added to the state; the unit adds one a step",
                    "join them where they share a factor: outer(k, v + w)",
                )
            k, v = products[0].k, self.host.columns(products[0])
            k, v = (self.host.number(1.0) if n == ONE else n for n in (k, v))
        nodes = [self._host(n, node, units) for n, node in enumerate(self.nodes)]
        kernel, shape = self.kernel, self.nodes[self.state].shape
        known = [None if isinstance(n, Dim) and not n.known else int(n) for n in shape]
        nodes += self.host.extra  # operands that are made of several operations
        return Recurrent(
            kernel.name,
            mode,
            self.nodes[self.state].attrs["name"],
            tuple(p.name for p in kernel.of_kind("input")),
            (known[0], known[1]),
            tuple(nodes),
            d if d != ONE else None,
            k,
            operand if mode == "attend" else v,
            None if mode == "attend" else operand,
            output,
            kernel.source or "",
            tuple((p.name, tuple(p.dims)) for p in kernel.parameters),
            tuple((name, int(n)) for name, n in self.builder.names.items() if n.known),
            self.turned,
        )

    def _host(self, number: int, node: Any, units: set[int]) -> HostNode:
        if number in units:
            return HostNode("unit", (), {"name": ""})
        return HostNode(node.op, node.inputs, node.attrs)

    def terms(self, number: int) -> tuple[int | None, list[Product]]:
        """Take a value apart: (the state's decay, a vector along its rows or a number, `ONE`, or None
        without the state; the outer products beside it)."""
        node = self.nodes[number]
        if number == self.state:
            return ONE, []
        if node.op in ("add", "sub"):
            a, b = (self.terms(n) for n in node.inputs)
            return self._sum(a, b if node.op == "add" else self._minus(b))
        if node.op == "neg":
            return self._minus(self.terms(node.inputs[0]))
        if not self.uses_state(number):
            product = self.outer(number)
            return None, [product.turned if self.turned else product]
        if node.op in ("mul", "div"):
            x, y = node.inputs
            if self.uses_state(x) and self.uses_state(y):
                raise self.misfit(number, f"{spoken(node.op)} of the state by itself")
            if self.uses_state(y) and node.op == "div":
                raise self.misfit(number, "a division by the state")
            inner, factor = (y, x) if self.uses_state(y) else (x, y)
            decay, products = self.terms(inner)
            assert decay is not None
            scaled = [self._scaled(product, factor, node.op) for product in products]
            return self._decayed(decay, factor, node.op), scaled
        name = {"matmul": "@", "transpose": ".T"}.get(node.op, spoken(node.op))
        raise self.misfit(number, f"{name} of the state does not fit in the new state")

    def _sum(self, a: _Terms, b: _Terms) -> _Terms:
        """Two sums together; products that share a factor become one."""
        decay = a[0] if b[0] is None else b[0] if a[0] is None else self.host.op("add", a[0], b[0])
        products = list(a[1])
        for new in b[1]:
            for place, old in enumerate(products):
                if (both := self.host.joined(old, new)) is not None:
                    products[place] = both
                    break
            else:
                products.append(new)
        return decay, products

    def _minus(self, terms: _Terms) -> _Terms:
        decay, products = terms
        if decay is not None:
            decay = self.host.op("neg", decay)
        return decay, [replace(product, sign=-product.sign) for product in products]

    def _decayed(self, decay: int, factor: int, op: str) -> int:
        """A decay times a factor of the state, or divided by it."""
        axis = 0 if self.turned else 1  # of the unit's columns
        size, shape = self.nodes[self.state].shape[1 - axis], self.nodes[factor].shape
        if len(shape) == 2 and shape[axis] == 1 and shape[1 - axis] in (size, 1):
            factor = self.host.flat(factor, axis)
        elif shape and not (len(shape) == 1 and shape[0] in ((size, 1) if self.turned else (1,))):
            if self.turned:
                raise self.misfit(
                    factor,
                    "a decay that differs from row to row of a state whose columns the output adds",
                    "S @ q and decays along the columns fit, as in d * S, or q @ S and d[:, None] * S",
                )
            raise self.misfit(
                factor,
                "a decay that differs from column to column of the state",
                "the unit decays whole rows: write d[:, None] * S with a d for each row, or declare the state "
                "the other way round",
            )
        return factor if decay == ONE and op == "mul" else self.host.op(op, decay, factor)

    def _scaled(self, product: Product, factor: int, op: str) -> Product:
        """An outer product times a factor that a decay may be, or divided by it."""
        shape = self.nodes[factor].shape
        if not shape:
            return replace(product, scale=self.host.op(op, product.scale, factor))
        if len(shape) == 2:
            factor = self.host.flat(factor, 0 if self.turned else 1)
        if product.k == ONE:  # of a single row, whose products share it
            return replace(product, v=self.host.op(op, product.v, factor))
        return replace(product, k=self.host.op(op, product.k, factor))

    def outer(self, number: int) -> Product:
        """Return the outer product that is added to the state."""
        found = self.host.product(number)
        rows, columns = self.nodes[self.state].shape
        if found is not None and (found.k != ONE or rows == 1) and (found.v != ONE or columns == 1):
            if columns == 1:  # so that all products share a vector
                return replace(found, k=self.host.op("mul", found.k, found.v), v=ONE)
            if rows == 1:
                return replace(found, v=self.host.op("mul", found.k, found.v), k=ONE)
            return found
        raise self.misfit(
            number,
            f"{self._called(number)} is added to the state; the unit adds an outer product",
            "write outer(k, v), or k[:, None] * v[None, :]",
        )

    def _called(self, number: int) -> str:
        node = self.nodes[number]
        if node.op in ("input", "state"):
            return f"the {node.op} {node.attrs['name']}"
        if node.op == "expand":
            return f"the result of {('[None, :]', '[:, None]')[node.attrs['axis']]}"
        return "a constant" if node.op == "const" else f"the result of {spoken(node.op)}"

    # -- the output

    def read(self, output: int) -> tuple[set[int], int, str]:
        """Return the nodes that read the state (one, or several alike), its other operand, and the mode."""
        source = self.state if self.new is None else self.new
        found = self._readings(output, source)
        if len(set(found.values())) > 1:
            raise self.misfit(
                min(found), "the output reads the state twice; the unit reads it once a step"
            )
        number, (matrix, operand, axis) = next(iter(found.items()))
        factors = []
        while matrix != source and (under := self._under(matrix, axis)) is not None:
            matrix, axis, *factor = under
            factors += factor
        self._check_reading(number, matrix, operand, source)
        if operand == ONE:
            operand = self.host.new("const", (), {"value": np.ones(1)})
        for op, *factor in factors:
            operand = self.host.new(op, (operand, *factor), {})
        self.turned = self.new is not None and axis == 1
        mode = "update" if self.new is not None else "attend" if axis == 0 else "score"
        return set(found), operand, mode

    def _readings(self, output: int, source: int) -> dict[int, _Reading]:
        """Return the nodes that read a state. Raises for an output that reads it in another way, or not at all."""
        found: dict[int, _Reading] = {}
        todo, seen = [output], set()
        while todo:
            number = todo.pop()
            if number in seen or not self.uses_state(number):
                continue
            seen.add(number)
            node = self.nodes[number]
            if (reading := self.reading(number)) is not None:
                found[number] = reading
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
        return found

    def _check_reading(self, number: int, matrix: int, operand: int, source: int) -> None:
        """Raise where a node reads another matrix than `source`, or not by a vector."""
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
        if operand != ONE and len(self.nodes[operand].shape) != 1:
            raise self.misfit(
                number,
                "the state is multiplied by a matrix",
                "the unit takes one vector a step: q @ S",
            )

    def reading(self, number: int) -> _Reading | None:
        """Return what a node sums over the state: (the matrix, the other operand, the matrix's axis), `ONE`
        for a plain sum; None where it does nothing of the kind."""
        node = self.nodes[number]
        wide = [self.uses_state(n) and len(self.nodes[n].shape) == 2 for n in node.inputs]
        if node.op == "matmul" and any(wide):
            left, right = node.inputs
            if self.uses_state(left) and self.uses_state(right):
                raise self.misfit(number, "a product of the state with itself")
            return (left, right, 1) if wide[0] else (right, left, 0)
        if node.op == "sum" and wide[0] and node.attrs.get("axis") is not None:
            return node.inputs[0], ONE, node.attrs["axis"] % 2
        return None

    def _under(self, matrix: int, axis: int) -> Any:
        """Return what a matrix is made of that the output sums along an axis: (the matrix under it, the axis, and where
        there is one, (op, factor) of the other operand or ("neg",))."""
        node = self.nodes[matrix]
        if node.op == "transpose":
            return node.inputs[0], 1 - axis
        if node.op == "neg":
            return node.inputs[0], axis, ("neg",)
        if node.op not in ("mul", "div"):
            return None
        x, y = node.inputs
        if (self.uses_state(x) and self.uses_state(y)) or (node.op == "div" and self.uses_state(y)):
            return None
        inner, factor = (y, x) if self.uses_state(y) else (x, y)
        shape, size = self.nodes[factor].shape, self.nodes[matrix].shape[axis]
        if len(shape) == 2 and shape[1 - axis] == 1 and shape[axis] in (size, 1):
            factor = self.host.flat(factor, 1 - axis)
        elif shape and not (len(shape) == 1 and shape[0] in ((size, 1) if axis == 1 else (1,))):
            return None
        return inner, axis, (node.op, factor)
