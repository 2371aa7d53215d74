"""How far a run is from float64, and which heads lose their decays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.pim.recurrent import Pass, Recurrent
from penstock.models.pim import rate
from penstock.models.pim.config import PimConfig
from penstock.models.pim.error import Added, Exact, Number, Reading
from penstock.models.pim.layout import Layout
from penstock.models.pim.operands import Floats, largest
from penstock.models.pim.unit import FRACTION

from .host import Course
from .spans import Span, Spans

#: numbers of states that are computed in float64, token by token: golden takes 50 to 500 times as long over as many
MOST = 1 << 25


def collapsed(format: str, rates: Floats | None) -> dict[int, float]:
    """Return the items some rate of which becomes 0 in the unit, or changes by more than one part in a hundred, each with its smallest rate that is
    not 0.

    MX8 cuts what is `FRACTION` bits below the largest number of a group: smaller rates take nothing from it.
    """
    if rates is None:
        return {}
    gone = rate.lost(rates)
    if format == "mx8":
        gone |= (rates != 0) & (np.abs(rates) < 2.0**-FRACTION)
    sizes = np.where(rates == 0, np.inf, np.abs(rates)).min(axis=(0, 2))
    return {item: float(sizes[item]) for item in np.flatnonzero(gone.any(axis=(0, 2))).tolist()}


@dataclass
class Compared:
    """How far outputs were from float64's, in all; `at`: where the largest error is, `largest_bound`: its bound."""

    count: int = 0
    squares: float = 0.0
    sizes: float = 0.0
    largest: float = 0.0
    at: Sequence[int] = ()
    largest_bound: float = 0.0
    bound: float = 0.0
    within: bool = True

    def add(
        self,
        outputs: Floats,
        exact: Floats,
        bound: Floats,
        place: Callable[[int, int, int], Sequence[int]],
    ) -> None:
        """Add outputs (tokens, items, columns), float64's and the bound; `place`: what to say of a token, an item and a column."""
        error = np.abs(outputs - exact)
        self.count += error.size
        self.squares += float((error**2).sum())
        self.sizes += float((exact**2).sum())
        where = np.unravel_index(int(error.argmax()), error.shape)
        if not self.at or error[where] > self.largest:
            token, item, column = map(int, where)
            self.largest, self.largest_bound = float(error[where]), float(bound[where])
            self.at = place(token, item, column)
        self.bound = max(self.bound, float(bound.max()))
        self.within &= bool((error <= bound).all())

    def to_json(self) -> dict[str, Any]:
        rms, size = (math.sqrt(x / max(self.count, 1)) for x in (self.squares, self.sizes))
        return {
            "rms": rms,
            "rms_of_output": rms / size if size else 0.0,
            "largest": self.largest,
            "largest_at": list(self.at),
            "largest_bound": self.largest_bound,
            "bound": self.bound,
            "within_bound": self.within,
        }


class Exactly:
    """Heads of a recurrence in float64, from token to token: the unit's state and the host's own, with how far those of a run may be from them."""

    def __init__(
        self, recurrent: Recurrent, config: PimConfig, start: Floats, held: Mapping[str, Floats]
    ) -> None:
        self.recurrent, self.end = recurrent, largest(config.format)
        with np.errstate(all="ignore"):  # infinities of a snapshot
            self.exact = Exact(config, recurrent.mode, start)
        self.held = {name: (value, np.zeros_like(value)) for name, value in held.items()}

    @classmethod
    def joined(cls, some: Sequence[Exactly]) -> Exactly:
        """Return the items of all of them, one after another."""
        union = copy(some[0])
        union.exact = Exact.joined([one.exact for one in some])
        for name in union.held:
            value, error = zip(*(one.held[name] for one in some), strict=True)
            union.held = {**union.held, name: (np.concatenate(value), np.concatenate(error))}
        return union

    def part(self, begin: int, end: int) -> Exactly:
        """Return some of the items."""
        part = copy(self)
        part.exact = self.exact.part(begin, end)
        part.held = {name: (v[begin:end], e[begin:end]) for name, (v, e) in self.held.items()}
        return part

    def step(self, inputs: Mapping[str, Floats]) -> tuple[dict[str, Reading], Number]:
        """Take a token of inputs (items, …); return what is read, by name, and the output."""
        values = {name: Span(value) for name, value in inputs.items()}
        values |= {name: Span(value, error) for name, (value, error) in self.held.items()}
        readings: dict[str, Reading] = {}
        errors: dict[str, Floats] = {}
        spans, passes, products = Spans(self.recurrent, values, errors), self.recurrent.passes, []
        last = max((n for n, one in enumerate(passes) if one.k is not None), default=-1)
        rates = None
        for number, one in enumerate(passes):
            if one.k is not None:
                rates = rates or self._rates(spans, one.d)
                products.append(self._product(spans, one, readings))
                if number == last:
                    self.exact.update(rates, products)
            if one.result is not None:
                node = one.v if self.recurrent.mode == "attend" else one.q
                readings[one.result] = read = self.exact.read(self._operand(spans, node))
                values[one.result] = Span(read.value, 0.0, {one.result: np.ones((1, 1))})
                errors[one.result] = read.error
        for name, node in self.recurrent.held:
            span = spans.of(node)
            shape = self.held[name][0].shape
            value, error = (np.broadcast_to(x, shape) for x in (span.value, spans.error(span)))
            self.held = {**self.held, name: (value, error)}
        span = spans.of(self.recurrent.output)
        size = span.value.size // (len(self.exact.state.value) if span.batched else 1)
        wide = lambda x: self._wide(x, span, size)
        return readings, Number(wide(span.value), wide(spans.error(span)))

    def _wide(self, x: Floats, span: Span, size: int) -> Floats:
        """A number or vector (items, …) of a span as (items, size)."""
        items = len(self.exact.state.value)
        full = x if span.batched else np.broadcast_to(x, (items, *x.shape))
        return np.broadcast_to(full.reshape(items, -1), (items, size))

    def _operand(self, spans: Spans, node: int | None) -> Number:
        assert node is not None
        span, attends = spans.of(node), self.recurrent.mode == "attend"
        size = self.exact.state.value.shape[2 if attends else 1]
        value = np.clip(self._wide(span.value, span, size), -self.end, self.end)
        return Number(value, self._wide(spans.error(span), span, size))

    def _product(self, spans: Spans, one: Pass, readings: Mapping[str, Reading]) -> Added:
        assert one.v is not None
        span, size = spans.of(one.v), self.exact.state.value.shape[2]
        wide = lambda x: self._wide(x + np.zeros(span.value.shape), span, size)
        v = Number(np.clip(wide(span.value), -self.end, self.end), wide(spans.error(span)))
        slopes = [(readings[name], wide(slope)) for name, slope in span.slopes.items()]
        return Added(self._operand(spans, one.k), v, slopes, wide(np.asarray(span.rest)))

    def _rates(self, spans: Spans, node: int | None) -> Number:
        """Rates 1 − d (items, rows or 1)."""
        items = len(self.exact.state.value)
        if node is None:
            return Number(np.zeros((items, 1)), np.zeros((items, 1)))
        rate_node = self.recurrent.rate(node)
        span = spans.of(node if rate_node is None else rate_node)
        size = span.value.size // (items if span.batched else 1)
        value = self._wide(span.value, span, size)
        value = np.clip(1 - value if rate_node is None else value, -rate.LARGEST, rate.LARGEST)
        return Number(value, self._wide(spans.error(span), span, size))


