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


class EmptySource:
    """A port without pages: nothing but end tokens."""

    def pull(self, ready: int) -> tuple[int, str]:
        return max(ready, 0), "end"


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

    def advance(self, cycle: int) -> None:
        self.ended = None
        self.ready = cycle + 1


def run(plan: Plan, sources: Callable[[Reader, int], Sequence[TupleSource]], memory: Fixed, epochs: int, converged: bool = False, *,
        boot_address: int = 0, result_address: int = 0) -> Cycles:
    """Return the cycles of a run over `epochs` epochs (all of them, or as many as the convergence test let pass: `converged`).

    `sources(reader, origin)` gives each port's tuples; `origin` is the cycle of the sequencers' start, and `reader` the state of
    port 0's reader after the boot image.
    """
    reader = Reader(memory, plan.bus_bytes)
    origin = _boot(plan, reader, boot_address) + 1
    loaders = [_Loader(plan, source, origin) for source in sources(reader, origin)]
    schedule = plan.schedule
    never = -(1 << 60)
    start, batch, free = never, never, origin + 1      # latest group start, latest batch close, earliest next event
    first, batch_groups = True, 0
    per_batch = -(-plan.merge_count // plan.threads) if plan.merge_count else 0
    groups = batches = tuples = 0
    for _ in range(epochs):
        trained = False
        while True:
            seen = max(free, *(loader.prepare() for loader in loaders))
            over = True
            if any(loader.waiting for loader in loaders):
                cycle = _next_start(schedule.interval, schedule.drain, start, max(seen, batch + schedule.batch) if first else seen)
                over = all([loader.final(cycle) for loader in loaders])
                start, groups, trained = cycle, groups + 1, True
                tuples += sum(loader.pop(cycle, schedule.release) for loader in loaders)
                batch_groups += 1
                first = over or batch_groups == per_batch
                if first:
                    batch, batches, batch_groups = cycle, batches + 1, 0
            else:
                cycle = seen
                if not first:
                    batch, batches, batch_groups, first = cycle, batches + 1, 0, True
            free = cycle + 1
            if over:
                break
        for loader in loaders:
            loader.advance(cycle)
        if plan.until is not None and trained:
            free = max(free, batch + schedule.settle) + schedule.decide + 2
    del converged
    finish = max(free, batch + schedule.settle)
    return Cycles(_results(plan, memory, finish, result_address), origin, finish, groups, batches, tuples)


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
