"""The operations on values, each declared once: operands, shape rule, float64 meaning, operator, and the units it needs.

Constants are folded with the float64 meaning, and the reference interpreter runs on it. `unit` names an operation of
`models.numerics`, which has its bits, its latency and its cost; planners look it up there. An operation with a `doc` is a
function of kernels too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Elementwise:
    """An operation on elements; the shapes of its operands broadcast as in NumPy."""

    name: str
    float64: Callable[..., Array]  #: its meaning on arrays
    doc: str = ""
    operands: tuple[str, ...] = ("v",)  #: their names, where it is a function
    symbol: str = ""  #: its operator; of one operand where `operands` has one
    unit: str = ""  #: the arithmetic unit, of its own name unless given
    #: its unit is too large for every lane: it takes one element a cycle unless that were the
    #: bottleneck
    costly: bool = False
    nonzero: int | None = None  #: the operand, if any, that must not be a constant 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.unit or self.name)


@dataclass(frozen=True)
class Reduction:
    """An operation that combines all elements, or those along one axis, which is then gone."""

    name: str
    #: its meaning on an array and a tuple of axes, called with `axis=`
    float64: Callable[..., Array]
    doc: str
    unit: str  #: what combines two elements
    before: str = ""  #: the unit that each element passes with itself first, if any
    after: str = ""  #: the unit that the result passes, if any
    scalar: str = ""  #: the elementwise operation that it is on a single element, if any
    too_many: str = ""  #: what a message adds where it is given two values


@dataclass(frozen=True)
class Structural:
    """An operation with a shape rule of its own, which is `GraphBuilder`'s method of its name; engines lower it by name.

    `float64` is given the operands, whether each has an axis of tuples in front, and the node's attributes.
    """

    name: str
    float64: Callable[[Sequence[Array], Sequence[bool], dict[str, Any]], Array]
    doc: str = ""
    operands: tuple[str, ...] = ("v",)
    symbol: str = ""


def _sigmoid(x: Array) -> Array:
    # exp of a negative number only, so that nothing overflows
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def _flag(compare: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: compare(a, b).astype(np.float64)


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.asarray(np.where(condition != 0, a, b))


def _product(
    values: Sequence[Array],
    flags: Sequence[bool],
    subscripts: Callable[[int, int], tuple[str, str, str]],
) -> Array:
    left, right = (value.ndim - flag for value, flag in zip(values, flags, strict=True))
    a, b, result = subscripts(left, right)
    batch = "b" if any(flags) else ""
    return np.einsum(f"{'b' * flags[0]}{a},{'b' * flags[1]}{b}->{batch}{result}", *values)


def _matmul(values: Sequence[Array], flags: Sequence[bool], attrs: dict[str, Any]) -> Array:
    def subscripts(left: int, right: int) -> tuple[str, str, str]:
        a, b = "ij"[2 - left :], "jk"[:right]
        return a, b, a[:-1] + b[1:]

    return _product(values, flags, subscripts)


def _outer(values: Sequence[Array], flags: Sequence[bool], attrs: dict[str, Any]) -> Array:
    return _product(values, flags, lambda *_: ("i", "k", "ik"))


_TWO = ("a", "b")

#: all operations, in the order in which messages list the functions among them
OPERATIONS: dict[str, Elementwise | Reduction | Structural] = {
    operation.name: operation
    for operation in (
        Elementwise("add", np.add, operands=_TWO, symbol="+"),
        Elementwise("sub", np.subtract, operands=_TWO, symbol="-"),
        Elementwise("mul", np.multiply, operands=_TWO, symbol="*"),
        Elementwise("div", np.divide, operands=_TWO, symbol="/", costly=True, nonzero=1),
        Elementwise("lt", _flag(np.less), operands=_TWO, symbol="<"),
        Elementwise("gt", _flag(np.greater), operands=_TWO, symbol=">"),
        Elementwise("le", _flag(np.less_equal), operands=_TWO, symbol="<="),
        Elementwise("ge", _flag(np.greater_equal), operands=_TWO, symbol=">="),
        Elementwise("neg", np.negative, symbol="-"),
        Elementwise("sigmoid", _sigmoid, "1 / (1 + exp(-v)), elementwise.", costly=True),
        Elementwise("gaussian", lambda x: np.exp(-x * x), "exp(-v * v), elementwise.", costly=True),
        Elementwise("sqrt", np.sqrt, "The square root, elementwise.", costly=True),
        Elementwise("exp", np.exp, "The exponential, elementwise.", costly=True),
        Elementwise("log", np.log, "The natural logarithm, elementwise.", costly=True),
        Elementwise("tanh", np.tanh, "The hyperbolic tangent, elementwise.", costly=True),
        Elementwise("abs", np.abs, "The magnitude, elementwise."),
        Reduction("sum", np.sum, "The sum of all elements, or along one axis.", unit="add"),
        Reduction("prod", np.prod, "The product of all elements, or along one axis.", unit="mul"),
        Reduction(
            "norm",
            lambda v, axis: np.sqrt(np.sum(v * v, axis=axis)),
            "The square root of the sum of squares of all elements, or along one axis.",
            unit="add",
            before="mul",
            after="sqrt",
            scalar="abs",
        ),
        Reduction(
            "max",
            np.max,
            "The largest element, or the largest along one axis.",
            unit="max",
            too_many="; for the larger of two values write where(a > b, a, b)",
        ),
        Reduction(
            "min",
            np.min,
            "The smallest element, or the smallest along one axis.",
            unit="min",
            too_many="; for the smaller of two values write where(a < b, a, b)",
        ),
        Elementwise(
            "where",
            _where,
            "`a` where the condition is not zero, else `b`, elementwise; both are computed.",
            operands=("condition", "a", "b"),
            unit="select",
        ),
        Structural("matmul", _matmul, operands=_TWO, symbol="@"),
        Structural(
            "outer", _outer, "The matrix of all products of two vectors' elements.", operands=_TWO
        ),
        Structural(
            "expand", lambda v, flags, attrs: np.expand_dims(v[0], attrs["axis"] + int(flags[0]))
        ),
        Structural("transpose", lambda v, flags, attrs: np.swapaxes(v[0], -1, -2)),
    )
}
ELEMENTWISE = {name: op for name, op in OPERATIONS.items() if isinstance(op, Elementwise)}
REDUCTIONS = {name: op for name, op in OPERATIONS.items() if isinstance(op, Reduction)}
#: elementwise operations by their operator and their number of operands
SYMBOLS = {(op.symbol, len(op.operands)): name for name, op in ELEMENTWISE.items() if op.symbol}


def spoken(name: str) -> str:
    """Return what messages call an operation: its operator, or its name."""
    operation = OPERATIONS[name]
    symbol = "" if isinstance(operation, Reduction) else operation.symbol
    if not symbol or isinstance(operation, Reduction):
        return name
    return f"unary {symbol}" if len(operation.operands) == 1 else symbol


def apply(
    name: str, values: Sequence[Array], attrs: dict[str, Any], batched: Sequence[bool] | None = None
) -> Array:
    """Return the result of one operation.

    * `values`: the operands in float64, each of its node's shape; a batched one has an axis of tuples in front.
    * `attrs`: the node's attributes.
    * `batched`: which operands have the axis of tuples; the result has it where any operand has.
    """
    flags = [False] * len(values) if batched is None else list(batched)
    return evaluate(OPERATIONS[name], values, attrs, flags)


def evaluate(
    operation: Elementwise | Reduction | Structural,
    values: Sequence[Array],
    attrs: dict[str, Any],
    flags: Sequence[bool],
) -> Array:
    """Return the result of an operation; see `apply`."""
    if isinstance(operation, Structural):
        return np.asarray(operation.float64(values, flags, attrs))
    if isinstance(operation, Reduction):
        value, shift = values[0], int(flags[0])
        axis = attrs.get("axis")
        axes = tuple(range(shift, value.ndim)) if axis is None else (axis + shift,)
        return np.asarray(operation.float64(value, axis=axes))
    if any(flags):
        rank = max(value.ndim - flag for value, flag in zip(values, flags, strict=True))
        values = [
            _pad(value, rank) if flag else value for value, flag in zip(values, flags, strict=True)
        ]
    return np.asarray(operation.float64(*values))


def _pad(value: Array, rank: int) -> Array:
    """Give a batched value its missing dimensions of one after the axis of tuples."""
    return value.reshape(value.shape[0], *(1,) * (rank + 1 - value.ndim), *value.shape[1:])
