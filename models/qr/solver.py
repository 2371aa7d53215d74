"""Cycles of a solver of method `gram`: tasks of several jobs, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .config import FitPlan
from .programs import Task, tasks
from .schedule import STEP

__all__ = ["Solver", "alone"]


class Solver:
    """`hdl.qr.solver`, as `models.qr.programs.GRAM` has it; contexts in order of age."""

    def __init__(self, config: FitPlan, wake: Callable[[int], None]) -> None:
        self.room, self.wake = config.contexts, wake
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


def alone(config: FitPlan, columns: Sequence[int]) -> int:
    """Return the cycles of one solver from the first row to the last weights, for jobs of so many columns whose rows are all there."""
    solver = Solver(config, lambda time: None)
    rows = [
        (job, count, row == count) for job, count in enumerate(columns) for row in range(count + 1)
    ]
    rows.reverse()
    time, left = 0, len(columns)
    while left:
        solver.look(time)
        if rows and solver.takes():
            solver.load(time, *rows.pop())
        left -= solver.step(time) is not None
        time += 1
    return time - 1 + STEP - 1
