"""Exact cycles of plans on an assumed table: what the planner compares them by."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.data.assumed import Assumed, assume
from penstock.engines.base import Given
from penstock.host.sources import SourceError, Table
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.cycles import RowsAsked, run
from penstock.models.analytics.job import drawn, model_cycles, rows_in_memory
from penstock.models.analytics.reorder import in_turn
from penstock.models.analytics.waits import waits
from penstock.models.heap.schema import Schema
from penstock.models.memory import FixedLatency, Memory
from penstock.models.memory.bursts import Reader
from penstock.models.strider.costs import Costs, Events, analyse
from penstock.models.strider.cycles import PortModel
from penstock.models.target import Target

if TYPE_CHECKING:
    pass

#: rows that plans are made for, but for small tables: how many there are changes no hardware
ROWS = 50_000
#: pages and batches of a port that are run through to know how the next ones go
_PAGES, _BATCHES = 12, 6
#: with fewer pages than so many for each port of the target, a table decides how many ports a plan has
_FEW = 4
#: lookups for which a plan with rows in memory is run through: at first no row is held, so that more of them take no longer each
_SAMPLE = 8_000


class Measure:
    """Cycles a row of a plan in a run over `rows` rows of a schema, `ROWS` where None.

    All ports have pages alike, so one of them tells for all. Some pages of it are run through, and twice as many: the rest goes on like the second half.
    A few `known` rows are run through on all ports: the last page is not full, and some ports may have none.
    """

    def __init__(
        self, schema: Schema, memory: Memory, rows: int | None, zipf: float, known: bool
    ) -> None:
        self.schema, self.timing, self.known = schema, memory, known
        self.rows, self.zipf = rows or ROWS, zipf
        self._events: dict[tuple[object, ...], Events] = {}

    @cached_property
    def memory(self) -> Memory:
        if isinstance(self.timing, FixedLatency):
            return self.timing
        from penstock.sim.memory.dram import fast

        return fast(self.timing)

    @cached_property
    def table(self) -> Assumed:
        return assume(self.schema, self.rows)

    def events(self, plan: AnalyticsPlan) -> Events:
        """Return what a full page costs."""
        key = plan.layout, plan.striders.window_latency
        if key not in self._events:
            analysis = analyse(plan.port, plan.walk, self.table.full[None])
            self._events[key] = analysis.runs[0][1]
        return self._events[key]

    def __call__(self, plan: AnalyticsPlan) -> float:
        plan, events = (
            replace(plan, epochs=1, striders=replace(plan.striders, ring=0)),
            self.events(plan),
        )
        if plan.rows.tables:
            table = assume(self.schema, min(self.rows, sample_of(plan)))
            tuples = in_turn(plan, drawn(plan, table.rows, self.zipf))
            asked = RowsAsked(rows_in_memory(plan, tuples), [0] * len(plan.rows.tables))
            costs, late = table.costs(plan.port, plan.walk), waits(plan, tuples)
            cycles = model_cycles(plan, costs, self.memory, 1, rows=asked, waits=late)
            return cycles.total / table.rows
        if self.known:
            costs = self.table.costs(plan.port, plan.walk)
            return model_cycles(plan, costs, self.memory, 1).total / self.rows
        total = -(-self.table.pages // plan.ports)
        rows = max(1, len(events) - 1)
        batches = -(-_BATCHES * plan.merge_count // (plan.ports * rows))
        some = max(_PAGES, 2 * plan.striders.walkers, batches)
        if 2 * some >= total:
            return self._run(plan, events, total) / self.rows
        first, second = (self._run(plan, events, pages) for pages in (some, 2 * some))
        return (second + (second - first) / some * (total - 2 * some)) / self.rows

    def _run(self, plan: AnalyticsPlan, events: Events, pages: int) -> int:
        def sources(reader: Reader, origin: int) -> list[PortModel]:
            return [PortModel(plan.port, Costs([(pages, events)]), reader.port, origin, epochs=1)]

        return run(plan, sources, self.memory, 1).total


def measure(
    schema: Schema,
    memory: Memory,
    rows: int | None = None,
    zipf: float = 0.0,
    once: int | None = None,
) -> Measure | None:
    """Return what measures plans for a table of so many rows, whose indices are drawn as `zipf` says; None for columns whose lengths are not known.
    `once`: tuples of a whole run, where it may be of few: how its models come and go then counts."""
    meter = Measure(schema, memory, rows or once, zipf, rows is not None)
    try:
        assert meter.table
    except SourceError:
        return None
    return meter


def few_rows(args: Given, schema: Schema, part: Target) -> int | None:
    """Return the rows of a table, or those that are assumed, where they leave ports of the part without pages or nearly so;
    None where plans are for the rows that come."""
    table, most = args.data, _FEW * part.ports
    if part.ports == 1:
        return None
    if isinstance(table, Table):  # pages are counted first: there may be many gigabytes of them
        return table.rows or None if len(table.pages) < most else None
    if not args.rows or args.rows >= ROWS:
        return None
    try:
        return args.rows if assume(schema, args.rows).pages < most else None
    except SourceError:
        return None


def tuples_of_run(args: Given, epochs: int) -> int | None:
    """Return the tuples of all epochs of a run, where they are known to be fewer than `ROWS`."""
    table, rows = args.data, args.rows
    if isinstance(table, Table):  # pages are counted first: there may be many gigabytes of them
        rows = table.rows if len(table.pages) < ROWS else 0
    return rows * epochs if rows and rows * epochs < ROWS else None


def sample_of(plan: AnalyticsPlan) -> int:
    """Return for how many tuples a plan with rows in memory is run through."""
    assert plan.row_unit is not None
    return max(_SAMPLE // len(plan.row_unit.places), 500, 2 * plan.merge_count)
