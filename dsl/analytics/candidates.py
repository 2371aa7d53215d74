"""Makes a candidate of a point: its whole plan, with an estimate of its cycles a tuple. Which points are tried, and which candidate is best, is in
`plan`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from ...models.analytics.config import (
    AnalyticsPlan,
    Buffer,
    Index,
    IndexedRows,
    Roles,
    Striders,
)
from ...models.analytics.reorder import window
from ...models.analytics.resources import estimate
from ...models.analytics.shell import blocks
from ...models.derating import slower
from ...models.heap import page
from ...models.heap.schema import TYPES, Schema
from ...models.memory.dealt import CHUNK_BITS, MOST_BUS_BYTES, Deal, at_random
from ...models.memory.timing import Memory
from ...models.numerics.formats import Format
from ...models.numerics.policy import InputPolicy
from ...models.resources import Resources
from ...models.rows.config import row_bytes
from ...models.rows.unit import RowTable
from ...models.strider.config import MOST_BUFFERS, tuple_slots
from ...models.strider.fixed import ARRAY_HEADER
from ...models.strider.layout import NUMBERS, Integer, Source, TupleLayout, place
from ...models.target import Target
from ..core.bind import Source as BoundSource
from ..core.bind_index import BoundIndex
from ..core.graph import Graph
from ..core.operations import ELEMENTWISE
from .choices import Choices
from .emit import COSTLY
from .lower import Program, lower
from .lower_rows import spaced
from .schedule import Key, Scheduled, blocking, schedule

#: families whose block RAMs take half a cycle of the clocks that these plans are for
_SLOW_READS = ("ecp5",)
#: groups of tuples that wait for the engine or are computed, at most; and where no group waits for a batch's end
_SLOTS, _FEW_SLOTS = 64, 16
#: cycles from a page's request to its first word, beside the memory's latency
_REQUEST = 24
#: bits of the block RAMs beside which a third page would take as many of them again: an iCE40's
_SMALL_BRAM = 4096
#: Striders of a port, at most
_WALKERS = 8


@dataclass(frozen=True)
class Point:
    """What is chosen freely."""

    lanes: int
    threads: int
    ports: int
    walkers: int
    interval: int  #: the interval that units are counted for
    slots: int = 1  #: multiplies the slots that the stream asks for
    pages: int = 1  #: multiplies the pages that the stream asks for
    more: tuple[tuple[Key, int], ...] = ()  #: units beyond those for `interval`
    thorough: bool = False  #: as in `schedule`


@dataclass(eq=False)
class Candidate:
    """A plan, and what is known of it: its cycles a tuple, estimated and by the exact model."""

    point: Point
    plan: AnalyticsPlan
    scheduled: Scheduled
    estimated: float
    target: Target
    exact: float | None = None

    @property
    def cycles(self) -> float:
        return self.estimated if self.exact is None else self.exact

    @cached_property
    def resources(self) -> Resources:
        return estimate(self.plan, self.target)

    @cached_property
    def share(self) -> float:
        """The largest part of a resource that it takes."""
        return max(self.resources.shares(self.target).values())

    @cached_property
    def slower(self) -> float:
        """How many times as long a cycle takes as on a part that is less full; it fits."""
        return slower(min(1.0, self.share), self.target)

    @property
    def time(self) -> float:
        """Its cycles, as long as those of a part that is less full."""
        return self.cycles * self.slower

    @property
    def area(self) -> int:
        return self.resources.lut + 100 * self.resources.dsp


def bound_indices(graph: Graph, indices: Mapping[str, BoundIndex]) -> tuple[Index, ...]:
    """Return what a plan is told of each index."""
    named = [(indices[v.name], v) for v in graph.of_kind("index")]
    return tuple(Index(v.name, i.counts, i.places, bool(v.shape), i.columns) for i, v in named)


@dataclass
class Maker:
    """Makes candidates of one kernel."""

    graph: Graph
    columns: Mapping[str, Sequence[BoundSource]]
    schema: Schema
    target: Target
    fmt: Format
    choices: Choices
    memory: Memory
    indices: Mapping[str, BoundIndex] = field(default_factory=dict)
    tables: tuple[RowTable, ...] = ()
    known: int | None = None  # rows of the table
    once: int | None = None  # tuples of a run that may be of few
    _programs: dict[Any, Program] = field(init=False, default_factory=dict)
    _schedules: dict[Any, Scheduled] = field(init=False, default_factory=dict)
    _layouts: dict[int, TupleLayout] = field(init=False, default_factory=dict)
    _random: dict[int, float] = field(init=False, default_factory=dict)
    _made: dict[Point, Candidate] = field(init=False, default_factory=dict)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each input and output, and of each index that hardware reads."""
        kinds = ("input", "output", "index") if self.indices else ("input", "output")
        variables = [v for kind in kinds for v in self.graph.of_kind(kind)]
        return {v.name: ((1, 1, *v.shape)[-2], (1, 1, *v.shape)[-1]) for v in variables}

    def make(self, point: Point) -> Candidate:
        if point not in self._made:
            program = self.program(point.lanes, point.interval)
            scheduled = self.scheduled(program, point)
            plan = self.assemble(program, scheduled, point)
            self._made[point] = Candidate(
                point, plan, scheduled, self._cycles(plan, point), self.target
            )
        return self._made[point]

    def blocking(self, candidate: Candidate) -> list[Key]:
        """Return the classes of units that critical operations wait for, the worst first."""
        point = candidate.point
        program = self.program(point.lanes, point.interval)
        return blocking(program, self.fmt, point.threads, candidate.scheduled)

    def program(self, lanes: int, limit: int) -> Program:
        """Return the graph's operations on so many lanes; `limit`: the `serial_limit` of `lower`."""
        key = lanes, tuple(size > limit for size in self._costly)
        if key not in self._programs:
            program = lower(self.graph, lanes, serial_limit=limit)
            arrays = {n for n, i in self.indices.items() if len(i.columns) < i.places}
            if not program.by_row:
                program.ops = spaced(program.ops, program.buffers, self.fmt, arrays)
            # a schedule does not depend on how many rows there are
            program.buffers = [self._rows(b, lines=True) for b in program.buffers]
            self._programs[key] = program
        return self._programs[key]

    def scheduled(self, program: Program, point: Point) -> Scheduled:
        """Return a program of `program` with units and times for a point."""
        key = point.lanes, point.threads, point.interval, point.more, point.thorough
        if key not in self._schedules:
            more = dict(point.more)
            self._schedules[key] = schedule(
                program, self.fmt, point.threads, point.interval, more, point.thorough
            )
        return self._schedules[key]

    def _rows(self, buffer: Buffer, *, lines: bool = False) -> Buffer:
        """Return a model in memory with all its rows, or with those that are held on the chip."""
        for table in self.tables:
            if buffer.kind == "model" and buffer.name in table.models:
                return replace(buffer, rows=table.lines if lines else table.rows)
        return buffer

    @cached_property
    def _costly(self) -> list[int]:
        """Sizes for which `serial_limit` may make a difference."""
        costly = {name for name, op in ELEMENTWISE.items() if op.unit in COSTLY} | {"norm"}
        return sorted({int(np.prod(n.shape)) for n in self.graph.nodes if n.op in costly})

    def _cycles(self, plan: AnalyticsPlan, point: Point) -> float:
        """Return the estimated cycles a tuple in the long run, or in a run of few."""
        s = plan.schedule
        count = plan.merge_count or 1 << 20
        groups = -(-count // plan.threads)
        stream = self.stream(point.lanes, point.walkers)
        per_port = point.threads // point.ports
        # a slot is taken from its first tuple's loading to the last reading
        slots = (per_port * max(stream, plan.layout.beats) + s.release) / plan.striders.input_slots
        each = self.idle(plan.ports) * max(
            stream / plan.ports,
            slots / point.threads,
            ((groups - 1) * (s.interval + s.change) + s.batch) / count,
        )
        return each + (self._moved(plan) / self.once if self.once else 0)

    def _moved(self, plan: AnalyticsPlan) -> float:
        """Return about how long models take to come and to go, beat by beat."""
        rate = self.memory.rate(plan.bus_bytes)
        return 2 * sum(max(b.beats, b.bus_words * plan.bus_bytes / rate) for b in blocks(plan))

    @cached_property
    def pages(self) -> int | None:
        """Pages of the table, None where they are not known."""
        return None if self.known is None else -(-self.known // self.rows)

    def idle(self, ports: int) -> float:
        """Return how many times as many rows the busiest of so many ports has as if each had as many."""
        if self.known is None or self.pages is None:
            return 1.0
        rounds, turn = divmod(self.pages - 1, ports)
        last = self.known - (self.pages - 1) * self.rows
        return (rounds * self.rows + (self.rows if turn else last)) * ports / self.known

    def assemble(self, program: Program, scheduled: Scheduled, point: Point) -> AnalyticsPlan:
        layout = self.layout(point.lanes)
        kept = () if self.graph.score else program.models
        buffers, ops, remap = _compact(scheduled.buffers, scheduled, kept)
        slots = self._slots(scheduled, point)
        buffers = tuple(
            replace(b, slots=slots) if b.kind in ("input", "index") else self._rows(b)
            for b in buffers
        )
        names = {
            buffers[remap[n]].name: np.asarray(v).tolist()
            for n, v in zip(program.runs, program.run_values, strict=True)
            if n in remap
        }
        plan = AnalyticsPlan(
            kernel=self.graph.name,
            target=self.target.name,
            format_name=self.fmt.name,
            lanes=layout.lanes,
            threads=point.threads,
            ports=point.ports,
            bus_bytes=self.target.bus_bytes,
            merge_count=self.graph.merge_count,
            epochs=self.graph.epochs,
            layout=layout,
            schema=self.schema,
            policy=InputPolicy(self.choices.on_overflow, self.choices.on_nan),
            buffers=buffers,
            units=scheduled.units,
            ops=ops,
            schedule=scheduled.schedule,
            roles=Roles(
                tuple(remap[n] for n in program.models if n in remap),
                tuple(remap[n] for n in program.runs if n in remap),
                remap[program.until] if program.until is not None else None,
                remap[program.score] if program.score is not None else None,
            ),
            striders=self._striders(point, slots),
            rows=IndexedRows(
                self.choices.on_index,
                self.choices.on_unseen,
                bound_indices(self.graph, self.indices) if self.indices else (),
                self.tables,
                self.choices.dedupe,
                self.deal(point.ports),
            ),
            notes={
                "means": any(node.attrs.get("counts", False) for node in self.graph.nodes),
                "run_values": names,
            },
        )
        return replace(plan, rows=replace(plan.rows, reorder=window(plan)))

    def _striders(self, point: Point, slots: int) -> Striders:
        slow = self.target.lean and self.target.family in _SLOW_READS
        return Striders(
            walkers=point.walkers,
            page_buffers=self._pages(point),
            tuple_slots=tuple_slots(point.walkers, self.rows),
            input_slots=slots,
            visibility=self.choices.visibility,
            window_latency=5 if slow else 4,
            lean=self.target.lean,
        )

    def deal(self, ports: int) -> Deal:
        """Return over how many of the memory ports that are left rows are dealt: so many joined that a word has the shortest row, and as many channels
        as bring the longest one at random in the cycles of its words, where no row is longer than a chunk."""
        sizes = [row_bytes(table.columns, self.fmt.container) for table in self.tables]
        memory, bus = self.target.memory, self.target.bus_bytes
        free = min(self.target.ports - ports, memory.channels - 1)
        room = 1 << max(1, free).bit_length() - 1
        held = sum(table.rows * size for table, size in zip(self.tables, sizes, strict=True))
        fits = held <= room * memory.channel_bytes
        if not sizes or max(sizes) > 1 << CHUNK_BITS or room == 1 or not fits:
            return Deal()
        joined = min(room, max(1, min(sizes) // bus), MOST_BUS_BYTES // bus)
        each = max(*sizes, bus * joined) // joined
        if each not in self._random:
            self._random[each] = at_random(self.memory, each, bus)
        needed = ceil(max(self._random[each] * bus / each, held / memory.channel_bytes / joined))
        return Deal(min(room // joined, 1 << (needed - 1).bit_length()), joined)

    def _slots(self, scheduled: Scheduled, point: Point) -> int:
        """Return slots for the groups being computed, one being loaded, and what arrives while a batch is closed."""
        s, per_port = scheduled.schedule, point.threads // point.ports
        fill = max(1.0, self.stream(point.lanes, point.walkers) * per_port)
        groups = -(-(self.graph.merge_count or point.threads) // point.threads)
        backlog = min((s.batch + (groups - 1) * s.change) / fill, groups)
        # while rows change at a batch's end no group starts, and tuples pile up: then groups follow each other at once
        computed = -(-s.release // (s.interval if s.change else max(s.interval, fill))) + 1
        most = max(_FEW_SLOTS, computed) if s.change else _FEW_SLOTS
        return max(2, min(_SLOTS, point.slots * int(min(most, computed + ceil(backlog)))))

    def _pages(self, point: Point) -> int:
        latency = (self.memory.latency + _REQUEST) / max(
            1.0, self.schema.page_size / self.memory.rate(self.target.bus_bytes)
        )
        pages = 2 if self.target.bram_bits <= _SMALL_BRAM else 2 + ceil(latency / point.walkers)
        return min(MOST_BUFFERS, point.pages * pages)

    # the stream of tuples

    def stream(self, lanes: int, walkers: int) -> float:
        """Return a port's cycles from tuple to tuple, of memory, Striders and loader."""
        return max(
            self.bus_cycles, self._walk_cycles(lanes) / walkers, float(self.layout(lanes).beats)
        )

    def layout(self, lanes: int) -> TupleLayout:
        if lanes not in self._layouts:
            beats, fields = place(self.shapes, lanes)
            sources = tuple(self._sources(fields))
            integers = tuple(
                self._integer(f.position + k, self.indices[f.name], k)
                for f in fields
                if f.name in self.indices
                for k in range(self.indices[f.name].places)
            )
            on_null = self.choices.on_null
            self._layouts[lanes] = TupleLayout(lanes, beats, fields, sources, on_null, integers)
        return self._layouts[lanes]

    def _integer(self, position: int, index: BoundIndex, place: int) -> Integer:
        """Return what a place of an index has at a position: its column's, or an array's element."""
        column, begin, counts = index.columns[min(place, len(index.columns) - 1)]
        unseen = {"error": NUMBERS, "skip": -1, "last": index.counts - 1 - begin}
        plain = self.schema.columns[column].labels is None
        policy = NUMBERS if plain else unseen[self.choices.on_unseen]
        leaves = self.choices.on_index == "skip"
        return Integer(position, min(counts, index.counts), leaves, policy)

    def _sources(self, fields: Sequence[Any]) -> Iterable[Source]:
        for item in fields:
            index = 0
            if item.name in self.indices:
                bound = self.indices[item.name]
                each = bound.places // len(bound.columns)
                for k, (attribute, _, _) in enumerate(bound.columns):
                    yield Source(attribute, 0, each, item.position + k)
                continue
            for part in self.columns[item.name]:
                column, first, count = part.attribute, part.first, part.count
                while count:
                    row, col = divmod(index, item.cols)
                    run = min(count, item.cols - col)
                    yield Source(column, first, run, item.position + row * item.stride + col)
                    index, first, count = index + run, first + run, count - run

    @cached_property
    def rows(self) -> int:
        """Estimate the rows of a page (columns whose length the catalog does not tell count as short)."""
        size = 0
        for column in self.schema.columns:
            kind = column.storage
            if kind.element is not None:
                length = ARRAY_HEADER + (column.length or 1) * TYPES[kind.element].length
            else:
                length = kind.length if kind.length > 0 else 8
            size = page.align(size, kind.align) + length
        header, data = page.align(page.TUPLE_HEADER_SIZE, page.ALIGN), page.align(size, page.ALIGN)
        room = self.schema.page_size - page.PAGE_HEADER_SIZE
        return max(1, room // (header + data + page.LP_SIZE))

    @cached_property
    def bus_cycles(self) -> float:
        return self.schema.page_size / self.rows / self.memory.rate(self.target.bus_bytes)

    def _walk_cycles(self, lanes: int) -> float:
        """Estimate a Strider's cycles a tuple: a few of its own and one for each window of each run of values."""
        cycles = 4.0
        for places in self.columns.values():
            for part in places:
                name = self.schema.columns[part.attribute].type
                size = TYPES[TYPES[name].element or name].length
                cycles += -(-part.count // max(1, min(self.target.bus_bytes // size, lanes)))
        return cycles

    def walkers(self, lanes: int) -> int:
        """Return how many Striders keep up with a port."""
        return int(
            max(1, min(_WALKERS, ceil(self._walk_cycles(lanes) / max(1.0, self.bus_cycles))))
        )


def _compact(
    buffers: Sequence[Any], scheduled: Scheduled, kept: Iterable[int]
) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[int, int]]:
    """Drop buffers that no operation touches, but for those that are `kept`; return the rest, the operations renumbered, and the renumbering."""
    touched = {op.dest for op in scheduled.ops}  # the models among them
    touched |= {o.buffer for op in scheduled.ops for o in op.operands} | {*kept}
    keep = sorted(touched)
    remap: dict[int, int] = {old: new for new, old in enumerate(keep)}
    ops: list[Any] = [
        replace(
            op,
            dest=remap[op.dest],
            operands=tuple(replace(o, buffer=remap[o.buffer]) for o in op.operands),
        )
        for op in scheduled.ops
    ]
    return tuple(buffers[n] for n in keep), tuple(ops), remap
