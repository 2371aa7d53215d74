"""Cycles of the solvers: of method `gram`, whose tasks of several jobs are interleaved, and of method `givens`, one job after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .programs import Kind, Task, tasks, walk
from .schedule import STEP
from .stages import ROTATIONS, Phased

if TYPE_CHECKING:
    from .work import Work


class Solver:
    """`hdl.qr.solver`, as `models.qr.programs.GRAM` has it; contexts in order of age."""

    def __init__(self, contexts: int, wake: Callable[[int], None]) -> None:
        self.room, self.wake = contexts, wake
        self.contexts: list[_Context] = []
        self.loading = False
        self.waiting: _Context | None = None  # may issue now

    def look(self, now: int) -> None:
        """Which task may be issued in this cycle."""
        self.waiting = next((c for c in self.contexts if c.ready <= now), None)

    def takes(self) -> bool:
        """Whether a row is taken in this cycle."""
        return self.loading or len(self.contexts) < self.room

    def load(self, now: int, job: int, columns: int, side: bool) -> None:
        if self.waiting is not None:
            self.wake(now + 1)
        self.waiting = None
        if not self.loading:
            self.contexts.append(_Context(job, tasks(columns)))
        context = self.contexts[-1]
        context.issued.append(now)
        self.loading = not side
        if side:
            self._next(context, now)

    def _next(self, context: _Context, now: int) -> None:
        number, issued = len(context.issued), context.issued
        context.ready = max(
            [now + 1, *(issued[k] + wait for k, wait in context.tasks[number].after)]
        )
        self.wake(context.ready)

    def step(self, now: int) -> int | None:
        """Issue a task if one may; return a job whose last it was: its weights are there STEP cycles later."""
        context = self.waiting
        if context is None:
            return None
        context.issued.append(now)
        if len(context.issued) < len(context.tasks):
            self._next(context, now)
            return None
        self.contexts.remove(context)
        self.wake(now + STEP)
        return context.job


class _Context:
    def __init__(self, job: int, tasks: Sequence[Task]) -> None:
        self.job, self.tasks = job, tasks
        self.issued, self.ready = list[int](), 1 << 62


def solved(columns: int, rows: Iterable[int]) -> int:
    """Return the cycle from which on the weights of a job alone are there, whose rows come in these cycles, in which a solver takes them."""
    solver = Solver(1, lambda _: None)
    now = 0
    for row, now in enumerate(rows):
        solver.look(now)
        solver.load(now, 0, columns, row == columns)
    while True:
        now += 1
        solver.look(now)
        if solver.step(now) is not None:
            return now + STEP


class Rotations(Phased):
    """The cycles of `hdl.qr.givens`: its phase, and when it takes rows and the right side."""

    def __init__(self, wake: Callable[[int], None]) -> None:
        super().__init__(wake, ROTATIONS)
        self.issued: dict[tuple[Kind, bool], int] = {}
        self.columns, self.count, self.first = 0, 0, 0
        self.keep: tuple[bool, ...] = ()
        self.until = 0  # the phase's last cycle, where it is known
        self.final = -1  # when the last task was issued, or will be
        self.fresh = self.held = False  # the factor begins as zeros; a new row waits
        self.ended = self.some = False  # no more rows come; there was one
        # it is a column's second turn; the column is dropped; one was dropped
        self.second = self.drops = self.dropped = False
        self.solves = self.rows = False  # what a wave is for: weights, a row

    def may_start(self, now: int) -> bool:
        """Whether a job is taken in this cycle."""
        return self.phase == "IDLE" and now >= self.final + STEP

    @property
    def loads(self) -> bool:
        """Whether a row of the factor is taken."""
        return self.phase == "LOAD" and not self.fresh

    @property
    def takes_rows(self) -> bool:
        """Whether a new row is taken."""
        return self.phase == "ROWS" and not (self.held or self.ended)

    def takes(self, now: int, side: bool) -> bool:
        """Whether limits, or the right side, are taken."""
        return not side or now == self.final

    def row(self, end: bool) -> None:
        """Take a new row, or the end of the rows."""
        self.held, self.ended, self.some = not end, end, self.some or not end

    def step(self, now: int, chunk: bool, side: bool, job: Work | None) -> tuple[bool, bool]:
        """A row of the factor comes; the right side is offered; a job starts. Return whether anything moves, and whether weights are on their way."""
        if now < self.until:
            return chunk, False
        before, last = self.phase, self.first == self.columns - 1
        self.count += self.phase == "LOAD" and (chunk or self.fresh)
        conditions = {
            "starts": job is not None,
            "loaded": self.count == self.columns,
            "known": self.held or self.ended,
            "moves": self.held or (self.some and not last),
            "over": now == self.until,
            "left": now == self.until,
            "comes": side,
            "solves": self.solves,
            "rows": self.rows,
            "last": last,
        }
        if not self.turn(now, conditions):
            return chunk or (before == "LOAD" and self.fresh), False
        at = now + 1
        if before == "IDLE" and job is not None:
            self.columns, self.keep, self.fresh = job.size.columns, job.keep, job.size.full
            self.count = self.first = 0
            self.held = self.ended = self.some = False
            self.second = self.dropped = False
            self.solves, self.rows = False, True
        elif before == "ROWS" and self.phase == "WAVE":
            self.first = 0 if self.held else self.first + 1
            self.held = False
            self._until(walk(Kind.TURN, self.issued, at, self.columns, self.first) - 1)
        elif before == "ROWS":  # the new factor leaves, a number a cycle
            self.rows, self.first = False, 0
            self._until(now + self.columns * (self.columns + 1) // 2)
        elif before == "SIDE":
            self.drops = not (self.second or last or self.keep[self.first])
            self.dropped |= self.drops
            short = not self.dropped
            self._until(walk(Kind.TURN, self.issued, at, self.columns, self.first, short) - 1)
        elif before == "WAVE" and self.phase == "LOOK":
            self.second, self.first = self.drops, self.first + (not self.drops)
        elif before == "WAVE" and self.phase == "WAVE":
            self.solves, self.final = True, walk(Kind.INVERT, self.issued, at, self.columns, 0) - 1
            self._until(self.final)
            self.wake(self.final + STEP)
            return True, True
        return True, False

    def _until(self, cycle: int) -> None:
        self.until = cycle
        self.wake(cycle)


def alone(work: Work) -> int:
    """Return the cycles from a job's start to its weights, for a job whose factor, rows and right side are all there."""
    solver, now = Rotations(lambda _: None), 0
    rows, done = work.folded, False
    while not done:
        takes = solver.takes_rows
        _, done = solver.step(now, True, True, work)
        if takes:
            solver.row(not rows)
            rows -= 1
        now = max(now + 1, solver.until)
    return solver.final + STEP - 1
