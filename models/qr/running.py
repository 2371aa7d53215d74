"""What the stages of the cycle model know of the run that they are part of."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from .config import FitPlan
from .layout import Places
from .work import Work

__all__ = ["Running", "Times"]


@dataclass
class Times:
    """Cycle of the run's end, and of the last word of each job's result and memo; words read and written; busy cycles of sums."""

    total: int
    ended: list[int]
    words_read: int = 0
    words_written: int = 0
    sums: int = 0


class Running:
    """A run under way: its jobs and their places in memory, and `times`: what has been counted so far."""

    def __init__(
        self, config: FitPlan, works: Sequence[Work], places: Sequence[Places], ring: int
    ) -> None:
        self.config, self.works = config, works
        self.places, self.ring = places, ring
        self.times = Times(0, [0] * len(works))
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
