"""The engine's float32 arithmetic on NumPy's own numbers, and the lookup's prediction.

Every operation is one of `models.numerics` (nearest even, subnormals flushed); here it runs on arrays of np.float32, which is many times faster. What comes
near the smallest normal number goes through `models.numerics`.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..numerics.formats import Codes, float32

Numbers = NDArray[np.float32]

#: the greatest label and prediction
LABEL_MAX = (1 << 31) - 1
_TINY = np.float32(2.0**-126)


def numbers(a: ArrayLike) -> Numbers:
    """float32 numbers of codes."""
    with np.errstate(invalid="ignore"):  # a NaN's payload
        return np.asarray(float32.decode(a), dtype=np.float32)


def codes(a: ArrayLike) -> Codes:
    """Codes of float32 numbers (canonical: one NaN, no subnormals)."""
    bits = np.ascontiguousarray(a, dtype=np.float32).view(np.uint32)
    return float32.canonical(bits.reshape(np.shape(a)).astype(np.int64))


def _plain(results: Numbers) -> bool:
    """Whether results are NumPy's as they stand: none is near the smallest normal number, or no number."""
    size = np.abs(results)
    return bool(np.all((size > _TINY) | (size == 0)))


def _operation(name: str, ufunc: np.ufunc) -> Callable[[ArrayLike, ArrayLike], Numbers]:
    def operation(a: ArrayLike, b: ArrayLike) -> Numbers:
        with np.errstate(all="ignore"):
            result: Numbers = ufunc(a, b, dtype=np.float32)
        if _plain(result):
            return result
        return numbers(float32.op(name, codes(a), codes(b))).reshape(np.shape(result))

    return operation


_UFUNCS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
_OPERATIONS = SimpleNamespace(**{name: _operation(name, of) for name, of in _UFUNCS.items()})
add, sub = _OPERATIONS.add, _OPERATIONS.sub
mul, div = _OPERATIONS.mul, _OPERATIONS.div


def at_once(formula: Callable[..., Any], *operands: Numbers) -> Any:
    """Return formula(operations, *operands): with NumPy's own where all their results are right as they stand, which is asked but once."""
    seen: list[Numbers] = []

    def noted(ufunc: np.ufunc) -> Callable[[Numbers, Numbers], Numbers]:
        def operation(a: Numbers, b: Numbers) -> Numbers:
            seen.append(ufunc(a, b))
            return seen[-1]

        return operation

    with np.errstate(all="ignore"):
        operations = SimpleNamespace(**{name: noted(ufunc) for name, ufunc in _UFUNCS.items()})
        outcome = formula(operations, *operands)
    plain = _plain(np.concatenate([result.ravel() for result in seen]))
    return outcome if plain else formula(_OPERATIONS, *operands)


def from_integer(values: ArrayLike) -> Numbers:
    """Round exact integers (int64) to float32 once, to nearest even."""
    return np.asarray(values, dtype=np.int64).astype(np.float32)


def tree(terms: Numbers) -> Numbers:
    """Add up the last axis in a balanced tree: neighbours (0, 1), (2, 3), … level by level, a missing partner being +0."""
    terms = np.asarray(terms, dtype=np.float32)
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.concatenate(
                [terms, np.zeros((*terms.shape[:-1], 1), dtype=np.float32)], axis=-1
            )
        terms = add(terms[..., 0::2], terms[..., 1::2])
    return terms[..., 0]


def dot(a: Numbers, b: Numbers) -> Numbers:
    """Products, each rounded, in a balanced tree over the last axis."""
    return tree(mul(a, b))


def to_label(score: ArrayLike) -> NDArray[np.int64]:
    """Truncate a score to a label: below 0 and NaN become 0, the greatest label is 2**31 - 1."""
    score = np.asarray(score, dtype=np.float64)
    return np.floor(np.minimum(np.where(score > 0, score, 0.0), LABEL_MAX)).astype(np.int64)


def predict(weights: ArrayLike, offsets: ArrayLike, rows: ArrayLike) -> NDArray[np.int64]:
    """Predicted labels int64 (m,) of rows uint8 (m, length) under weights (float32 codes, (n,), bias first): of `dot` of these and 1, bytes minus offsets."""
    rows = np.asarray(rows)
    a = np.ones((len(rows), rows.shape[1] + 1), dtype=np.float32)
    a[:, 1:] = rows.astype(np.int16) - np.asarray(offsets, dtype=np.int16)
    return to_label(dot(np.broadcast_to(numbers(weights), a.shape), a))
