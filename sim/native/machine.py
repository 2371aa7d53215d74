"""The native harness as a machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...models.memory import FixedLatency, Memory
from ...models.shell import Status
from ..machine import Closing, Ended, Feed, Hung, Progress, Transfer
from ..windows import Window, Windows
from .library import Library
from .session import Session

#: cycles after which a run without a limit of its own has not come to an end
_LIMIT = 1 << 40


class NativeMachine(Closing):
    """A design compiled by Verilator, in memory of the timing that is given.

    Parameters: `memory`: of all ports, or by a port's name ("m0", …); `stall_percent`, `seed`:
    how often handshakes of the memory stall at random, which changes cycles but no result;
    `waves`: a file for the waves of all runs (the library must be built with `trace`); `vault`: its
    values by name, of a design that has some (`models.shell.VaultValue`): opening the machine is its
    power-up.
    """

    capacity, apart = None, 0

    def __init__(
        self,
        library: Library,
        memory: Memory | Mapping[str, Memory] | None = None,
        *,
        stall_percent: int = 0,
        seed: int = 1,
        waves: str | Path | None = None,
        vault: Mapping[str, int] | None = None,
    ) -> None:
        self.register_map = library.register_map
        self.session = Session(library, seed=seed, vault=vault)
        if memory is not None or stall_percent:
            self.session.set_memory(
                memory or FixedLatency(), stall_percent=stall_percent, seed=seed
            )
        if waves is not None:
            self.session.trace(waves)
        self._memory = Windows()
        self._recording: set[int] = set()
        self._began = 0
        self._changes: list[tuple[int, int, bytes, int]] = []

    def _map(self, window: Window | None) -> None:
        if window is not None:
            self.session.map(
                window.at, window.content, writable=window.writable, space=window.space
            )

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        self._map(self._memory.reserve(at, size, space))

    def write(self, at: int, data: NDArray[np.uint8], *, space: int = 0) -> None:
        self._map(self._memory.place(at, data, space))

    def read(self, at: int, size: int, *, space: int = 0) -> NDArray[np.uint8]:
        return self._memory.read(at, size, space)

    def run(
        self,
        registers: Mapping[str, int],
        *,
        watchdog: int = 1_000_000,
        limit: int | None = None,
        progress: Progress | None = None,
        feeds: Sequence[Feed] = (),
    ) -> Ended:
        session = self.session
        if not Status(session.read("status")) & Status.IDLE:
            session.stop()
        session.clear_statistics()
        for port in self._recording:
            session.record(port)
        for name, value in {**registers, "watchdog": watchdog}.items():
            session.write(name, value)
        begin = perf_counter()
        for feed in feeds:
            session.feed(feed)
        session.start(self._changes)
        self._changes, self._began = [], session.written
        report = session.resume(_LIMIT if limit is None else limit, progress)
        seconds = perf_counter() - begin
        if not report.finished:
            raise Hung(report)
        traffic = session.statistics()
        read, written = sum(t.bytes_read for t in traffic), sum(t.bytes_written for t in traffic)
        return Ended(report.error, report.cycles, dict(report.counters), read, written, seconds)

    def trace(self, port: int) -> list[Transfer]:
        if port not in self._recording:
            self._recording.add(port)
            self.session.record(port)
        return [t._replace(cycle=t.cycle - self._began) for t in self.session.records(port)]

    def alter(self, cycle: int, at: int, data: bytes, *, space: int = 0) -> None:
        self._changes.append((cycle, at, data, space))

    def close(self) -> None:
        self.session.close()
