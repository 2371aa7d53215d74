"""How a recurrence's operations fit the unit's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.builder import GraphBuilder
from ..core.dims import Dim
from .products import ONE, HostNodes, Product, spoken
from .recurrent import HostNode, Pass, Recurrent, in_turn, reached

if TYPE_CHECKING:
    from .kernel import Recurrence

_FORM = "the unit computes S = d[:, None] * S + outer(k, v), and reads a state by q @ S"


_Terms = tuple[int | None, list[Product]]
_Reading = tuple[int, int, int]
_Made = tuple[str, tuple[int, ...], Mapping[str, Any]]


def matched(
    kernel: Recurrence, builder: GraphBuilder, state: int, new: Mapping[str, int], output: int
) -> Recurrent:
    """Return a traced recurrence in the unit's form; `new`: the new states by name. Raises KernelError (E462) for what does not fit."""
    return _Matcher(kernel, builder, state, new).match(output)


class _Matcher:
    """Takes a kernel apart: `with_state` are the matrices that are made of the state; nodes that read one are the host's from then on ("unit");
    `early` and `after` are the operands that read the old state and the new one, with the names of their results."""

    def __init__(
        self, kernel: Recurrence, builder: GraphBuilder, state: int, new: Mapping[str, int]
    ) -> None:
        self.kernel, self.builder, self.state = kernel, builder, state
        self.nodes = list(builder.nodes)
        name = self.nodes[state].attrs["name"]
        self.new = new.get(name)
        self.held = {held: number for held, number in new.items() if held != name}
        self.host = HostNodes(self.nodes)
        self.turned = False  # whether the unit's rows are the state's columns
        self.axis = 0  # of a cache that is summed
        self.with_state = {state}
        self.early: list[tuple[int, str]] = []
        self.after: list[tuple[int, str]] = []
        self._read_by: dict[int, str] = {}
        #: which results and states of the host a node is made of
        self._from: dict[int, frozenset[str]] = {}

    def uses_state(self, number: int) -> bool:
        """Whether a value is a matrix that is made of the state."""
        return number in self.with_state

    def misfit(self, number: int, message: str, hint: str = "") -> Exception:
        return self.kernel.fits(message, self.nodes[number].span, hint=hint or _FORM)

    def match(self, output: int) -> Recurrent:
        """Return the recurrence in the unit's form."""
        wanted = self._reached(
            [output, *self.held.values()] + [n for n in (self.new,) if n is not None]
        )
        if self.new is not None and self.state not in self._reached([self.new]):
            raise self.misfit(self.new, "the new state does not depend on the old one")
        cache = self.new is None
        for number in sorted(wanted):
            if (reading := self.reading(number)) is not None:
                self._becomes(
                    number, *(self._cached if cache else self._projected)(number, *reading)
                )
            elif any(map(self.uses_state, self.nodes[number].inputs)):
                self.with_state.add(number)
        self._check_uses(output, "the output")
        for name, number in self.held.items():
            self._check_uses(number, f"the new {name}")
        if not self._made_of(output) & {name for _, name in self.early + self.after}:
            hint = "return S, q @ S (as text: `y <- q @ S`)"
            raise self.misfit(output, "the output does not read the state", hint)
        passes = self._of_cache() if cache else self._passes()
        return self._recurrent(passes, output)

    def _recurrent(self, passes: Sequence[Pass], output: int) -> Recurrent:
        kernel, shape = self.kernel, self.nodes[self.state].shape
        late = self._late()
        passes = [replace(one, waits=self._waits(one, late)) for one in passes]
        nodes = [HostNode(node.op, node.inputs, node.attrs) for node in self.nodes]
        mode = "update" if self.new is not None else "score" if passes[0].v is None else "attend"
        known = [None if isinstance(n, Dim) and not n.known else int(n) for n in shape]
        return Recurrent(
            kernel.name,
            mode,
            self.nodes[self.state].attrs["name"],
            tuple(p.name for p in kernel.of_kind("input")),
            (known[0], known[1]),
            (*nodes, *self.host.extra),  # operands that are made of several operations
            tuple(passes),
            output,
            kernel.source or "",
            tuple((p.name, tuple(p.dims)) for p in kernel.parameters),
            tuple((name, int(n)) for name, n in self.builder.names.items() if n.known),
            self.turned,
            tuple(self.held.items()),
            late,
        )

    def _reached(self, wanted: Iterable[int]) -> set[int]:
        """Return the nodes that some are made of, with them."""
        return reached(wanted, self.host.node)

    # -- what the host makes of results

    def _made_of(self, number: int) -> frozenset[str]:
        """Return the results that a node is made of, and the states of the host."""
        for n, node in in_turn(number, self.host.node, self._from):
            names = frozenset({node.attrs["name"]} if node.op in ("unit", "state") else ())
            self._from[n] = names.union(*(self._from[i] for i in node.inputs))
        return self._from[number]

    def _late(self) -> tuple[str, ...]:
        """Return the host's states that depend on results."""
        results, late = {name for _, name in self.early + self.after}, set[str]()
        while names := {
            name
            for name, n in self.held.items()
            if name not in late and self._made_of(n) & (results | late)
        }:
            late |= names
        return tuple(name for name in self.held if name in late)

    def _waits(self, one: Pass, late: tuple[str, ...]) -> bool:
        names = {*late, *(name for _, name in self.early + self.after)}
        operands = (n for n in (one.d, one.k, one.v, one.q) if n is not None)
        return any(self._made_of(n) & names for n in operands)

    # -- passes

    def _passes(self) -> list[Pass]:
        """Return the passes of a token: passes that read the old state, a pass for each product that is added, passes that read the new state."""
        assert self.new is not None
        decay, products = self.terms(self.new, self.state, "the new state")
        if decay is None:  # it is made of what was read alone
            decay = self.host.number(0.0)
        if not products:
            hint = "add an outer product, as in d[:, None] * S + outer(k, v)"
            raise self.misfit(self.new, "nothing is added to the state", hint)
        late = {name for _, name in self.after}
        for operand, name in self.early:
            if self._made_of(operand) & late:
                number = next(n for n in self._read_by if self._read_by[n] == name)
                hint = "the unit reads the old state before it makes the new one"
                raise self.misfit(number, "the old state is read by what the new one gave", hint)
        passes = [Pass(q=operand, result=name) for operand, name in self.early]
        for product in products:
            k, v = (
                self.host.number(1.0) if n == ONE else n
                for n in (product.k, self.host.columns(product))
            )
            passes.append(Pass(decay if decay != ONE else None, k, v))
            decay = ONE
        if self.after:
            operand, name = self.after[0]
            passes[-1] = replace(passes[-1], q=operand, result=name)
        return passes + [Pass(q=operand, result=name) for operand, name in self.after[1:]]

    def _of_cache(self) -> list[Pass]:
        [(operand, name)] = self.after
        scores = self.axis == 1
        return [Pass(q=operand, result=name) if scores else Pass(v=operand, result=name)]

    # -- what reads a state

    def _check_uses(self, wanted: int, what: str) -> None:
        """Raise where a value of the host's is made of the state in another way than by what the unit reads."""
        if not self.uses_state(wanted):
            return
        number = wanted
        while number not in (self.state, self.new):
            inner = [n for n in self.nodes[number].inputs if self.uses_state(n)]
            if inner[0] in (self.state, self.new):
                message = f"{spoken(self.nodes[number].op)} of the state in {what}"
                raise self.misfit(number, message, "what reads the state is q @ S alone")
            number = inner[0]
        raise self.misfit(wanted, f"{what} is the state itself", "what reads the state is q @ S")

    def _becomes(
        self, number: int, op: str, inputs: tuple[int, ...], attrs: Mapping[str, Any]
    ) -> None:
        """Make a node another operation, of the host's."""
        self.nodes[number] = replace(self.nodes[number], op=op, inputs=inputs, attrs=dict(attrs))

    def _cached(self, number: int, matrix: int, operand: int, axis: int) -> _Made:
        """What becomes of a node that reads a cache: all that do are alike."""
        matrix, operand, axis = self._peeled(number, matrix, operand, axis)
        if matrix != self.state:
            what = "the output reads a new state that is not the recurrence's"
            hint = "return it as well, as in `return S, q @ S` (as text: `S <- …`)"
            raise self.misfit(number, what, hint)
        if self.after and (not self.host.same(self.after[0][0], operand) or axis != self.axis):
            raise self.misfit(number, "a cache is read twice; the unit reads one once a step")
        self.axis = axis
        self.after = self.after or [(operand, ".1")]
        return "unit", (), {"name": ".1"}

    def _projected(self, number: int, matrix: int, operand: int, axis: int) -> _Made:
        """What becomes of a node that reads a state, by a vector or by an outer product."""
        wide = operand != ONE and len(self.nodes[operand].shape) == 2
        product = self.host.product(operand) if wide else None
        if product is None or ONE in (product.k, product.v):
            return self._read(number, matrix, operand, axis)
        ends = product.k, product.v
        vector = self.host.new(*self._read(number, matrix, ends[1 - axis], axis))
        vector = self.host.columns(replace(product, v=vector))
        return "outer", (ends[0], vector) if axis == 0 else (vector, ends[1]), {}

    def _read(self, number: int, matrix: int, operand: int, axis: int) -> _Made:
        """What becomes of a node that reads the old state, the new one, or a sum of one of them and products, which are the host's."""
        matrix, operand, axis = self._peeled(number, matrix, operand, axis)
        if (self.early or self.after) and (axis == 1) != self.turned:
            hint = (
                "a unit's dot products lie along its rows: read by q @ S alone, or by S @ q alone"
            )
            raise self.misfit(number, "the state is read along both axes", hint)
        self.turned = axis == 1
        base = self.new if self.new in self._reached([matrix]) else self.state
        assert base is not None
        decay, products = self.terms(matrix, base, "what is read")
        assert decay is not None
        name = self._result(self.host.op("mul", operand, decay), base)
        self._read_by[number] = name
        unit: _Made = ("unit", (), {"name": name})
        if not products:
            return unit
        total = self.host.new(*unit)
        for product in products:
            dot = self.host.new("sum", (self.host.op("mul", operand, product.k),), {"axis": None})
            part = self.host.op("mul", dot, self.host.columns(product))
            last, total = total, self.host.op("add", total, part)
        return "add", (last, part), {}

    def _result(self, operand: int, base: int) -> str:
        """Return the name of what an operand reads of the old state or of the new one."""
        place = self.after if base == self.new else self.early
        for other, name in place:
            if self.host.same(other, operand):
                return name
        name = f".{len(self.early) + len(self.after) + 1}"  # no name of a parameter
        place.append((operand, name))
        return name

    def _peeled(self, number: int, matrix: int, operand: int, axis: int) -> _Reading:
        """Return what a node reads, without the factors along the axis that it sums, which are the operand's."""
        if 0 <= operand < len(self.nodes) and len(self.nodes[operand].shape) != 1:
            hint = "the unit takes one vector a step: q @ S"
            raise self.misfit(number, "the state is multiplied by a matrix", hint)
        if operand == ONE:
            operand = self.host.new("const", (), {"value": np.ones(1)})
        factors = []
        while (
            matrix not in (self.state, self.new)
            and (under := self._under(matrix, axis)) is not None
        ):
            matrix, axis, *factor = under
            factors += factor
        for op, *factor in factors:
            operand = self.host.new(op, (operand, *factor), {})
        return matrix, operand, axis

    def terms(self, number: int, base: int, place: str) -> _Terms:
        """Take a value apart: (the decay of the state `base` in it, a vector along its rows or a number, `ONE`, or None
        without the state; the outer products beside it). `place`: what messages call it."""
        node = self.nodes[number]
        if number == base:
            return ONE, []
        if node.op in ("add", "sub"):
            a, b = (self.terms(n, base, place) for n in node.inputs)
            return self._sum(a, b if node.op == "add" else self._minus(b))
        if node.op == "neg":
            return self._minus(self.terms(node.inputs[0], base, place))
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
            decay, products = self.terms(inner, base, place)
            assert decay is not None
            scaled = [self._scaled(product, factor, node.op) for product in products]
            return self._decayed(decay, factor, node.op), scaled
        name = {"matmul": "@", "transpose": ".T"}.get(node.op, spoken(node.op))
        raise self.misfit(number, f"{name} of the state does not fit in {place}")

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
        vector = self._along(factor, axis, self.nodes[self.state].shape[1 - axis])
        if vector is not None:
            return vector if decay == ONE and op == "mul" else self.host.op(op, decay, vector)
        what = "a decay that differs from column to column of the state"
        hint = "the unit decays whole rows: write d[:, None] * S with a d for each row, or declare the state the other way round"
        if self.turned:
            what = "a decay that differs from row to row of a state whose columns the output adds"
            hint = (
                "S @ q and decays along the columns fit, as in d * S, or q @ S and d[:, None] * S"
            )
        raise self.misfit(factor, what, hint)

    def _along(self, factor: int, axis: int, size: Any) -> int | None:
        """Return a factor that is the same all along an axis: a vector of `size`, or a number. None for others."""
        shape = self.nodes[factor].shape
        if len(shape) == 2 and shape[axis] == 1 and shape[1 - axis] in (size, 1):
            return self.host.flat(factor, axis)
        vector = len(shape) == 1 and shape[0] in ((size, 1) if axis == 0 else (1,))
        return factor if vector or not shape else None

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
        outer = self.host.product(number)
        rows, columns = self.nodes[self.state].shape
        if outer is not None and (outer.k != ONE or rows == 1) and (outer.v != ONE or columns == 1):
            if columns == 1:  # so that all products share a vector
                return replace(outer, k=self.host.op("mul", outer.k, outer.v), v=ONE)
            if rows == 1:
                return replace(outer, v=self.host.op("mul", outer.k, outer.v), k=ONE)
            return outer
        what = f"{self._called(number)} is added to the state; the unit adds outer products"
        raise self.misfit(number, what, "write outer(k, v), or k[:, None] * v[None, :]")

    def _called(self, number: int) -> str:
        node = self.nodes[number]
        if node.op in ("input", "state"):
            return f"the {node.op} {node.attrs['name']}"
        if node.op == "expand":
            return f"the result of {('[None, :]', '[:, None]')[node.attrs['axis']]}"
        return "a constant" if node.op == "const" else f"the result of {spoken(node.op)}"

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
        vector = self._along(factor, 1 - axis, self.nodes[matrix].shape[axis])
        return None if vector is None else (inner, axis, (node.op, vector))
