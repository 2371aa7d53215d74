"""Exact cycles of a run of the analytics engine, event by event (the hardware: `hdl.analytics.conductor`, `loader`, `boot`).

Cycle 0 is the one in which the engine's `start` is high; the run's cycles are the index of the cycle of `done`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..memory.bursts import Reader, Writer
from ..memory.dealt import DealtPorts
from ..memory.timing import Memory, Ports
from ..rows.unit_cycles import RowUnitModel
from ..timeline import Credits
from .config import AnalyticsPlan
from .loader import Loader, TupleSource
from .reorder import Reordered
from .score_cycles import ScoreWriter
from .shell import Block, blocks, image_bytes, sizes
from .timing import result_delay, steps
from .waits import Waits


@dataclass(frozen=True)
class Cycles:
    """When a run ends, and where its time went."""

    total: int
    boot: int  #: until the first group's sequencers start
    trained: int  #: until the last update is in place
    groups: int
    batches: int
    tuples: int
    rows: RowUnitModel | None = None  #: the row unit as it is at the end, None where there is none


@dataclass(frozen=True)
class RowsAsked:
    """Rows of models in memory: `asked` (tuples of an epoch, places of the row unit), and the tables' addresses."""

    asked: np.ndarray
    bases: Sequence[int]

    def unit(self, plan: AnalyticsPlan, memory: Memory) -> RowUnitModel:
        """Return the row unit, on memory ports of its own."""
        assert plan.row_unit is not None
        port = memory.channel() if plan.rows.deal.ports == 1 else DealtPorts(memory, plan.rows.deal)
        return RowUnitModel(plan.row_unit, port, self.bases)


def run(
    plan: AnalyticsPlan,
    sources: Callable[[Reader, int], Sequence[TupleSource]],
    memory: Memory,
    epochs: int,
    *,
    boot_address: int = 0,
    result_address: int = 0,
    rows: RowsAsked | None = None,
    waits: Waits | None = None,
) -> Cycles:
    """Return the cycles of a run over `epochs` epochs: all of the plan's, or as many as the convergence test let pass.

    `sources(reader, origin)` gives each port's tuples; `origin` is the cycle of the sequencers' start, and `reader` the state of
    port 0's reader after the boot image. `rows`: of models in memory, those that the tuples of an epoch ask for, and where they lie.
    `waits`: of an epoch's changes for others of their rows; None where no change waits. Both are of tuples `in_turn`.
    """
    channel = memory.channel()
    reader = Reader(channel, plan.bus_bytes)
    origin = _boot(plan, reader, boot_address) + 1
    ports = sources(reader, origin)
    if plan.rows.reorder:
        ports = [Reordered(plan, source) for source in ports]
    loaders = [Loader(plan, source) for source in ports]
    conductor: _Conductor | _RowConductor
    if rows is not None:
        unit = rows.unit(plan, memory)
        conductor = _RowConductor(plan, ports[0], origin + 1, unit, rows.asked, waits)
    elif plan.learns:
        conductor = _Conductor(plan, loaders, origin + 1, waits)
    else:
        writer = ScoreWriter(plan, Writer(channel, plan.bus_bytes), result_address)
        conductor = _ScoringConductor(plan, loaders, origin + 1, writer)
    conductor.run(epochs)
    finish = max(conductor.free, conductor.batch + plan.schedule.settle)
    counts = conductor.counts
    if not plan.learns:
        total = writer.finish(finish)
    elif plan.core.roles.models:
        asking = loaders if rows is None else []
        total = _results(plan, channel, finish, result_address, asking, conductor.free)
    else:
        total = finish
    if rows is not None:
        total = max(total, unit.flush(finish))
    moved = None if rows is None else unit
    return Cycles(
        total, origin, finish, counts["groups"], counts["batches"], counts["tuples"], moved
    )


#: states that are kept, at most
_MARKS = 4096
#: pages until what failed on one is tried again
_PAUSE = 8


