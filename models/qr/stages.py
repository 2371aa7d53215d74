"""The stages of the qr engine, as the cycle model sees them: what each asks, takes and gives in a cycle. `machine` joins them."""

from __future__ import annotations

from collections import deque

from .blocks import (
    END,
    FullScan,
    Gearbox,
    Loader,
    Merge,
    NormalEquationAccumulator,
    Records,
    Rows,
)
from .givens import Givens
from .job import Method
from .layout import (
    HEAD_BYTES,
    held_words,
    memo_words,
    result_words,
    row_stride,
    sums_words,
    words,
)
from .requests import Request, Route
from .running import Running
from .schedule import STEP, WIDEN_TURNS, dot_latency, widen_latency
from .solver import Solver
from .work import Fails, Work

__all__ = ["BoundsStage", "CoreStage", "IntakeStage"]


class IntakeStage:
    """`hdl.qr.intake`."""

    def __init__(self, run: Running) -> None:
        self.run, self.state = run, "HEAD"
        self.pending = self.bad = self.final = False
        self.job = 0

    def takes(self, request: Request) -> bool:
        route, run = request.route, self.run
        if route == Route.DESCRIPTOR:
            return True
        if route == Route.HEAD:
            return self.state == "HEAD"
        if route == Route.ANCHOR:
            return self.state == "BODY"
        if route == Route.PASS_BITS:
            return run.bounds.takes[0]
        if route == Route.PASS_ROWS:
            return run.bounds.takes[1]
        return self.state == "BODY" and (self.bad or run.core.takes(route))

    def pops(self, request: Request | None, last: bool, given: bool) -> bool:
        """Whether a job's words have all come, and it has been given on."""
        if self.state == "LAST":
            return not self.pending
        return (
            self.state == "BODY"
            and request is not None
            and request.final
            and last
            and not (self.pending and not given)
        )

    def step(self, now: int, request: Request | None, last: bool, given: bool) -> bool:
        run, config, state = self.run, self.run.config, self.state
        if given:
            self.pending = False
        if state == "HEAD":
            if request is not None and request.route == Route.HEAD and last:
                self.job, self.final, self.state = request.job, request.final, "CHECK"
        elif state == "CHECK":
            self.state = "VERDICT"
            return True
        elif state == "VERDICT":
            work = run.works[self.job]
            self.bad = work.fails is Fails.HEAD
            if self.bad:
                run.set_over(self.job, now + 1)
            self.pending = not self.bad and (work.size.full or not config.incremental)
            self.state = "LAST" if self.final else "BODY"
            return True
        elif state == "BODY" and request is not None:
            if request.route == Route.ANCHOR and last and not self.bad:
                self.pending = True
            if request.final and last:
                self.state = "LAST" if self.pending else "HEAD"
        elif state == "LAST" and not (self.pending or given):
            self.state = "HEAD"
            return True
        return given


