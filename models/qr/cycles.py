"""Exact cycles of a run of jobs, one for one those of `hdl.qr.engine`, and the least that such a run can take."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..bound_terms import Machine, Terms
from ..memory.bursts import Reader, Writer
from ..memory.timing import FixedLatency, Memory, Ports
from ..target import Target
from ..timeline import Steps
from .config import FitPlan
from .core_stage import BoundsStage, CoreStage
from .job import Method
from .layout import Places, place
from .requests import FetchStage, IntakeStage, Request, Route
from .schedule import ADD, DIV, MUL, dot_latency
from .work import Work

#: words that a job with a wrong head has for nothing
_OF_BODY = (Route.CHANGES, Route.SUMS, Route.FACTOR, Route.BITS, Route.ROWS)


class Port(Reader):
    """`BurstReader` and the memory behind it, asked cycle by cycle."""

    def __init__(self, memory: Ports, bus_bytes: int) -> None:
        super().__init__(memory, bus_bytes)
        self.flight: deque[Request] = deque()

    def ready(self, now: int) -> bool:
        return now >= self.free and len(self.flight) < self.commands

    def ask(self, now: int, request: Request) -> int:
        """Take a request; return when its first word can come at the earliest."""
        self.command(now, request.address, request.beats)
        self.flight.append(request)
        return self.offer()

    def word(self, now: int) -> Request | None:
        """What the word is of that is offered."""
        return self.flight[0] if self.flight and self.offer() <= now else None

    def take(self, now: int) -> bool:
        """Take that word; return whether it is the last one of its request."""
        left = len(self._left)
        self.accept(now)
        return len(self._left) < left


@dataclass
class Cycles:
    """`total`: cycles of the run, from the first descriptor's request to the last answer. Busy figures are in cycles; `done` holds each job's end."""

    total: int = 0
    words_read: int = 0
    words_written: int = 0
    sums_busy: int = 0
    done: list[int] = field(default_factory=list)


class Run(Steps):
    """A run under way: its jobs and their places in memory, its stages, and `times`: what has been counted so far."""

    def __init__(
        self,
        config: FitPlan,
        works: Sequence[Work],
        memory: Memory,
        places: Sequence[Places],
        ring: int,
    ) -> None:
        self.config, self.works = config, works
        self.places, self.ring = places, ring
        self.times = Cycles(done=[0] * len(works))
        super().__init__()
        self.over: dict[int, int] = {}  # since when jobs have been solved, or never will be
        channel = memory.channel()
        self.port = Port(channel, config.bus_bytes)
        self.bounds = BoundsStage(self, Writer(channel, config.bus_bytes))
        self.fetch, self.core = FetchStage(self, self.port), CoreStage(self, self.bounds)
        self.intake = IntakeStage(self, self.core, self.bounds)

    def set_over(self, job: int, cycle: int) -> None:
        """Say that a job is over from that cycle on."""
        self.over[job] = cycle
        self.wake(cycle)

    def go(self) -> Cycles:
        if not self.works:
            return Cycles(1)
        self.until(lambda: self.bounds.retired_all is not None, self._cycle)
        self.times.total = self.bounds.retired_all or 0
        return self.times

    def _cycle(self, now: int) -> bool:
        fetch, intake = self.fetch, self.intake
        core, bounds = self.core, self.bounds
        port = self.port
        core.look(now)
        bounds.look(now)
        request = port.word(now)
        taken = request is not None and intake.takes(request)
        last = False
        if taken:
            last = port.take(now)
            self.times.words_read += 1
        route = request.route if taken and request is not None else -1
        fed = route if route >= 0 and not (route in _OF_BODY and intake.bad) else -1
        moved = taken
        retired = bounds.retired(now)
        asks = bounds.asks
        job = intake.job
        gives = intake.pending and core.ready(self.works[job])
        turned, pops = intake.step(now, request if taken else None, last, gives)
        moved |= turned
        moved |= fetch.step(
            now, retired, route == Route.DESCRIPTOR and last, bounds.job if asks else None, pops
        )
        moved |= bounds.step(now, fed)
        moved |= core.step(now, fed, job if gives else None)
        if last:
            port.flight.popleft()
        if port.flight:
            self.wake(port.offer())
        return moved


def run(
    config: FitPlan,
    works: Sequence[Work],
    memory: Memory,
    places: Sequence[Places] | None = None,
    ring: int = 1 << 20,
) -> Cycles:
    """Return the cycles of the hardware from its start to its end, for jobs in this order that are all known at the start.

    The jobs lie at `places`, by default as `layout.place` puts them, with the ring of descriptors at `ring`. Raises ValueError where there is no hardware for
    `config` (`FitPlan.built`).
    """
    if not config.built:
        raise ValueError(f"there is no hardware for {config}")
    if places is None:
        places = place([work.size for work in works], config, ring)
    return Run(config, works, memory, places, ring).go()


@dataclass(frozen=True)
class Bound(Terms):
    """The bound of a run in cycles, of jobs (`bound` here) and of fits over tables (`table_cycles.bound`). A further term is a field here, and its
    cycles in both. `link`: in which pages come through the ring, where they do."""

    memory: int
    sums: int
    solver: int
    dot: int
    recurrence: int
    link: int = 0


def bound(config: FitPlan, works: Sequence[Work], memory: Memory) -> Bound:
    """Return the bound of a run.

    memory: the least cycles in which the port moves its words. sums, dot: rows over rows a cycle. solver: multiplications over the lanes' multipliers.
    recurrence: the longest job's own chain with as many units as could be used: three memory latencies, its words, each column's pivot to the next one, both
    solves.
    """
    interval = memory.interval(config.bus_bytes)
    lanes = config.solvers * config.n_max
    read = sum(sum(work.read(config)) for work in works)
    written = sum(work.written(config) for work in works)
    chains = [_chain(config, work, memory) + interval * sum(work.read(config)) for work in works]
    solver = -(-sum(work.multiplications(config) for work in works) // lanes)
    sums = sum(work.sums_cycles(config) for work in works)
    dot = sum(work.dot_cycles(config) for work in works)
    return Bound(
        memory.least(read, written, config.bus_bytes), sums, solver, dot, max(chains, default=0)
    )


def _chain(config: FitPlan, work: Work, memory: Memory) -> int:
    """Return a job's way through memory and units without number, but for its words."""
    pivot = DIV + MUL + MUL + ADD
    if config.method is Method.GIVENS:
        pivot = (MUL + MUL + ADD + DIV + MUL + ADD) * (work.folded > 0)
    return (
        3 * memory.quickest + sum(work.keep) * (pivot + 2 * (MUL + ADD)) + dot_latency(config.n_max)
    )


def machine_bound(config: FitPlan, part: Target, works: Sequence[Work], memory: Memory) -> Machine:
    """Return what no engine for the fit on this part beats. Of `config` only the kernel's method and columns count.

    memory: the bytes of rows that come and go, all rows in a first fit. products: theirs with themselves in method `gram`. recurrence: the longest job's chain.
    """
    rows, n = 0, 0
    for work in works:
        size, n = work.size, work.size.columns
        rows += size.rows if size.full else size.inserted + size.removed
    triangle = n * (n + 1) // 2 * (config.method is Method.GRAM)
    wide, timing = widest(part, memory)
    return Machine.of(
        wide,
        timing,
        rows * (n - 1) // wide.bus_bytes,
        [(rows * triangle, [(8, 8, False)])],
        max((_chain(config, work, memory) for work in works), default=0),
    )


def widest(part: Target, memory: Memory) -> tuple[Target, Memory]:
    """Return a part and its memory as the widest port sees them: block RAM on the part is as wide as a plan likes, up to four times the target's port."""
    if not part.shared or not isinstance(memory, FixedLatency):
        return part, memory
    wide = replace(part, bus_bytes=min(4 * part.bus_bytes, 128))
    return wide, FixedLatency(memory.latency, wide.bus_bytes)
