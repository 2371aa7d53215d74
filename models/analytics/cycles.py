"""Exact cycles of a run of the analytics engine, event by event (the hardware: `hdl.analytics.conductor`, `loader`, `boot`).

Cycle 0 is the one in which the engine's `start` is high; the run's cycles are the index of the cycle of `done`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..memory.bursts import Reader, Writer
from ..memory.timing import Fixed
from .config import Plan
from .shell import sizes

__all__ = ["Cycles", "TupleSource", "run"]


class TupleSource(Protocol):
    """A memory port with its Striders, as `models.strider.cycles.PortModel`: cycles count from the page sequencer's start."""

    @property
    def page(self) -> int:
        """The page being delivered, counted over epochs."""

    def take(self, ready: int, count: int) -> tuple[int, int, bool]:
        """Take up to `count` tuples, fewer only at the epoch's end, the first transfer from cycle `ready` on.

        Return the cycle of the last transfer, the tuples, and whether the epoch's end is among the transfers.
        """

    def alike(self) -> int:
        """Pages from this one to the epoch's end that cost the same."""

    def state(self, base: int) -> tuple[int, ...]:
        """What the future depends on, times relative to `base`."""

    def delay(self, cycles: int) -> None:
        """Go on as if everything so far had happened so much later."""

    def leap(self, pages: int, cycles: int) -> None:
        """Go on as if so many pages more had been delivered, everything so much later."""


class EmptySource:
    """A port without pages: nothing but end tokens."""

    page = 0

    def take(self, ready: int, count: int) -> tuple[int, int, bool]:
        return max(ready, 0), 0, True

    def alike(self) -> int:
        return 0

    def state(self, base: int) -> tuple[int, ...]:
        return ()

    def delay(self, cycles: int) -> None:
        pass

    def leap(self, pages: int, cycles: int) -> None:
        pass


@dataclass(frozen=True)
class Cycles:
    """When a run ends, and where its time went: `boot` (first group's sequencers start), `trained` (last update in place), `total`."""

    total: int
    boot: int
    trained: int
    groups: int
    batches: int
    tuples: int


class _Loader:
    """The twin of `hdl.analytics.loader.Loader`, a group at a time; absolute cycles.

    The group after the one that waits is looked at when that one is handed over: only then is it known whether the epoch goes on.
    """

    def __init__(self, plan: Plan, source: TupleSource, origin: int):
        self.threads, self.batch = plan.threads_per_port, plan.merge_count // plan.ports
        self.source, self.origin = source, origin
        self.ready = 0                            # no transfer before this cycle
        self.position = 0                         # place in the batch of the next group's first tuple
        self.count = self.seen = 0                # the group that waits: tuples (0: none, the epoch is over), seen from this cycle on
        self.ended: int | None = None             # cycle from which the epoch's end is seen
        self.release = deque([0] * plan.input_slots, plan.input_slots)     # cycles from which the latest groups' slots are free again

    def load(self, slot: int) -> None:
        """Fill a slot that is free from cycle `slot` on with the next group, or find the epoch's end."""
        count = self.threads
        if self.batch and self.batch - self.position < count:
            count = self.batch - self.position
        cycle, self.count, over = self.source.take((slot if slot > self.ready else self.ready) - self.origin, count)
        self.seen = seen = cycle + self.origin + 1
        if over:
            self.ended, self.position = seen, 0
        elif self.batch:
            self.position = (self.position + count) % self.batch

    def hand(self, start: int, release: int) -> bool:
        """Give the waiting group (none: this port sits the group out) to the engine; return whether in cycle `start` the end is seen behind it."""
        if self.ended is None:
            self.load(self.release[1])
        else:
            self.count, self.seen = 0, self.ended
        self.release.append(start + release + 1)
        return not self.count and self.ended is not None and self.ended <= start

    def advance(self, cycle: int) -> None:
        """Go on to the next epoch in `cycle`."""
        self.ended, self.count = None, 0
        self.ready = self.seen = cycle

    def state(self, base: int) -> tuple[int, ...]:
        """What the rest of the epoch depends on, times relative to `base`; between epochs: what the others depend on."""
        slots = [t - base for t in self.release]
        if self.ended is not None:
            return (self.count, max(self.seen - base, 0), max(self.ended - base, 0), *slots)
        return (self.count, self.seen - base, self.position, *slots, *self.source.state(base - self.origin))

    def delay(self, cycles: int) -> None:
        """Go on as if all had happened so much later."""
        self.ready += cycles
        self.seen += cycles
        self.release = deque([t + cycles for t in self.release], len(self.release))