def spread(reads: Sequence[Reading | Number]) -> tuple[Floats, Floats]:
    """Return values and errors of some tokens (tokens, items, columns)."""
    value, error = zip(*((read.value, read.error) for read in reads), strict=True)
    return np.array(value), np.array(error)


@dataclass(frozen=True, eq=False)
class Beside:
    """What the units gave (results by name: tokens, items, columns) beside float64."""

    layout: Layout
    course: Course

    @cached_property
    def items(self) -> Sequence[int]:
        """The items that are compared: all, or some, evenly apart, where there are very many numbers."""
        layout = self.layout
        most = max(1, MOST // (layout.head * layout.columns * layout.tokens))
        if most >= layout.items:
            return range(layout.items)
        return [number * layout.items // most for number in range(most)]

    @cached_property
    def exactly(self) -> tuple[dict[str, tuple[Floats, Floats]], tuple[Floats, Floats], Exactly]:
        """Float64's results and the bounds (tokens, items, columns), the output's, and what is there behind the last token."""
        of, course, layout = list(self.items), self.course, self.layout
        recurrent = course.recurrent
        start = course.start
        if start is None:
            start = np.zeros((layout.items, layout.head, layout.columns))
        held = {name: states[0][of] for name, states in course.held.items()}
        exact = Exactly(recurrent, layout.config, start[of], held)
        inputs = {n: x[:, of] for n, x in course.values.items() if n not in recurrent.results}
        with np.errstate(all="ignore"):
            steps = [exact.step({n: x[t] for n, x in inputs.items()}) for t in range(layout.tokens)]
        readings = {name: spread([read[name] for read, _ in steps]) for name in recurrent.results}
        return readings, spread([output for _, output in steps]), exact

    def to_json(self) -> dict[str, Any]:
        comparison, (value, bound) = Compared(), self.exactly[1]
        outputs = self.course.output()[:, list(self.items)]
        comparison.add(outputs.reshape(value.shape), value, bound, self._place)
        return {"heads": len(self.items), "of": self.layout.items, **comparison.to_json()}

    def _place(self, token: int, place: int, column: int) -> list[int]:
        return [token, *divmod(self.items[place], self.layout.heads), column]

    def collapsed(self) -> list[dict[str, Any]]:
        """Return the heads that collapse, each with its smallest rate that is not 0."""
        rates, heads = self.course.first_update(self.layout.tokens).c, self.layout.heads
        least_rates = collapsed(self.layout.config.format, rates)
        return [
            {"request": item // heads, "head": item % heads, "rate": least}
            for item, least in least_rates.items()
        ]


def clipped(y: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return sums within float32, 0 in place of what is no number, and which of them were not."""
    end = float(np.finfo(np.float32).max)
    outside = ~(np.abs(y) <= end)
    return (np.clip(np.nan_to_num(y, nan=0.0), -end, end) if outside.any() else y), outside
