"""Fits over a table's columns as workloads: the first rows, then rows that come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.assumed import Assumed
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.qr.kernel import FitGraph
from penstock.engines.base import Cycles, Result, Workload
from penstock.failures import Failure
from penstock.host.sources import Table
from penstock.host.workloads import Changes
from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.numerics.formats import Codes, Fixed, parse_format
from penstock.models.qr import columns as c
from penstock.models.qr.cycles import Bound
from penstock.models.qr.job import Integers
from penstock.models.qr.table_config import Segment, TableFitPlan
from penstock.models.qr.table_cycles import bound, run, words_read
from penstock.models.qr.table_memory import (
    memory_for,
    pack_totals,
    places,
    registers,
    unpack_answer,
)
from penstock.models.strider.costs import Costs, analyse
from penstock.models.strider.rows import RowPages
from penstock.models.strider.table import walk_table
from penstock.sim.machine import Metered
from penstock.tables import table_failure

__all__ = ["AssumedFits", "TableFits"]


@dataclass(frozen=True)
class _Step:
    """One fit: which of the table's rows come and which go, from and to."""

    come: tuple[int, int]
    go: tuple[int, int]


#: makes a fit from totals, and whether they are others than the fit before left; returns what it
#: leaves, None where it failed
_Fit = Callable[[c.Totals, bool, _Step], c.Totals | None]


def _steps(rows: int, changes: Changes, where: str) -> tuple[list[_Step], dict[str, int]]:
    """Return for each fit which rows come, from and to, and which go; and how much all of that is.

    Raises KernelError (E701) where the rows are too few or too many.
    """
    refits, new, gone = changes.refits, changes.new, changes.gone
    load, left = rows - refits * new, rows - refits * gone
    few = None
    if not rows:
        few = "there is no row to fit"
    elif load < 1 or left < 0:
        each = f"{new:,} new ones each" if load < 1 else f"{gone:,} that go each"
        few = f"{rows:,} rows are too few for {refits} refits with {each}"
    if few is not None:
        hint = "more rows, or fewer --refits, --new or --gone"
        raise error("E701", few, Span.whole(where), hint=hint)
    steps = [
        _Step((load + k * new, load + (k + 1) * new), (k * gone, (k + 1) * gone))
        for k in range(refits)
    ]
    most = max((step.come[1] - step.go[0] for step in steps), default=load)
    if most > c.ROWS_MAX:
        message = f"{most:,} rows are more than the sums of a fit hold: {c.ROWS_MAX:,}"
        hint = "fewer rows, or more that go (--gone)"
        raise error("E701", message, Span.whole("rows"), hint=hint)
    counters = {
        "jobs": 1 + len(steps),
        "refits": refits,
        "rows": left,
        "changes": refits * (new + gone),
    }
    return [_Step((0, load), (0, 0)), *steps], counters


