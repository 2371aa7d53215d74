"""Exact cycles of a run of the analytics engine, event by event (the hardware: `hdl.analytics.conductor`, `loader`, `boot`).

Cycle 0 is the one in which the engine's `start` is high; the run's cycles are the index of the cycle of `done`.
"""

from __future__ import annotations

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

    def pull(self, ready: int) -> tuple[int, str]:
        """Take the next tuple's first beat, or the end token, from cycle `ready` on; return its cycle and "tuple" or "end"."""


    @property
    def page(self) -> int:
        """The page being delivered, counted over epochs."""

    def alike(self) -> int:
        """Pages from this one to the epoch's end that cost the same."""

    def state(self, base: int) -> tuple[int, ...]:
        """What the future depends on, times relative to `base`."""

    def leap(self, pages: int, cycles: int) -> None:
        """Go on as if so many pages more had been delivered."""


class EmptySource:
    """A port without pages: nothing but end tokens."""

    page = 0

    def pull(self, ready: int) -> tuple[int, str]:
        return max(ready, 0), "end"

    def alike(self) -> int:
        return 0

    def state(self, base: int) -> tuple[int, ...]:
        return ()

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
    """The twin of `hdl.analytics.loader.Loader`; absolute cycles."""

    def __init__(self, plan: Plan, source: TupleSource, origin: int):
        self.beats, self.threads, self.slots = plan.layout.beats, plan.threads_per_port, plan.input_slots
        self.batch = plan.merge_count // plan.ports
        self.source, self.origin = source, origin
        self.ready = 0                            # earliest cycle for the next first beat
        self.thread = self.position = self.groups = 0
        self.ended: int | None = None             # cycle from which `ended` is seen
        self.waiting: list[tuple[int, int]] = []  # complete groups: seen from, tuples
        self.release: list[int] = []              # by group: cycle from which its slot is free again

    def _item(self) -> None:
        """Take one tuple or end token."""
        ready = self.ready
        if self.groups >= self.slots:
            ready = max(ready, self.release[self.groups - self.slots])
        cycle, kind = self.source.pull(ready - self.origin)
        cycle += self.origin
        if kind == "end":
            self.ended = cycle + 1
            if self.thread:
                self._complete(cycle)
            self.position = 0
            return
        last = cycle + self.beats - 1
        self.ready = last + 1
        self.thread += 1
        self.position += 1
        if self.thread == self.threads or self.position == self.batch:
            self._complete(last)
            if self.position == self.batch:
                self.position = 0

    def _complete(self, cycle: int) -> None:
        self.waiting.append((cycle + 1, self.thread))
        self.groups += 1
        self.thread = 0

    def prepare(self) -> int:
        """Go on until a group waits or the epoch has ended; return the cycle from which that is seen."""
        while not self.waiting and self.ended is None:
            self._item()
        return self.waiting[0][0] if self.waiting else self._ended()

    def _ended(self) -> int:
        assert self.ended is not None
        return self.ended

    def final(self, cycle: int) -> bool:
        """Whether in `cycle` the epoch is known to be over but for the group that waits."""
        if len(self.waiting) > 1:
            return False
        groups = len(self.waiting)
        if self.ended is None:
            self._item()
        return len(self.waiting) <= max(groups, 1) and self.ended is not None and self.ended <= cycle

    def pop(self, start: int, release: int) -> int:
        """Give the waiting group to the engine; return its tuples (0: this port sits the group out)."""
        self.release.append(start + release + 1)
        if self.waiting:
            return self.waiting.pop(0)[1]
        self.groups += 1
        return 0

    def state(self, base: int) -> tuple[int, ...]:
        """What the future depends on, times relative to `base`; an ended port has none."""
        if self.ended is not None:
            return ()
        waiting = [x for seen, count in self.waiting for x in (seen - base, count)]
        return (self.ready - base, self.thread, self.position, len(self.waiting), *waiting, self.groups - len(self.release),
                *(t - base for t in self.release[-self.slots:]), *self.source.state(base - self.origin))

    def leap(self, pages: int, cycles: int) -> None:
        """Go on as if the source had delivered so many pages more."""
        self.ready += cycles
        self.waiting = [(seen + cycles, count) for seen, count in self.waiting]
        self.release = [t + cycles for t in self.release]
        self.source.leap(pages, cycles)

    def advance(self, cycle: int) -> None:
        self.ended = None
        self.ready = cycle + 1


