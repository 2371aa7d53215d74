"""Backends of the trainer beside the golden model: the golden model with the engine's time, and the engine, simulated or on a device, with its own memory.

```
with EngineBackend(config) as engine:
    index = LearnedIndex(items, trainer=Trainer(config, engine), deferred=True)
```
"""

import weakref
from bisect import bisect
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from ...models.errors import HardwareError, NamedCode
from ...models.memory import FixedLatency, Memory
from ...models.qr import image
from ...models.qr.config import FitPlan
from ...models.qr.cycles import Work, run
from ...models.qr.golden import refit
from ...models.qr.job import Fit, Job, Memo
from ...models.qr.layout import Places, Size, memo_words, result_words
from ...sim.machine import Closing, Machine, round_up
from ..device.errors import DeviceError


class Timed:
    """The golden model as a backend that counts what the engine would take: `cycles` over `runs` submissions, jobs that fail not counted.

    Raises ValueError where there is no hardware for `config`.
    """

    def __init__(self, config: FitPlan, memory: Memory | None = None) -> None:
        if not config.built:
            raise ValueError(f"there is no hardware for {config}")
        self.config, self.memory = config, memory or FixedLatency()
        self.cycles = self.runs = self.jobs = 0

    def __call__(self, jobs: Sequence[Job]) -> list[Fit | HardwareError]:
        results = [refit(job, self.config, number) for number, job in enumerate(jobs)]
        works = [
            Work.of(job, fit, self.config)
            for job, fit in zip(jobs, results, strict=True)
            if isinstance(fit, Fit)
        ]
        self.cycles += run(self.config, works, self.memory).total
        self.runs, self.jobs = self.runs + 1, self.jobs + len(jobs)
        return results


class EngineBackend(Closing):
    """An engine as a backend: simulated, or on a device. A submission is one start, or several where the memory does not hold all its jobs at once; memos stay
    in the engine's memory, where the next job of their group finds them, until others need the room.

    A job that fails leaves its memo's copy there to be sent anew, so that a damaged one is not met twice. An error of the bus fails all jobs that have no
    result by then.

    Args:
        config: what is built.
        machine: runs the engine: a simulation, or a device; closed with the backend.

    A submission raises DeviceError where the device's memory does not even hold one of its jobs.
    """

    def __init__(self, config: FitPlan, machine: Machine) -> None:
        self.config, self._machine = config, machine
        self._room = Room(self._machine)
        # a memo -> where it lies; its block and the block's size
        self._resident: dict[int, tuple[int, int, int]] = {}
        self._held: set[int] = set()  # memos that the start under way needs
        self.cycles = self.runs = 0
        self.jobs = self.sent = 0
        self._read = self._written = 0

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an engine cannot be pickled or copied, nor can an index that it trains; LearnedIndex.save() stores the index"
        )

    def close(self) -> None:
        """End the simulation, or leave the device."""
        self._resident.clear()
        self._machine.close()

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes that the simulated engine has read and written; a device does not count them."""
        return self._read, self._written

    def __call__(self, jobs: Sequence[Job]) -> list[Fit | HardwareError]:
        results = self._submit(jobs, 0)
        self.jobs += len(jobs)
        return results

    def _submit(self, jobs: Sequence[Job], first: int) -> list[Fit | HardwareError]:
        self._held = {id(job.memo) for job in jobs if job.memo is not None}
        taken: list[tuple[int, int]] = []
        try:
            ring, rooms = self._lay_out(jobs, taken)
        except Full:
            for block in taken:
                self._room.give(*block)
            if len(jobs) == 1:
                raise DeviceError(
                    f"a fit of {len(jobs[0].rows)} rows does not fit into the device's {self._machine.capacity} bytes of memory",
                    "smaller groups do",
                ) from None
            half = len(jobs) // 2
            return self._submit(jobs[:half], first) + self._submit(jobs[half:], first + half)
        ended = self._machine.run({"ring": ring, "jobs": len(jobs)})
        error = ended.error
        self.cycles, self.runs = self.cycles + ended.cycles, self.runs + 1
        self._read += ended.bytes_read
        self._written += ended.bytes_written
        finished = len(jobs) if error is None else error.block
        results = [
            self._result(first + number, job, room, error if number >= finished else None)
            for number, (job, room) in enumerate(zip(jobs, rooms, strict=True))
        ]
        for block in taken:
            if block not in rooms:
                self._room.give(*block)
        return results

    def _lay_out(
        self, jobs: Sequence[Job], taken: list[tuple[int, int]]
    ) -> tuple[int, list[tuple[int, int]]]:
        """Put jobs into memory; return where their ring is, and the room of each result. `taken`: the blocks for that. Raises Full."""
        config, bus = self.config, self.config.bus_bytes

        def take(size: int) -> int:
            taken.append((self._take(size), size))
            return taken[-1][0]

        def put(data: bytes) -> int:
            at = take(-(-max(len(data), 1) // bus) * bus)
            self._machine.write(at, np.frombuffer(data, dtype=np.uint8))
            self.sent += len(data)
            return at

        descriptors, rooms = [], []
        for job in jobs:
            size = Size.of(job)
            room = bus * (result_words(size, config) + memo_words(size, config))
            rooms.append((take(room), room))
            if job.memo is None:
                memo = changes = put(image.pack_head(job.window, job.offsets, config))
            else:
                memo, changes = self._place(job.memo), put(image.pack_changes(job, config))
            places = Places(memo, changes, put(image.pack_rows(job, config)), rooms[-1][0])
            descriptors.append(image.pack_descriptor(job, config, places))
        return put(b"".join(descriptors)), rooms

    def _take(self, size: int) -> int:
        """A block of so many bytes; memos that this start does not need make room. Raises Full."""
        while (at := self._room.take(size)) is None:
            other = next((key for key in self._resident if key not in self._held), None)
            if other is None:
                raise Full
            self._forget(other)
        return at

    def _place(self, memo: Memo) -> int:
        """The address of a memo, which is sent where it is not there any more."""
        if id(memo) in self._resident:
            return self._resident[id(memo)][0]
        data = image.pack_memo(memo, self.config)
        at = self._take(len(data))
        self._machine.write(at, np.frombuffer(data, dtype=np.uint8))
        self.sent += len(data)
        self._keep(memo, at, at, len(data))
        return at

    def _keep(self, memo: Memo, at: int, block: int, size: int) -> None:
        """Remember where a memo lies for as long as the host has it."""
        key = id(memo)
        self._resident[key] = at, block, size
        weakref.finalize(memo, self._forget, key).atexit = False

    def _forget(self, key: int) -> None:
        entry = self._resident.pop(key, None)
        if entry is not None:
            self._room.give(entry[1], entry[2])

    def _result(
        self, number: int, job: Job, room: tuple[int, int], error: HardwareError | None
    ) -> Fit | HardwareError:
        at, size = room
        outcome: Fit | NamedCode
        if error is None:
            data = self._machine.read(at, size).tobytes()
            outcome = image.unpack_result(data, job.window.columns, self.config)
        else:
            outcome = error.code
        if not isinstance(outcome, Fit):
            self._room.give(at, size)
            if job.memo is not None:
                self._forget(id(job.memo))
            return HardwareError(outcome, number)
        head = self.config.bus_bytes * result_words(Size.of(job), self.config)
        self._keep(outcome.memo, at + head, at, size)
        return outcome


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
