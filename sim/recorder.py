"""A machine around another one, which notes what a driver does with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .machine import Closing, Ended, Feed, Machine, Progress, Transfer, Unsupported


@dataclass(frozen=True)
class Written:
    """Bytes that the driver put into memory."""

    space: int
    at: int
    data: bytes


@dataclass(frozen=True)
class Read:
    """Bytes that the driver read from memory, as they were then."""

    space: int
    at: int
    data: bytes


@dataclass(frozen=True)
class Started:
    """One start: the registers in the order in which they were written, and how it ended."""

    registers: Mapping[str, int]
    watchdog: int
    ended: Ended


Step = Written | Read | Started


class Recorder(Closing):
    """Does all that `machine` does, and keeps it in `steps`.

    `sizes`: bytes of each address space, as far as the driver used it. What cannot be replayed on
    hardware, `trace` and `alter`, is Unsupported, as it is on devices.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.register_map = machine.register_map
        self.capacity, self.apart = machine.capacity, machine.apart
        self.steps: list[Step] = []
        self.sizes: dict[int, int] = {}

    def _used(self, space: int, end: int) -> None:
        self.sizes[space] = max(self.sizes.get(space, 0), end)

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        self._machine.reserve(at, size, space=space)
        self._used(space, at + size)

    def write(self, at: int, data: NDArray[np.uint8], *, space: int = 0) -> None:
        content = np.ascontiguousarray(data).reshape(-1).view(np.uint8).tobytes()
        self._machine.write(at, data, space=space)
        if content:
            self.steps.append(Written(space, at, content))
            self._used(space, at + len(content))

    def read(self, at: int, size: int, *, space: int = 0) -> NDArray[np.uint8]:
        content = self._machine.read(at, size, space=space)
        if size:
            self.steps.append(Read(space, at, content.tobytes()))
        return content

    def run(
        self,
        registers: Mapping[str, int],
        *,
        watchdog: int = 1_000_000,
        limit: int | None = None,
        progress: Progress | None = None,
        feeds: Sequence[Feed] = (),
    ) -> Ended:
        if feeds:
            raise Unsupported("a recording has no pages that come during a run")
        ended = self._machine.run(registers, watchdog=watchdog, limit=limit, progress=progress)
        self.steps.append(Started(dict(registers), watchdog, ended))
        return ended

    def trace(self, port: int) -> list[Transfer]:
        raise Unsupported("a recording has no trace of bursts")

    def alter(self, cycle: int, at: int, data: bytes, *, space: int = 0) -> None:
        raise Unsupported("a recording cannot change memory during a run")

    def close(self) -> None:
        self._machine.close()
