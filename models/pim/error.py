"""A run in float64, and how far the device's may be from it: a bound for each number of the output and of the last
state.

The bound follows from the formats and from `models.pim.unit` step by step; nothing in it is measured. It
holds where nothing saturates.

Rates are off by 2⁻¹¹ of themselves, or by 2⁻²⁵ where float16 is subnormal.

MX8. Half of a group's last place is at most 1/63 of its largest number: the exponent is that of the leading one,
or one more from 63 of 64 on. So each operand is off by 1/63 of its group's largest, and the new state by 1/63, or
2/63 where it is rounded stochastically. What is cut of S − c S, by folding microexponents and by aligning is five
units of the larger term's power of two at most, and such a unit is 2⁻¹⁷ of it. Results are rounded once for each pair
of slices.

float16. Each operand, product, sum and result is off by 2⁻¹¹ of itself; an operand, state or result by 2⁻¹⁴ where it would
be subnormal, what is inside a unit by 2⁻³⁰. The output's products are cut 24 bits below the largest one of a slice.
The host has the output in float32.

Where v is made of what was read before (a delta rule's β (v − Sᵀ k)), the errors of the state go through it again, mostly with the
other sign. So each column's errors have a second bound, of their length: they are taken to (D + K M Bᵀ) of themselves, D the decays, K the keys
of the products, B what was read with, M how much of it each product takes; its norm is that of a matrix as small as their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..numerics.mx import GROUP
from .config import COLUMNS, PimConfig
from .operands import Floats
from .unit import FRACTION


@dataclass(frozen=True)
class Number:
    """A number in float64, and how far that of the unit (of the host, for operands) may be from it."""

    value: Floats
    error: Floats

    @property
    def size(self) -> Floats:
        """The largest magnitude that the unit's may have."""
        return np.abs(self.value) + self.error

    def times(self, other: Number) -> Number:
        """The exact product of the unit's numbers."""
        mine, its = np.abs(self.value), np.abs(other.value)
        error = mine * other.error + self.error * its + self.error * other.error
        return Number(self.value * other.value, error)

    def plus(self, error: Floats) -> Number:
        return Number(self.value, self.error + error)