def run(plan: Plan, sources: Callable[[Reader, int], Sequence[TupleSource]], memory: Fixed, epochs: int, *,
        boot_address: int = 0, result_address: int = 0) -> Cycles:
    """Return the cycles of a run over `epochs` epochs: all of the plan's, or as many as the convergence test let pass.

    `sources(reader, origin)` gives each port's tuples; `origin` is the cycle of the sequencers' start, and `reader` the state of
    port 0's reader after the boot image.
    """
    reader = Reader(memory, plan.bus_bytes)
    origin = _boot(plan, reader, boot_address) + 1
    conductor = _Conductor(plan, [_Loader(plan, source, origin) for source in sources(reader, origin)], origin + 1)
    for _ in range(epochs):
        conductor.epoch()
    finish = max(conductor.free, conductor.batch + plan.schedule.settle)
    counts = conductor.counts
    return Cycles(_results(plan, memory, finish, result_address), origin, finish, counts["groups"], counts["batches"], counts["tuples"])


@dataclass
class _Mark:
    """A group start that was seen before: where the ports stood then, in which cycle, and how much had been done."""

    cycle: int
    pages: list[int]
    alike: list[int]
    counts: dict[str, int]


class _Conductor:
    """The twin of `hdl.analytics.conductor.Conductor`; absolute cycles.

    Where a table's pages are alike, the run soon repeats itself exactly: a state that was seen before, pages and cycles later, will come again as much
    later still. Whole periods are then leapt over.
    """

    def __init__(self, plan: Plan, loaders: list[_Loader], free: int):
        self.plan, self.loaders = plan, loaders
        self.free = free                                       # earliest cycle of the next event
        self.start = self.batch = -(1 << 60)                   # latest group start, latest batch close
        self.first, self.batch_groups = True, 0
        self.per_batch = -(-plan.merge_count // plan.threads) if plan.merge_count else 0
        self.counts = {"groups": 0, "batches": 0, "tuples": 0}
        self.marks: dict[tuple[object, ...], _Mark] = {}
        self.marked_page = -1

    def epoch(self) -> None:
        schedule, loaders, counts, per_batch = self.plan.schedule, self.loaders, self.counts, self.per_batch
        interval, drain, release, gap = schedule.interval, schedule.drain, schedule.release, schedule.batch
        before = counts["groups"]
        over = False
        while not over:
            seen, waiting = self.free, False
            for loader in loaders:
                there = loader.prepare()
                if there > seen:
                    seen = there
                if loader.waiting:
                    waiting = True
            over = True
            if waiting:
                if self.first and self.batch + gap > seen:
                    seen = self.batch + gap
                self.start = cycle = _next_start(interval, drain, self.start, seen)
                for loader in loaders:                         # each must look ahead, whatever the others found
                    over = loader.final(cycle) and over
                    counts["tuples"] += loader.pop(cycle, release)
                counts["groups"] += 1
                self.batch_groups += 1
                self.first = over or self.batch_groups == per_batch
                if self.first:
                    self._close(cycle)
                self.free = cycle + 1
                if loaders[0].source.page != self.marked_page and not over:
                    self._mark()
            else:
                if not self.first:
                    self._close(seen)
                self.free = seen + 1
        for loader in loaders:
            loader.advance(self.free - 1)
        if self.plan.until is not None and counts["groups"] > before:
            self.free = max(self.free, self.batch + schedule.settle) + schedule.decide + 2

    def _close(self, cycle: int) -> None:
        self.batch, self.batch_groups, self.first = cycle, 0, True
        self.counts["batches"] += 1

    def _mark(self) -> None:
        """Note the state at a group's start; leap if it was seen before."""
        loaders, now = self.loaders, self.start
        self.marked_page = loaders[0].source.page
        lag = min(now - self.batch, self.plan.schedule.batch + self.plan.schedule.settle)
        key = (self.first, self.batch_groups if self.per_batch else 0, lag, *(loader.state(now) for loader in loaders))
        mark = _Mark(now, [loader.source.page for loader in loaders], [loader.source.alike() for loader in loaders], dict(self.counts))
        last = self.marks.get(key)
        self.marks[key] = mark
        if last is None:
            return
        strides = [page - then for page, then in zip(mark.pages, last.pages, strict=True)]
        same = all(then - alike == stride for then, alike, stride in zip(last.alike, mark.alike, strides, strict=True))
        if not same or min(strides) < 1:
            return
        times = min((alike - 2) // stride for alike, stride in zip(mark.alike, strides, strict=True))
        if times < 1:
            return
        cycles = times * (now - last.cycle)
        for loader, stride in zip(loaders, strides, strict=True):
            loader.leap(times * stride, cycles)
        for name, count in mark.counts.items():
            self.counts[name] += times * (count - last.counts[name])
        self.start, self.batch, self.free = self.start + cycles, self.batch + cycles, self.free + cycles
        self.marked_page = loaders[0].source.page


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
