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
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..numerics.mx import GROUP
from .config import COLUMNS, PimConfig
from .layout import Floats, Operands
from .unit import FRACTION

__all__ = ["Exact", "Reference", "reference"]


@dataclass(frozen=True)
class Reference:
    """A run in float64, each with how far the device's may be from it: the outputs (tokens, items, dim_state; in attend
    dim_head), and the last state (items, dim_head, dim_state; None for caches)."""

    y: Floats
    y_bound: Floats
    state: Floats | None
    state_bound: Floats | None


@dataclass(frozen=True)
class _Number:
    """A number in float64, and how far that of the unit may be from it."""

    value: Floats
    error: Floats

    @property
    def size(self) -> Floats:
        """The largest magnitude that the unit's may have."""
        return np.abs(self.value) + self.error

    def times(self, other: _Number) -> _Number:
        """The exact product of the unit's numbers."""
        mine, its = np.abs(self.value), np.abs(other.value)
        error = mine * other.error + self.error * its + self.error * other.error
        return _Number(self.value * other.value, error)

    def plus(self, error: Floats) -> _Number:
        return _Number(self.value, self.error + error)


def _largest(size: Floats, axis: int, count: int) -> Floats:
    """For each number the largest of its group of `count` along an axis."""
    length = size.shape[axis]
    groups = np.maximum.reduceat(size, np.arange(0, length, count), axis=axis)
    return np.take(groups, np.arange(length) // count, axis=axis)


class _Format(Protocol):
    """What each format does to numbers: `rounded` and `stored` along the axis of its groups (`stored`: by the
    unit, as the device rounds states), `updated` the new state before, `read` what a sum over a pair of slices
    loses, `gathered` what a sum over a round of attend loses."""

    def rounded(self, x: _Number, axis: int) -> _Number: ...
    def stored(self, x: _Number, axis: int) -> _Number: ...
    def updated(self, s: _Number, c: _Number, k: _Number, v: _Number) -> _Number: ...
    def read(self, state: _Number, q: _Number) -> Floats: ...
    def gathered(self, values: _Number, weights: _Number) -> Floats: ...


def _kept(s: _Number, c: _Number) -> _Number:
    """S − c S."""
    rest = 1 - c.value
    return _Number(s.value - c.value * s.value, np.abs(rest) * s.error + c.error * s.size)


class _Mx8:
    """Arrays are (items, rows, columns); a number of k, d, q has one column, one of v one row."""

    #: half of a last place of a group's largest number; a power of two beside the group that has it
    half, power = 1 / 63, 32 / 31
    #: what is left of groups below the range, and a unit of an aligned sum
    tiny, unit = 2.0**-126, 2.0**-16

    def __init__(self, stochastic: bool) -> None:
        self.places = 2 if stochastic else 1

    def rounded(self, x: _Number, axis: int) -> _Number:
        return x.plus(_largest(x.size, axis, GROUP) * self.half + self.tiny)

    def stored(self, x: _Number, axis: int) -> _Number:
        return x.plus(_largest(x.size, axis, GROUP) * self.half * self.places + self.tiny)

    def _powers(self, a: _Number, b: _Number) -> Floats:
        """The product of two groups' powers of two: along rows, and of v along columns."""
        axis = lambda x: 2 if x.value.shape[1] == 1 and x.value.shape[2] > 1 else 1
        sizes = (_largest(x.size, axis(x), GROUP) for x in (a, b))
        return np.asarray(next(sizes) * next(sizes) * self.power**2)

    def updated(self, s: _Number, c: _Number, k: _Number, v: _Number) -> _Number:
        kept, added = _kept(s, c), k.times(v)
        rates = _largest(c.size, 1, GROUP)
        # a rate of 2 or more makes the power of two greater, up to eight times as much
        own = _largest(s.size, 1, GROUP) * self.power * np.where(rates < 2, 1, 8 * rates)
        lost = 5 * np.maximum(own, self._powers(k, v)) * 2.0**-FRACTION
        return _Number(kept.value + added.value, kept.error + added.error + lost)

    def read(self, state: _Number, q: _Number) -> Floats:
        return np.asarray(3 * self.unit * self._powers(state, q).max(axis=1))

    def gathered(self, values: _Number, weights: _Number) -> Floats:
        terms = values.times(weights)
        powers = self._powers(values, weights).max(axis=2)
        carried = _largest(terms.size.sum(axis=2), 1, GROUP) / 4
        return np.asarray(2 * terms.value.shape[2] * self.unit * np.maximum(powers, carried))


class _Float16:
    half, tiny, inner = 2.0**-11, 2.0**-14, 2.0**-30
    #: where products are cut, and what of each slice's 16 and of their sum
    cut, slices = 2.0**-24, 2 * 16 + 1

    def rounded(self, x: _Number, axis: int) -> _Number:
        del axis
        return x.plus(x.size * self.half + self.tiny)

    stored = rounded

    def _inside(self, size: Floats) -> Floats:
        return size * self.half + self.inner

    def updated(self, s: _Number, c: _Number, k: _Number, v: _Number) -> _Number:
        kept, added = _kept(s, c), k.times(v)
        decayed = c.size * s.size
        error = self._inside(decayed) + self._inside(added.size)
        change = decayed + added.size + error
        error = error + self._inside(change)
        return _Number(kept.value + added.value, kept.error + added.error + error)

    def read(self, state: _Number, q: _Number) -> Floats:
        return np.asarray(self.slices * self.cut * state.times(q).size.max(axis=1))

    def gathered(self, values: _Number, weights: _Number) -> Floats:
        # each product and each sum is rounded, and no sum is above that of all sizes
        terms = self.rounded(values.times(weights), 2)
        total, count = terms.size.sum(axis=2), terms.value.shape[2]
        growth = (1 + self.half) ** count
        lost = growth * count * (self.half * total + self.tiny)
        return np.asarray((terms.error - values.times(weights).error).sum(axis=2) + lost)


def _exact(x: Floats | None) -> _Number:
    assert x is not None
    return _Number(x, np.zeros_like(x))


class Exact:
    """Heads of a recurrence, or caches, in float64 with the bound of the device's, token after token. `start`: their states
    (items, dim_head, dim_state)."""

    def __init__(self, config: PimConfig, mode: str, start: Floats) -> None:
        self.config, self.mode = config, mode
        self.form: _Format = _Mx8(config.stochastic) if config.format == "mx8" else _Float16()
        self.state = self.form.rounded(_exact(start), 1)

    @classmethod
    def joined(cls, some: Sequence[Exact]) -> Exact:
        """Return the items of all of them, one after another."""
        made = copy(some[0])
        value, error = (
            np.concatenate([getattr(one.state, n) for one in some]) for n in ("value", "error")
        )
        made.state = _Number(value, error)
        return made

    def part(self, begin: int, end: int) -> Exact:
        """Return some of the items."""
        made = copy(self)
        made.state = _Number(self.state.value[begin:end], self.state.error[begin:end])
        return made

    def _operand(self, x: Floats | None, token: int, axis: int) -> _Number:
        """A vector along rows (axis 1) or columns (2)."""
        assert x is not None
        return self.form.rounded(_exact(np.expand_dims(x[token], 3 - axis)), axis)

    def step(self, given: Operands, token: int) -> tuple[Floats, Floats]:
        """Take a token of what is given; return the output (items, dim_state; in attend dim_head), and its bound."""
        form = self.form
        if self.mode == "update":
            assert given.c is not None
            rates = np.expand_dims(given.c[token], 2)
            c = _Number(rates, np.where(rates == 0, 0, np.abs(rates) * 2.0**-11 + 2.0**-25))
            k, v = self._operand(given.k, token, 1), self._operand(given.v, token, 2)
            self.state = form.stored(form.updated(self.state, c, k, v), 1)
        wanted = (given.v, token, 2) if self.mode == "attend" else (given.q, token, 1)
        found = _output(form, self.config, self.mode, self.state, self._operand(*wanted))
        return found.value, found.error + (np.abs(found.value) + found.error) * 2.0**-24


def reference(config: PimConfig, mode: str, given: Operands, tokens: int) -> Reference:
    """Return a run in float64, with the bound of the device's.

    Parameters: `mode`: "update", "score" or "attend"; `given`: as `models.pim.layout.Layout.program` takes it.
    """
    start = given.state
    if start is None:
        assert given.q is not None and given.v is not None
        start = np.zeros((given.q.shape[1], given.q.shape[2], given.v.shape[2]))
    exact = Exact(config, mode, start)
    y, bound = (
        np.array(x) for x in zip(*(exact.step(given, n) for n in range(tokens)), strict=True)
    )
    last = (exact.state.value, exact.state.error) if mode == "update" else (None, None)
    return Reference(y, bound, *last)


def _output(
    form: _Format, config: PimConfig, mode: str, state: _Number, vector: _Number
) -> _Number:
    """One token's output, with the error of all sums that the unit makes, each rounded."""
    axis = 2 if mode == "attend" else 1
    size = 2 * (COLUMNS if mode == "attend" else config.lanes)
    lose = form.gathered if mode == "attend" else form.read
    value: Floats = np.zeros(1)
    error: Floats = np.zeros(1)
    for begin in range(0, state.value.shape[axis], size):
        part = (slice(None),) * axis + (slice(begin, begin + size),)
        a, b = (
            _Number(x.value[part], x.error[part]) if x.value.shape[axis] > 1 else x
            for x in (state, vector)
        )
        terms = a.times(b)
        total = _Number(terms.value.sum(axis=axis), terms.error.sum(axis=axis) + lose(a, b))
        value, error = value + total.value, error + form.rounded(total, 1).error
    return _Number(value, error)