class _Groups:
    """When groups start and batches close; absolute cycles. `batch`: the latest batch's close, or when all but the last tuple's changes that waited for it
    are through."""

    def __init__(self, plan: AnalyticsPlan, free: int, waits: Waits | None = None) -> None:
        self.plan, self.waits = plan, waits or Waits([])
        self.before, self.last = 0, 0  # batches of the epochs before; which one of its epoch closed
        self.free = free  # earliest cycle of the next event
        self.start = self.batch = -(1 << 60)  # latest group start, latest batch close
        self.first, self.batch_groups = True, 0
        self.per_batch = -(-plan.merge_count // plan.threads) if plan.merge_count else 0
        self.counts = {"groups": 0, "batches": 0, "tuples": 0}

    def _begin(self, seen: Sequence[int]) -> list[int]:
        """Start groups that are seen from these cycles on; return when their slots are free again."""
        schedule, per_batch, start = self.plan.schedule, self.per_batch, self.start
        groups, first = self.batch_groups, self.first
        interval, drain = schedule.interval, schedule.drain
        release = schedule.release + 1
        free = self.free
        releases = []
        for earliest in seen:
            if earliest < free:
                earliest = free
            if first and earliest < self.batch + schedule.batch:
                earliest = self.batch + schedule.batch
            distance = earliest - start
            if distance < drain and not first:  # in a batch a multiple of the interval
                distance += -distance % interval
                if distance > drain:
                    distance = drain
            start += distance
            releases.append(start + release)
            free = start + 1
            groups += 1
            first = groups == per_batch
            if first:
                self._close(start, groups)
                groups = 0
        self.start, self.free = start, free
        self.batch_groups, self.first = groups, first
        return releases

    def _close(self, cycle: int, groups: int) -> None:
        self.last = self.counts["batches"] - self.before
        late = self.waits.total[self.last] if self.waits.total else 0
        self.batch = cycle + (groups - 1) * self.plan.schedule.change + late
        self.batch_groups, self.first = 0, True
        self.counts["batches"] += 1


class _Conductor(_Groups):
    """The twin of `hdl.analytics.conductor.Conductor`.

    A run soon repeats itself exactly: a state that was seen before will come again as much later still, as long as the pages are alike. Whole
    periods are then leapt over, and so are whole epochs.
    """

    def __init__(
        self, plan: AnalyticsPlan, loaders: list[Loader], free: int, waits: Waits | None = None
    ):
        super().__init__(plan, free, waits)
        self.loaders = loaders
        self.same = len({*self.waits.total}) <= 1  # batches may take alike
        self.leaps = all(loader.source.shift_invariant for loader in loaders)
        # states seen at group starts in this stretch of alike pages: the cycle, the running ports' pages, the counts
        self.marks: dict[tuple[object, ...], tuple[int, list[int], dict[str, int]]] = {}
        self.marked_page, self.glide_from, self.far_from = -1, 0, 0
        self.ends: list[int] = []  # where the running ports' alike pages end

    def run(self, epochs: int) -> None:
        """Go through so many epochs."""
        begins: dict[tuple[object, ...], tuple[int, int, dict[str, int]]] = {}
        done = 0
        while done < epochs:
            key = self._between() if self.leaps else ()
            if self.leaps and key in begins:
                before, cycle, counts = begins[key]
                times, period = (epochs - done) // (done - before), self.free - cycle
                done += times * (done - before)
                self._delay(times, period, counts)
                for loader in self.loaders:
                    loader.source.delay(times * period)
                begins = {}
                continue
            begins[key] = done, self.free, dict(self.counts)
            self.epoch()
            done += 1

    def _between(self) -> tuple[object, ...]:
        """What the epochs to come depend on, between two."""
        schedule, now = self.plan.schedule, self.free
        return (
            min(now - self.start, schedule.drain),
            min(now - self.batch, schedule.batch + schedule.settle),
            *(loader.state(now) for loader in self.loaders),
        )

    def epoch(self) -> None:
        schedule, loaders, counts = self.plan.schedule, self.loaders, self.counts
        before, self.before = counts["groups"], counts["batches"]
        self.marks, self.marked_page = {}, -1
        over = False
        while not over:
            releases = self._glide()  # groups that wait may be where the pages are steady
            if not releases:
                groups = min([loader.fill() for loader in loaders])
                releases = self._glide()
            if not releases:
                seen = _latest([loader.seen[:groups] or [loader.ended or 0] for loader in loaders])
                if any([loader.seen for loader in loaders]):
                    releases = self._begin(seen)
            over = True
            if releases:
                counts["groups"] += len(releases)
                for loader in loaders:
                    counts["tuples"] += sum(loader.counts[: len(releases)])
                    if not loader.hand(self.start, releases):
                        over = False
                if over and not self.first:
                    self._close(self.start, self.batch_groups)
                if loaders[0].source.page != self.marked_page and not over:
                    self._mark()
            else:
                cycle = max(self.free, seen[0])
                if not self.first:
                    self._close(cycle, self.batch_groups)
                self.free = cycle + 1
        for loader in loaders:
            loader.advance(self.free)
        if self.plan.roles.until is not None and counts["groups"] > before:
            self.free = max(self.free, self.batch + schedule.settle) + schedule.decide + 2

    def _glide(self) -> list[int]:
        """Start all groups of the ports' pages, if slots are free in time for them whenever they come; return when they are again.

        Tried once a page, and after a failure only some pages later. A single port's pages may be steady: then several at once.
        """
        loaders, page = self.loaders, self.loaders[0].source.page
        if page < self.glide_from or not all([loader.seen for loader in loaders]):
            return []
        if len(loaders) == 1 and page >= self.far_from:
            seen, pages = loaders[0].foresee_pages()
            releases = self._try([seen]) if pages else []
            if releases:
                loaders[0].skip(seen, pages)
                return releases
            self.far_from = page + (_PAUSE if pages else 1)
        arrivals = [loader.foresee() for loader in loaders]
        releases = self._try(arrivals)
        self.glide_from = page + (1 if releases else _PAUSE)
        for loader, seen in zip(loaders, arrivals, strict=True):
            loader.skip(seen[: len(releases) + 1])
        return releases

    def _try(self, arrivals: Sequence[list[int]]) -> list[int]:
        """Start the foreseen groups but for each port's last, if slots are free in time; return when they are again."""
        groups = min([len(seen) for seen in arrivals]) - 1
        if groups < 1:
            return []
        names, batches = ("start", "free", "batch", "batch_groups", "first"), self.counts["batches"]
        before = {name: getattr(self, name) for name in names}
        releases = self._begin(_latest([seen[:groups] for seen in arrivals]))
        if all([loader.in_time(releases) for loader in self.loaders]):
            return releases
        vars(self).update(before)
        self.counts["batches"] = batches
        return []

    def _mark(self) -> None:
        """Note the state at a group's start; leap if it was seen before."""
        if not self.leaps or not self.same:
            self.marked_page = self.loaders[0].source.page
            return
        now = self.start
        self.marked_page = self.loaders[0].source.page
        running = [loader.source for loader in self.loaders if loader.ended is None]
        ends = [source.page + source.alike for source in running]
        if ends != self.ends or len(self.marks) == _MARKS:
            self.marks, self.ends = {}, ends
        lag = min(now - self.batch, self.plan.schedule.batch + self.plan.schedule.settle)
        key = (
            self.first,
            self.per_batch and self.batch_groups,
            lag,
            *[loader.state(now) for loader in self.loaders],
        )
        if key not in self.marks:
            if min([source.alike for source in running], default=0) > 2:
                self.marks[key] = now, [source.page for source in running], dict(self.counts)
            return
        cycle, pages, counts = self.marks[key]
        strides = [source.page - page for source, page in zip(running, pages, strict=True)]
        times = min(
            (source.alike - 2) // stride if stride else 0
            for source, stride in zip(running, strides, strict=True)
        )
        if times > 0:
            self._delay(times, now - cycle, counts)
            for source, stride in zip(running, strides, strict=True):
                source.leap(times * stride, times * (now - cycle))
            self.marked_page = self.loaders[0].source.page

    def _delay(self, times: int, cycles: int, counts: dict[str, int]) -> None:
        """Go on as if what happened in so many cycles, since the counts stood so, had happened so many times more."""
        for name, count in counts.items():
            self.counts[name] += times * (self.counts[name] - count)
        late = times * cycles
        self.start, self.batch, self.free = self.start + late, self.batch + late, self.free + late
        for loader in self.loaders:
            loader.delay(late)


#: when a batch's first tuple changes a model's rows: from taking them to writing how many cycles, and how many cycles behind the batch's close they are
#: taken, in order, by what is left of that where the further tuples' come in multiples
_Writes = list[tuple[int, dict[int, list[int]]]]


def _writes(plan: AnalyticsPlan) -> list[_Writes]:
    """Return of each model in memory when its rows change, for each operation."""
    numbers = {b.name: n for n, b in enumerate(plan.buffers) if b.kind == "model"}
    writes: list[_Writes] = []
    for number in (numbers[name] for table in plan.rows.tables for name in table.models):
        writes.append([])
        for op in plan.ops:
            if op.changes_rows and op.dest == number:
                late: dict[int, list[int]] = {}
                for cycle in np.flatnonzero(steps(op)[2] == op.extents[2] - 1).tolist():
                    taken = 1 + op.start + cycle
                    late.setdefault(taken % (plan.schedule.change or 1), []).append(taken)
                writes[-1].append((result_delay(op, plan.format, plan.lanes, plan.threads), late))
    return writes


class _RowChanges:
    """When batches change rows of models in memory; `models.rows.unit_cycles.Changes`."""

    def __init__(self, plan: AnalyticsPlan, waits: Waits) -> None:
        self.schedule, self.waits = plan.schedule, waits
        # of each batch, when it was closed, and when it is through
        self.closed: list[int] = []
        self.settled: list[int] = []
        # batches whose rows may be written: number in the epoch, close, tuples, when it is through
        self.recent: deque[tuple[int, int, int, int]] = deque()
        self.written = _writes(plan)

    def close(self, batch: int, cycle: int, groups: int, through: int) -> None:
        """Note a batch: its number in the epoch, close, tuples, and when it is through."""
        self.closed.append(cycle)
        self.settled.append(through)
        self.recent.append((batch, cycle, groups, through))

    def through(self, cycle: int, ago: int) -> int:
        # hardware asks of the latest batch that is closed whether it, or all before it, are through
        first, count = len(self.closed) - ago, len(self.closed)
        late = max(self.schedule.settle - self.schedule.batch, 1)
        for k in range(bisect_left(self.closed, cycle, first + 1) - 1, count):
            least = self.settled[k] if k == first else self.closed[k] + late
            end = max(cycle, least)
            if k == count - 1 or end <= self.closed[k + 1]:
                break
        return end

    def writes(self, model: int, cycle: int) -> bool:
        while self.recent and self.recent[0][3] < cycle:
            self.recent.popleft()
        change = self.schedule.change
        for batch, closed, size, _ in self.recent:
            for delay, late in self.written[model]:
                behind = self.waits.taken(batch, cycle - closed - delay)
                taken = late.get(behind % (change or 1), [])
                at = bisect_right(taken, behind)
                if at > 0 and behind - taken[at - 1] <= (size - 1) * change:
                    return True
        return False


class _RowConductor(_Groups):
    """Goes from tuple to tuple: when one has its rows depends on the batches before."""

    def __init__(
        self,
        plan: AnalyticsPlan,
        source: TupleSource,
        free: int,
        unit: RowUnitModel,
        asked: np.ndarray,
        waits: Waits | None,
    ) -> None:
        super().__init__(plan, free, waits)
        self.source, self.unit, self.asked = source, unit, asked.tolist()
        self.slots = Credits(plan.striders.input_slots)
        self.changes = _RowChanges(plan, self.waits)

    def _close(self, cycle: int, groups: int) -> None:
        super()._close(cycle, groups)
        through = self.batch + self.plan.schedule.settle
        self.changes.close(self.last, cycle, groups, through)

    def run(self, epochs: int) -> None:
        """Go through so many epochs."""
        for _ in range(epochs):
            self.epoch()

    def epoch(self) -> None:
        unit, begun, self.before = self.unit, False, self.counts["batches"]
        for rows in [*self.asked, None]:
            [taken], _, over = self.source.take([unit.free], [1])
            assert over == (rows is None)
            if rows is None:
                break
            seen = unit.pass_on(taken, rows, self.slots.free, self.changes) + 1
            self.slots.extend(self._begin([seen]))
            self.counts["groups"] += 1
            self.counts["tuples"] += 1
            begun = True
        ended = unit.end(taken, self.slots.free) + 1
        known = begun and ended <= self.start
        cycle = self.start if known else max(self.free, ended)
        if not self.first:
            self._close(cycle, self.batch_groups)
        self.free = cycle + 1
        self.slots.wait(self.free)


class _ScoringConductor(_Conductor):
    """Starts groups where there is room for their scores; goes from group to group."""

    def __init__(
        self, plan: AnalyticsPlan, loaders: list[Loader], free: int, writer: ScoreWriter
    ) -> None:
        super().__init__(plan, loaders, free)
        self.leaps, self.writer = False, writer

    def _glide(self) -> list[int]:
        return []

    def _begin(self, seen: Sequence[int]) -> list[int]:
        releases = []
        for earliest, count in zip(seen, list(self.loaders[0].counts), strict=False):
            releases += super()._begin([max(earliest, self.writer.room())])
            self.writer.group(self.start, count)
        return releases


def _latest(arrivals: Sequence[Sequence[int]]) -> Sequence[int]:
    """From which cycles on groups are seen that all ports must have."""
    return arrivals[0] if len(arrivals) == 1 else list(map(max, *arrivals))


def _boot(plan: AnalyticsPlan, reader: Reader, address: int) -> int:
    """Return the cycle of the boot image's last code."""
    words, codes, _ = sizes(plan)
    bus = plan.bus_bytes
    pieces = [(words, bus // 4), (codes, bus // plan.format.container)]
    pieces += [(block.beats * block.words, block.together) for block in blocks(plan)]
    if beats := image_bytes(plan)[0] // bus:
        reader.command(1, address, beats)
    cycle = 0
    for count, per_word in pieces:
        while count:
            taken = min(count, per_word)
            cycle = reader.accept(
                max(reader.offer(), cycle + 1) + taken - 1
            )  # a piece a cycle, the word is held meanwhile
            count -= taken
    return cycle


def _results(
    plan: AnalyticsPlan,
    channel: Ports,
    finish: int,
    address: int,
    loaders: Sequence[Loader],
    stop: int,
) -> int:
    """Return the cycle of `done` when the result writer starts in cycle `finish`. `stop`: when no more pages are asked for."""
    placed = blocks(plan)
    apart = _filled(placed) if placed else _collected(plan)
    begin = finish + 2 * bool(placed)  # the first beat is read

    def source(previous: int) -> int:
        return (begin if previous < 0 else previous) + next(apart)

    writer = Writer(channel, plan.bus_bytes)
    _, taken = writer.send(finish + 1, address, image_bytes(plan)[1] // plan.bus_bytes, source)
    # pages of an epoch that does not come may still be asked for, and hold the result up
    for loader in loaders:
        loader.source.ask_ahead(stop)
    return max(taken[-1] + 1, writer.idle())


def _collected(plan: AnalyticsPlan) -> Iterator[int]:
    """Yield how many cycles behind the word before each one is there, whose codes are collected one by one."""
    codes, per_word = sizes(plan)[2], plan.bus_bytes // plan.format.container
    while codes:
        taken = min(per_word, codes)
        codes -= taken
        yield 1 + 2 * taken


def _filled(placed: Sequence[Block]) -> Iterator[int]:
    """Yield how many cycles behind the word before each one is there, whose beats come one a cycle."""
    for block in placed:
        for begin in range(0, block.beats, block.together):
            yield min(block.together, block.beats - begin)
            yield from [1] * (block.words - 1)
