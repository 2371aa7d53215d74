"""What one unit computes in an iteration, bit for bit, over arrays of iterations.

A new state is S − c ⊙ S + k v, with rates c of `models.pim.rate`; where those of 16 lanes are 1, it is k v.

MX8 (`MxUnit`), from a sub-chunk of 32 numbers (two groups of 16 along dim_head):

* c ⊙ S is the exact product of a rate's 11 bits and a number's 6, cut `FRACTION` bits below the group's power of
  two; S is subtracted from or added to it in its place. Where a rate of the group is 2 or above, the power of two is
  greater by 4, 8, 12 or 16. Then the pairs' microexponents are folded in.
* k · v is exact: 14 bits, with the microexponents folded in. A product with a v of 0 has exponent 0, so that nothing
  is lost in aligning to it.
* Of both, that of the smaller exponent is shifted right and what falls out is dropped (of the magnitude). The sum of
  `WIDTH` bits is renormalised (`models.numerics.mx`): the new state has microexponents of its own again, and is
  rounded to nearest or stochastically.
* The output takes the new state as it is stored: exact products with q, summed exactly in each group; then
  the two groups, and then the bank pair's two sums, are aligned (`GUARD` more bits, floor) and added.
* Results of 16 columns make a group: each is cut to 7 bits from its leading one, then rounded to nearest.
* Attention scores are the output of a state that nothing changes. Attend adds s_t · V, 32 lanes wide, into
  sums of `WIDTH` bits and an exponent; where one of a group's 16 sums would need another, all are shifted right.

float16 (`Float16Unit`): t = k v − c S, then S + t, with every product, difference and sum rounded to nearest even. Inside,
numbers have an exponent of 6 bits (`INNER`), so that neither a small rate nor a small t vanishes; the state is float16, whose
subnormal numbers are zeros. The output's 16 products are exact, aligned to the largest exponent with `GUARD` more
bits (what falls out of a magnitude is dropped) and summed; the pair's two sums as above; the result is
rounded once. Attend adds as the state does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics.floating import Float, float16
from ..numerics.mx import BIAS, FAMILY, GROUP, LARGEST, Blocks
from . import rate

MX8 = FAMILY["mx8"]
#: bits below an exact product in sums of outputs
GUARD = 4
#: bits below the power of two of the larger term of a new state, and of a sum's magnitude
FRACTION = 17
WIDTH = FRACTION + 4
#: the fraction bits of an exact product
_PRODUCT = 2 * (MX8.magnitude_bits - 1) + 2
#: what float16 units compute in
INNER = Float(6, 10)

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Rates = NDArray[np.uint16]


@dataclass(frozen=True)
class Sums:
    """Sums of the output: value · 2^(exponent − bias), with exponents that are sums of biased ones."""

    value: Ints
    exponent: Ints

    def joined(self, other: Sums) -> Sums:
        """Return the sum of two, aligned to the larger exponent, what falls out rounded down."""
        top = np.maximum(self.exponent, other.exponent)
        a = self.value >> np.minimum(top - self.exponent, 40)
        b = other.value >> np.minimum(top - other.exponent, 40)
        return Sums(a + b, top)


def _shifted(value: Ints, amount: Ints) -> Ints:
    magnitude = np.abs(value) >> np.minimum(amount, 62)
    return np.where(value < 0, -magnitude, magnitude)


class MxUnit:
    """MX8. Sub-chunks are bytes (…, 32): two packed groups."""

    lanes = 32

    @staticmethod
    def element(v: Bytes, column: NDArray[np.int64]) -> Blocks:
        """Return the numbers of register v (…, 32) that belong to columns (…), as groups of one."""
        blocks = MX8.unpack(v)
        group = column // GROUP
        take = lambda a, i: np.take_along_axis(a, i[..., None], axis=-1)[..., 0]
        exponent = take(blocks.exponent, group)
        micro = take(blocks.micro.reshape(*v.shape[:-1], 16), column // 2)
        value = take(blocks.value.reshape(*v.shape[:-1], 32), column)
        return Blocks(exponent, micro, value)

    @staticmethod
    def _scaled(k: Blocks, v: Blocks) -> tuple[Ints, Ints]:
        """Return k · v as integers and the sum of biased exponents."""
        value, _ = MX8.scaled(k, v.value[..., None], v.micro[..., None], v.exponent[..., None])
        none = v.value[..., None] == 0
        return value, np.where(none, 0, k.exponent + v.exponent[..., None])

    @staticmethod
    def _kept(state: Blocks, rates: Rates) -> tuple[Ints, Ints]:
        """Return S − c ⊙ S as integers with FRACTION bits below the power of two, and its exponent, which is
        biased twice as a product's is. `rates` (…, 2, 16)."""
        c, power = rate.magnitude_and_exponent(rates)
        extra = np.where(power > 15, 4 * ((power >> 2) - 3), 0).max(axis=-1)[..., None]
        size = np.abs(state.value)
        minuend = size << (FRACTION - MX8.magnitude_bits + 1) >> extra
        part = np.abs(c) * size << (FRACTION - 15) >> np.minimum(15 + extra - power, 40)
        total = np.where(c > 0, minuend - part, minuend + part)
        # a difference below 0 is the complement, one too small
        total = np.where(total < 0, ~total, total) >> np.repeat(state.micro, 2, axis=-1)
        negative = (state.value < 0) ^ ((c > 0) & (part > minuend))
        return np.where(negative, -total, total), state.exponent + BIAS + extra[..., 0]

    def update(
        self, state: Bytes, c: Rates, k: Bytes, v: Blocks, random: Bytes | None
    ) -> tuple[Bytes, Ints]:
        """Return the new state (…, 32), and how many groups of it saturate (…)."""
        old = MX8.unpack(rate.kept(state, c))
        p1, e1 = self._kept(old, c.reshape(*c.shape[:-1], 2, GROUP))
        p2, e2 = self._scaled(MX8.unpack(k), v)
        top = np.maximum(e1, e2)
        total = _shifted(p1, (top - e1)[..., None]) + _shifted(
            p2 << (FRACTION - _PRODUCT), (top - e2)[..., None]
        )
        drawn = None if random is None else random.reshape(*random.shape[:-1], 2, 16)
        blocks, saturated = self._coded(total, top, drawn)
        return MX8.pack(blocks), saturated.sum(axis=-1)

    @staticmethod
    def _coded(
        total: Ints, exponent: Ints, random: Bytes | None = None
    ) -> tuple[Blocks, NDArray[np.bool_]]:
        drawn = None if random is None else random.astype(np.int64)
        return MX8.renormalise(total, exponent - 2 * BIAS - FRACTION, WIDTH, drawn)

    @staticmethod
    def output(state: Bytes, q: Bytes) -> Sums:
        """Return the sums over the lanes of sub-chunks."""
        s, query = MX8.unpack(state), MX8.unpack(q)
        value, _ = MX8.product(s, query)
        total = value.sum(axis=-1)
        exponent = np.where(total == 0, 0, s.exponent + query.exponent)
        low, high = (Sums(total[..., g] << GUARD, exponent[..., g]) for g in (0, 1))
        return low.joined(high)

    @staticmethod
    def results(sums: Sums) -> tuple[Bytes, Ints]:
        """Return results of 32 columns (…, 32) as bytes (…, 32), and how many groups saturate (…)."""
        magnitude = np.abs(sums.value)
        some = magnitude > 0
        lead = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64) - 1
        cut = np.where(lead >= 6, magnitude >> np.maximum(lead - 6, 0), 0)
        cut = np.where(lead < 6, magnitude << np.clip(6 - lead, 0, 6), cut)
        power = sums.exponent + lead - 2 * BIAS - _PRODUCT - GUARD
        reach = np.where(some, power + (cut == 127), -(1 << 20))
        groups = lambda a: a.reshape(*a.shape[:-1], 2, GROUP)
        reach, cut, power = groups(reach), groups(cut), groups(power)
        top = reach.max(axis=-1)
        pair = reach.reshape(*reach.shape[:-1], 8, 2).max(axis=-1)
        micro = (pair < top[..., None]).astype(np.int64)
        shift = np.clip(top[..., None] - np.repeat(micro, 2, axis=-1) - power + 1, 1, 9)
        rounded = (cut + (np.int64(1) << (shift - 1))) >> shift
        rounded = np.where(groups(some), rounded, 0)
        biased = top + BIAS
        gone = biased < 0
        saturated = biased > LARGEST
        value = np.where(groups(sums.value) < 0, -rounded, rounded)
        blocks = Blocks(
            np.where(gone, 0, np.minimum(biased, LARGEST)),
            np.where(gone[..., None], 0, micro),
            np.where(gone[..., None], 0, value),
        )
        return MX8.pack(blocks), saturated.sum(axis=-1)

    def attend(self, values: Bytes, scores: Blocks) -> tuple[Bytes, Ints]:
        """Return Σ s · V over the last but one axis of sub-chunks (…, n, 32), in its order, as bytes
        (…, 1, 32), and how many groups saturate."""
        p, e = self._scaled(MX8.unpack(values), scores)
        total = np.zeros((*p.shape[:-3], 2, GROUP), dtype=np.int64)
        exponent = np.zeros((*p.shape[:-3], 2), dtype=np.int64)
        for step in range(p.shape[-3]):
            top = np.maximum(exponent, e[..., step, :])
            total = _shifted(total, (top - exponent)[..., None]) + _shifted(
                p[..., step, :, :] << (FRACTION - _PRODUCT), (top - e[..., step, :])[..., None]
            )
            carry = (np.abs(total) >> WIDTH).any(axis=-1)
            total = np.where(carry[..., None], _shifted(total, np.ones_like(total)), total)
            exponent = top + carry
        blocks, saturated = self._coded(total, exponent)
        return MX8.pack(blocks)[..., None, :], saturated.sum(axis=-1)[..., None]


