"""A device as a machine."""

from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...models.shell import Status
from ...models.target import Storage
from ...sim.machine import Closing, Ended, Feed, Progress, Transfer, Unsupported
from .device import Device
from .errors import DeviceError, NotOver
from .feeding import fill


class DeviceMachine(Closing):
    """A connected device. `owned`: it is closed with the machine. `memory`: the board's, and `alone`: how many of the design's ports have a channel of it for
    themselves.

    A run that somebody left is stopped first. Memory is what the device has: reserving it changes
    nothing. Raises DeviceError for bytes outside of it, LinkError where the device cannot be
    reached, NotOver where a run is not over after `limit` seconds.
    """

    def __init__(
        self,
        device: Device,
        *,
        owned: bool = False,
        memory: Storage | None = None,
        alone: int = 0,
    ) -> None:
        self.device, self._owned = device, owned
        self._memory = memory or Storage()
        self._first = (
            self._memory.begin(alone) if alone and self._memory.channels else self.capacity
        )
        self.register_map, self.apart = device.register_map, self._memory.channel_bytes
        if not device.read_register("status") & Status.IDLE:
            device.stop()

    @property
    def capacity(self) -> int:
        return self.device.identity.memory_bytes

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        channel = self._memory.channel_bytes
        if space and not channel:
            raise DeviceError(
                "the design's memory ports have memories of their own, and the device has one for all",
                "compile for a target with one memory port, or run it in simulation",
            )
        have, what = (
            (channel, "a channel") if space else (min(self.capacity, self._first), "the device")
        )
        if at + size > have:
            raise DeviceError(
                f"the run takes {at + size} bytes of memory; {what} has {have}",
                "fewer rows take less",
            )

    def write(self, at: int, data: NDArray[np.uint8], *, space: int = 0) -> None:
        self.device.write(self._memory.begin(space) + at, data)

    def read(self, at: int, size: int, *, space: int = 0) -> NDArray[np.uint8]:
        return np.frombuffer(self.device.read(self._memory.begin(space) + at, size), dtype=np.uint8)

    def run(
        self,
        registers: Mapping[str, int],
        *,
        watchdog: int = 1_000_000,
        limit: int | None = None,
        progress: Progress | None = None,
        feeds: Sequence[Feed] = (),
    ) -> Ended:
        begin = perf_counter()
        self.device.start(registers, watchdog=watchdog)
        if feeds:
            self._feed(feeds, limit)
        report = self.device.wait(limit, progress)
        seconds = perf_counter() - begin
        return Ended(report.error, report.cycles, dict(report.counters), 0, 0, seconds)

    def _feed(self, feeds: Sequence[Feed], limit: int | None) -> None:
        """Fill the rings until no page is left, or the run is over."""
        ends = float("inf") if limit is None else perf_counter() + limit
        for sent in fill(self.device, feeds, ends):
            if not sent and self.device.read_register("status") & Status.IDLE:
                return  # it has ended early, well or not
            if perf_counter() > ends:
                raise NotOver(f"{self.device.path}: the run is not over after {limit} s")

    def trace(self, port: int) -> list[Transfer]:
        raise Unsupported("a device does not record its traffic; a simulation does")

    def alter(self, cycle: int, at: int, data: bytes, *, space: int = 0) -> None:
        raise Unsupported("memory of a device cannot be altered at a cycle; a simulation can")

    def close(self) -> None:
        if self._owned:
            self.device.close()
