"""Backends of the trainer beside the golden model: the golden model with the engine's time, and the simulated engine with its own memory.

```
with Engine(config) as engine:
    index = LearnedIndex(items, trainer=Trainer(config, engine), deferred=True)
```
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ...models.errors import ErrorCode, HardwareError
from ...models.memory import Fixed
from ...models.qr.config import Config
from ...models.qr.cycles import Work, run
from ...models.qr.golden import refit
from ...models.qr.image import pack_changes, pack_descriptor, pack_head, pack_memo, pack_rows, unpack_result
from ...models.qr.job import Fit, Job, Memo
from ...models.qr.layout import Places, Size, memo_words, result_words
from ...sim.native import Library, Session
from ...sim.qr import Hung, build

__all__ = ["Engine", "Timed"]

#: where device memory begins, and how much of it is added at a time
_BASE, _ARENA = 1 << 20, 1 << 22
#: cycles without a transfer after which a run has hung
_PATIENCE = 1_000_000


class Timed:
    """The golden model as a backend that counts what the engine would take: `cycles` over `runs` submissions, jobs that fail not counted."""

    def __init__(self, config: Config, memory: Fixed | None = None) -> None:
        self.config, self.memory = config, memory or Fixed()
        self.cycles = self.runs = self.jobs = 0

    def __call__(self, jobs: Sequence[Job]) -> list[Fit | HardwareError]:
        results = [refit(job, self.config, number) for number, job in enumerate(jobs)]
        works = [Work.of(job, fit, self.config) for job, fit in zip(jobs, results, strict=True) if isinstance(fit, Fit)]
        self.cycles += run(self.config, works, self.memory).total
        self.runs, self.jobs = self.runs + 1, self.jobs + len(jobs)
        return results


class _Arena:
    """Device memory in windows that are added as they are needed. Blocks of whole bus words; a free one goes to the next block of its size."""

    def __init__(self, session: Session) -> None:
        self.session, self.windows = session, list[NDArray[np.uint8]]()
        self.base = self.at = self.end = _BASE
        self.free: dict[int, list[int]] = defaultdict(list)

    def take(self, size: int) -> int:
        if self.free[size]:
            return self.free[size].pop()
        if self.at + size > self.end:
            window = np.zeros(max(_ARENA, -(-size // 4096) * 4096), dtype=np.uint8)
            self.session.map(self.end, window)
            self.windows.append(window)
            self.at, self.end = self.end, self.end + len(window)
        self.at += size
        return self.at - size

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """The bytes of a block."""
        begin = self.base
        for window in self.windows:
            if address < begin + len(window):
                return window[address - begin:address - begin + size]
            begin += len(window)
        raise ValueError(f"no memory at {address:#x}")


class Engine:
    """The simulated engine as a backend. A submission is one start; memos stay in the engine's memory, where the next job of their group finds them.

    A job that fails leaves its memo's copy there to be sent anew, so that a damaged one is not met twice. An error of the bus fails all jobs that have no
    result by then.

    Args:
        config: what is built; ValueError where there is no hardware for it.
        memory: timing of the memory port.
        library: the engine compiled for simulation, if it is at hand.
    """

    def __init__(self, config: Config, *, memory: Fixed | None = None, library: Library | None = None) -> None:
        self.config = config
        self._session = Session(library if library is not None else build(config), memory)
        self._arena = _Arena(self._session)
        self._resident: dict[int, tuple[int, int, int]] = {}            # a memo -> where it lies; its block and the block's size
        self.cycles = self.runs = self.jobs = self.sent = 0

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation."""
        self._resident.clear()
        self._session.close()

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes that the engine has read and written."""
        [port] = self._session.statistics()
        return port.bytes_read, port.bytes_written

    def memo(self, memo: Memo) -> NDArray[np.uint8] | None:
        """The bytes of a memo in the engine's memory, to be looked at or spoilt; None where they are not there."""
        if id(memo) not in self._resident:
            return None
        at, block, size = self._resident[id(memo)]
        return self._arena.view(at, size - (at - block))

    def __call__(self, jobs: Sequence[Job]) -> list[Fit | HardwareError]:
        config, arena, bus = self.config, self._arena, self.config.bus_bytes
        scratch: list[tuple[int, int]] = []

        def put(data: bytes) -> int:
            size = max(len(data), bus)
            at = arena.take(size)
            scratch.append((at, size))
            arena.view(at, len(data))[:] = np.frombuffer(data, dtype=np.uint8)
            self.sent += len(data)
            return at
        descriptors, rooms = [], []
        for job in jobs:
            size = Size.of(job)
            room = bus * (result_words(size, config) + memo_words(size, config))
            rooms.append((arena.take(room), room))
            memo, changes = put(pack_head(job.window, job.offsets, config)) if job.memo is None else self._place(job.memo), 0
            if job.memo is not None:
                changes = put(pack_changes(job, config))
            places = Places(memo, changes or memo, put(pack_rows(job, config)), rooms[-1][0])
            descriptors.append(pack_descriptor(job, config, places))
        report = self._session.run({"ring": put(b"".join(descriptors)), "jobs": len(jobs)}, watchdog=_PATIENCE)
        if not report.finished:
            raise Hung(report)
        self.cycles, self.runs, self.jobs = self.cycles + report.cycles, self.runs + 1, self.jobs + len(jobs)
        ended = len(jobs) if report.error is None else report.error.block
        results = [self._result(number, job, room, report.error if number >= ended else None)
                   for number, (job, room) in enumerate(zip(jobs, rooms, strict=True))]
        if report.error is not None:
            self._session.stop()
        for at, count in scratch:
            arena.free[count].append(at)
        return results

    def _place(self, memo: Memo) -> int:
        """The address of a memo, which is sent where it is not there any more."""
        if id(memo) in self._resident:
            return self._resident[id(memo)][0]
        data = pack_memo(memo, self.config)
        at = self._arena.take(len(data))
        self._arena.view(at, len(data))[:] = np.frombuffer(data, dtype=np.uint8)
        self.sent += len(data)
        self._keep(memo, at, at, len(data))
        return at

    def _keep(self, memo: Memo, at: int, block: int, size: int) -> None:
        """Remember where a memo lies for as long as the host has it."""
        key = id(memo)
        self._resident[key] = at, block, size
        weakref.finalize(memo, self._forget, key).atexit = False

    def _forget(self, key: int) -> None:
        found = self._resident.pop(key, None)
        if found is not None:
            self._arena.free[found[2]].append(found[1])

    def _result(self, number: int, job: Job, room: tuple[int, int], error: HardwareError | None) -> Fit | HardwareError:
        at, size = room
        found = unpack_result(self._arena.view(at, size).tobytes(), job.window.columns, self.config) if error is None else error.code
        if isinstance(found, ErrorCode):
            self._arena.free[size].append(at)
            if job.memo is not None:
                self._forget(id(job.memo))
            return HardwareError(found, number)
        head = self.config.bus_bytes * result_words(Size.of(job), self.config)
        self._keep(found.memo, at + head, at, size)
        return found
