"""The stages of the qr engine, as the cycle model sees them: what each asks, takes and gives in a cycle. `cycles` joins them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..memory.bursts import Writer
from .blocks import END, FullScan, Gearbox, Loader, Merge, NormalEquationAccumulator, Records, Rows
from .job import Method
from .layout import HEAD_BYTES, held_words, memo_words, result_words, row_stride, sums_words, words
from .requests import Route
from .schedule import STEP, WIDEN_TURNS
from .solver import Givens, Solver
from .stages import Stage, bounds
from .work import Fails, Work

if TYPE_CHECKING:
    from .cycles import Run


class CoreStage:
    """`hdl.qr.core`."""

    def __init__(self, run: Run, bounds: Any) -> None:
        self.run, self.bounds, config = run, bounds, run.config
        self.records, self.full_scan = Records(config), FullScan(config)
        self.accumulator = NormalEquationAccumulator(config, run.wake)
        self.scans = not config.incremental
        self.merge = Merge(self.scans)
        self.loader = Loader(config, run.wake)
        self.givens = Rotated(run) if config.method is Method.GIVENS else None
        count = config.solvers if self.givens is None else 0
        self.solvers = [Solver(config.contexts, run.wake) for _ in range(count)]
        self.busy = self.places = self.merging = False
        self.waiting: deque[int] = deque()
        self.loaded = 0  # the job that the loader has
        self.bits = self.put = False
        self.held, self.room = 0, held_words(config)  # words of sums in their queue

    def look(self, now: int) -> None:
        self.accumulator.look(now)
        self.bits, self.put = self.full_scan.rows.look()
        if self.givens is not None:
            self.givens.solver.look(now)
        for solver in self.solvers:
            solver.look(now)

    def ready(self, work: Work) -> bool:
        free = (self.full_scan.ready or not (work.size.full or self.scans)) and (
            work.size.full or not self.records.cutter.active
        )
        room = self.givens is None or self.givens.room
        return not self.busy and free and len(self.waiting) < 2 and room

    def takes(self, route: int) -> bool:
        if route == Route.FACTOR:
            return self.givens is not None and self.givens.cutter.ready
        if route == Route.CHANGES:
            return self.records.cutter.ready
        if route == Route.SUMS:
            return self.held < self.room
        return self.bits if route == Route.BITS else self.put

    def step(self, now: int, fed: int, job: int | None) -> bool:
        run, moved = self.run, False
        # sums
        item = self.full_scan.item if self.places else self.records.out.item
        passed = self.scans and not self.places and item == END
        # changes wait while bounds have the dot unit
        holds = self.bounds.uses and not self.places and item is not None and not passed
        if passed or holds:
            item = None
        folded = self.givens is not None and bool(item)
        if folded and self.givens is not None and not self.givens.solver.takes_rows:
            item = None
        taken = item is not None and self.accumulator.takes(item)
        working = item is not None and self.accumulator.open
        run.times.sums_busy += working
        row, more = self._solve(now, fed == Route.FACTOR, item == END if folded and taken else None)
        moved |= more
        # words
        idle = not (self.merging or self.merge.left or self.loader.rows.active)
        begin = self.accumulator.full > 0 and idle
        room = self.loader.ready
        word = self.merge.out if room else None
        given_on = self.held > 0 and self.merge.ready(room)
        self.held += (fed == Route.SUMS) - given_on
        moved |= self.merge.step(given_on, room)
        moved |= self.loader.step(now, word, row)
        freed = word == 2
        self.merging &= not freed
        if begin:
            self.loaded = self.waiting.popleft()
            size = run.works[self.loaded].size
            self.merge.begin(*sums_words(size, run.config), size.full)
            self.loader.begin(size.columns)
            self.merging = moved = True
        self.accumulator.step(now, item, freed)
        if self.places or self.scans:
            moved |= self.full_scan.step(
                fed == Route.BITS, fed == Route.ROWS, taken and self.places
            )
        if not self.places:
            moved |= self.records.step(fed == Route.CHANGES, taken or passed)
        self.places |= passed
        if taken and item == END:
            self.busy = False
        if job is not None:
            work, moved = run.works[job], True
            size, self.busy, self.places = work.size, True, work.size.full
            self.waiting.append(job)
            if self.givens is not None:
                self.givens.begin(job)
            self.accumulator.slots = self.accumulator.slots_of[size.columns]
            if size.full or self.scans:
                self.full_scan.begin(row_stride(size.columns - 1), work.live_places(), size.places)
            if not size.full:
                self.records.begin(size.columns - 1, size.inserted, size.removed, size.moved)
        return moved or working or holds

    def _solve(self, now: int, put: bool, end: bool | None) -> tuple[bool, bool]:
        """The solvers' cycle; return whether one takes a row of the loader's, and whether anything moves. `put`, `end`: as of `Rotated.step`."""
        offers, side = self.loader.offers(now), not self.loader.rows.left
        if self.givens is not None:
            row = offers and self.givens.solver.takes(now, side)
            return row, self.givens.step(now, put, offers and side, end)
        solver = self.solvers[self.loaded % len(self.solvers)]
        row = offers and solver.takes()
        if row:
            solver.load(now, self.loaded, self.loader.columns, side)
        moved = False
        for each in self.solvers:
            if each.waiting is not None:
                moved = True
                job = each.step(now)
                if job is not None:
                    self.run.set_over(job, now + STEP)
        return row, moved


class Rotated:
    """What method `givens` adds to `CoreStage`: jobs on their way to its solver, and the memos' factors."""

    def __init__(self, run: Run) -> None:
        self.run, self.solver = run, Givens(run.wake)
        self.cutter = Gearbox(run.config.bus_bytes // 4, run.config.n_max)
        self.job = 0  # that the solver has
        self.starts: deque[int] = deque()  # jobs whose start is to come, whose factor
        self.factors: deque[int] = deque()

    @property
    def room(self) -> bool:
        return max(len(self.starts), len(self.factors)) < 2

    def begin(self, job: int) -> None:
        self.starts.append(job)
        if not self.run.works[job].size.full:
            self.factors.append(job)

    def step(self, now: int, put: bool, side: bool, row: bool | None) -> bool:
        """A word of a factor comes; the right side is offered; a row is taken, or the end of them."""
        solver, cutter, works = self.solver, self.cutter, self.run.works
        offers, ends = cutter.offers and cutter.left > 0, cutter.active and cutter.left == 0
        loaded = offers and solver.loads
        commands = bool(self.factors) and not cutter.active
        solver.starts = bool(self.starts) and solver.may_start
        starts = works[self.starts[0]] if solver.starts else None
        moved, over = solver.step(now, loaded, side, starts)
        if over:
            self.run.set_over(self.job, solver.final + STEP)
        if row is not None:
            solver.row(row)
        cutter.step(put, ends or loaded)
        if commands:
            n = works[self.factors.popleft()].size.columns
            cutter.begin(1, 1, n, n * (n + 1) // 2)
        if starts:
            self.job = self.starts.popleft()
        return moved or put or ends or commands or row is not None


class BoundsStage(Stage):
    """`hdl.qr.bounds` and `hdl.qr.writeback`."""

    def __init__(self, run: Run, writer: Writer) -> None:
        super().__init__(run.wake, bounds(run.config))
        self.run, self.writer = run, writer
        self.job, self.gone = 0, 0
        self.rows, self.takes = Rows(run.config, run.config.row_units), (False, False)
        self.left = self.begun = 0
        self.uses = False  # the dot unit, where changes want it too
        self.active_until = 0  # the last job's last word
        self.ends: list[int] = []
        self.solved = self.last = self.taken = False
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
        work = run.works[self.job]
        self.solved = self.job in run.over and run.over[self.job] <= now
        self.taken = now > self.active_until
        self.lost = work.fails not in (Fails.NOT, Fails.PASS)
        self.tries, self.enough = not work.size.full, not work.rescanned
        self.places = work.size.places > 0
        self.last = taken and not self.left
        before = self.phase
        if before == "OFFER" and not self.taken:
            run.wake(self.active_until + 1)
        turned = self.turn(now)
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
        self.active_until = taken[-1]
        self.ends.append(taken[-1])
        run.times.done[self.job] = taken[-1]
        run.wake(taken[-1] + 1)
        if len(self.ends) == len(run.works):
            self.retired_all = max(taken[-1] + 1, self.writer.idle())
