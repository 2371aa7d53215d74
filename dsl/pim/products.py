"""What the host computes for the unit's operands: nodes beside those of the kernel, and outer products of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import operations
from .recurrent import HostNode, in_turn

#: the operand that is 1
ONE = -1


def spoken(op: str) -> str:
    """What messages call an operation."""
    return operations.spoken(op) if op in operations.OPERATIONS else op


@dataclass(frozen=True)
class Product:
    """An outer product, sign · scale · k vᵀ. `k`, `v`: nodes of its vectors; a number stands for a vector of equal elements. `scale`: the node of a
    number. Each may be ONE. `at`: the node of the kernel whose value it is."""

    k: int
    v: int
    scale: int
    sign: int
    at: int

    @property
    def turned(self) -> Product:
        """Its transpose."""
        return replace(self, k=self.v, v=self.k)


class HostNodes:
    """The nodes of a traced kernel, and behind them, in `extra`, those that the host computes besides.

    The unit adds outer products to its state, nothing else. So what a kernel adds is taken apart into a `Product` (`product`), two of them that share
    a vector become one (`joined`), and further nodes compute what the unit is given for them.
    """

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self.extra: list[HostNode] = []
        self._places: dict[int, int] = {}
        self._first: dict[Any, int] = {}

    def new(self, op: str, inputs: tuple[int, ...], attrs: Mapping[str, Any]) -> int:
        """Add an operation for the host; return its number."""
        self.extra.append(HostNode(op, inputs, attrs))
        return len(self.nodes) + len(self.extra) - 1

    def op(self, op: str, *inputs: int) -> int:
        """Return the number of an operation on nodes, or on ONE."""
        a, b = inputs if len(inputs) == 2 else (ONE, ONE)
        if op == "mul" and ONE in (a, b):
            return b if a == ONE else a
        if op == "div" and b == ONE:
            return a
        operands = [self.number(1.0) if n == ONE else n for n in inputs]
        return self.new(op, tuple(operands), {})

    def number(self, value: float) -> int:
        return self.new("const", (), {"value": value})

    def flat(self, number: int, axis: int) -> int:
        """Return the vector of a matrix of one column (`axis` 1) or one row (0)."""
        node = self.nodes[number]
        if node.op == "expand" and node.attrs["axis"] == axis:
            return int(node.inputs[0])
        return self.new("flat", (number,), {"axis": axis})

    def same(self, a: int, b: int) -> bool:
        """Whether two nodes are the same operation on the same values."""
        return a == b or (ONE not in (a, b) and self._place(a) == self._place(b))

    def _place(self, number: int) -> int:
        """Return a number that nodes have in common which are the same."""
        done = self._places
        for n, node in in_turn(number, self.node, done):
            values = ((k, np.asarray(v)) for k, v in sorted(node.attrs.items()))
            attrs = tuple((k, v.shape, v.dtype.str, v.tobytes()) for k, v in values)
            inputs = tuple(done[i] for i in node.inputs)
            done[n] = self._first.setdefault((node.op, inputs, attrs), n)
        return done[number]

    def node(self, number: int) -> Any:
        """Return a node of the kernel, or of the host's beside it."""
        count = len(self.nodes)
        return self.nodes[number] if number < count else self.extra[number - count]

    # -- outer products

    def product(self, number: int) -> Product | None:
        """Return the outer product that a value of the kernel is: a matrix, or what is stretched to one; None where it
        is none."""
        shape = self.nodes[number].shape
        if len(shape) == 0:
            return Product(ONE, ONE, number, 1, number)
        if len(shape) == 1:
            return Product(ONE, number, ONE, 1, number)
        if (product := self._made(number)) is not None:
            return replace(product, at=number)
        if shape[1] == 1:
            return Product(self.flat(number, 1), ONE, ONE, 1, number)
        return Product(ONE, self.flat(number, 0), ONE, 1, number) if shape[0] == 1 else None

    def _made(self, number: int) -> Product | None:
        """Return the outer product that an operation makes of others."""
        node = self.nodes[number]
        if node.op == "outer":
            return Product(node.inputs[0], node.inputs[1], ONE, 1, number)
        if node.op == "matmul":
            first, second = node.inputs
            if self.nodes[first].shape[1:] != (1,):
                return None
            return Product(self.flat(first, 1), self.flat(second, 0), ONE, 1, number)
        if node.op not in ("neg", "transpose", "add", "sub", "mul", "div"):
            return None
        parts = [self.product(n) for n in node.inputs]
        a, b = parts[0], parts[-1]
        if a is None or b is None:
            return None
        if node.op == "transpose":
            return a.turned
        if node.op == "neg":
            return replace(a, sign=-a.sign)
        if node.op in ("add", "sub"):
            return self.joined(a, b if node.op == "add" else replace(b, sign=-b.sign))
        k, v, scale = (
            self.op(node.op, getattr(a, name), getattr(b, name)) for name in ("k", "v", "scale")
        )
        return Product(k, v, scale, a.sign * b.sign, number)

    def joined(self, a: Product, b: Product) -> Product | None:
        """Return the sum of two products that share a vector, None where they do not."""
        op = "add" if a.sign == b.sign else "sub"
        if self.same(a.k, b.k) and self.same(
            a.v, b.v
        ):  # k and v stay as they are, so that a third product may share one
            return replace(a, scale=self.op(op, a.scale, b.scale))
        for side, other in (("k", "v"), ("v", "k")):
            if not self.same(getattr(a, side), getattr(b, side)):
                continue
            x, y, scale = getattr(a, other), getattr(b, other), a.scale
            if not self.same(a.scale, b.scale):
                x, y, scale = self.op("mul", x, a.scale), self.op("mul", y, b.scale), ONE
            return replace(a, **{other: self.op(op, x, y), "scale": scale})
        return None

    def columns(self, product: Product) -> int:
        """Return the node that the unit is given as v: with the product's scale and sign in it."""
        v = self.op("mul", product.v, product.scale)
        return v if product.sign > 0 else self.op("neg", v)