class _Fits(Workload):
    """Fits over the rows of pages."""

    def __init__(self, graph: FitGraph, plan: TableFitPlan, changes: Changes) -> None:
        self.graph, self.plan, self.changes = graph, plan, changes

    @property
    def _columns(self) -> c.Columns:
        return self.plan.columns

    def memory_bytes(self) -> int:
        return memory_for(self.plan, self.pages or 0)

    def _play(self, rows: Integers | None, steps: Sequence[_Step], fit: _Fit) -> None:
        """Make the fits, one after the other, as long as there are totals to go on from; without
        `rows` nothing wanders.

        Where the rows' means have wandered from the offsets that the first fit chose, a fit is
        followed by one of the same rows with offsets of their own, from sums that are moved exactly.
        """
        totals: c.Totals | None = None
        for step in self._spans(steps):
            before = self._before(step, totals, rows)
            totals = fit(before, before is not totals, step)
            if totals is None:
                return
            if c.needs_recentring(totals):
                totals = fit(c.recentre(totals), True, _Step((0, 0), (0, 0)))
                if totals is None:
                    return

    def _spans(self, steps: Sequence[_Step]) -> list[_Step]:
        """Return the rows that come and go in each fit, all of them in every fit that does not go
        on from the one before."""
        if self.graph.incremental:
            return list(steps)
        return [_Step((step.go[1], step.come[1]), (0, 0)) for step in steps]

    def _before(self, step: _Step, totals: c.Totals | None, rows: Integers | None) -> c.Totals:
        """Return what a fit goes on from: nothing, with offsets of its own, or the fit before."""
        if totals is not None and self.graph.incremental:
            return totals
        empty = np.zeros((0, self._columns.n), dtype=np.int64)
        return c.initial_totals(empty if rows is None else rows[slice(*step.come)])

    @staticmethod
    def _summed(before: c.Totals, rows: Integers, step: _Step) -> c.Totals:
        return c.remove_rows(c.add_rows(before, rows[slice(*step.come)]), rows[slice(*step.go)])

    def _segment(
        self, rows: RowPages, span: tuple[int, int], address: int = 0
    ) -> tuple[Segment, Costs | None]:
        """Return where such rows are in pages from this address on, and what walking them costs."""
        first, last = span
        page, skip, costs = rows.span(first, last)
        if not costs.pages:
            return Segment(), None
        at = address + page * self.plan.walk.schema.page_size
        return Segment(at, costs.pages, skip, last - first, page), costs

    def _cycles(
        self,
        costs: Costs,
        rows: Integers | None,
        steps: Sequence[_Step],
        counters: Mapping[str, int],
        memory: FixedLatency,
    ) -> Cycles:
        plan, where, cycles = self.plan, RowPages(costs), []
        words, least = 0, np.zeros(5, dtype=np.int64)

        def fit(before: c.Totals, _: bool, step: _Step) -> c.Totals:
            nonlocal words, least
            segments = [self._segment(where, span) for span in (step.come, step.go)]
            cycles.append(run(plan, segments, memory))
            alone = [segment for segment, _ in segments]
            limits = bound(plan, alone, memory)
            terms = (limits.memory, limits.sums, limits.solver, limits.dot, limits.recurrence)
            least = least + np.array(terms)
            words += words_read(plan, alone)
            return before if rows is None else self._summed(before, rows, step)

        self._play(rows, steps, fit)
        more = {"training_cycles": cycles[0], "recentred": len(cycles) - counters["jobs"]}
        written = plan.answer_words * plan.bus_bytes * len(cycles)
        limits, read = Bound(*least.tolist()), words * plan.bus_bytes
        return Cycles(sum(cycles), limits, {**counters, **more}, {}, read, written)


class AssumedFits(_Fits):
    """Fits over rows that are only assumed: they have cycles, but no results. No means wander."""

    assumed = True

    def __init__(
        self, graph: FitGraph, plan: TableFitPlan, table: Assumed, changes: Changes
    ) -> None:
        super().__init__(graph, plan, changes)
        self.table = table
        self.name, self.rows, self.pages = plan.walk.schema.table, table.rows, table.pages

    def golden(self) -> Result:
        raise ValueError("assumed rows have no values")

    def model(self, memory: FixedLatency) -> Cycles:
        costs = self.table.costs(self.plan.port, self.plan.walk)
        steps, counters = _steps(RowPages(costs).rows, self.changes, "--rows")
        return self._cycles(costs, None, steps, counters | {"saturated": 0}, memory)

    def drive(self, machine: Metered) -> Result:
        raise ValueError("assumed rows have no values")


