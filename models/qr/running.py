"""What the stages of the cycle model know of the run that they are part of."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from .config import FitPlan
from .layout import Places
from .work import Work

__all__ = ["Cycles", "Running"]


@dataclass
class Cycles:
    """`total`: cycles of the run, from the first descriptor's request to the last answer. Busy figures are in cycles; `done` holds each job's end."""

    total: int = 0
    words_read: int = 0
    words_written: int = 0
    sums_busy: int = 0
    done: list[int] = field(default_factory=list)


class Running:
    """A run under way: its jobs and their places in memory, and `times`: what has been counted so far."""

    def __init__(
        self, config: FitPlan, works: Sequence[Work], places: Sequence[Places], ring: int
    ) -> None:
        self.config, self.works = config, works
        self.places, self.ring = places, ring
        self.times = Cycles(done=[0] * len(works))
        self.now = 0
        self.alarms: list[int] = []
        self.over: set[int] = set()  # jobs that have been solved, or never will be
        self.overs: dict[int, list[int]] = {}

    def wake(self, cycle: int) -> None:
        """Look at all stages again in that cycle."""
        if cycle > self.now:
            heapq.heappush(self.alarms, cycle)

    def set_over(self, job: int, cycle: int) -> None:
        """Say that a job is over from that cycle on."""
        self.overs.setdefault(cycle, []).append(job)
        self.wake(cycle)
