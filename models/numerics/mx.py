"""Block floating point with shared microexponents: MX9, MX8, MX6 and MX4, and the steps of arithmetic on it.

A *group* is 16 numbers: one exponent of 8 bits (biased by 127, 0 to 254), a bit for each pair (its
*microexponent*), and for each number a sign and `magnitude_bits` bits, the leading one written out:

    value = ± magnitude · 2^(exponent − 127 − micro − (magnitude_bits − 1)).

The family is that of Darvish Rouhani et al., "With Shared Microexponents, A Little Shifting Goes a Long
Way" (ISCA 2023); MX8 with 6 bits is the one of Pimba (MICRO 2025). It is not OCP's MXINT8.

Rules that are ours, because the papers leave them open:

* A number's exponent is that of its leading one, or one more where rounding carries out of the
  magnitude. The group's exponent is the largest of these; a pair's microexponent is 1 where its own
  largest is at least one less, and rounding cannot carry there. So rounding never overflows, and a
  stochastic rounding has no bias. The group's exponent follows from its numbers as they are stored:
  decoded and encoded again, they are the same in every computation.
* To nearest: half of the last place is added to the magnitude, then the rest is dropped (ties away from
  zero). Stochastic: 8 random bits are added just below the last place, then the rest is dropped. Bits
  below these 8 are dropped first.
* A zero has sign 0. A group of zeros has exponent 0 and microexponents 0. A group whose exponent would be
  negative becomes zeros; one whose exponent would be above 254 takes 254 and keeps its magnitudes where it
  comes from arithmetic (a saturation, counted), or the largest ones where it comes from `encode`.
* NaN and infinities have no code: `encode` raises ValueError.

Layout of a packed group, from the lowest bit: exponent, the 8 microexponents, then each number's magnitude
and above it its sign. MX8 takes 128 bits: 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

GROUP = 16  #: numbers that share an exponent
BIAS = 127
LARGEST = 254  #: the largest exponent
RANDOM_BITS = 8  #: of stochastic rounding, below the last place

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Blocks:
    """Groups of numbers."""

    exponent: Ints  #: its shape is (…)
    micro: Ints  #: its shape is (…, 8)
    value: Ints  #: signed magnitudes (…, 16)

    def __getitem__(self, item: Any) -> Blocks:
        return Blocks(self.exponent[item], self.micro[item], self.value[item])


def _pairs(x: NDArray[Any]) -> NDArray[Any]:
    return x.reshape(*x.shape[:-1], GROUP // 2, 2)


@dataclass(frozen=True)
class SharedMicroexponents:
    """A format of the family. Instances compare by value."""

    magnitude_bits: int

    group = GROUP

    def __post_init__(self) -> None:
        if not 2 <= self.magnitude_bits <= 7:  # eight numbers are packed into 64 bits
            raise ValueError(f"magnitudes have 2 to 7 bits, not {self.magnitude_bits}")

    @property
    def name(self) -> str:
        return f"mx{self.magnitude_bits + 2}"

    @property
    def group_bits(self) -> int:
        return 8 + GROUP // 2 + GROUP * (1 + self.magnitude_bits)

    @property
    def bits(self) -> float:
        """Bits a number, on average."""
        return self.group_bits / GROUP

    @property
    def largest_magnitude(self) -> int:
        return (1 << self.magnitude_bits) - 1

    # -- numbers

    def encode(self, values: ArrayLike, random: ArrayLike | None = None) -> Blocks:
        """Return numbers (…, 16·n) as groups (…, n), rounded to nearest, or stochastically with bytes
        `random` of the shape of `values`. Raises ValueError for NaN and infinities."""
        x = np.asarray(values, dtype=np.float64)
        if x.shape[-1] % GROUP:
            raise ValueError(f"groups have {GROUP} numbers; the last axis has {x.shape[-1]}")
        if not np.isfinite(x).all():
            raise ValueError("a block cannot hold NaN or infinity")
        x = x.reshape(*x.shape[:-1], -1, GROUP)
        # 60-bit integers would not hold all exponents of a group: bits far below the largest are dropped
        magnitude = np.abs(x)
        top = magnitude.max(axis=-1)
        scale = np.frexp(top)[1]  # the largest is below 2^scale
        width = 40
        integers = np.ldexp(magnitude, (width - scale)[..., None]).astype(np.int64)
        signed = np.where(np.signbit(x), -integers, integers)
        drawn = None if random is None else np.asarray(random).reshape(x.shape)
        blocks, over = self.renormalise(signed, (scale - width).astype(np.int64), width, drawn)
        if over.any():
            unit = 2.0 ** (LARGEST - BIAS - self.magnitude_bits + 1)
            m = np.minimum(np.floor(magnitude / unit + 0.5), self.largest_magnitude)
            m = np.where(np.signbit(x), -m, m).astype(np.int64)
            pick = over[..., None]
            blocks = Blocks(
                np.where(over, LARGEST, blocks.exponent),
                np.where(pick, 0, blocks.micro),
                np.where(pick, m, blocks.value),
            )
        return blocks

    def decode(self, blocks: Blocks) -> NDArray[np.float64]:
        """Return the numbers (…, 16·n) of groups (…, n), exactly."""
        power = blocks.exponent[..., None] - BIAS - (self.magnitude_bits - 1) - blocks.micro
        value = np.ldexp(blocks.value.astype(np.float64), np.repeat(power, 2, axis=-1))
        return value.reshape(*value.shape[:-2], -1)

    def quantise(self, values: ArrayLike, random: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the numbers that `encode` rounds to."""
        return self.decode(self.encode(values, random))

    # -- packed

    def pack(self, blocks: Blocks) -> NDArray[np.uint8]:
        """Return the bytes of groups (…, n) as (…, n · bytes of a group)."""
        codes = np.abs(blocks.value) | (blocks.value < 0).astype(np.int64) << self.magnitude_bits
        wide = 1 + self.magnitude_bits
        eights = codes.astype(np.uint64).reshape(
            *codes.shape[:-1], 2, 8
        )  # of so many bytes as a number has bits
        words = np.bitwise_or.reduce(eights << self._places, axis=-1).astype("<u8")
        parts = words[..., None].view(np.uint8)[..., :wide]
        bytes_of = [
            blocks.exponent[..., None].astype(np.uint8),
            np.packbits(blocks.micro.astype(np.uint8), axis=-1, bitorder="little"),
            parts.reshape(*codes.shape[:-1], -1),
        ]
        packed = np.concatenate(bytes_of, axis=-1)
        return packed.reshape(*packed.shape[:-2], -1)

    @property
    def _places(self) -> NDArray[np.uint64]:
        """The first bits of eight numbers, one after another."""
        return np.arange(8, dtype=np.uint64) * np.uint64(1 + self.magnitude_bits)

    def unpack(self, data: NDArray[np.uint8]) -> Blocks:
        """Return the groups of bytes: the inverse of `pack`. Zeros lose their sign."""
        wide = 1 + self.magnitude_bits
        data = data.reshape(*data.shape[:-1], -1, 2 + 2 * wide)
        micro = np.unpackbits(data[..., 1:2], axis=-1, bitorder="little")
        words = np.zeros((*data.shape[:-1], 2, 8), dtype=np.uint8)
        words[..., :wide] = data[..., 2:].reshape(*data.shape[:-1], 2, wide)
        codes = (
            (words.view("<u8") >> self._places).astype(np.int64).reshape(*data.shape[:-1], GROUP)
        )
        magnitude = codes & self.largest_magnitude
        return Blocks(
            data[..., 0].astype(np.int64),
            micro.astype(np.int64),
            np.where(codes >> self.magnitude_bits & 1, -magnitude, magnitude),
        )

    # -- arithmetic, as the unit does it

    def folded(self, value: Ints, micro: Ints, most: int) -> Ints:
        """Return magnitudes or products with their pairs' microexponents folded in: all of a group in
        the same unit, `most` (the largest sum of microexponents) bits longer."""
        return value << (most - np.repeat(micro, 2, axis=-1))

    def product(self, a: Blocks, b: Blocks) -> tuple[Ints, Ints]:
        """Return exact products of groups as (integers, exponent): value = integer · 2^exponent.

        Microexponents add to 0, 1 or 2 and are folded into the integers: 2 · magnitude_bits + 2 bits."""
        value = self.folded(a.value * b.value, a.micro + b.micro, 2)
        exponent = a.exponent + b.exponent - 2 * BIAS - 2 * (self.magnitude_bits - 1) - 2
        return value, exponent

    def scaled(self, a: Blocks, value: Ints, micro: Ints, exponent: Ints) -> tuple[Ints, Ints]:
        """Return products of groups with one number each (its signed magnitude, microexponent and
        exponent), as `product` does."""
        return self.product(a, Blocks(exponent, micro[..., None], value[..., None]))

    def renormalise(
        self, value: Ints, exponent: Ints, width: int, random: Ints | None = None
    ) -> tuple[Blocks, NDArray[np.bool_]]:
        """Return integers (…, 16) below 2^width, in units of 2^exponent (…), as groups, and which groups
        saturate. `random`: bytes, for stochastic rounding."""
        bits = self.magnitude_bits
        magnitude = np.abs(value)
        most = magnitude.max(axis=-1)
        lead = (
            np.frexp(most.astype(np.float64))[1].astype(np.int64) - 1
        )  # of the leading one; −1: none
        lead = np.maximum(lead, 0)
        # the leading one of the group at bit `width − 1`, then RANDOM_BITS + 2 places below the last that counts
        low = bits + 1 + RANDOM_BITS
        aligned = magnitude << (width - 1 - lead)[..., None]
        x = aligned >> (width - low) if width >= low else aligned << (low - width)
        # x: `low` bits; unit of the three possible last places, from the coarsest
        top = low - 1
        ones = (1 << bits) - 1

        def full(level: int) -> tuple[NDArray[np.bool_], Ints]:
            """Whether a magnitude whose leading one is `level` below the top is all ones, and the RANDOM_BITS below."""
            shift = top - level - (bits - 1)
            return x >> shift == ones, (x & ((1 << shift) - 1)) >> (shift - RANDOM_BITS)

        half = np.int64(1 << (RANDOM_BITS - 1))
        (full0, rest0), (full1, rest1) = full(0), full(1)
        # at the top, whether rounding carries; one below, whether it may
        over0 = full0 & (rest0 + (half if random is None else random) >= 1 << RANDOM_BITS)
        over1 = full1 & (rest1 >= (half if random is None else 1))
        bump: NDArray[np.bool_] = np.asarray(over0.any(axis=-1))[..., None]
        at0 = _pairs((x >> top) & 1).any(axis=-1)
        pair0, pair1 = _pairs(over0).any(axis=-1), _pairs(over1).any(axis=-1)
        micro = np.where(bump, ~pair0, ~(at0 | pair1)).astype(np.int64)
        # distance of the last place: level −1 (bump, micro 0), 0, or 1
        level = micro - bump.astype(np.int64)
        shift = np.repeat(top - level - (bits - 1), 2, axis=-1)
        if random is None:
            rounded = (x + (np.int64(1) << (shift - 1))) >> shift
        else:
            drop = shift - RANDOM_BITS
            rounded = ((x >> drop) + random) >> RANDOM_BITS
        biased = exponent + lead + BIAS + bump[..., 0]
        gone = (most == 0) | (biased < 0)
        saturated = ~gone & (biased > LARGEST)
        blocks = Blocks(
            np.where(gone, 0, np.minimum(biased, LARGEST)),
            np.where(gone[..., None], 0, micro),
            np.where(gone[..., None], 0, np.where(value < 0, -rounded, rounded)),
        )
        return blocks, saturated


#: the family by name
FAMILY = {f.name: f for f in map(SharedMicroexponents, (7, 6, 4, 2))}
