"""When a solver issues its contexts' tasks."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from .config import FitPlan
from .schedule import STEP, Task

__all__ = ["Solver", "alone"]


@dataclass
class Context:
    job: int
    tasks: Sequence[Task]
    issued: list[int]
    ready: int

    @property
    def loading(self) -> bool:
        """Whether rows are still to be taken."""
        return len(self.issued) < len(self.tasks) and self.tasks[len(self.issued)].load


class Solver:
    """One solver: one issue a cycle, rows that are to be taken first, then contexts in order of age; `vectors` vector units."""

    def __init__(self, config: FitPlan, post: Callable[[int, Callable[[int], None]], None], finished: Callable[[int, int], None]) -> None:
        self.room, self.free, self.post, self.finished = config.contexts, [0] * config.vectors, post, finished
        self.waiting: deque[tuple[int, int, Sequence[Task]]] = deque()
        self.contexts: list[Context] = []
        self.next = 0                                   # the first cycle without an issue
        self.awake: set[int] = set()

    def give(self, time: int, job: int, tasks: Sequence[Task]) -> None:
        self.waiting.append((time, job, tasks))
        self._admit(time)

    def _admit(self, time: int) -> None:
        while self.waiting and len(self.contexts) < self.room and not (self.contexts and self.contexts[-1].loading):
            ready, job, tasks = self.waiting.popleft()
            self.contexts.append(Context(job, tasks, [], max(ready, time)))
        self._wake(time)

    def _wake(self, time: int) -> None:
        if self.contexts:
            at = max(time, self.next, min(self.free), min(c.ready for c in self.contexts))
            if at not in self.awake:
                self.awake.add(at)
                self.post(at, self._issue)

    def _issue(self, time: int) -> None:
        self.awake.discard(time)
        vector = min(range(len(self.free)), key=self.free.__getitem__)
        if time >= self.next and self.free[vector] <= time:
            for context in sorted(self.contexts, key=lambda each: not each.loading):
                if context.ready <= time:
                    self._start(context, vector, time)
                    break
        self._wake(time)

    def _start(self, context: Context, vector: int, time: int) -> None:
        number = len(context.issued)
        task = context.tasks[number]
        context.issued.append(time)
        self.free[vector], self.next = time + task.slots, time + 1
        if number + 1 < len(context.tasks):
            context.ready = max([time + 1, *(context.issued[k] + wait for k, wait in context.tasks[number + 1].after)])
            if task.load and not context.loading:
                self._admit(time + 1)
            return
        self.contexts.remove(context)
        end = time + task.slots - 1 + STEP - 1                           # h has gone back into the bias
        self.post(end, lambda now: self.finished(now, context.job))
        self._admit(time + 1)


def alone(config: FitPlan, jobs: Sequence[Sequence[Task]]) -> int:
    """Return the cycles of one solver from the first issue to the last result, all jobs waiting from the start."""
    events: list[tuple[int, int, Callable[[int], None]]] = []
    ends: list[int] = []
    serial = count()

    def post(time: int, action: Callable[[int], None]) -> None:
        heapq.heappush(events, (time, next(serial), action))
    solver = Solver(config, post, lambda now, job: ends.append(now))
    for number, tasks in enumerate(jobs):
        solver.give(0, number, tasks)
    while events:
        time, _, action = heapq.heappop(events)
        action(time)
    return max(ends)
