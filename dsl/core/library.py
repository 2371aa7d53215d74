"""The functions of `penstock` for the bodies of kernels: `ps.sum`, `ps.sigmoid`, `ps.merge`, …"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from .graph import Uniform
from .tensor import Tensor, call

__all__ = [
    "abs",
    "exp",
    "gaussian",
    "least_squares",
    "log",
    "max",
    "merge",
    "min",
    "norm",
    "outer",
    "prod",
    "rank",
    "sigmoid",
    "slot",
    "sqrt",
    "sum",
    "tanh",
    "uniform",
    "until",
    "where",
    "window",
]

P = ParamSpec("P")
R = TypeVar("R")


def _function(typed: Callable[P, R]) -> Callable[P, R]:
    """Make a function of kernels out of its signature; its arguments are checked by the table of both front ends."""
    name = typed.__name__

    @functools.wraps(typed)
    def wrapper(*args: P.args, **keywords: P.kwargs) -> R:
        return cast(R, call(name, args, dict(keywords)))

    return wrapper


@_function
def sigmoid(v: Any) -> Tensor:  # type: ignore[empty-body]
    """1 / (1 + exp(-v)), elementwise."""


@_function
def gaussian(v: Any) -> Tensor:  # type: ignore[empty-body]
    """exp(-v * v), elementwise."""


@_function
def sqrt(v: Any) -> Tensor:  # type: ignore[empty-body]
    """The square root, elementwise."""


@_function
def exp(v: Any) -> Tensor:  # type: ignore[empty-body]
    """The exponential, elementwise."""


@_function
def log(v: Any) -> Tensor:  # type: ignore[empty-body]
    """The natural logarithm, elementwise."""


@_function
def tanh(v: Any) -> Tensor:  # type: ignore[empty-body]
    """The hyperbolic tangent, elementwise."""


@_function
def abs(v: Any) -> Tensor:  # type: ignore[empty-body]
    """The magnitude, elementwise."""


@_function
def sum(v: Any, *, axis: int | None = None) -> Tensor:  # type: ignore[empty-body]
    """The sum of all elements, or along one axis."""


@_function
def prod(v: Any, *, axis: int | None = None) -> Tensor:  # type: ignore[empty-body]
    """The product of all elements, or along one axis."""


@_function
def norm(v: Any, *, axis: int | None = None) -> Tensor:  # type: ignore[empty-body]
    """The square root of the sum of squares of all elements, or along one axis."""


@_function
def max(v: Any, *, axis: int | None = None) -> Tensor:  # type: ignore[empty-body]
    """The largest element, or the largest along one axis."""


@_function
def min(v: Any, *, axis: int | None = None) -> Tensor:  # type: ignore[empty-body]
    """The smallest element, or the smallest along one axis."""


@_function
def where(condition: Any, a: Any, b: Any) -> Tensor:  # type: ignore[empty-body]
    """`a` where the condition is not zero, else `b`, elementwise; both are computed."""


@_function
def outer(a: Any, b: Any) -> Tensor:  # type: ignore[empty-body]
    """The matrix of all products of two vectors' elements."""


@_function
def merge(v: Any, n: int | None = None, op: str = "+") -> Tensor:  # type: ignore[empty-body]
    """Combine `v` over `n` tuples in row order, over the whole epoch without `n`; `op` is "+", "*", "max" or "min"."""


@_function
def until(condition: Any) -> None:
    """Stop the training when the condition holds after an epoch's last batch."""


@_function
def uniform(low: float, high: float, seed: int = 1) -> Uniform:  # type: ignore[empty-body]
    """A model's random start between `low` and `high`; the same numbers for the same seed and shape."""


# steps of a fit kernel


@_function
def window(key: Any, bytes: int) -> Tensor:  # type: ignore[empty-body]
    """The bytes of a key that tell a group's keys apart, at most so many; the index chooses where they begin, group by group."""


@_function
def rank(key: Any) -> Tensor:  # type: ignore[empty-body]
    """How many keys of the group lie before this one."""


@_function
def slot(key: Any) -> Tensor:  # type: ignore[empty-body]
    """The key's place in the group's array, in which gaps are left."""


@_function
def least_squares(  # type: ignore[empty-body]
    features: Any, target: Any, *, method: str = "gram", incremental: bool = True, bounds: str | None = None
) -> Tensor:
    """The linear model of the features that comes nearest to the target: what a fit kernel returns.

    `method`: "gram" (exact integer sums) or "givens" (a triangular factor). `incremental`: refits read the changed rows alone; False: each reads all rows.
    `bounds`: of the errors, "widened" by a proven amount from refit to refit, or by a "rescan" of all rows.
    """