class Float16Unit:
    """float16. Sub-chunks are bytes (…, 32): 16 numbers, low byte first."""

    lanes = 16

    @staticmethod
    def _codes(data: Bytes) -> Ints:
        return np.ascontiguousarray(data).view("<u2").astype(np.int64)

    @staticmethod
    def _bytes(codes: Ints) -> Bytes:
        return np.ascontiguousarray(codes.astype("<u2")).view(np.uint8)

    def element(self, v: Bytes, column: NDArray[np.int64]) -> Ints:
        """Return the codes of register v (…, 64) that belong to columns (…)."""
        return np.take_along_axis(self._codes(v), column[..., None], axis=-1)[..., 0]

    @staticmethod
    def _inner(codes: Ints) -> Ints:
        """Return the codes in INNER of codes in float16."""
        return INNER.encode(float16.decode(codes)).astype(np.int64)

    @staticmethod
    def _change(codes: Ints) -> Ints:
        """Return what is added, −0 for every zero, so that it leaves zeros of either sign as they are."""
        return np.where(codes & INNER.infinity == 0, 1 << (INNER.width - 1), codes)

    @classmethod
    def _product(cls, a: Ints, b: Ints) -> Ints:
        """Return products, 0 where a factor is: a rate of 0 takes nothing from an infinity."""
        none = (a & INNER.infinity == 0) | (b & INNER.infinity == 0)
        return np.where(none, 0, INNER.mul(a, b))

    @staticmethod
    def _stored(codes: Ints) -> Ints:
        """Return the codes in float16 of codes in INNER."""
        return float16.encode(INNER.decode(codes)).astype(np.int64)

    def update(
        self, state: Bytes, c: Rates, k: Bytes, v: Ints, random: Bytes | None
    ) -> tuple[Bytes, Ints]:
        """Return the new state (…, 32), and how many numbers of it are infinite or NaN (…)."""
        del random
        old = self._inner(self._codes(rate.kept(state, c)))
        rates = INNER.encode(rate.numbers(c))
        added = self._product(self._inner(self._codes(k)), self._inner(v)[..., None])
        change = self._change(INNER.sub(added, self._product(rates, old)))
        new = self._stored(INNER.add(old, change))
        return self._bytes(new), self._lost(new)

    @staticmethod
    def _lost(codes: Ints) -> Ints:
        return ((codes & 0x7C00) == 0x7C00).sum(axis=-1)

    def output(self, state: Bytes, q: Bytes) -> Sums:
        """Return the sums over the lanes of sub-chunks."""
        a, b = self._codes(state), self._codes(q)
        ea, eb = a >> 10 & 31, b >> 10 & 31
        product = (a & 1023 | 1024) * (b & 1023 | 1024) << GUARD
        none = (ea == 0) | (eb == 0)
        product, exponent = np.where(none, 0, product), np.where(none, 0, ea + eb)
        top = exponent.max(axis=-1)
        product = product >> np.minimum(top[..., None] - exponent, 40)
        negative = (a ^ b) >> 15 == 1
        return Sums(np.where(negative, -product, product).sum(axis=-1), top)

    def results(self, sums: Sums) -> tuple[Bytes, Ints]:
        """Return results of 32 columns (…, 32) as bytes (…, 64), and how many are infinite (…)."""
        value = np.ldexp(sums.value.astype(np.float64), sums.exponent - 30 - 20 - GUARD)
        codes = float16.encode(value)
        return self._bytes(codes), self._lost(codes)

    def attend(self, values: Bytes, scores: Ints) -> tuple[Bytes, Ints]:
        """Return Σ s · V over the last but one axis of sub-chunks (…, n, 32), in its order, as bytes
        (…, 1, 32), and how many are infinite or NaN."""
        products = self._product(self._inner(self._codes(values)), self._inner(scores)[..., None])
        total = np.zeros_like(products[..., 0, :])
        for step in range(products.shape[-2]):
            total = INNER.add(total, self._change(products[..., step, :]))
        total = self._stored(total)
        return self._bytes(total)[..., None, :], self._lost(total)[..., None]
