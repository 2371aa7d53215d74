"""What a qr engine runs in: the memory that its jobs lie in, simulated or of a device, and which of it is free."""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ...models.errors import HardwareError
from ...sim.native import Hung, Session

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["Connected", "Full", "Machine", "Room", "Simulated"]

#: where a simulated engine's memory begins, and how much of it is added at a time
_BASE, _ARENA = 1 << 20, 1 << 22
#: cycles without a transfer after which a run has hung
_PATIENCE = 1_000_000


class Full(Exception):
    """There is no room in the engine's memory."""


class Machine(Protocol):
    """An engine with its memory of `size` bytes from `base` on."""

    base: int
    size: int

    def grow(self, size: int) -> bool:
        """Add at least `size` bytes behind the memory that there is, if that can be done."""

    def write(self, at: int, data: bytes) -> None: ...

    def read(self, at: int, size: int) -> bytes: ...

    def run(self, registers: dict[str, int]) -> tuple[HardwareError | None, int]:
        """Run; return what ended the run, and its cycles."""


class Simulated:
    """The simulated engine in memory that grows as it is needed."""

    def __init__(self, session: Session) -> None:
        self.session, self.base, self.size = session, _BASE, 0
        self._windows: list[NDArray[np.uint8]] = []

    def grow(self, size: int) -> bool:
        window = np.zeros(max(_ARENA, -(-size // 4096) * 4096), dtype=np.uint8)
        self.session.map(self.base + self.size, window)
        self._windows.append(window)
        self.size += len(window)
        return True

    def write(self, at: int, data: bytes) -> None:
        for window, first, count, done in self._parts(at, len(data)):
            window[first:first + count] = np.frombuffer(data, dtype=np.uint8, count=count, offset=done)

    def read(self, at: int, size: int) -> bytes:
        return b"".join(window[first:first + count].tobytes() for window, first, count, _ in self._parts(at, size))

    def _parts(self, at: int, size: int) -> list[tuple[NDArray[np.uint8], int, int, int]]:
        """The windows that a block lies in: each with the first of its bytes, how many, and how many came before."""
        parts, begin, done = [], self.base, 0
        for window in self._windows:
            first = at + done - begin
            if done < size and first < len(window):
                count = min(size - done, len(window) - first)
                parts.append((window, first, count, done))
                done += count
            begin += len(window)
        if done < size:
            raise ValueError(f"no memory at {at + done:#x}")
        return parts

    def run(self, registers: dict[str, int]) -> tuple[HardwareError | None, int]:
        report = self.session.run(registers, watchdog=_PATIENCE)
        if not report.finished:
            raise Hung(report)
        if report.error is not None:
            self.session.stop()
        return report.error, report.cycles


class Connected:
    """A device's engine, in the memory that the device has."""

    def __init__(self, device: Device) -> None:
        self.device, self.base, self.size = device, 0, device.identity.memory_bytes

    def grow(self, size: int) -> bool:
        return False

    def write(self, at: int, data: bytes) -> None:
        self.device.write(at, data)

    def read(self, at: int, size: int) -> bytes:
        return self.device.read(at, size)

    def run(self, registers: dict[str, int]) -> tuple[HardwareError | None, int]:
        report = self.device.run(registers, watchdog=_PATIENCE)
        return report.error, report.cycles


class Room:
    """Which bytes of a machine's memory are free; the first span that is large enough is taken, spans that meet become one."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._free: list[tuple[int, int]] = [(machine.base, machine.size)] if machine.size else []

    def take(self, size: int) -> int | None:
        """Return where so many bytes are free, and take them; None where there are none and the memory does not grow."""
        for number, (at, count) in enumerate(self._free):
            if count >= size:
                self._free[number:number + 1] = [(at + size, count - size)] if count > size else []
                return at
        end = self._machine.base + self._machine.size
        if not self._machine.grow(size):
            return None
        self.give(end, self._machine.base + self._machine.size - end)
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