class TableFits(_Fits):
    """Fits over a table's rows. What a page has wrong, or NULL in a used column under the policy
    "error", is the run's error.

    Parameters: `source`: the text that the table was opened from.
    """

    results_with_model = True

    def __init__(
        self,
        graph: FitGraph,
        plan: TableFitPlan,
        table: Table,
        source: str | None,
        changes: Changes,
    ) -> None:
        super().__init__(graph, plan, changes)
        self.table, self.source = table, source
        self.name, self.rows, self.pages = table.name, table.rows, len(table.pages)

    @cached_property
    def _rows(self) -> Integers | HardwareError:
        codes, _, _, wrong = walk_table(self.table.pages, self.plan.walk)
        return self._columns.format.to_integers(codes) if wrong is None else wrong

    @cached_property
    def _planned(self) -> tuple[list[_Step], dict[str, int]]:
        assert not isinstance(self._rows, HardwareError)
        steps, counters = _steps(len(self._rows), self.changes, self.source or self.name)
        counters["saturated"] = self._saturated()
        return steps, counters

    def _saturated(self) -> int:
        """Return how many values of used columns are saturated: beyond its ends in a wider format
        with as many fraction bits."""
        narrow, walk = self._columns.format, self.plan.walk
        bits = narrow.fraction_bits
        wide = parse_format(f"fixed:{32 - bits},{bits}")
        assert isinstance(wide, Fixed)
        codes = walk_table(self.table.pages, replace(walk, format=wide))[0]
        values = wide.to_integers(codes)
        return int(np.count_nonzero((values > narrow.top) | (values < -narrow.top - 1)))

    def golden(self) -> Result:
        rows = self._rows
        if isinstance(rows, HardwareError):
            return Result(None, rows)
        steps, counters = self._planned
        fits: list[tuple[c.Totals, c.Solution]] = []

        def fit(before: c.Totals, _: bool, step: _Step) -> c.Totals:
            totals = self._summed(before, rows, step)
            fits.append((totals, c.solve(totals, self._columns.format)))
            return totals

        self._play(rows, steps, fit)
        return self._result(fits, counters)

    def model(self, memory: FixedLatency) -> Cycles:
        if isinstance(self._rows, HardwareError):
            return Cycles(None, error=self._rows)
        steps, counters = self._planned
        costs = analyse(self.plan.port, self.plan.walk, self.table.pages)
        return self._cycles(costs, self._rows, steps, counters, memory)

    def drive(self, machine: Metered) -> Result:
        plan, where = self.plan, places(self.plan)
        rows = None if isinstance(self._rows, HardwareError) else self._rows
        machine.reserve(0, where.pages)
        machine.write(where.pages, np.ascontiguousarray(self.table.pages))
        if rows is None:
            # the hardware meets the bad page in a fit over all pages: it waits for a row more than
            # there are, so that nothing behind the last one goes unseen
            steps, counters = _steps(self.table.rows + 1, Changes(1, 0), self.name)
            costs = None
        else:
            steps, counters = self._planned
            costs = analyse(plan.port, plan.walk, self.table.pages)
        pages = None if costs is None else RowPages(costs)
        answers, latest = where.answers, 0
        fits: list[tuple[c.Totals, c.Solution]] = []
        wrong: list[HardwareError] = []

        def segment(span: tuple[int, int]) -> Segment:
            if pages is None:
                whole = Segment(where.pages, len(self.table.pages), 0, span[1], 0)
                return whole if span[1] else Segment()
            return self._segment(pages, span, where.pages)[0]

        def fit(before: c.Totals, anew: bool, step: _Step) -> c.Totals | None:
            nonlocal latest
            if anew:
                machine.write(answers[latest], pack_totals(before, plan))
            segments = [segment(span) for span in (step.come, step.go)]
            after = answers[1 - latest]
            ended = machine.run(registers(answers[latest], after, segments))
            if ended.error is not None:
                wrong.append(ended.error)
                return None
            latest = 1 - latest
            answer = machine.read(after, plan.answer_words * plan.bus_bytes)
            totals, weights, mask = unpack_answer(answer, plan)
            fits.append((totals, c.decode_solution(totals, weights, mask, self._columns.format)))
            return totals

        self._play(rows, steps, fit)
        return Result(None, wrong[0]) if wrong else self._result(fits, counters)

    def _result(
        self, fits: Sequence[tuple[c.Totals, c.Solution]], counters: Mapping[str, int]
    ) -> Result:
        sums = [np.concatenate([t.offsets, t.sums.reshape(-1)]) for t, _ in fits]
        codes = {
            "weights": np.array([fit.weights for _, fit in fits]).astype(np.int64),
            "mask": np.array([fit.mask for _, fit in fits]).astype(np.int64),
            "sums": np.array(sums),
        }
        recentred = {"recentred": len(fits) - counters["jobs"]}
        return Result(codes, counters={**counters, **recentred})

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        n, latest = self._columns.n, codes["sums"][-1]
        sums = latest[n:].reshape(n + 1, n + 1)
        totals = c.Totals(latest[:n], int(sums[0, 0]), sums)
        weights, mask = codes["weights"][-1], codes["mask"][-1].astype(bool)
        values = c.decode_solution(totals, weights, mask, self._columns.format).values
        return {"bias": values[:1], "weights": values[1:]}

    def failure(self, error: HardwareError) -> Failure:
        return table_failure(self.source, self.table, error)