def largest_of(size: Floats, axis: int, count: int = GROUP) -> Floats:
    """For each number the largest of its group of `count` along an axis."""
    length = size.shape[axis]
    groups = np.maximum.reduceat(size, np.arange(0, length, count), axis=axis)
    return np.take(groups, np.arange(length) // count, axis=axis)


class _Format(Protocol):
    """What each format does to numbers: `rounded` and `stored` along the axis of its groups (`stored`: by the
    unit, as the device rounds states), `updated` the new state before, `read` what a sum over a pair of slices
    loses, `gathered` what a sum over a round of attend loses."""

    tiny: float

    def rounded(self, x: Number, axis: int) -> Number: ...
    def stored(self, x: Number, axis: int) -> Number: ...
    def updated(self, s: Number, c: Number, k: Number, v: Number) -> Number: ...
    def read(self, state: Number, q: Number) -> Floats: ...
    def gathered(self, values: Number, weights: Number) -> Floats: ...


def _kept(s: Number, c: Number) -> Number:
    """S − c S."""
    rest = 1 - c.value
    return Number(s.value - c.value * s.value, np.abs(rest) * s.error + c.error * s.size)


class _Mx8:
    """Arrays are (items, rows, columns); a number of k, d, q has one column, one of v one row."""

    #: half of a last place of a group's largest number; a power of two beside the group that has it
    half, power = 1 / 63, 32 / 31
    #: what is left of groups below the range, and a unit of an aligned sum
    tiny, unit = 2.0**-126, 2.0**-16

    def __init__(self, stochastic: bool) -> None:
        self.places = 2 if stochastic else 1

    def rounded(self, x: Number, axis: int) -> Number:
        return x.plus(largest_of(x.size, axis) * self.half + self.tiny)

    def stored(self, x: Number, axis: int) -> Number:
        return x.plus(largest_of(x.size, axis) * self.half * self.places + self.tiny)

    def _powers(self, a: Number, b: Number) -> Floats:
        """The product of two groups' powers of two: along rows, and of v along columns."""
        axis = lambda x: 2 if x.value.shape[1] == 1 and x.value.shape[2] > 1 else 1
        sizes = (largest_of(x.size, axis(x)) for x in (a, b))
        return np.asarray(next(sizes) * next(sizes) * self.power**2)

    def updated(self, s: Number, c: Number, k: Number, v: Number) -> Number:
        kept, added = _kept(s, c), k.times(v)
        rates = largest_of(c.size, 1)
        # a rate of 2 or more makes the power of two greater, up to eight times as much
        bound = largest_of(s.size, 1) * self.power * np.where(rates < 2, 1, 8 * rates)
        lost = 5 * np.maximum(bound, self._powers(k, v)) * 2.0**-FRACTION
        return Number(kept.value + added.value, kept.error + added.error + lost)

    def read(self, state: Number, q: Number) -> Floats:
        return np.asarray(3 * self.unit * self._powers(state, q).max(axis=1))

    def gathered(self, values: Number, weights: Number) -> Floats:
        terms = values.times(weights)
        powers = self._powers(values, weights).max(axis=2)
        carried = largest_of(terms.size.sum(axis=2), 1) / 4
        return np.asarray(2 * terms.value.shape[2] * self.unit * np.maximum(powers, carried))


class _Float16:
    half, tiny, inner = 2.0**-11, 2.0**-14, 2.0**-30
    #: where products are cut, and what of each slice's 16 and of their sum
    cut, slices = 2.0**-24, 2 * 16 + 1

    def rounded(self, x: Number, axis: int) -> Number:
        del axis
        return x.plus(x.size * self.half + self.tiny)

    stored = rounded

    def _inside(self, size: Floats) -> Floats:
        return size * self.half + self.inner

    def updated(self, s: Number, c: Number, k: Number, v: Number) -> Number:
        kept, added = _kept(s, c), k.times(v)
        decayed = c.size * s.size
        error = self._inside(decayed) + self._inside(added.size)
        change = decayed + added.size + error
        error = error + self._inside(change)
        return Number(kept.value + added.value, kept.error + added.error + error)

    def read(self, state: Number, q: Number) -> Floats:
        return np.asarray(self.slices * self.cut * state.times(q).size.max(axis=1))

    def gathered(self, values: Number, weights: Number) -> Floats:
        # each product and each sum is rounded, and no sum is above that of all sizes
        terms = self.rounded(values.times(weights), 2)
        total, count = terms.size.sum(axis=2), terms.value.shape[2]
        growth = (1 + self.half) ** count
        lost = growth * count * (self.half * total + self.tiny)
        return np.asarray((terms.error - values.times(weights).error).sum(axis=2) + lost)


@dataclass(frozen=True)
class Reading:
    """What was read of a state: (items, columns), how far it may be from that, with what, and how much of the distance is not the state's."""

    value: Floats
    error: Floats
    vector: Floats
    excess: Floats


@dataclass(frozen=True)
class Added:
    """An outer product that is added, and v's error."""

    k: Number  #: (items, rows)
    v: Number  #: (items, columns)
    #: by which v's error goes with that of what was read before
    slopes: Sequence[tuple[Reading, Floats]]
    rest: Floats  #: the other part of v's error


def _length(x: Floats) -> Floats:
    return np.asarray(np.sqrt((x**2).sum(axis=1)))


def _norm(scale: Floats, k: Floats, m: Floats, b: Floats) -> Floats:
    """The norm of scale · 1 + K M Bᵀ: scale (items), K and B (items, rows, count), M (items, columns or 1, …)."""
    if not all(np.isfinite(x).all() for x in (scale, k, m, b)):
        return np.full(m.shape[:2], np.inf)
    q = np.linalg.qr(np.concatenate([k, b], axis=2))[0][:, None]
    small = q.swapaxes(2, 3) @ k[:, None] @ m @ (b[:, None].swapaxes(2, 3) @ q)
    small = small + scale[:, None, None, None] * np.eye(small.shape[2])
    return np.maximum(np.linalg.norm(small, 2, axis=(2, 3)), np.abs(scale)[:, None])


class Exact:
    """Heads of a recurrence, or caches, in float64 with the bound of the device's. `start`: their states
    (items, dim_head, dim_state). `length`: of each column's errors (items, dim_state), at most, where it was made of what was read."""

    def __init__(self, config: PimConfig, mode: str, start: Floats) -> None:
        self.config, self.mode = config, mode
        self.form: _Format = _Mx8(config.stochastic) if config.format == "mx8" else _Float16()
        self.state = self.form.rounded(Number(start, np.zeros_like(start)), 1)
        self.length: Floats | None = None

    @classmethod
    def joined(cls, some: Sequence[Exact]) -> Exact:
        """Return the items of all of them, one after another."""
        exact = copy(some[0])
        join = lambda arrays: np.concatenate(list(arrays))
        exact.state = Number(join(x.state.value for x in some), join(x.state.error for x in some))
        if any(x.length is not None for x in some):
            exact.length = join(x._length() for x in some)
        return exact

    def part(self, begin: int, end: int) -> Exact:
        """Return some of the items."""
        exact = copy(self)
        exact.state = Number(self.state.value[begin:end], self.state.error[begin:end])
        exact.length = None if self.length is None else self.length[begin:end]
        return exact

    def _length(self) -> Floats:
        return _length(self.state.error) if self.length is None else self.length

    def _operand(self, x: Number, axis: int) -> Number:
        """A vector along rows (axis 1) or columns (2)."""
        wide = Number(np.expand_dims(x.value, 3 - axis), np.expand_dims(x.error, 3 - axis))
        return self.form.rounded(wide, axis)

    def read(self, vector: Number) -> Reading:
        """Return what a vector (items, rows; in attend columns) reads."""
        axis = 2 if self.mode == "attend" else 1
        sums = _output(self.form, self.config, self.mode, self.state, self._operand(vector, axis))
        size = np.abs(vector.value)
        carried = np.einsum("nrc,nc->nr" if axis == 2 else "nrc,nr->nc", self.state.error, size)
        excess = np.maximum(sums.error - carried, 0) + (np.abs(sums.value) + sums.error) * 2.0**-24
        if axis == 1 and self.length is not None:
            carried = np.minimum(carried, _length(size)[:, None] * self.length)
        return Reading(sums.value, excess + carried, vector.value, excess)

    def update(self, c: Number, products: Sequence[Added]) -> None:
        """Take S' = S − c ⊙ S and some outer products: an update each. c (items, rows or 1) has its error without rounding."""
        before, lost = self._length(), np.zeros(())
        plain = self.length is None and not any(product.slopes for product in products)
        none = Number(*np.zeros((2, len(before), 1)))
        for rates, product in zip([c, *[none] * (len(products) - 1)], products, strict=True):
            held = np.where(rates.size == 0, 0, rates.size * 2.0**-11 + 2.0**-25) + rates.error
            rate = Number(rates.value[:, :, None], held[:, :, None])
            k, v = self._operand(product.k, 1), self._operand(product.v, 2)
            old, new = self.state, self.form.stored(self.form.updated(self.state, rate, k, v), 1)
            self.state = new
            if plain:
                continue
            size = np.abs(product.k.value)[:, :, None]
            kept = np.abs(1 - rates.value)[:, :, None] * old.error
            kept = kept + size * product.v.error[:, None]
            rest = product.rest + sum(np.abs(slope) * one.excess for one, slope in product.slopes)
            lost = lost + _length(np.maximum(new.error - kept, 0)) + _length(size) * rest
        if plain:
            return
        length = np.minimum(self._moved(c, products) * before + lost, _length(new.error))
        self.length = np.where(np.isnan(length), np.inf, length)
        self.state = Number(new.value, np.minimum(new.error, self.length[:, None]))

    @staticmethod
    def _moved(c: Number, products: Sequence[Added]) -> Floats:
        """By how much an update makes a column's errors longer, at most: (items, columns or 1)."""
        d = 1 - c.value
        most = np.abs(d).max(axis=1)
        readings = list({id(one): one for p in products for one, _ in p.slopes}.values())
        if not readings:
            return most[:, None]
        k, b = (
            np.stack(x, axis=2)
            for x in ([p.k.value for p in products], [r.vector for r in readings])
        )
        slopes = [
            [
                sum((slope for one, slope in p.slopes if one is r), np.zeros((len(d), 1)))
                for r in readings
            ]
            for p in products
        ]
        many = max(x.shape[1] for row in slopes for x in row)
        wide = [[np.broadcast_to(x, (len(d), many)) for x in row] for row in slopes]
        m = np.array(wide).transpose(2, 3, 0, 1)
        if d.shape[1] == 1:
            return _norm(d[:, 0], k, m, b)
        one, zero, column = np.ones(len(d)), np.zeros(len(d)), d[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # decays of 0
            beside = [np.where(x == 0, 0, x / column) for x in (k, b)]
        factored = np.minimum(_norm(one, beside[0], m, b), _norm(one, k, m, beside[1]))
        return np.asarray(
            np.minimum(most[:, None] * factored, most[:, None] + _norm(zero, k, m, b))
        )


def _output(form: _Format, config: PimConfig, mode: str, state: Number, vector: Number) -> Number:
    """One token's output, with the error of all sums that the unit makes, each rounded."""
    axis = 2 if mode == "attend" else 1
    size = 2 * (COLUMNS if mode == "attend" else config.lanes)
    lose = form.gathered if mode == "attend" else form.read
    value: Floats = np.zeros(1)
    error: Floats = np.zeros(1)
    for begin in range(0, state.value.shape[axis], size):
        part = (slice(None),) * axis + (slice(begin, begin + size),)
        a, b = (
            Number(x.value[part], x.error[part]) if x.value.shape[axis] > 1 else x
            for x in (state, vector)
        )
        terms = a.times(b)
        total = Number(terms.value.sum(axis=axis), terms.error.sum(axis=axis) + lose(a, b))
        value, error = value + total.value, error + form.rounded(total, 1).error
    return Number(value, error)