class CoreStage:
    """`hdl.qr.core`."""

    def __init__(self, run: Running) -> None:
        self.run, config = run, run.config
        self.records, self.full_scan = Records(config), FullScan(config)
        self.accumulator = NormalEquationAccumulator(config, run.wake)
        self.scans = not config.incremental
        self.merge = Merge(self.scans)
        self.loader = Loader(config, run.wake)
        self.givens = Rotated(run) if config.method is Method.GIVENS else None
        count = config.solvers if self.givens is None else 0
        self.solvers = [Solver(config, run.wake) for _ in range(count)]
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

    def step(self, now: int, fed: int, given: int | None) -> bool:
        run, moved = self.run, False
        # sums
        item = self.full_scan.item if self.places else self.records.out.item
        passed = self.scans and not self.places and item == END
        # changes wait while bounds have the dot unit
        holds = run.bounds.uses and not self.places and item is not None and not passed
        if passed or holds:
            item = None
        folded = self.givens is not None and bool(item)
        if folded and self.givens is not None and not self.givens.solver.rows:
            item = None
        taken = item is not None and self.accumulator.takes(item)
        done, working = self.accumulator.done, item is not None and self.accumulator.open
        run.times.sums += working
        row, more = self._solve(now, fed == Route.FACTOR, item == END if folded and taken else None)
        moved |= more
        # words
        begin = done and not self.merging and not self.merge.active and self.loader.idle
        room = self.loader.ready
        word = self.merge.out if room else None
        given_on = self.held > 0 and self.merge.ready(room)
        self.held += (fed == Route.SUMS) - given_on
        moved |= self.merge.step(given_on, room)
        moved |= self.loader.step(now, word, row)
        freed = word == 2
        if freed:
            self.merging = False
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
        if given is not None:
            work, moved = run.works[given], True
            size, self.busy, self.places = work.size, True, work.size.full
            self.waiting.append(given)
            if self.givens is not None:
                self.givens.begin(given)
            self.accumulator.slots = self.accumulator.slots_of[size.columns]
            if size.full or self.scans:
                self.full_scan.begin(row_stride(size.columns - 1), work.live_places(), size.places)
            if not size.full:
                self.records.begin(
                    size.columns - 1, size.inserted, size.buried, size.removed, size.moved
                )
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

    def __init__(self, run: Running) -> None:
        self.run, self.solver = run, Givens(run.config, run.wake)
        self.cutter = Gearbox(run.config.bus_bytes // 4, run.config.n_max)
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
        starts = bool(self.starts) and solver.starts
        moved, over = solver.step(now, loaded, side)
        if over is not None:
            self.run.set_over(over, solver.final + STEP)
        if row is not None:
            solver.row(row)
        cutter.step(put, ends or loaded)
        if commands:
            n = works[self.factors.popleft()].size.columns
            cutter.begin(1, 1, n, n * (n + 1) // 2)
        if starts:
            job = self.starts.popleft()
            solver.start(now, job, works[job])
        return moved or put or ends or loaded or commands or starts or row is not None


class BoundsStage:
    """`hdl.qr.bounds` and `hdl.qr.writeback`."""

    def __init__(self, run: Running) -> None:
        self.run, self.state, self.job = run, "WAIT", 0
        self.rows, self.takes = Rows(run.config, run.config.row_units), (False, False)
        self.until = self.left = self.begun = 0
        self.asks = self.uses = False  # uses: the dot unit, where changes want it too
        self.active_until = 0  # the last job's last word
        self.ends: list[int] = []
        self.gone = 0
        self.retired_all: int | None = None

    def retired(self, now: int) -> int:
        """Jobs whose last word was transferred in an earlier cycle."""
        while self.gone < len(self.ends) and self.ends[self.gone] < now:
            self.gone += 1
        return self.gone

    def look(self, now: int) -> None:
        self.takes = self.rows.look()
        self.asks = self.state == "ASK"
        config = self.run.config
        self.uses = config.incremental and (
            self.rows.out.item is not None
            or (self.state == "JUDGE" and now - self.begun in WIDEN_TURNS)
        )

    def step(self, now: int, fed: int) -> bool:
        run, config = self.run, self.run.config
        taken = self.rows.out.item is not None
        if taken:
            self.left -= self.rows.out.item or 0
        moved = self.rows.step(fed == Route.PASS_BITS, fed == Route.PASS_ROWS, taken)
        work = run.works[self.job] if self.job < len(run.works) else None
        state = self.state
        if work is None:
            return moved
        size = work.size
        if state == "WAIT":
            if self.job in run.over:
                self.state = "BEGIN"
            return moved or self.state == "BEGIN"
        if state == "BEGIN":
            if work.fails not in (Fails.NOT, Fails.PASS):
                self.state = "OFFER"
            elif config.incremental and not size.full:
                self.state, self.begun = "JUDGE", now
                self._sleep(now + widen_latency(config.n_max))
            else:
                self.state = "ASK" if size.places else "OFFER"
            return True
        if state == "JUDGE" and now == self.until:
            self.state = "ASK" if work.rescanned and size.places else "OFFER"
            return True
        if state == "ASK":
            self.rows.begin(row_stride(size.columns - 1), size.places)
            self.left, self.state = size.places, "READ"
            return True
        if state == "READ" and taken and not self.left:
            self.state = "SETTLE"
            self._sleep(now + dot_latency(config.n_max))
            return True
        if state == "SETTLE" and now == self.until - 1:
            self.state = "OFFER"
            return True
        if state == "OFFER":
            if now <= self.active_until:
                run.wake(self.active_until + 1)
                return moved
            self._write(now, work)
            self.job, self.state = self.job + 1, "WAIT"
            return True
        return moved

    def _sleep(self, until: int) -> None:
        self.until = until
        self.run.wake(until - 1)
        self.run.wake(until)

    def _write(self, now: int, work: Work) -> None:
        run, config, size = self.run, self.run.config, work.size
        failed = work.fails is not Fails.NOT
        beats = (
            words(HEAD_BYTES, config.bus_bytes)
            if failed
            else result_words(size, config) + memo_words(size, config)
        )
        first = True

        def source(previous: int) -> int:
            nonlocal first
            cycle = now + 2 if first else previous + 1
            first = False
            return cycle

        _, taken = run.writer.send(now + 1, run.places[self.job].result, beats, source)
        run.times.words_written += beats
        self.active_until = taken[-1]
        self.ends.append(taken[-1])
        run.times.ended[self.job] = taken[-1]
        run.wake(taken[-1] + 1)
        if len(self.ends) == len(run.works):
            self.retired_all = max(taken[-1] + 1, run.writer.idle())
