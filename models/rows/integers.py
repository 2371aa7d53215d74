"""Integers that choose rows: exact, of 64 bits, with what a bag leaves out.

A place of a bag that a tuple leaves out is `ABSENT`, and so is whatever integers make of it: its row is read as zeros and is not
changed, and no comparison holds for it. What an operation makes beyond 64 bits, or makes `ABSENT`, is wrong: `too_wide` tells.
"""

import operator
from collections.abc import Callable

import numpy as np

from .hashing import murmur3

Array = np.ndarray

ABSENT = int(np.iinfo(np.int64).min)

#: operators whose result is an integer; `//` and `%` are Python's, 0 where the divisor is 0
ARITHMETIC: dict[str, Callable[..., Array]]
#: operators whose result is whether they hold
COMPARISONS: dict[str, Callable[..., Array]]


def _integer(operation: Callable[..., Array]) -> Callable[..., Array]:
    def meaning(*operands: Array) -> Array:
        integers = [np.asarray(v).astype(np.int64) for v in operands]
        absent = np.logical_or.reduce(np.broadcast_arrays(*(v == ABSENT for v in integers)))
        with np.errstate(all="ignore"):
            return np.where(absent, ABSENT, operation(*integers))

    return meaning


def _holds(compare: Callable[..., Array]) -> Callable[..., Array]:
    def meaning(a: Array, b: Array) -> Array:
        return (a != ABSENT) & (b != ABSENT) & compare(a, b)

    return meaning


def too_wide(symbol: str, *operands: Array) -> Array:
    """Return for which elements an operation of `ARITHMETIC` gives what 64 bits do not hold, or `ABSENT`, of integers that are there."""
    exact = _GROWING.get(symbol)
    if exact is None:
        return np.zeros((), bool)
    a, b = np.broadcast_arrays(*(np.asarray(v).astype(np.int64) for v in operands))
    near = np.abs(exact(a.astype(np.float64), b.astype(np.float64))) >= 2.0**62
    wide = np.zeros(a.shape, bool)
    wide[near] = [
        ABSENT not in (x, y) and abs(exact(x, y)) > -ABSENT - 1
        for x, y in zip(a[near].tolist(), b[near].tolist(), strict=True)
    ]
    return wide


#: operations whose result may be longer than both operands
_GROWING: dict[str, Callable[..., Array]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
ARITHMETIC = {
    "+": _integer(np.add),
    "-": _integer(np.subtract),
    "*": _integer(np.multiply),
    "//": _integer(np.floor_divide),
    "%": _integer(np.remainder),
    "negative": _integer(np.negative),
}
COMPARISONS = {
    "<": _holds(np.less),
    ">": _holds(np.greater),
    "<=": _holds(np.less_equal),
    ">=": _holds(np.greater_equal),
    "==": _holds(np.equal),
    "!=": _holds(np.not_equal),
}


def hashed(values: Array, seed: int, size: int) -> Array:
    """Return the hash (`murmur3`) of each integer."""
    hashes = murmur3(values, seed, size).astype(np.int64)
    return np.where(values == ABSENT, ABSENT, hashes)


def present(values: Array) -> Array:
    """Return how many of the last axis are there."""
    return np.sum(values != ABSENT, axis=-1)


def numbers(values: Array) -> Array:
    """Return the integers, 0 for what is left out."""
    return np.where(values == ABSENT, 0, values)
