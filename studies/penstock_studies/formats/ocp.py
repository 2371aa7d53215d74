"""Small floats, OCP's microscaling formats, and int8 with a scale for each group.

Sources: "OCP 8-bit Floating Point Specification (OFP8)" 1.0 for e4m3 and e5m2; "OCP Microscaling
Formats (MX) Specification" 1.0 for MXFP8, MXFP6, MXFP4 and MXINT8: 32 numbers share a scale 2^(X − 127),
X = floor(log2 of the largest) − the element type's largest exponent; beyond it elements saturate.

A number rounds to nearest, ties to even; or stochastically: 8 random bits are added below the last
place, then the rest is dropped. What these formats cannot hold (NaN, infinities) raises ValueError;
numbers beyond the largest one saturate.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

RANDOM_BITS = 8


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("a block cannot hold NaN or infinity")
    return x


def _rounded(q: NDArray[np.float64], random: ArrayLike | None) -> NDArray[np.float64]:
    """Return magnitudes as whole numbers."""
    if random is None:
        return np.rint(q)
    scaled = np.floor(np.ldexp(q, RANDOM_BITS)) + np.asarray(random, dtype=np.float64)
    return np.floor(np.ldexp(scaled, -RANDOM_BITS))


@dataclass(frozen=True)
class SmallFloat:
    """Sign, exponent and fraction, with subnormal numbers; `largest` is the greatest finite number.

    `bias` is 2^(exponent_bits − 1) − 1. Codes above the largest number's (NaN, infinities) are never made.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    largest: float

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def largest_exponent(self) -> int:
        return int(np.frexp(self.largest)[1]) - 1

    def encode(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the codes of numbers."""
        x = _finite(values)
        magnitude = np.minimum(np.abs(x), 2 * self.largest)
        exponent = np.maximum(np.frexp(magnitude)[1] - 1, 1 - self.bias)
        unit = exponent - self.fraction_bits
        whole = _rounded(np.ldexp(magnitude, -unit), random)
        value = np.minimum(np.ldexp(whole, unit), self.largest)
        lead = np.where(value > 0, np.frexp(value)[1] - 1, 1 - self.bias)
        exponent = np.maximum(lead, 1 - self.bias)
        significand = np.ldexp(value, self.fraction_bits - exponent).astype(np.int64)
        # a subnormal's significand lacks the hidden bit, whose place the exponent 0 takes
        code = significand + ((exponent + self.bias - 1).astype(np.int64) << self.fraction_bits)
        return code | (np.signbit(x).astype(np.int64) << (self.width - 1))

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        """Return the numbers of codes that `encode` makes."""
        return self._table[np.asarray(codes)]

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        codes = np.arange(1 << self.width)
        fraction = codes & ((1 << self.fraction_bits) - 1)
        exponent = codes >> self.fraction_bits & ((1 << self.exponent_bits) - 1)
        significand = fraction + np.where(exponent > 0, 1 << self.fraction_bits, 0)
        power = np.maximum(exponent, 1) - self.bias - self.fraction_bits
        value = np.ldexp(significand.astype(np.float64), power)
        value = np.where(value > self.largest, np.nan, value)
        return np.where(codes >> (self.width - 1), -value, value)

    def quantise(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the numbers that `encode` rounds to."""
        return self.decode(self.encode(values, random))


@dataclass(frozen=True)
class TwosComplement:
    """The element of MXINT8: 8 bits of two's complement with 6 fraction bits, −127/64 to 127/64 (the
    code −128 is not made, so that the range is symmetric, as the specification recommends)."""

    name: str = "int8"
    largest: float = 127 / 64
    largest_exponent = 0
    width = 8

    def encode(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.int64]:
        x = _finite(values)
        whole = np.minimum(_rounded(np.ldexp(np.abs(x), 6), random), 127)
        return np.where(np.signbit(x), -whole, whole).astype(np.int64) & 0xFF

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(codes).astype(np.uint8).view(np.int8).astype(np.float64) / 64


@dataclass(frozen=True)
class MicroScaled:
    """Groups of 32 elements with a scale that is a power of two (E8M0: biased by 127, 0 to 254)."""

    name: str
    element: SmallFloat | TwosComplement
    group: int = 32

    @property
    def bits(self) -> float:
        """Bits a number."""
        return self.element.width + 8 / self.group

    def encode(
        self, values: ArrayLike, random: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (scales (…, n), codes (…, n, group)) of numbers (…, n · group)."""
        x = _finite(values)
        x = x.reshape(*x.shape[:-1], -1, self.group)
        largest = np.abs(x).max(axis=-1)
        exponent = np.frexp(largest)[1] - 1 - self.element.largest_exponent
        scale = np.clip(np.where(largest > 0, exponent, -127), -127, 127)
        drawn = None if random is None else np.asarray(random).reshape(x.shape)
        codes = self.element.encode(np.ldexp(x, -scale[..., None]), drawn)
        return (scale + 127).astype(np.int64), codes

    def decode(self, scales: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
        value = np.ldexp(self.element.decode(codes), (scales - 127)[..., None])
        return value.reshape(*value.shape[:-2], -1)

    def quantise(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the numbers that `encode` rounds to."""
        return self.decode(*self.encode(values, random))


@dataclass(frozen=True)
class GroupScaled:
    """int8 with a scale for each group: the largest magnitude in bfloat16 over 127; codes −127 to 127."""

    name: str = "int8"
    group: int = 32

    @property
    def bits(self) -> float:
        return 8 + 16 / self.group

    def quantise(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the numbers that codes and scales stand for."""
        from penstock.models.numerics.floating import bfloat16

        x = _finite(values)
        shape = x.shape
        x = x.reshape(*shape[:-1], -1, self.group)
        largest = bfloat16.decode(bfloat16.encode(np.abs(x).max(axis=-1)))[..., None]
        scale = np.where(largest > 0, largest, 1.0) / 127
        drawn = None if random is None else np.asarray(random).reshape(x.shape)
        whole = np.minimum(_rounded(np.abs(x) / scale, drawn), 127)
        return (np.where(np.signbit(x), -whole, whole) * scale).reshape(shape)


e4m3 = SmallFloat("e4m3", 4, 3, 448.0)
e5m2 = SmallFloat("e5m2", 5, 2, 57344.0)
e2m3 = SmallFloat("e2m3", 2, 3, 7.5)
e3m2 = SmallFloat("e3m2", 3, 2, 28.0)
e2m1 = SmallFloat("e2m1", 2, 1, 6.0)

#: small floats by name
SMALL = {f.name: f for f in (e4m3, e5m2, e2m3, e3m2, e2m1)}
#: OCP's microscaling formats by name
OCP = {
    f.name: f
    for f in (
        MicroScaled("mxint8", TwosComplement()),
        MicroScaled("mxfp8-e4m3", e4m3),
        MicroScaled("mxfp8-e5m2", e5m2),
        MicroScaled("mxfp6-e2m3", e2m3),
        MicroScaled("mxfp6-e3m2", e3m2),
        MicroScaled("mxfp4", e2m1),
    )
}
