"""What kernels that learn tuple by tuple call, besides the functions on values: `merge`, `until`, `score`, `uniform`."""

from __future__ import annotations

from typing import Any

from ..core.builder import Ref
from ..core.constants import make_uniform
from ..core.diagnostics import Span
from ..core.functions import VALUES
from ..core.graph import Uniform
from ..dialect import Function, function
from .builder import AnalyticsBuilder


@function
def number(builder: AnalyticsBuilder, span: Span, i: Any) -> Ref:
    """The value, in the kernel's number format, that an index is."""
    return builder.as_value(i, span)


@function(usage="hash(i, seed=0)")
def hash(builder: AnalyticsBuilder, span: Span, i: Any, seed: int = 0) -> Ref:
    """An index made of another: MurmurHash3 (x86, 32 bits, as scikit-learn's `murmurhash3_32`) of the bytes of its column's type, from -2³¹ to 2³¹ - 1."""
    return builder.hashed(i, seed, span)


@function
def count(builder: AnalyticsBuilder, span: Span, c: Any) -> Ref:
    """How many places of a bag of indices a tuple fills: the length of its array."""
    return builder.present(c, span)


@function(usage='merge(v, n, op="+"), or merge(v) over the whole epoch')
def merge(
    builder: AnalyticsBuilder, span: Span, v: Any, n: int | None = None, op: str = "+"
) -> Ref:
    """Combine `v` over `n` tuples in row order, over the whole epoch without `n`; `op` is "+", "*", "max" or "min". `merge(1, n)` counts them."""
    return builder.merge(v, n, op, span)


@function(usage="mean(v, n), or mean(v) over the whole epoch")
def mean(builder: AnalyticsBuilder, span: Span, v: Any, n: int | None = None) -> Ref:
    """The mean of `v` over `n` tuples, over the whole epoch without `n`; over as many as there are where the last batch has fewer."""
    return builder.mean(v, n, span)


@function(usage="argmax(v) or argmax(v, axis=0)")
def argmax(builder: AnalyticsBuilder, span: Span, v: Any, *, axis: int | None = None) -> Ref:
    """The place of the largest element, counted from 0, or along one axis; of the first where several are equal, and of the first NaN."""
    return builder.place("max", v, axis, span)


@function(usage="argmin(v) or argmin(v, axis=0)")
def argmin(builder: AnalyticsBuilder, span: Span, v: Any, *, axis: int | None = None) -> Ref:
    """The place of the smallest element, counted from 0, or along one axis; of the first where several are equal, and of the first NaN."""
    return builder.place("min", v, axis, span)


@function
def until(builder: AnalyticsBuilder, span: Span, condition: Any) -> None:
    """Stop the training when the condition holds after an epoch's last batch."""
    builder.stop_when(condition, span)


@function(usage='score(value, name="score")')
def score(builder: AnalyticsBuilder, span: Span, value: Any, name: str = "score") -> Ref:
    """Make a value the score of each row, under this name: what a trained model says of rows without a label. Return the value."""
    return builder.score(value, name, span)


@function(usage="uniform(low, high, seed=1)", literal=True)
def uniform(source: str | None, span: Span, low: float, high: float, seed: int = 1) -> Uniform:
    """A model's random start between `low` and `high`; the same numbers for the same seed and shape."""
    return make_uniform(low, high, seed, span, source)


FUNCTIONS: dict[str, Function] = VALUES | {
    f.name: f for f in (argmax, argmin, number, hash, count, merge, mean, until, score, uniform)
}
