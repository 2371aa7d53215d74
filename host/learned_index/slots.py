"""Slots: an array with gaps, in which a new key moves few others. Labels of the qr engine's target `slot` (docs/explanation/qr.md)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: share of the slots that a full training fills
DENSITY = 0.5
#: slots behind the last one that a full training leaves in any case
ROOM = 64


@dataclass(frozen=True)
class Slots:
    """Slots of a sorted array's keys, ascending, below `capacity`."""

    of: list[int]
    capacity: int

    @classmethod
    def spread(cls, count: int, density: float = DENSITY) -> Slots:
        """Return slots of so many keys, evenly spread."""
        return cls([int(at / density) for at in range(count)], int(count / density) + ROOM)

    @classmethod
    def dense(cls, count: int) -> Slots:
        """Return slots without gaps: places."""
        return cls(list(range(count)), count)

    def range(self, low: int, high: int) -> tuple[int, int]:
        """Return which places of the array have slots from `low` to `high` - 1."""
        return bisect_left(self.of, low), bisect_left(self.of, high)

    def array(self) -> np.ndarray:
        """The slots, int64."""
        return np.array(self.of, dtype=np.int64)

    def after(
        self, added: Sequence[int], removed: Sequence[int]
    ) -> tuple[Slots, list[int], list[int]] | None:
        """Return the slots when keys have come and gone, the places of old keys whose slot is another one now, and the slots that those had.

        Keys at the places `removed` of the old array are gone, those at `added` of the new one are new (both ascending). New keys share the gap at their place;
        where it is too small, the keys behind move up to the next gaps. None where there are no more before the array's end.
        """
        gone, new = set(removed), set(added)
        old = iter([slot for at, slot in enumerate(self.of) if at not in gone])
        count = len(self.of) - len(gone) + len(new)
        slots: list[int] = []
        moved: list[int] = []
        before: list[int] = []
        run = 0  # new keys since the last old one
        for at in range(count + 1):
            if at < count and at in new:
                run += 1
                continue
            right = (
                next(old) if at < count else max(self.capacity, (slots[-1] if slots else -1) + 1)
            )
            left = slots[-1] if slots else -1
            gap = right - left
            # spread in the gap, or, where it is too small, one behind the other
            slots += (
                [left + (j + 1) * gap // (run + 1) for j in range(run)]
                if gap > run
                else range(left + 1, left + 1 + run)
            )
            run = 0
            if at < count:
                place = max(right, slots[-1] + 1 if slots else 0)
                if place != right:
                    moved.append(at)
                    before.append(right)
                slots.append(place)
        if slots and slots[-1] >= self.capacity:
            return None
        return Slots(slots, self.capacity), moved, before
