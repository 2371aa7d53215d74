"""What the stages of the cycle model know of the run that they are part of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..memory.bursts import Writer
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


class Running(Protocol):
    """A run under way: its jobs and their places in memory, its ports, its stages.

    `over`: jobs that have been solved, or never will be; `times`: what has been counted so far.
    """

    config: FitPlan
    works: Sequence[Work]
    places: Sequence[Places]
    ring: int
    times: Times
    over: set[int]
    port: Any
    writer: Writer
    core: Any
    bounds: Any

    def wake(self, cycle: int) -> None:
        """Look at all stages again in that cycle."""

    def set_over(self, job: int, cycle: int) -> None:
        """Say that a job is over from that cycle on."""
