"""What each operation of the graph means, in float64 NumPy: constants are folded with it, and the reference interpreter
runs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["MERGES", "apply"]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # exp of a negative number only, so that nothing overflows
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def _where(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(condition != 0, a, b))


_ELEMENTWISE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "lt": lambda a, b: np.less(a, b).astype(np.float64),
    "gt": lambda a, b: np.greater(a, b).astype(np.float64),
    "le": lambda a, b: np.less_equal(a, b).astype(np.float64),
    "ge": lambda a, b: np.greater_equal(a, b).astype(np.float64),
    "where": _where,
    "sigmoid": _sigmoid,
    "gaussian": lambda x: np.exp(-x * x),
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
}
_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "norm": lambda v, axis: np.sqrt(np.sum(v * v, axis=axis)),
}
#: how a merge combines values along the first axis
MERGES: dict[str, Callable[..., np.ndarray]] = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}


def apply(op: str, values: Sequence[np.ndarray], attrs: dict[str, Any], batched: Sequence[bool] | None = None) -> np.ndarray:
    """Return the result of one operation.

    Parameters
    ----------
    values: the operands in float64, each of its node's shape; a batched one has an axis of tuples in front.
    attrs: the node's attributes.
    batched: which operands have the axis of tuples; the result has it where any operand has.
    """
    flags = [False] * len(values) if batched is None else list(batched)
    if op in _ELEMENTWISE:
        if any(flags):
            rank = max(value.ndim - flag for value, flag in zip(values, flags, strict=True))
            values = [_pad(value, rank) if flag else value for value, flag in zip(values, flags, strict=True)]
        return np.asarray(_ELEMENTWISE[op](*values))
    if op in _REDUCTIONS:
        value, shift = values[0], int(flags[0])
        axis = attrs.get("axis")
        axes = tuple(range(shift, value.ndim)) if axis is None else (axis + shift,)
        return np.asarray(_REDUCTIONS[op](value, axis=axes))
    if op in ("matmul", "outer"):
        return _product(op, values[0], values[1], *flags)
    if op == "expand":
        return np.expand_dims(values[0], attrs["axis"] + int(flags[0]))
    if op == "transpose":
        return np.swapaxes(values[0], -1, -2)
    raise ValueError(f"unknown operation {op!r}")


def _pad(value: np.ndarray, rank: int) -> np.ndarray:
    """Give a batched value its missing dimensions of one after the axis of tuples."""
    return value.reshape(value.shape[0], *(1,) * (rank + 1 - value.ndim), *value.shape[1:])


def _product(op: str, left: np.ndarray, right: np.ndarray, left_batched: bool, right_batched: bool) -> np.ndarray:
    ranks = left.ndim - left_batched, right.ndim - right_batched
    if op == "outer":
        a, b, result = "i", "k", "ik"
    else:
        a, b = "ij"[2 - ranks[0] :], "jk"[: ranks[1]]
        result = a[:-1] + b[1:]
    batch = "b" if left_batched or right_batched else ""
    subscripts = f"{'b' * left_batched}{a},{'b' * right_batched}{b}->{batch}{result}"
    return np.einsum(subscripts, left, right)
