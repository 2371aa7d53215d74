"""Trainings on a table, and scores of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from penstock.data.assumed import Assumed
from penstock.data.tables import RowError, learning_error, table_failure
from penstock.dsl.analytics.ranges import too_many
from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.base import AssumedRows, Cycles, Result, Workload
from penstock.host.sources import Table
from penstock.models.analytics.bound import bound, machine_bound
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.cycles import RowsAsked
from penstock.models.analytics.indices import Port, walk_port
from penstock.models.analytics.job import (
    drawn,
    golden,
    model_cycles,
    page_costs,
    port_pages,
    rows_in_memory,
    strider_cycles,
)
from penstock.models.analytics.reorder import in_turn
from penstock.models.analytics.scores import scores
from penstock.models.analytics.shell import image_bytes, images, unpack_result
from penstock.models.analytics.waits import waits
from penstock.models.errors import HardwareError
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Codes
from penstock.models.ring import Line
from penstock.models.rows.errors import RowCode
from penstock.models.strider.costs import Costs
from penstock.models.strider.judge import RowCounts
from penstock.runs.failures import Failure
from penstock.runs.rings import bring, least, lines, waited
from penstock.sim.machine import PAGE, Metered, round_up

from .in_memory import named, row_counters, row_parts, row_places, row_spaces

if TYPE_CHECKING:
    from .design import AnalyticsDesign

#: tuples whose indices are drawn, at most, of models on the chip: others' changes wait as theirs do
DRAWN = 1 << 18
#: the widest bus there is, in bytes
_BUS = 128


@dataclass(frozen=True)
class _Places:
    """Where a run's bytes lie: the boot image at 0, then the result, then each port's pages, then tables of rows, or these by themselves where they have
    several ports.

    `rows`: where the tables' memory begins, and its bytes; `size`: bytes of all of it. Pages begin at multiples of 4 KiB, which bursts do not cross; the
    result shares such a piece with the boot image where both fit.
    """

    result: int
    pages: tuple[int, ...]
    tables: tuple[int, ...]
    rows: tuple[int, int]
    size: int

    @classmethod
    def of(
        cls, boot: int, result: int, page_bytes: list[int], plan: AnalyticsPlan, apart: int
    ) -> _Places:
        place = round_up(boot, _BUS)
        if place // PAGE != (place + result - 1) // PAGE:
            place = round_up(boot)
        end, pages = round_up(place + result), []
        for q, size in enumerate(page_bytes):
            end = max(end, q * apart)
            pages.append(end)
            end += round_up(size)
        if not plan.rows.tables:
            return cls(place, tuple(pages), (), (end, 0), end)
        begin = end if plan.rows.deal.ports == 1 else 0
        tables, rows = row_places(plan, begin)
        return cls(place, tuple(pages), tables, (begin, rows), end + rows)

    @classmethod
    def of_run(cls, design: AnalyticsDesign, pages: int, rows: int, apart: int = 0) -> _Places:
        """Return where a run over so many pages has what it needs; `rows`: as many scores as there may be; `apart`: bytes of a channel of memory, of
        which each port's pages begin in another one."""
        plan = design.plan
        boot, result = image_bytes(plan)
        if not plan.learns:
            result = round_up(rows * plan.format.container, plan.bus_bytes)
        shares = [len(range(q, pages, plan.ports)) for q in range(plan.ports)]
        sizes = [(plan.striders.ring or share) * plan.schema.page_size for share in shares]
        return cls.of(boot, max(result, 1), sizes, plan, apart)


def _moved(design: AnalyticsDesign, pages: int) -> tuple[int, int]:
    """Return the bytes of pages and of the image that starts a run, and of its result."""
    boot, result = image_bytes(design.plan)
    unit = design.plan.row_unit
    tables = sum(size * rows for size, rows in unit.sizes) if unit else 0
    heap = 0 if design.plan.striders.ring else pages * design.plan.page_size
    return heap + boot + tables, result + tables


def _lines(design: AnalyticsDesign, pages: int) -> list[Line]:
    """Return how each port's pages come into its ring; [] where there are none."""
    plan, epochs = design.plan, max(design.plan.epochs, 1)
    if not plan.striders.ring:
        return []
    counts = plan.striders.ring, plan.page_size, pages, plan.ports, epochs
    return lines(design.target, *counts, design.link)


