"""The stages of the qr engine, as the cycle model sees them: what each asks, takes and gives in a cycle. `cycles` joins them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..memory.bursts import Writer
from ..timeline import Resource
from .blocks import END, FullScan, Gearbox, Loader, Merge, NormalEquationAccumulator, Records, Rows
from .config import FitPlan
from .job import Method
from .layout import (
    HEAD_BYTES,
    Size,
    held_words,
    memo_words,
    result_words,
    row_stride,
    sums_words,
    words,
)
from .requests import Route
from .schedule import STEP, WIDEN_TURNS
from .solver import Rotations, Solver
from .stages import Phased, bounds
from .work import Fails, Work

if TYPE_CHECKING:
    from .cycles import Run


class CoreStage:
    """`hdl.qr.core`.

    changes -> records ---+
                          +-> sums of products -+
    rows ----> full scan -+                     +-> words -> loader -> solver -> over
                               the memo's sums -+
    """

    def __init__(self, run: Run, bounds: Any) -> None:
        config = run.config
        self.run, self.bounds = run, bounds
        self.items = Items(config)
        self.accumulator = NormalEquationAccumulator(config, run.wake)
        self.words = SumWords(config, run.wake)
        givens = config.method is Method.GIVENS
        self.solver: Rotated | Interleaved = Rotated(run) if givens else Interleaved(run)
        self.waiting: deque[int] = deque()  # jobs whose sums are to come
        self.loaded = 0  # the job that the loader has

    def look(self, now: int) -> None:
        """What is taken in this cycle."""
        self.accumulator.look(now)
        self.items.look()
        self.solver.look(now)

    def ready(self, work: Work) -> bool:
        """Whether a job may begin in this cycle."""
        return self.items.free(work.size.full) and len(self.waiting) < 2 and self.solver.room

    def takes(self, route: int) -> bool:
        """Whether a word is taken in this cycle."""
        if route == Route.FACTOR:
            return self.solver.takes_factor
        if route == Route.SUMS:
            return self.words.held < self.words.room
        return self.items.takes(route)

    def step(self, now: int, fed: int, job: int | None) -> bool:
        """End a cycle: a word came (its route, −1 for none), a job begins. Return whether anything moves."""
        run, items, accumulator = self.run, self.items, self.accumulator
        item, passed = items.offered()
        # changes wait while bounds have the dot unit
        holds = self.bounds.uses and item is not None and not items.places
        if holds or (item and self.solver.holds):
            item = None
        taken = item is not None and accumulator.takes(item)
        working = item is not None and accumulator.open
        run.times.sums_busy += working
        row, moved = self.solver.step(now, fed == Route.FACTOR, self.words.loader, self.loaded)
        if item and taken:
            self.solver.row(item == END)
        begin = accumulator.full > 0 and self.words.idle
        stepped, freed = self.words.step(now, fed == Route.SUMS, row)
        moved |= stepped
        if begin:
            self.loaded = self.waiting.popleft()
            size = run.works[self.loaded].size
            self.words.begin(sums_words(size, run.config), size)
        accumulator.step(now, item, freed)
        moved |= items.step(fed, taken, passed, item == END)
        if job is not None:
            self._begin(job)
        return moved or working or holds or begin or job is not None

    def _begin(self, job: int) -> None:
        work = self.run.works[job]
        self.waiting.append(job)
        self.solver.begin(job)
        self.accumulator.slots = self.accumulator.slots_of[work.size.columns]
        self.items.begin(work)


class Items:
    """What the sums are of, job by job: changes of `Records`; then, or instead, places of a `FullScan`."""

    def __init__(self, config: FitPlan) -> None:
        self.records, self.full_scan = Records(config), FullScan(config)
        self.scans = not config.incremental  # places follow changes
        self.busy = self.places = False
        self.words = False, False  # which words a full scan takes in this cycle: bits, rows

    def offered(self) -> tuple[int | None, bool]:
        """Return what is offered, and whether changes end and places follow: that is no end of the job."""
        if self.places:
            return self.full_scan.item, False
        item = self.records.out.item
        passed = self.scans and item == END
        return (None, True) if passed else (item, False)

    def free(self, full: bool) -> bool:
        """Whether a job may begin, of a full scan or of changes."""
        scan = self.full_scan.ready or not (full or self.scans)
        return not self.busy and scan and (full or not self.records.cutter.active)

    def look(self) -> None:
        self.words = self.full_scan.rows.look()

    def takes(self, route: int) -> bool:
        if route == Route.CHANGES:
            return self.records.cutter.ready
        return self.words[route == Route.ROWS]

    def begin(self, work: Work) -> None:
        size = work.size
        self.busy, self.places = True, size.full
        if size.full or self.scans:
            self.full_scan.begin(row_stride(size.columns - 1), work.live_places(), size.places)
        if not size.full:
            self.records.begin(size.columns - 1, size.inserted, size.removed, size.moved)

    def step(self, fed: int, taken: bool, passed: bool, end: bool) -> bool:
        """End a cycle: a word came, the item, or the `end` of them, was taken or passed. Return whether anything moves."""
        moved = False
        if self.places or self.scans:
            bits, rows = fed == Route.BITS, fed == Route.ROWS
            moved |= self.full_scan.step(bits, rows, taken and self.places)
        if not self.places:
            moved |= self.records.step(fed == Route.CHANGES, taken or passed)
        self.places |= passed
        self.busy &= not (taken and end)
        return moved


class SumWords:
    """Words of sums, of a job and of its memo, merged and on their way to the solver; `held`: of the memo's in their queue."""

    def __init__(self, config: FitPlan, wake: Callable[[int], None]) -> None:
        self.merge, self.loader = Merge(not config.incremental), Loader(config, wake)
        self.held, self.room = 0, held_words(config)
        self.merging = False

    @property
    def idle(self) -> bool:
        return not (self.merging or self.merge.left or self.loader.rows.active)

    def begin(self, words: tuple[int, int], size: Size) -> None:
        self.merge.begin(*words, size.full)
        self.loader.begin(size.columns)
        self.merging = True

    def step(self, now: int, put: bool, row: bool) -> tuple[bool, bool]:
        """End a cycle: a word of the memo came, a row was taken. Return whether anything moves, and whether the sums were read to their end."""
        ready = self.loader.ready
        word = self.merge.out if ready else None
        given_on = self.held > 0 and self.merge.ready(ready)
        self.held += put - given_on
        moved = self.merge.step(given_on, ready)
        moved |= self.loader.step(now, word, row)
        freed = word == 2
        self.merging &= not freed
        return moved, freed


