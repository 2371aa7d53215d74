"""Reservations of units by cycle: which operation of a schedule has which unit from when on, and what is free."""

from collections.abc import Mapping, Sequence
from itertools import product

#: a class of units (`schedule.Key`), cycles behind the operation's start, beats
Use = tuple[tuple[str, bool, str, str], int, int]


class Table:
    """One unit's reservations as bits: modulo an interval, or along one timeline (interval 0)."""

    def __init__(self, interval: int):
        self.interval = interval
        self.busy = 0

    def _bits(self, start: int, beats: int) -> int:
        run = (1 << beats) - 1
        if not self.interval:
            return run << start
        bits = run << start % self.interval
        return (bits | bits >> self.interval) & ((1 << self.interval) - 1)

    def take(self, start: int, beats: int) -> None:
        self.busy |= self._bits(start, beats)

    def leave(self, start: int, beats: int) -> None:
        self.busy &= ~self._bits(start, beats)

    def starts(self, beats: int) -> int:
        """Return as bits at which cycles of an interval so many beats in a row are free."""
        if beats > self.interval:
            return 0
        slots, have = ~self.busy & ((1 << self.interval) - 1), 1
        while have < beats:  # runs of twice the length, from two that touch
            more = min(have, beats - have)
            slots, have = slots & turned(slots, more, self.interval), have + more
        return slots

    def next_free(self, start: int, beats: int) -> int:
        """Return the first free start from `start` on, along a timeline."""
        while clash := self.busy & self._bits(start, beats):
            start = clash.bit_length()  # behind the last bit in the way
        return start


def turned(bits: int, by: int, interval: int) -> int:
    """Return the bits of an interval as seen from its cycle `by`."""
    by %= interval
    return (bits >> by | bits << interval - by) & ((1 << interval) - 1)


class Placement:
    """Starts and units of operations. `uses`: of each operation; `count`: units of each class, one where nothing is said.

    Classes whose last word is "group" are used again every `interval` cycles, the others once.
    """

    def __init__(
        self, uses: Mapping[int, Sequence[Use]], count: Mapping[tuple, int], interval: int
    ):
        self.uses, self.interval = uses, interval
        self.starts: dict[int, int] = {}
        self.units: dict[int, tuple[int, ...]] = {}  # which one of each class
        self.times: dict[tuple, dict[int, tuple[int, int]]] = {}  # of each unit, whose use is when
        classes = dict.fromkeys(use[0] for mine in uses.values() for use in mine)
        self.tables = {
            key: [Table(interval if key[3] == "group" else 0) for _ in range(count.get(key, 1))]
            for key in classes
        }

    def put(self, number: int, low: int) -> bool:
        """Place an operation as early as it goes from `low` on; say whether there was a place."""
        uses = self.uses[number]
        best: tuple[int, tuple[int, ...]] | None = None
        for units in product(*(range(len(self.tables[key])) for key, _, _ in uses)):
            start = self._start(uses, units, low)
            if start is not None and (best is None or start < best[0]):
                best = start, units
                if start == low:
                    break
        if best is None:
            return False
        self.starts[number], self.units[number] = best
        for (key, late, beats), unit in zip(uses, best[1], strict=True):
            self.tables[key][unit].take(best[0] + late, beats)
            begin = best[0] + late
            self.times.setdefault((key, unit), {})[number] = begin, begin + beats
        return True

    def span(self, number: int) -> int:
        """Return the longest time from first to last use of a unit that an operation is on."""
        longest = 0
        for (key, _, _), unit in zip(self.uses[number], self.units[number], strict=True):
            begins, ends = zip(*self.times[key, unit].values(), strict=True)
            longest = max(longest, max(ends) - min(begins))
        return longest

    def remove(self, number: int) -> None:
        start = self.starts.pop(number)
        for (key, late, beats), unit in zip(self.uses[number], self.units.pop(number), strict=True):
            self.tables[key][unit].leave(start + late, beats)
            del self.times[key, unit][number]

    def _start(self, uses: Sequence[Use], units: Sequence[int], low: int) -> int | None:
        key, late, beats = uses[0]
        if key[3] != "group":
            return self.tables[key][units[0]].next_free(low + late, beats) - late
        interval = self.interval
        free = (1 << interval) - 1
        for (key, late, beats), unit in zip(uses, units, strict=True):
            free &= turned(self.tables[key][unit].starts(beats), late, interval)
        after = turned(free, low, interval)
        return low + (after & -after).bit_length() - 1 if free else None
