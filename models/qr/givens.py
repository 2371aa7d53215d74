"""Cycles of the solver of method `givens`: `programs` run for one job after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .config import FitPlan
from .programs import SHORT, SOLVE, WAVE, Kind, walk
from .schedule import STEP

if TYPE_CHECKING:
    from .work import Work

__all__ = ["Givens", "alone"]


class Givens:
    """`hdl.qr.givens`. States: IDLE, LOAD (the memo's factor, or none), ROWS (a wave a row, then until the last row has left), SIDE (a wave a lane, and one
    more for each column that is dropped before the last one).
    """

    def __init__(self, config: FitPlan, wake: Callable[[int], None]) -> None:
        self.wake = wake
        self.state, self.at = "IDLE", 0  # from when on
        self.issued: dict[Kind, int] = {}
        self.job, self.columns, self.loaded, self.first = 0, 0, 0, 0
        self.keep: tuple[bool, ...] = ()
        self.fresh = self.held = self.ended = self.some = self.second = self.dropped = False
        self.final = -1  # when the last task was issued, or will be

    def look(self, now: int) -> None:
        """What is taken in this cycle: a job, a row of the factor, a new row."""
        here = now >= self.at
        self.starts = self.state == "IDLE" and here and now >= self.final + STEP
        self.loads = self.state == "LOAD" and not self.fresh
        self.rows = self.state == "ROWS" and here and not (self.held or self.ended)

    def takes(self, now: int, side: bool) -> bool:
        """Whether limits, or the right side, are taken."""
        return not side or now == self.final

    def start(self, now: int, job: int, work: Work) -> None:
        self.job, self.columns, self.keep = job, work.size.columns, work.keep
        self.fresh, self.state, self.at = work.size.full, "LOAD", now + 1
        self.loaded = self.first = 0
        self.held = self.ended = self.some = self.second = self.dropped = False

    def row(self, end: bool) -> None:
        """A new row, or the end of them."""
        self.held, self.ended, self.some = not end, end, self.some or not end

    def step(self, now: int, chunk: bool, side: bool) -> tuple[bool, int | None]:
        """A row of the factor comes; the right side is offered. Return whether anything moves, and the job whose weights are on their way."""
        if now < self.at:
            return False, None
        if self.state == "LOAD":
            self.loaded += chunk or self.fresh
            if self.loaded == self.columns:
                self.state, self.at = "ROWS", now + 1
            return chunk or self.fresh, None
        if self.state == "ROWS":
            return self._rows(now), None
        if self.state == "SIDE" and side:
            return True, self._side(now)
        return False, None

    def _rows(self, now: int) -> bool:
        if not self.held and not self.ended:
            return False
        if self.held or (self.some and self.first < self.columns - 1):
            self.first = 0 if self.held else self.first + 1
            self.held = False
            self._sleep(walk(WAVE, self.issued, now + 1, self.columns, self.first))
        else:  # the new factor leaves, a number a cycle
            self.state, self.first = "SIDE", 0
            self._sleep(now + 1 + self.columns * (self.columns + 1) // 2)
        return True

    def _side(self, now: int) -> int | None:
        last = self.first == self.columns - 1
        drops = not (self.second or last or self.keep[self.first])
        self.dropped |= drops
        end = walk(WAVE if self.dropped else SHORT, self.issued, now + 1, self.columns, self.first)
        if last:
            end = walk(SOLVE, self.issued, end, self.columns, 0)
            self.state, self.final = "IDLE", end - 1
            self.wake(self.final)
            self.wake(self.final + STEP)
            self._sleep(end)
            return self.job
        self.second, self.first = drops, self.first + (not drops)
        self._sleep(end + 1)
        return None

    def _sleep(self, until: int) -> None:
        self.at = until
        self.wake(until)


def alone(config: FitPlan, work: Work) -> int:
    """Return the cycles from a job's start to its weights, for a job whose factor, rows and right side are all there."""
    solver = Givens(config, lambda cycle: None)
    solver.start(0, 0, work)
    now, rows, done = 1, work.folded, None
    while done is None:
        solver.look(now)
        takes = solver.rows
        _, done = solver.step(now, True, True)
        if takes:
            solver.row(not rows)
            rows -= 1
        now = max(now + 1, solver.at)
    return solver.final + STEP - 1
