"""Cycles of a run of jobs: exact where there is hardware (`machine`), else the micro-architecture of docs/qr.md, followed event by event.

Stages of a job: descriptor and body fetched through the read port (requests in order of time, data in order) -> sums (`row_units` rows, or one record, a
cycle) -> a solver context -> bounds (segments or rows through the dot unit) -> written back. Up to `jobs` jobs are between the two ports.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..memory.timing import FixedLatency
from .config import FitPlan
from .job import Method
from .layout import Places, place, sums_words
from .machine import run as run_machine
from .rotations import Fed
from .schedule import ACCESS, ADD, CONVERT, DIV, FLOOR, MIDDLE, MUL, VECTORING, dot_latency
from .solver import Solver
from .work import Work

__all__ = ["Bound", "Cycles", "Work", "bound", "run"]

#: descriptor decoded to requests issued
DECODE = 2
#: cycles of the records' side from one job's last change to the next one's first (method `gram`)
BETWEEN = 4
#: from the command of a job's words to the first new one
WORD = 3


@dataclass
class Cycles:
    """`total`: cycles of the run, from the first descriptor's request to the last answer. Busy figures are in cycles; `done` holds each job's end."""

    total: int
    words_read: int
    words_written: int
    sums_busy: int
    slots: int
    multiplications: int
    dot_busy: int
    done: list[int] = field(default_factory=list)


class _Run:
    def __init__(self, config: FitPlan, works: Sequence[Work], memory: FixedLatency) -> None:
        self.config, self.works, self.memory = config, works, memory
        self.read, self.write = memory.port(config.bus_bytes), memory.write_port(config.bus_bytes)
        self.events: list[tuple[int, int, Callable[[int], None]]] = []
        self.serial = 0
        make = Fed if config.method is Method.GIVENS else Solver
        self.solvers: list[Any] = [make(config, self.post, self.solved) for _ in range(config.solvers)]
        self.sums_free = self.words_free = self.dot_free = self.ahead = 0
        self.result = Cycles(0, 0, 0, 0, 0, 0, 0, [0] * len(works))

    def post(self, time: int, action: Callable[[int], None]) -> None:
        heapq.heappush(self.events, (time, self.serial, action))
        self.serial += 1

    def go(self) -> Cycles:
        for job in range(min(self.config.jobs, len(self.works))):
            self.next_job(job)
        while self.events:
            time, _, action = heapq.heappop(self.events)
            action(time)
        self.result.total = max(self.result.done, default=0)
        return self.result

    def next_job(self, time: int) -> None:
        if self.ahead < len(self.works):
            job, self.ahead = self.ahead, self.ahead + 1
            self.post(time, lambda now: self.fetch(now, job))

    def request(self, time: int, beats: int) -> tuple[int, int]:
        self.result.words_read += beats
        return self.read.read(time + 1, beats) if beats else (time, time)

    def fetch(self, time: int, job: int) -> None:
        _, last = self.request(time, self.works[job].read(self.config)[0])
        self.post(last + DECODE, lambda now: self.body(now, job))

    def body(self, time: int, job: int) -> None:
        work, config = self.works[job], self.config
        first, last = self.request(time, work.read(config)[1])
        cycles = work.sums_cycles(config)
        begin = max(first + 1, self.sums_free)
        self.result.sums_busy += cycles
        if config.method is Method.GIVENS:
            # factor and rows go to the solver as they come, the right side behind the sums
            self.sums_free = max(begin + cycles, last + 1)
            side = self.sums_free + ACCESS + MIDDLE
            self.result.slots += work.slots(config)
            self.result.multiplications += work.multiplications(config)
            self.post(last + 1, lambda now: self.solvers[0].give(now, job, work.folding(), side))
            return
        # the memo's sums come last, through the other bank: words of c, words of AᵀA, then the right side
        n, size = work.size.columns, work.size
        of_c, of_gram = sums_words(size, config)
        behind = 0 if size.full else self.memory.interval(config.bus_bytes) * (of_c + of_gram)
        self.sums_free = max(begin + cycles + BETWEEN, last + 1 - behind)
        begin = max(self.sums_free, self.words_free)
        mean = begin + WORD + of_c + CONVERT + DIV + FLOOR + 2
        side = max(begin + WORD + of_c + of_gram, last + 1, mean) + n + 4 + CONVERT
        self.words_free = side + 1
        self.post(side - n, lambda now: self.solve(now, job))

    def solve(self, time: int, job: int) -> None:
        work = self.works[job]
        self.result.slots += work.slots(self.config)
        self.result.multiplications += work.multiplications(self.config)
        self.solvers[job % len(self.solvers)].give(time, job, work.tasks(self.config))

    def solved(self, time: int, job: int) -> None:
        work, config = self.works[job], self.config
        end = time
        if work.tried:
            end = self._dot(time, time, work.widen_cycles(config))
        if work.rescanned:
            first, last = self.request(end, work.read(config)[2])
            end = self._dot(first + 1, last + 1, -(-work.size.places // config.row_units))
        self.post(end, lambda now: self.publish(now, job))

    def _dot(self, begin: int, least: int, cycles: int) -> int:
        self.dot_free = max(max(begin, self.dot_free) + cycles, least)
        self.result.dot_busy += cycles
        return self.dot_free + dot_latency(self.config.n_max)

    def publish(self, time: int, job: int) -> None:
        beats = self.works[job].written(self.config)
        self.result.words_written += beats
        _, last = self.write.burst(time + 2, beats)
        end = self.write.response(time + 1, last) + 1
        self.result.done[job] = end
        self.next_job(end)


def run(config: FitPlan, works: Sequence[Work], memory: FixedLatency, places: Sequence[Places] | None = None, ring: int = 1 << 20) -> Cycles:
    """Return the cycles of a run of jobs in this order, all known at its start.

    Where `config.built` they are those of the hardware from its start to its end, for jobs that lie at `places` with the ring of descriptors at `ring`; by
    default as `layout.place` puts them.
    """
    if not config.built:
        return _Run(config, works, memory).go()
    times = run_machine(config, works, memory, place([work.size for work in works], config, ring) if places is None else places, ring)
    return Cycles(times.total, times.words_read, times.words_written, times.sums, times.slots, sum(work.multiplications(config) for work in works),
                  sum(work.dot_cycles(config) for work in works), times.ended)


@dataclass(frozen=True)
class Bound:
    """Least cycles that a run of such jobs can take, term by term; `cycles` is the largest and `by` its name."""

    memory: int
    sums: int
    solver: int
    dot: int
    recurrence: int

    @property
    def cycles(self) -> int:
        return max(self.memory, self.sums, self.solver, self.dot, self.recurrence)

    @property
    def by(self) -> str:
        return max(("memory", "sums", "solver", "dot", "recurrence"), key=lambda name: getattr(self, name))


def bound(config: FitPlan, works: Sequence[Work], memory: FixedLatency) -> Bound:
    """Return the bound of a run.

    memory: words over words a cycle, the busier direction. sums, dot: rows over rows a cycle. solver: multiplications over the lanes' multipliers, or
    rotations, one a cycle, the right side's passes among them. recurrence: the longest job's own chain with as many units as could be used: three memory
    latencies, its words, each column's pivot to the next one, both solves.
    """
    interval = memory.interval(config.bus_bytes)
    lanes = config.solvers * config.vectors * config.lanes * (3 if config.method is Method.GIVENS else 1)
    read = sum(sum(work.read(config)) for work in works)
    written = sum(work.written(config) for work in works)
    chains = []
    for work in works:
        kept = sum(work.keep)
        pivot = VECTORING + MUL + ADD if config.method is Method.GIVENS else DIV + MUL + MUL + ADD
        chains.append(3 * memory.latency + interval * sum(work.read(config)) + kept * (pivot + 2 * (MUL + ADD)) + dot_latency(config.n_max))
    if config.method is Method.GIVENS:
        foldings = [work.folding() for work in works]
        solver = max(-(-sum(folding.products for folding in foldings) // lanes), sum(folding.rotations + folding.columns for folding in foldings))
    else:
        solver = -(-sum(work.multiplications(config) for work in works) // lanes)
    sums, dot = sum(work.sums_cycles(config) for work in works), sum(work.dot_cycles(config) for work in works)
    return Bound(interval * max(read, written), sums, solver, dot, max(chains, default=0))