def run(plan: Plan, sources: Callable[[Reader, int], Sequence[TupleSource]], memory: Fixed, epochs: int, *,
        boot_address: int = 0, result_address: int = 0) -> Cycles:
    """Return the cycles of a run over `epochs` epochs: all of the plan's, or as many as the convergence test let pass.

    `sources(reader, origin)` gives each port's tuples; `origin` is the cycle of the sequencers' start, and `reader` the state of
    port 0's reader after the boot image.
    """
    reader = Reader(memory, plan.bus_bytes)
    origin = _boot(plan, reader, boot_address) + 1
    conductor = _Conductor(plan, [_Loader(plan, source, origin) for source in sources(reader, origin)], origin + 1)
    conductor.run(epochs)
    finish = max(conductor.free, conductor.batch + plan.schedule.settle)
    counts = conductor.counts
    return Cycles(_results(plan, memory, finish, result_address), origin, finish, counts["groups"], counts["batches"], counts["tuples"])


#: states that are kept, at most
_MARKS = 4096


class _Conductor:
    """The twin of `hdl.analytics.conductor.Conductor`; absolute cycles.

    A run soon repeats itself exactly: a state that was seen before will come again as much later still, as long as the pages are alike. Whole
    periods are then leapt over, and so are whole epochs.
    """

    def __init__(self, plan: Plan, loaders: list[_Loader], free: int):
        self.plan, self.loaders = plan, loaders
        self.free = free                                       # earliest cycle of the next event
        self.start = self.batch = -(1 << 60)                   # latest group start, latest batch close
        self.first, self.batch_groups = True, 0
        self.per_batch = -(-plan.merge_count // plan.threads) if plan.merge_count else 0
        self.counts = {"groups": 0, "batches": 0, "tuples": 0}
        # states seen at group starts in this stretch of alike pages: the cycle, the ports' pages, the counts
        self.marks: dict[tuple[object, ...], tuple[int, list[int], dict[str, int]]] = {}
        self.marked_page = -1
        self.stretch: list[int] = []                           # where each port's alike pages end

    def run(self, epochs: int) -> None:
        """Go through so many epochs."""
        begins: dict[tuple[object, ...], tuple[int, int, dict[str, int]]] = {}
        done = 0
        while done < epochs:
            key = self._between()
            if key in begins:
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
        return (min(now - self.start, schedule.drain), min(now - self.batch, schedule.batch + schedule.settle),
                *(loader.state(now) for loader in self.loaders))

    def epoch(self) -> None:
        schedule, loaders, counts, per_batch = self.plan.schedule, self.loaders, self.counts, self.per_batch
        interval, drain, release, gap = schedule.interval, schedule.drain, schedule.release, schedule.batch
        before = counts["groups"]
        self.marks, self.marked_page = {}, -1
        leader = loaders[0].source
        for loader in loaders:
            loader.load(loader.release[0])
        over = False
        while not over:
            seen, tuples = self.free, 0
            for loader in loaders:
                if loader.seen > seen:
                    seen = loader.seen
                tuples += loader.count
            over = True
            if tuples:
                if self.first and self.batch + gap > seen:
                    seen = self.batch + gap
                self.start = cycle = _next_start(interval, drain, self.start, seen)
                for loader in loaders:                         # each must look ahead, whatever the others found
                    if not loader.hand(cycle, release):
                        over = False
                counts["tuples"] += tuples
                counts["groups"] += 1
                self.batch_groups += 1
                self.first = over or self.batch_groups == per_batch
                if self.first:
                    self._close(cycle)
                self.free = cycle + 1
                if leader.page != self.marked_page and not over:
                    self._mark()
            else:
                if not self.first:
                    self._close(seen)
                self.free = seen + 1
        for loader in loaders:
            loader.advance(self.free)
        if self.plan.until is not None and counts["groups"] > before:
            self.free = max(self.free, self.batch + schedule.settle) + schedule.decide + 2

    def _close(self, cycle: int) -> None:
        self.batch, self.batch_groups, self.first = cycle, 0, True
        self.counts["batches"] += 1

    def _mark(self) -> None:
        """Note the state at a group's start; leap if it was seen before."""
        loaders, now = self.loaders, self.start
        self.marked_page = loaders[0].source.page
        alike = [loader.source.alike() for loader in loaders if loader.ended is None]
        if min(alike, default=0) < 3:
            return
        pages = [loader.source.page for loader in loaders]
        stretch = [loader.source.page + loader.source.alike() if loader.ended is None else -1 for loader in loaders]
        if stretch != self.stretch or len(self.marks) == _MARKS:
            self.marks, self.stretch = {}, stretch
        lag = min(now - self.batch, self.plan.schedule.batch + self.plan.schedule.settle)
        key = (self.first, self.batch_groups if self.per_batch else 0, lag, *(loader.state(now) for loader in loaders))
        if key not in self.marks:
            self.marks[key] = now, pages, dict(self.counts)
            return
        cycle, then, counts = self.marks[key]
        strides = [page - earlier for page, earlier in zip(pages, then, strict=True)]
        running = [(loader, stride) for loader, stride in zip(loaders, strides, strict=True) if loader.ended is None]
        times = min((loader.source.alike() - 2) // stride if stride else 0 for loader, stride in running)
        if times < 1:
            return
        self._delay(times, now - cycle, counts)
        for loader, stride in running:
            loader.source.leap(times * stride, times * (now - cycle))
        self.marked_page = loaders[0].source.page

    def _delay(self, times: int, cycles: int, counts: dict[str, int]) -> None:
        """Go on as if what happened in so many cycles, since the counts stood so, had happened so many times more."""
        for name, count in counts.items():
            self.counts[name] += times * (self.counts[name] - count)
        late = times * cycles
        self.start, self.batch, self.free = self.start + late, self.batch + late, self.free + late
        for loader in self.loaders:
            loader.delay(late)


def _next_start(interval: int, drain: int, start: int, earliest: int) -> int:
    """Return the first cycle ≥ `earliest` that is a multiple of `interval` or at least `drain` after `start`."""
    if earliest >= start + drain:
        return earliest
    return min(start + -(-max(earliest - start, 1) // interval) * interval, start + drain)


def _boot(plan: Plan, reader: Reader, address: int) -> int:
    """Return the cycle of the boot image's last code."""
    words, codes, _ = sizes(plan)
    bus = plan.bus_bytes
    pieces = [(words, bus // 4), (codes, bus // plan.format.container)]
    reader.command(1, address, sum(-(-count // per_word) for count, per_word in pieces))
    cycle = 0
    for count, per_word in pieces:
        while count:
            taken = min(count, per_word)
            cycle = reader.accept(max(reader.offer(), cycle + 1) + taken - 1)      # a piece a cycle, the word is held meanwhile
            count -= taken
    return cycle


def _results(plan: Plan, memory: Fixed, finish: int, address: int) -> int:
    """Return the cycle of `done` when the result writer starts in cycle `finish`."""
    codes = sizes(plan)[2]
    per_word = plan.bus_bytes // plan.format.container
    left = [codes]

    def source(previous: int) -> int:
        taken = min(per_word, left[0])
        left[0] -= taken
        return (finish if previous < 0 else previous) + 1 + 2 * taken

    _, taken, idle = Writer(memory, plan.bus_bytes).write(finish + 1, address, -(-codes // per_word), source)
    return max(taken[-1] + 1, idle)
