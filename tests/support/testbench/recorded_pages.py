"""When pages came into a ring, as a simulation recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.models.ring import NEVER

__all__ = ["Overrun", "Recorded"]


class Overrun(ValueError):
    """A page came into a slot that was still needed."""


@dataclass(frozen=True)
class Recorded:
    """Arrivals that are known: `times` by page. Raises Overrun for a page that came before its slot was free."""

    times: Sequence[int]
    slots: int

    def ready(self, page: int) -> int:
        return self.times[page] if page < len(self.times) else NEVER

    def done(self, page: int, cycle: int) -> None:
        if (after := page + self.slots) < len(self.times) and self.times[after] <= cycle:
            raise Overrun(
                f"page {after} came in cycle {self.times[after]}, page {page} left its slot in {cycle}"
            )
