"""Coefficients of the piecewise polynomials behind `functions`: integers, the same on every machine.

A function is cut into segments; on each it is a polynomial of degree 0 to 3 in the position 0 <= t < 1 within the segment.
The polynomial interpolates at the Chebyshev nodes of its degree, which is within a small factor of the best one; its error
on a segment of width h is

    h**(d+1) · max|f^(d+1)| / (2**(2d+1) · (d+1)!)

Everything is computed with `decimal` at 50 digits, whose `exp` and `ln` are correctly rounded by specification, and rounded
once to units of 2**−fraction. In the first segment the left end is the first node, so that f there (0, 1/2 or 1 for all
functions) is exact.
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import lru_cache

#: The coefficients of t**0, t**1, … of all segments.
Columns = tuple[tuple[int, ...], ...]

_CONTEXT = Context(prec=50, rounding=ROUND_HALF_EVEN)
_ONE = Decimal(1)
LN2 = Decimal("0.69314718055994530941723212145817656807550013436026")
LOG2E = Decimal("1.4426950408889634073599246810018921374266459541530")

#: Chebyshev nodes of degrees 0 to 3 on [0, 1]; they need not be exact.
_NODES = tuple(
    tuple(Decimal(node) for node in nodes.split())
    for nodes in (
        "0.5",
        "0.1464466094 0.8535533906",
        "0.0669872981 0.5 0.9330127019",
        "0.0380602337 0.3086582838 0.6913417162 0.9619397663",
    )
)


def _sigmoid(x: Decimal) -> Decimal:
    return _ONE / (_ONE + (-x).exp())


def _tanh(x: Decimal) -> Decimal:
    e = (-2 * x).exp()
    return (_ONE - e) / (_ONE + e)


_FUNCTIONS: dict[str, Callable[[Decimal], Decimal]] = {
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "gaussian": lambda x: (-x * x).exp(),
    "exp2": lambda x: (x * LN2).exp() - 1,  # of a fraction
    "log": lambda x: (_ONE + x).ln(),  # of a fraction
}

#: log2 of the error formula's inverse at h = 1 for degrees 1 to 3, rounded down.
_BITS = {
    "sigmoid": (7.37, 10.58, 14.55),
    "tanh": (4.37, 6.58, 9.55),
    "gaussian": (3.0, 5.62, 8.0),
    "exp2": (4.05, 8.17, 12.7),
    "log": (4.0, 6.58, 9.0),
    # tanh by octaves, relative to the result: the octaves of 1 and 2 are the hard ones
    "tanh octaves": (4.5, 6.6, 8.8),
}


def constant(value: Decimal, fraction: int) -> int:
    """`value` in units of 2**−fraction, to nearest."""
    with localcontext(_CONTEXT):
        return int((value * (1 << fraction)).to_integral_value())


def smallest_degree(
    function: str, bits: float, finest: int, coarsest: int = 0, spare: int = 0
) -> tuple[int, int]:
    """Choose (degree, j): the lowest degree whose error is below 2**−bits with at most 1024 segments of width 2**−j.

    `finest` is the number of fraction bits of the argument: at j = finest every argument has its own entry (degree 0).
    The table has 2**(j + spare) segments. `coarsest` is the least j. Raises ValueError if no table will do.
    """
    for degree, known in enumerate(_BITS[function], 1):
        j = max(coarsest, math.ceil((bits - known) / (degree + 1)))
        if j >= finest:
            break
        if j + spare <= 10:
            return degree, j
    if finest + spare <= 10:
        return 0, finest
    raise ValueError(f"no table of {function} within 1024 entries gives {bits} bits")


def _fit(
    f: Callable[[Decimal], Decimal], left: Decimal, width: Decimal, degree: int, exact: bool
) -> list[Decimal]:
    """Monomial coefficients in t of the polynomial through f(left + width · t) at the nodes (`exact`: also at t = 0)."""
    nodes = list(_NODES[degree])
    if exact or degree == 0:  # stretched to the left until the first node lies on 0
        nodes = [(node - nodes[0]) / (1 - nodes[0]) for node in nodes]
    differences = [f(left + width * t) for t in nodes]
    for order in range(1, degree + 1):
        for k in range(degree, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    result = [differences[degree]]
    for k in range(degree - 1, -1, -1):  # result · (t − node) + difference
        shifted = [Decimal(0), *result]
        result = [a - nodes[k] * b for a, b in zip(shifted, [*result, Decimal(0)], strict=True)]
        result[0] += differences[k]
    return result


@lru_cache(maxsize=256)
def uniform(function: str, entries: int, j: int, degree: int, fraction: int) -> Columns:
    """Segments [k, k + 1) · 2**−j for k < entries, coefficients in units of 2**−fraction."""
    with localcontext(_CONTEXT):
        width = _ONE / (1 << j)
        rows = [
            _fit(_FUNCTIONS[function], k * width, width, degree, k == 0) for k in range(entries)
        ]
        return tuple(
            tuple(constant(c, fraction) for c in column) for column in zip(*rows, strict=True)
        )


@lru_cache(maxsize=64)
def octaves(function: str, first: int, count: int, s: int, degree: int, fraction: int) -> Columns:
    """Octaves [2**e, 2**(e + 1)) for first <= e < first + count, 2**s segments in each; results divided by 2**min(e, −1)."""
    with localcontext(_CONTEXT):
        rows = []
        for e in range(first, first + count):
            left, scale = Decimal(2) ** e, Decimal(2) ** -min(e, -1)
            width = left / (1 << s)
            for k in range(1 << s):
                rows.append(
                    [
                        c * scale
                        for c in _fit(_FUNCTIONS[function], left + k * width, width, degree, False)
                    ]
                )
        return tuple(
            tuple(constant(c, fraction) for c in column) for column in zip(*rows, strict=True)
        )
