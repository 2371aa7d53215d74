"""Fits over a table's columns as workloads: the first rows, then rows that come and go."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock.data.assumed import Assumed
from penstock.data.tables import RowError, learning_error, table_failure
from penstock.dsl.qr.units import Unit
from penstock.engines.base import AssumedRows, Cycles, Result, Workload
from penstock.host.sources import Table
from penstock.host.workloads import Changes
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Codes
from penstock.models.qr import columns as c
from penstock.models.qr.job import Integers
from penstock.models.qr.table_config import (
    Segment,
    memory_for,
    pack_totals,
    places,
    registers,
    unpack_answer,
)
from penstock.models.qr.table_cycles import bound, machine_bound, run, words_read
from penstock.models.ring import Line
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.costs import Costs, analyse
from penstock.models.strider.judge import RowCounts
from penstock.models.strider.row_pages import RowPages
from penstock.models.strider.table import walk_table
from penstock.runs.failures import Failure
from penstock.runs.rings import bring, least, lines, waited
from penstock.sim.machine import Feed, Metered

from .designs import AnyFit, in_all
from .options import Solving
from .refit_requests import Asked
from .solution import Solution, Values, values_of
from .steps import Step, steps_of

#: makes a fit from totals, and whether they are others than the fit before left; returns what it
#: leaves, None where it failed
_Fit = Callable[[c.Totals, bool, Step], c.Totals | None]


class _Fits(Workload):
    """Fits over the rows of pages."""

    def __init__(self, design: AnyFit, asked: Asked) -> None:
        self.graph, self.plan, self.link = design.graph, design.plan, design.link
        self.part, self.asked = design.target, asked
        comes = sum(line.interval * line.slots for line in self._coming(1))
        self.watchdog = max(self.watchdog, 16 * comes)

    def _coming(self, pages: int) -> list[Line]:
        """Return how so many pages of a fit come into the ring; [] where there are none, or no ring."""
        size = self.plan.walk.schema.page_size
        return lines(self.part, self.plan.ring if pages else 0, size, pages, 1, 1, self.link)

    @property
    def _columns(self) -> c.Columns:
        return self.plan.columns

    def memory_bytes(self) -> int:
        return memory_for(self.plan, self.pages or 0)

    def moved(self) -> tuple[int, int]:
        plan, fits = self.plan, 1 + self.asked.changes.refits
        totals = plan.totals_words * (1 if self.graph.incremental else fits)
        pages = 0 if plan.ring else (self.pages or 0) * plan.walk.schema.page_size
        return pages + totals * plan.bus_bytes, fits * plan.answer_words * plan.bus_bytes

    def _play(self, rows: Integers | None, steps: Sequence[Step], fit: _Fit) -> None:
        """Make the fits, one after the other, as long as there are totals to go on from; without
        `rows` nothing wanders.

        Where the rows' means have wandered from the offsets that the first fit chose, a fit is
        followed by one of the same rows with offsets of their own, from sums that are moved exactly.
        """
        totals: c.Totals | None = None
        for step in steps:
            goes_on = self.graph.incremental and totals is not None
            step = self._read(step)
            before = totals if goes_on else self._empty(rows, step)
            assert before is not None
            totals = fit(before, not goes_on, step)
            if totals is not None and c.needs_recentring(totals):
                totals = fit(c.recentre(totals), True, Step((0, 0), (0, 0)))
            if totals is None:
                return

    def _read(self, step: Step) -> Step:
        """Return which rows a fit reads: all of its own, unless it goes on from the one before."""
        return step if self.graph.incremental else Step((step.go[1], step.come[1]), (0, 0))

    def _streamed(self, rows: RowPages, steps: Sequence[Step]) -> int:
        """Return the bytes that come through the ring."""
        if not self.plan.ring:
            return 0
        spans = [span for step in map(self._read, steps) for span in (step.come, step.go)]
        pages = sum(rows.span(*span)[2].pages for span in spans)
        return pages * self.plan.walk.schema.page_size

    def _empty(self, rows: Integers | None, step: Step) -> c.Totals:
        """Return the totals that a fit begins with, of no rows, with offsets of its own."""
        nothing = [0] * self._columns.n
        return c.initial_totals(self._columns, nothing, nothing)

    @staticmethod
    def _summed(before: c.Totals, rows: Integers, step: Step) -> c.Totals:
        return c.remove_rows(c.add_rows(before, rows[slice(*step.come)]), rows[slice(*step.go)])

    def _segment(
        self, rows: RowPages, span: tuple[int, int], address: int = 0
    ) -> tuple[Segment, Costs | None]:
        """Return where such rows are in pages from this address on, or that come through the ring there, and what walking them costs."""
        first, last = span
        page, skip, costs = rows.span(first, last)
        if not costs.pages:
            return Segment(), None
        at = address + (0 if self.plan.ring else page * self.plan.walk.schema.page_size)
        return Segment(at, costs.pages, skip, last - first, page), costs

    def _cycles(
        self,
        costs: Costs,
        rows: Integers | None,
        steps: Sequence[Step],
        counters: Mapping[str, int],
        memory: Memory,
    ) -> Cycles:
        plan, where, runs = self.plan, RowPages(costs), list[Cycles]()
        idle = Counter[str]()
        answers, pages = places(plan).answers, places(plan).pages
        written = plan.answer_words * plan.bus_bytes

        def fit(before: c.Totals, _: bool, step: Step) -> c.Totals:
            segments = [self._segment(where, span, pages) for span in (step.come, step.go)]
            totals, answer = answers[len(runs) % 2], answers[(len(runs) + 1) % 2]
            alone = [segment for segment, _ in segments]
            coming = self._coming(sum(segment.pages for segment in alone))
            come = next(iter(coming), None)
            taken = run(plan, segments, memory, totals=totals, answer=answer, arrivals=come)
            idle.update(waited(coming))
            limits = replace(bound(plan, alone, memory), **least(coming))
            machine = replace(machine_bound(plan, self.part, alone, memory), **least(coming))
            read = words_read(plan, alone) * plan.bus_bytes
            runs.append(Cycles(taken, limits, {}, {}, read, written, bound_machine=machine))
            return before if rows is None else self._summed(before, rows, step)

        self._play(rows, steps, fit)
        first, recentred = runs[0].total or 0, len(runs) - counters["jobs"]
        return in_all(runs, {**counters, **idle, "training_cycles": first, "recentred": recentred})


class AssumedFits(AssumedRows, _Fits):
    """Fits over rows that are only assumed. No means wander."""

    def __init__(self, design: AnyFit, table: Assumed, asked: Asked) -> None:
        super().__init__(design, asked)
        self.table = table
        self.name, self.rows, self.pages = self.plan.walk.schema.table, table.rows, table.pages
        if table.rows > c.ROWS_MAX:  # said before anything is said of memory
            steps_of(table.rows, asked.of(table.rows, self._columns.n), "--rows")

    @cached_property
    def _planned(self) -> tuple[Costs, list[Step], dict[str, int]]:
        costs = self.table.costs(self.plan.port, self.plan.walk)
        rows = RowPages(costs).rows
        return costs, *steps_of(rows, self.asked.of(rows, self._columns.n), "--rows")

    @property
    def streamed(self) -> int:  # type: ignore[override]
        costs, steps, _ = self._planned
        return self._streamed(RowPages(costs), steps)

    def model(self, memory: Memory) -> Cycles:
        costs, steps, counters = self._planned
        return self._cycles(costs, None, steps, counters, memory)


class TableFits(_Fits):
    """Fits over a table's rows. What a page has wrong, NULL in a used column under the policy
    "error", or a value that is no finite number is the run's error. Each column has the unit that its values in the table take, in as
    many limbs as the design has.

    Parameters: `source`: the text that the table was opened from; `values`: the user's, of pages that the host packed of them.
    """

    results_with_model = True

    def __init__(
        self,
        design: AnyFit,
        table: Table,
        source: str | None,
        asked: Asked,
        solving: Solving,
        values: Values | None = None,
    ) -> None:
        super().__init__(design, asked)
        self.table, self.source, self.solving = table, source, solving
        self._given = values
        self.name, self.rows, self.pages = table.name, table.rows, len(table.pages)
        self._solutions: dict[bytes, Solution] = {}

    @cached_property
    def _stored(self) -> Values:
        return values_of(self.table, self.plan.walk)

    @property
    def _values(self) -> Values:
        return self._given or self._stored

    @cached_property
    def _units(self) -> list[Unit]:
        return self._stored.units(self._columns.limbs)

    @property
    def _middle(self) -> Integers:
        return np.array([unit.offset for unit in self._units], dtype=np.int64)

    @cached_property
    def _walk(self) -> WalkConfig:
        """How the table is walked: with its columns' units."""
        shifts, offsets = ([getattr(u, of) for u in self._units] for of in ("shift", "offset"))
        return replace(self.plan.walk, format=self._columns.format.of(shifts, offsets))

    @cached_property
    def _costs(self) -> Costs:
        port = replace(self.plan.port, format=self._walk.format)
        return analyse(port, self._walk, self.table.pages)

    def _empty(self, rows: Integers | None, step: Step) -> c.Totals:
        assert rows is not None
        rows, middle = rows[slice(*step.come)], self._middle
        # near the middle float64 has every integer
        means = np.rint((rows - middle).mean(axis=0)) if len(rows) else np.zeros(len(middle))
        offsets = (middle + means.astype(np.int64)).tolist()
        return c.initial_totals(self._columns, [unit.shift for unit in self._units], offsets)

    @cached_property
    def _walked(self) -> tuple[Integers, RowCounts, HardwareError | None]:
        """The rows up to the first error of a page or a value, what was counted, and that error."""
        walked = walk_table(self.table.pages, self._walk)
        rows = self._columns.format.to_integers(walked.codes) + self._middle
        return rows, walked.total, walked.error

    @cached_property
    def _planned(self) -> tuple[list[Step], dict[str, int]]:
        """The fits to make. Before an error in the table: one of all rows up to it, and more."""
        rows, counts, wrong = self._walked
        if wrong is not None:
            # the hardware waits for a row more than there are, so that nothing goes unseen
            return steps_of(self.table.rows + 1, Changes(1, 0), self.name)
        changes = self.asked.of(len(rows), self._columns.n)
        steps, counters = steps_of(len(rows), changes, self.source or self.name)
        inputs = {
            "rows_skipped": counts.skipped,
            "nan_rows": counts.nan_rows,
            "saturated_inputs": counts.saturated,
            "rows_used": steps[-1].come[1] - steps[-1].go[1],
        }
        return steps, {**counters, **inputs}

    @property
    def streamed(self) -> int:  # type: ignore[override]
        if self._walked[2] is not None:
            return self.table.pages.size if self.plan.ring else 0
        return self._streamed(RowPages(self._costs), self._planned[0])

    def golden(self) -> Result:
        fits: list[tuple[c.Totals, c.Solution]] = []
        wrong = self._walked[2]
        if wrong is not None:
            return Result(None, wrong)
        steps, counters = self._planned

        def fit(before: c.Totals, _: bool, step: Step) -> c.Totals:
            totals = self._summed(before, self._walked[0], step)
            fits.append((totals, c.solve(totals)))
            return totals

        self._play(self._walked[0], steps, fit)
        return self._result(fits, counters)

    def model(self, memory: Memory) -> Cycles:
        if self._walked[2] is not None:
            return Cycles(None, error=self._walked[2])
        steps, counters = self._planned
        return self._cycles(self._costs, self._walked[0], steps, counters, memory)

    def drive(self, machine: Metered) -> Result:
        plan, where = self.plan, places(self.plan)
        machine.reserve(0, where.pages)
        if not plan.ring:
            machine.write(where.pages, np.ascontiguousarray(self.table.pages))
        rows, _, unreadable = self._walked
        steps, counters = self._planned
        pages = None
        if unreadable is None:
            pages = RowPages(self._costs)
        answers, latest = where.answers, 0
        fits: list[tuple[c.Totals, c.Solution]] = []
        wrong: list[HardwareError] = []

        def segment(span: tuple[int, int]) -> Segment:
            if pages is None:
                table = Segment(where.pages, len(self.table.pages), 0, span[1], 0)
                return table if span[1] else Segment()
            return self._segment(pages, span, where.pages)[0]

        def fit(before: c.Totals, anew: bool, step: Step) -> c.Totals | None:
            nonlocal latest
            if anew:
                machine.write(answers[latest], pack_totals(before, plan))
            segments = [segment(span) for span in (step.come, step.go)]
            after = answers[1 - latest]
            more, feeds = self._fed(machine, segments, where.pages)
            ended = machine.run(registers(answers[latest], after, segments) | more, feeds=feeds)
            if ended.error is not None:
                wrong.append(ended.error)
                return None
            latest = 1 - latest
            answer = machine.read(after, plan.answer_words * plan.bus_bytes)
            totals, weights, mask = unpack_answer(answer, plan)
            fits.append((totals, c.Solution(weights, mask)))
            return totals

        self._play(rows, steps, fit)
        return Result(None, wrong[0]) if wrong else self._result(fits, counters)

    def _fed(
        self, machine: Metered, segments: Sequence[Segment], at: int
    ) -> tuple[dict[str, int], list[Feed]]:
        """Have a run's pages come into the ring, where there is one; return registers and feeds."""
        coming = self._coming(sum(segment.pages for segment in segments))
        if not coming:
            return {}, []
        parts = [self.table.pages[s.block : s.block + s.pages] for s in segments if s.pages]
        pages = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return bring(machine, coming, [pages], [at])

    def _result(
        self, fits: Sequence[tuple[c.Totals, c.Solution]], counters: Mapping[str, int]
    ) -> Result:
        sums = [np.concatenate([t.offsets, t.shifts, t.sums.reshape(-1)]) for t, _ in fits]
        codes = {
            "weights": np.array([fit.weights for _, fit in fits]).astype(np.int64),
            "mask": np.array([fit.mask for _, fit in fits]).astype(np.int64),
            "sums": np.array(sums),
        }
        recentred = {"recentred": len(fits) - counters["jobs"]}
        return Result(codes, counters={**counters, **recentred})

    def _totals(self, codes: Mapping[str, Codes]) -> c.Totals:
        """Return the totals of the last fit."""
        n, latest, size = self._columns.n, codes["sums"][-1], self._columns.factors
        offsets, shifts = latest[:n], latest[n : 2 * n]
        return c.Totals(self._columns, shifts, offsets, latest[2 * n :].reshape(size, size))

    def _solution(self, codes: Mapping[str, Codes]) -> Solution:
        """Return the weights of the last fit, from its sums."""
        key = codes["sums"][-1].tobytes()
        if key not in self._solutions:
            last, totals = self._planned[0][-1], self._totals(codes)
            rows = self._values.rows(last.go[1], last.come[1], self.graph.intercept)
            how = self.graph, self.solving, self.source or self.name
            self._solutions[key] = self._values.solved(totals, rows, self._units, *how)
        return self._solutions[key]

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        """Return the weights of the last fit: the exact sums solved exactly, each rounded once, or refined on the table's rows.

        Raises KernelError where the rows do not determine them and the policy is "error".
        """
        return self._solution(codes).values

    def details(self, codes: Mapping[str, Codes]) -> Mapping[str, Any]:
        solution, totals = self._solution(codes), self._totals(codes)
        fit = solution.to_json() | {"rows_skipped": self._walked[1].skipped}
        if self._values.weight:  # the engine's own weights are those of the columns as packed
            return {"fit": fit}
        mask = codes["mask"][-1].astype(bool)
        engine = c.Solution(codes["weights"][-1], mask).values(totals)[1:]
        apart = float(np.abs(engine - solution.values["weights"]).max(initial=0.0))
        names = zip(self._values.names, mask[1:], strict=False)
        return {
            "fit": fit,
            "engine_float32": {
                "weights": engine.tolist(),
                "dropped": [name for name, kept in names if not kept],
                "largest_difference": apart,
            },
        }

    def unreadable(self) -> HardwareError | None:
        return self._walked[2]

    def row_error(self, error: HardwareError) -> RowError | None:
        return learning_error(self.table, error, self.plan.walk) if error.line else None

    def failure(self, error: HardwareError) -> Failure:
        return table_failure(self.source, self.table, error, self.plan.walk)