class Interleaved:
    """Solvers of method `gram`, which take jobs in turn."""

    room, takes_factor, holds = True, False, False

    def __init__(self, run: Run) -> None:
        self.run = run
        self.solvers = [Solver(run.config.contexts, run.wake) for _ in range(run.config.solvers)]

    def look(self, now: int) -> None:
        for solver in self.solvers:
            solver.look(now)

    def begin(self, job: int) -> None:
        """Nothing: a job begins with its first row."""

    def row(self, end: bool) -> None:
        """Nothing: changes are of no use here."""

    def step(self, now: int, put: bool, loader: Loader, job: int) -> tuple[bool, bool]:
        """End a cycle. Return whether a row of the loader's was taken, which has this job, and whether anything moves."""
        solver = self.solvers[job % len(self.solvers)]
        row, moved = loader.offers(now) and solver.takes(), False
        if row:
            solver.load(now, job, loader.columns, not loader.rows.left)
        for each in self.solvers:
            if each.waiting is not None:
                moved, over = True, each.step(now)
                if over is not None:
                    self.run.set_over(over, now + STEP)
        return row, moved


class Rotated:
    """The solver of method `givens`: jobs on their way to it, and the memos' factors. It takes what the sums take, too, but for moved records."""

    def __init__(self, run: Run) -> None:
        self.run, self.solver = run, Rotations(run.wake)
        self.cutter = Gearbox(run.config.bus_bytes // 4, run.config.n_max)
        self.job = 0  # that the solver has
        self.starts: deque[int] = deque()  # jobs whose start is to come, whose factor
        self.factors: deque[int] = deque()

    @property
    def room(self) -> bool:
        return max(len(self.starts), len(self.factors)) < 2

    @property
    def takes_factor(self) -> bool:
        return self.cutter.ready

    @property
    def holds(self) -> bool:
        """Whether no row is taken in this cycle."""
        return not self.solver.takes_rows

    def look(self, now: int) -> None:
        """Nothing changes in a cycle but by `step`."""

    def begin(self, job: int) -> None:
        self.starts.append(job)
        if not self.run.works[job].size.full:
            self.factors.append(job)

    def row(self, end: bool) -> None:
        self.solver.row(end)

    def step(self, now: int, put: bool, loader: Loader, job: int) -> tuple[bool, bool]:
        """As of `Interleaved`. `put`: a word of a factor came."""
        solver, cutter, works = self.solver, self.cutter, self.run.works
        given, side = loader.offers(now), not loader.rows.left
        row = given and solver.takes(now, side)
        offers, ends = cutter.offers and cutter.left > 0, cutter.active and cutter.left == 0
        chunk = offers and solver.loads
        commands = bool(self.factors) and not cutter.active
        starts = bool(self.starts) and solver.may_start(now)
        start = works[self.starts[0]] if starts else None
        moved, over = solver.step(now, chunk, given and side, start)
        if over:
            self.run.set_over(self.job, solver.final + STEP)
        cutter.step(put, ends or chunk)
        if commands:
            n = works[self.factors.popleft()].size.columns
            cutter.begin(1, 1, n, n * (n + 1) // 2)
        if starts:
            self.job = self.starts.popleft()
        return row, moved or put or ends or commands


class BoundsStage(Phased):
    """`hdl.qr.bounds` and `hdl.qr.writeback`."""

    def __init__(self, run: Run, writer: Writer) -> None:
        super().__init__(run.wake, bounds(run.config))
        self.run, self.writer = run, writer
        self.job, self.gone = 0, 0
        self.rows, self.takes = Rows(run.config, run.config.row_units), (False, False)
        self.left = self.begun = 0
        self.uses = False  # the dot unit, where changes want it too
        self.writeback = Resource(free=1)
        self.ends: list[int] = []
        self.retired_all: int | None = None

    @property
    def asks(self) -> bool:
        return self.phase == "ASK"

    def retired(self, now: int) -> int:
        """Jobs whose last word was transferred in an earlier cycle."""
        while self.gone < len(self.ends) and self.ends[self.gone] < now:
            self.gone += 1
        return self.gone

    def look(self, now: int) -> None:
        self.takes = self.rows.look()
        widens = self.phase in ("WIDEN", "JUDGE") and now - self.begun in WIDEN_TURNS
        self.uses = self.run.config.incremental and (self.rows.out.item is not None or widens)

    def step(self, now: int, fed: int) -> bool:
        run = self.run
        taken = self.rows.out.item is not None
        if taken:
            self.left -= self.rows.out.item or 0
        moved = self.rows.step(fed == Route.PASS_BITS, fed == Route.PASS_ROWS, taken)
        if self.job == len(run.works):
            return moved
        if self.job not in run.over or run.over[self.job] > now:
            return moved
        work = run.works[self.job]
        conditions = {
            "solved": True,
            "taken": self.writeback.free <= now,
            "lost": work.fails not in (Fails.NOT, Fails.PASS),
            "tries": not work.size.full,
            "enough": not work.rescanned,
            "places": work.size.places > 0,
            "last": taken and not self.left,
        }
        before = self.phase
        if before == "OFFER":
            run.wake(self.writeback.free)
        turned = self.turn(now, conditions)
        if before == "BEGIN":
            self.begun = now
            for turn in WIDEN_TURNS if self.phase == "WIDEN" else ():
                run.wake(now + turn)
        elif before == "ASK":
            self.rows.begin(row_stride(work.size.columns - 1), work.size.places)
            self.left = work.size.places
        elif before == "OFFER" and turned:
            self._write(now, work)
            self.job += 1
        return moved or turned

    def _write(self, now: int, work: Work) -> None:
        run, config, size = self.run, self.run.config, work.size
        failed = work.fails is not Fails.NOT
        beats = result_words(size, config) + memo_words(size, config)
        beats = words(HEAD_BYTES, config.bus_bytes) if failed else beats
        first = True

        def source(previous: int) -> int:
            nonlocal first
            cycle = now + 2 if first else previous + 1
            first = False
            return cycle

        _, taken = self.writer.send(now + 1, run.places[self.job].result, beats, source)
        run.times.words_written += beats
        self.writeback.free = taken[-1] + 1
        self.ends.append(taken[-1])
        run.times.done[self.job] = taken[-1]
        run.wake(taken[-1] + 1)
        if len(self.ends) == len(run.works):
            self.retired_all = max(taken[-1] + 1, self.writer.idle())
