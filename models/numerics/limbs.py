"""Numbers as integers in units of their column: q = nearest(x / 2**shift) − offset, in limbs of 17 bits.

What a column holds decides its unit, so that ids beside 2**63, prices and booleans of one table each keep their digits. Of a value
with L limbs −2**(17 L) <= q < 2**(17 L); its lowest limbs are unsigned, the highest one has a sign and 18 bits, so that each is a
factor of one multiplier block of 18 × 18 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import Codes, Format, as_codes

#: bits of a limb
LIMB = 17
LIMBS_MAX = 3
#: bits of a `shift`: every exponent of a float8
SHIFT_BITS = 12
#: bits of what hardware is told of a flat position: the offset; the shift, the code of a missing value
OFFSET_BITS = UNIT_BITS = 64


def _none(*_: Any) -> Any:
    raise NotImplementedError("integers in units of a column are summed, nothing else")


@dataclass(frozen=True)
class Limbs(Format):
    """Integers of several limbs. Units and offsets are known when a table is walked; hardware is told them before each run."""

    limbs: tuple[int, ...]  #: of each flat position of a row: 1 to 3
    shifts: tuple[int, ...] = ()  #: units; integer types have none below 0
    offsets: tuple[int, ...] = ()  #: 64-bit integers that conversions subtract
    is_float = False

    def __post_init__(self) -> None:
        if not self.limbs or not all(1 <= n <= LIMBS_MAX for n in self.limbs):
            raise ValueError(f"a column has 1 to {LIMBS_MAX} limbs, not {self.limbs}")

    def of(self, shifts: Sequence[int], offsets: Sequence[int]) -> Limbs:
        """Return the format with units."""
        return replace(self, shifts=tuple(map(int, shifts)), offsets=tuple(map(int, offsets)))

    @property
    def bare(self) -> Limbs:
        """The format without units: what hardware is built for."""
        return Limbs(self.limbs)

    @property
    def width(self) -> int:
        return LIMB * max(self.limbs) + 1

    @property
    def name(self) -> str:
        return f"limbs:{','.join(map(str, self.limbs))}"

    @property
    def min_value(self) -> float:
        return -(2.0 ** (self.width - 1))

    @property
    def max_value(self) -> float:
        return 2.0 ** (self.width - 1) - 1

    def to_codes(self, integers: ArrayLike) -> Codes:
        return as_codes(integers) & ((1 << self.width) - 1)

    def to_integers(self, codes: ArrayLike) -> Codes:
        """The signed integers of codes."""
        half = 1 << (self.width - 1)
        return (as_codes(codes) ^ half) - half

    def encode(self, values: ArrayLike) -> Codes:
        """Codes of numbers whose column has the unit 1 and the offset 0, saturated."""
        return self.to_codes(
            np.clip(np.rint(values), self.min_value, self.max_value).astype(np.int64)
        )

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        return self.to_integers(codes).astype(np.float64)

    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        return as_codes(a) == 0

    def quantised(
        self, numbers: NDArray[np.int64] | NDArray[np.float64], places: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return of int64 or float64 numbers the integers q, saturated, which lie beyond the range, and which are not finite.

        `places`: the flat positions that they go to.
        """
        at = np.broadcast_to(np.asarray(places), numbers.shape)
        nothing = (0,) * len(self.limbs)
        units = (self.shifts or nothing, self.offsets or nothing, self.limbs)
        shift, offset, limbs = (np.array(of, dtype=np.int64)[at] for of in units)
        special = np.zeros(numbers.shape, np.bool_)
        within = ~special
        if numbers.dtype == np.float64:
            special = ~np.isfinite(numbers)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                scaled = np.rint(np.ldexp(np.where(special, 0, numbers), -shift))
            within = (scaled >= -(2.0**63)) & (scaled < 2.0**63)
            integers = np.where(within, scaled, 0).astype(np.int64)
        else:
            integers = _shifted(numbers.astype(np.int64), shift)
        rough = integers.astype(np.float64) - offset.astype(np.float64)
        near = within & (np.abs(rough) < 2.0**53)
        with np.errstate(over="ignore"):
            q = np.where(near, integers - offset, 0)
        top = np.int64(1) << LIMB * limbs
        beyond = (~near | (q < -top) | (q >= top)) & ~special
        up = np.where(within, rough > 0, numbers > 0)
        saturated = np.where(beyond, np.where(up, top - 1, -top), q)
        return np.where(special, 0, saturated), beyond, special

    left_range = _none  # type: ignore[assignment]
    add = sub = mul = _none  # type: ignore[assignment]
    div = sqrt = neg = _none  # type: ignore[assignment]
    abs = max = min = _none  # type: ignore[assignment]


def _shifted(integers: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return integers over 2**shift, rounded to nearest even; shifts are 0 or more."""
    if (shift < 0).any():
        raise ValueError("an integer column has a unit below 1")
    small = np.minimum(shift, 63)
    quotients, rest = integers >> small, integers & ((np.int64(1) << small) - 1)
    half = np.where(small > 0, np.int64(1) << np.maximum(small - 1, 0), np.int64(1))
    up = (rest > half) | ((rest == half) & ((quotients & 1) == 1) & (small > 0))
    return np.where(shift > 63, 0, quotients + up)