def _watchdog(design: AnalyticsDesign) -> int:
    """Return after how many cycles without progress the hardware has hung: many times what anything
    may take."""
    plan, memory = design.plan, design.memory
    schedule, words = plan.schedule, plan.page_size * (memory.interval(plan.bus_bytes) + 8)
    steps = schedule.batch + schedule.interval + schedule.settle + schedule.decide
    comes = sum(line.interval for line in _lines(design, plan.ports)) * plan.striders.ring
    return max(1_000_000, 16 * (memory.latency + words + steps + comes))


def _cycles(
    design: AnalyticsDesign,
    costs: Costs,
    pages: int,
    memory: Memory,
    epochs: int,
    rows: int,
    tuples: Codes | None = None,
    drawn_for: int = 0,
) -> Cycles:
    """Return what a run takes; `drawn_for`: how many tuples there are, where `tuples` are drawn for all of these."""
    plan = design.plan
    places = _Places.of_run(design, pages, rows)
    by_rows = late = None
    tuples = None if tuples is None else in_turn(plan, tuples)
    if tuples is not None and plan.rows.tables:
        by_rows = RowsAsked(rows_in_memory(plan, tuples), places.tables)
    if tuples is not None and plan.schedule.by_row:
        late = waits(plan, tuples)
        late = late.alike(-(-drawn_for // plan.merge_count)) if drawn_for else late
    coming = _lines(design, pages)
    taken = model_cycles(
        plan,
        costs,
        memory,
        epochs,
        result_address=places.result,
        page_addresses=places.pages,
        rows=by_rows,
        waits=late,
        arrivals=coming,
    )
    counters = {
        "tuples": taken.tuples,
        "groups": taken.groups,
        "batches": taken.batches,
        "epochs": epochs,
        "boot": taken.boot,
        "trained": taken.trained,
        "striders": strider_cycles(plan, costs) * epochs,
        **(waited(coming) if coming else {}),
    }
    if by_rows is not None and taken.rows is not None:
        counters |= row_counters(taken.rows, by_rows.asked, memory, plan.rows.deal)
    if late is not None:
        counters["row_waits.changes"] = epochs * sum(late.total)
    scores = 0 if plan.learns else taken.tuples
    limits = bound(plan, pages, taken.groups, taken.batches, memory, epochs, scores, by_rows, late)
    each = taken.tuples // max(epochs, 1)
    machine = machine_bound(plan, design.target, pages, each, memory, epochs)
    if coming:
        limits = replace(limits, **least(coming))
        machine = machine and replace(machine, **least(coming))
    facts = {"epochs": epochs, "converged": False}
    return Cycles(taken.total, limits, counters, facts, bound_machine=machine)


def _left_out(plan: AnalyticsPlan, counts: RowCounts) -> dict[str, int]:
    """Return how many rows are left out because of their indices, where there are any."""
    if not plan.rows.indices:
        return {}
    return {n: getattr(counts, n) for n in ("index_rows", "unseen_rows", "unseen_last")}


class Assumption(AssumedRows):
    """A training on rows that are only assumed. `zipf`: how their indices are drawn, as of `models.analytics.job.drawn`."""

    def __init__(self, design: AnalyticsDesign, table: Assumed, zipf: float = 0.0) -> None:
        self.design, self.table, self.zipf = design, table, zipf
        self.name, self.rows, self.pages = design.plan.schema.table, table.rows, table.pages
        if design.plan.rows.indices:
            self.drawn = f"indices drawn: {f'Zipf {zipf:g}' if zipf else 'uniform'}, seed 1"
        self.streamed = (
            sum(line.total for line in _lines(design, table.pages)) * design.plan.page_size
        )

    def model(self, memory: Memory) -> Cycles:
        plan = self.design.plan
        costs, rows = self.table.costs(plan.port, plan.walk), self.table.rows
        batch = max(plan.merge_count, 1)
        many = rows if plan.rows.tables or rows <= DRAWN else DRAWN // batch * batch
        tuples = drawn(plan, many, self.zipf) if plan.rows.indices else None
        run = self.table.pages, memory, plan.epochs, rows, tuples, rows if many < rows else 0
        return _cycles(self.design, costs, *run)

    def memory_bytes(self) -> int:
        return _Places.of_run(self.design, self.table.pages, self.table.rows).size

    def moved(self) -> tuple[int, int]:
        return _moved(self.design, self.table.pages)


def _told(workload: _OnTable, error: HardwareError) -> HardwareError:
    """Return an index's error, or that of a row's change, with what golden finds there, which hardware does not say."""
    changed = error.code == RowCode.ROW_OVERFLOW
    if error.detail or not (error.line or changed) or not workload.design.plan.by_rows:
        return error
    golden = workload.golden().error if changed else workload.unreadable()
    return golden if golden == error else error


class _OnTable(Workload):
    """What is computed of a table's rows.

    Parameters: `source`: the text that the table was opened from.
    """

    def __init__(self, design: AnalyticsDesign, table: Table, source: str | None) -> None:
        self.design, self.table, self.source = design, table, source
        self.name, self.rows, self.pages = table.name, table.rows, len(table.pages)
        self.streamed = (
            sum(line.total for line in _lines(design, self.pages)) * design.plan.page_size
        )
        self.watchdog = _watchdog(design)

    def failure(self, error: HardwareError) -> Failure:
        return table_failure(self.source, self.table, _told(self, error), self.design.plan.walk)


class Training(_OnTable):
    """A training on a table."""

    def __init__(self, design: AnalyticsDesign, table: Table, source: str | None) -> None:
        super().__init__(design, table, source)
        if design.plan.merge_count == 0 and design.plan.notes.get("means"):
            too_many(table.rows, design.format, Span.whole(design.plan.kernel))

    @cached_property
    def _golden(self) -> Result:
        design = self.design
        trained = golden(design.plan, self.table.pages, design.runs(), design.models())
        if isinstance(trained, HardwareError):
            return Result(None, trained)
        facts = {"epochs": trained.epochs, "converged": bool(trained.converged)}
        counters = {
            "tuples": trained.tuples,
            "batches": trained.batches,
            "epochs": trained.epochs,
            "converged": int(trained.converged),
            "rows_skipped": trained.inputs.skipped,
            "nan_rows": trained.inputs.nan_rows,
            "saturated_inputs": trained.inputs.saturated,
            "not_finite_inputs": trained.inputs.not_finite,
            **_left_out(design.plan, trained.inputs),
            "left_range": trained.left_range,
            **trained.inputs.lost_columns,
        }
        return Result(trained.models, None, facts, counters)

    def golden(self) -> Result:
        return self._golden

    def model(self, memory: Memory) -> Cycles:
        plan, epochs = self.design.plan, self.design.plan.epochs
        if plan.roles.until is not None:  # how many epochs there are is a result
            if self._golden.error is not None:
                return Cycles(None, error=self._golden.error)
            epochs = self._golden.facts["epochs"]
        costs, tuples = page_costs(plan, self.table.pages), None
        if isinstance(costs, HardwareError):
            return Cycles(None, error=costs)
        if plan.rows.tables or plan.schedule.by_row:
            tuples = walk_port(plan, self.table.pages).tuples
        return _cycles(self.design, costs, len(self.table.pages), memory, epochs, 0, tuples)

    @property
    def value_bytes(self) -> int:  # type: ignore[override]
        plan = self.design.plan
        return sum(source.count for source in plan.layout.sources) * plan.format.container

    def _laid_out(self, apart: int = 0) -> tuple[tuple[np.ndarray, list[np.ndarray]], int, _Places]:
        """Return the boot image and each port's pages, the bytes of the result, and the places; `apart`: as of `_Places.of_run`."""
        design = self.design
        image = images(design.plan, design.runs(), design.models())
        parts = port_pages(design.plan, self.table.pages)
        places = _Places.of_run(design, len(self.table.pages), 0, apart)
        return (image.boot, parts), max(image.result_bytes, 1), places

    def memory_bytes(self) -> int:
        return self._laid_out()[2].size

    def moved(self) -> tuple[int, int]:
        return _moved(self.design, len(self.table.pages))

    def drive(self, machine: Metered) -> Result:
        (boot, parts), result, places = self._laid_out(machine.apart)
        machine.reserve(0, places.result + result)
        machine.write(0, boot)
        registers = {
            "boot_address": 0,
            "result_address": places.result,
            "epochs": self.design.plan.epochs,
        }
        coming = _lines(self.design, len(self.table.pages))
        more, feeds = bring(machine, coming, parts, places.pages)
        registers |= more | {f"page_address{q}": at for q, at in enumerate(places.pages)}
        registers |= {f"pages{q}": len(part) for q, part in enumerate(parts)}
        registers |= {f"row_address{t}": at for t, at in enumerate(places.tables)}
        unit, plan = self.design.plan.row_unit, self.design.plan
        begin, size = places.rows
        parts = row_parts(plan, self.design.models(), begin) if unit else []
        for part, space in zip(parts, row_spaces(plan), strict=True):
            machine.reserve(begin, size // plan.rows.deal.ports, space=space)
            machine.write(begin, part, space=space)
        ended = machine.run(registers, feeds=feeds)
        facts = {
            "epochs": ended.counters.get("epochs", 0),
            "converged": bool(ended.counters.get("converged", 0)),
        }
        if ended.error is not None:
            return Result(None, named(ended.error, plan), facts)
        codes = (
            unpack_result(plan, machine.read(places.result, result))
            if plan.core.roles.models
            else {}
        )
        if unit is not None:
            each = [
                machine.read(begin, size // plan.rows.deal.ports, space=space)
                for space in row_spaces(plan)
            ]
            content = plan.rows.deal.whole(each, plan.bus_bytes)
            for t, (at, (row, rows)) in enumerate(zip(places.tables, unit.sizes, strict=True)):
                codes |= unit.unpacked(t, content[at - begin :][: row * rows])
        return Result(
            {plan.buffers[n].name: codes[plan.buffers[n].name] for n in plan.roles.models},
            None,
            facts,
        )

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        return self.design.decode(codes)

    def unreadable(self) -> HardwareError | None:
        return walk_port(self.design.plan, self.table.pages).error

    def row_error(self, error: HardwareError) -> RowError | None:
        return learning_error(self.table, error, self.design.plan.walk) if error.line else None


class Scored(_OnTable):
    """The scores of a table's rows."""

    @cached_property
    def _walked(self) -> Port:
        """What the table's pages give."""
        return walk_port(self.design.plan, self.table.pages)

    @cached_property
    def _golden(self) -> Result:
        walked = self._walked
        tuples, counts = walked.tuples, walked.counts
        if walked.error is not None:
            return Result(None, walked.error)
        design = self.design
        predictions = scores(design.plan, tuples, design.models(), design.runs())
        counters = {
            "tuples": len(tuples),
            "rows_skipped": counts.skipped,
            "nan_rows": counts.nan_rows,
            "saturated_inputs": counts.saturated,
            "not_finite_inputs": counts.not_finite,
        }
        return Result({design.score["name"]: predictions}, None, {"epochs": 1}, counters)

    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each visible row its block, its line pointer, and whether it has a score."""
        block, line, flags = self._walked.seen.T
        return block, line, flags.astype(bool)

    def golden(self) -> Result:
        return self._golden

    @property
    def _places(self) -> _Places:
        return _Places.of_run(self.design, len(self.table.pages), self.table.rows)

    def model(self, memory: Memory) -> Cycles:
        if not memory.shift_invariant:  # reads and writes meet there while scores leave
            raise error(
                "E634",
                f"there is no cycle model of scores on memory {memory}",
                Span.whole("--memory"),
                hint="leave it out, or write a fixed latency: --memory latency=20,bytes=8",
            )
        costs = page_costs(self.design.plan, self.table.pages)
        if isinstance(costs, HardwareError):
            return Cycles(None, error=costs)
        return _cycles(self.design, costs, len(self.table.pages), memory, 1, self.table.rows)

    def memory_bytes(self) -> int:
        return self._places.size

    def moved(self) -> tuple[int, int]:
        plan = self.design.plan
        scores = len(self._walked.tuples) * plan.format.container
        return _moved(self.design, len(self.table.pages))[0], scores

    def drive(self, machine: Metered) -> Result:
        design, places, plan = self.design, self._places, self.design.plan
        boot = images(plan, design.runs(), design.models()).boot
        machine.reserve(0, places.size)
        if boot.size:
            machine.write(0, boot)
        coming = _lines(design, len(self.table.pages))
        more, feeds = bring(machine, coming, [self.table.pages], places.pages)
        registers = {"boot_address": 0, "result_address": places.result, "epochs": 1}
        registers |= {"page_address0": places.pages[0], "pages0": len(self.table.pages)}
        ended = machine.run(registers | more, feeds=feeds)
        if ended.error is not None:
            return Result(None, ended.error)
        count = ended.counters["tuples"]
        read = machine.read(places.result, max(1, count * plan.format.container))
        codes = np.frombuffer(read.tobytes(), f"<u{plan.format.container}", count)
        facts = {"epochs": ended.counters["epochs"]}
        return Result({design.score["name"]: codes.astype(np.int64)}, None, facts)

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        fmt = self.design.format
        return {name: np.asarray(fmt.decode(v), np.float64) for name, v in codes.items()}

    def unreadable(self) -> HardwareError | None:
        return self._walked.error

    def row_error(self, error: HardwareError) -> RowError | None:
        walk = self.design.plan.walk
        return learning_error(self.table, error, walk, "scored") if error.line else None
