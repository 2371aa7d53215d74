"""The unit, offset and limbs of each column of a fit, chosen from its values.

The fewest limbs whose integers hold all values exactly, half of their range to spare for later rows; two where no number of limbs
does, the values' span then some 2**33 units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...models.numerics.limbs import LIMB, LIMBS_MAX

#: limbs of a column whose values no number of limbs holds
_ROUNDED = 2


@dataclass(frozen=True)
class Unit:
    """How a column's values are held: as (q + offset) 2**shift, about."""

    shift: int
    offset: int
    limbs: int  #: limbs of q
    exact: bool  #: values are exactly that


def unit_of(numbers: NDArray[np.int64] | NDArray[np.float64], limbs: int | None = None) -> Unit:
    """Return the unit for a column's values, of which infinities and NaN do not count. `limbs`: their number, whatever the values are."""
    is_integer = numbers.dtype != np.float64
    finite = numbers if is_integer else numbers[np.isfinite(numbers)]
    if not len(finite):
        return Unit(0, 0, limbs or 1, True)
    least, greatest = Fraction(finite.min().item()), Fraction(finite.max().item())
    finest = _lowest_bit(finite)
    choices: Sequence[int] = (limbs,) if limbs else range(1, LIMBS_MAX + 1)
    for count in choices:
        for shift in (0, finest) if is_integer else (finest,):
            if shift <= finest and _steps(greatest - least, shift) < 1 << LIMB * count:
                return Unit(shift, _middle(least, greatest, shift), count, True)
    count = limbs or _ROUNDED
    span = greatest - least
    shift = span.numerator.bit_length() - span.denominator.bit_length() - LIMB * count
    while _steps(span, shift) >= (1 << LIMB * count) - 1:
        shift += 1
    return Unit(shift, _middle(least, greatest, shift), count, False)


def typical_limbs(pgtype: str) -> int:
    """Return the limbs of a column of which no value is known."""
    return 1 if pgtype in ("bool", "int2") else _ROUNDED


def _steps(span: Fraction, shift: int) -> Fraction:
    return span / (1 << shift) if shift >= 0 else span * (1 << -shift)


def _middle(least: Fraction, greatest: Fraction, shift: int) -> int:
    return round(_steps((least + greatest) / 2, shift))


def _lowest_bit(numbers: NDArray[np.int64] | NDArray[np.float64]) -> int:
    """Return the exponent of the lowest bit that any of the numbers has; 0 where all are 0."""
    exponents = np.zeros(len(numbers), dtype=np.int64)
    if numbers.dtype != np.float64:
        integers = numbers.astype(np.int64)
    else:
        fractions, powers = np.frexp(numbers)
        integers, exponents = np.ldexp(fractions, 53).astype(np.int64), powers - 53
    some = integers != 0
    if not some.any():
        return 0
    lowest = (integers & -integers)[some].astype(np.uint64)
    return int((np.frexp(lowest.astype(np.float64))[1] - 1 + exponents[some]).min())
