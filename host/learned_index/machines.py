"""Which bytes of an engine's memory are free."""

from __future__ import annotations

from bisect import bisect

from ...sim.machine import Machine, round_up

__all__ = ["Full", "Room"]

#: how much memory a simulated engine gets at a time
_ARENA = 1 << 22


class Full(Exception):
    """There is no room in the engine's memory."""


class Room:
    """Which bytes of a machine's memory are free; the first span that is large enough is taken,
    spans that meet become one. A machine without a capacity gets memory as it is needed."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self.size = machine, machine.capacity or 0
        self._free: list[tuple[int, int]] = [(0, self.size)] if self.size else []

    def take(self, size: int) -> int | None:
        """Return where so many bytes are free, and take them; None where there are none and the
        memory does not grow."""
        for number, (at, count) in enumerate(self._free):
            if count >= size:
                left = [(at + size, count - size)] if count > size else []
                self._free[number : number + 1] = left
                return at
        if self._machine.capacity is not None:
            return None
        end, more = self.size, max(_ARENA, round_up(size))
        self._machine.reserve(end, more)
        self.size += more
        self.give(end, more)
        return self.take(size)

    def give(self, at: int, size: int) -> None:
        """Take back what `take` gave."""
        number = bisect(self._free, (at, size))
        if number < len(self._free) and self._free[number][0] == at + size:
            size += self._free.pop(number)[1]
        if number and sum(self._free[number - 1]) == at:
            number -= 1
            at, size = self._free[number][0], size + self._free.pop(number)[1]
        self._free.insert(number, (at, size))
