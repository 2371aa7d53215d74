"""What stands on the host's side of a device: frames of sessions go in, answers come out.

A carrier has no key, and learns which session asks and how often. The device behind it is the golden
model, or hardware.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ...models.errors import HardwareError
from ...models.omap.boundary import Frames
from ...models.omap.config import OmapConfig
from ...models.omap.device import Stopped
from ...models.omap.errors import MapStopped
from ...models.omap.kept_device import Carried, KeptDevice
from ...models.omap.shell import Handshake
from ...sim.machine import Closing, Machine, round_up

__all__ = ["DeviceCarrier", "GoldenDevice", "MachineDevice", "Powers"]

#: requests of one start of hardware
_MOST = 1024


class DeviceCarrier(Protocol):
    """Carries frames to a device, and its answers back."""

    config: OmapConfig

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        """Return the answers to requests, in order, and behind them that to `opening`, a frame that
        opens a session, if there is one. Raises MapStopped."""
        ...

    def close(self) -> None: ...


class GoldenDevice(Closing):
    """The golden model, powered up with a root and entropy of the system's generator: the host's pages lie in `pages` as ciphertext."""

    def __init__(self, config: OmapConfig, root: bytes) -> None:
        self.config, self._device = config, KeptDevice(config, root, secrets.token_bytes(32))

    @property
    def pages(self) -> bytearray:
        return self._device.device.pages

    def restore(self, files: Sequence[bytes]) -> tuple[bytes, int]:
        """As `KeptDevice.restore`. Raises MapStopped."""
        try:
            return self._device.restore(files)
        except Stopped as problem:
            raise MapStopped(HardwareError(problem.code)) from None

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        return self.step(frames, opening).answers

    def step(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> Carried:
        """As `KeptDevice.carry`. Raises MapStopped."""
        try:
            return self._device.carry(frames, opening, walk)
        except Stopped as problem:
            raise MapStopped(HardwareError(problem.code)) from None


class MachineDevice(Closing):
    """Hardware that has been powered up with a vault.

    Parameters: `machine`: runs the engine; closed with the carrier. Raises ValueError for a machine whose
    HBM the host could read, because it has one memory.
    """

    def __init__(self, config: OmapConfig, machine: Machine) -> None:
        if machine.capacity is not None:
            raise ValueError(
                "the device has one memory, which its host reads: it would hide nothing"
            )
        self.config, self._machine, self._frames = config, machine, Frames.of(config)
        self._error: HardwareError | None = None
        frames, at = self._frames, round_up(config.host_bytes)
        welcome = frames.welcome_beats * frames.bus_bytes
        sizes = {
            "requests": _MOST * frames.size,
            "responses": _MOST * frames.size,
            "opening": frames.opening_beats * frames.bus_bytes,
            "welcome": welcome,
        }
        self._places = {"pages": 0}
        for name, size in sizes.items():
            self._places[name], at = at, at + round_up(size)
        self._welcome_bytes = welcome
        machine.reserve(0, at)
        machine.reserve(0, config.hbm_bytes, space=1)
        self.cycles = 0

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        answers: list[bytes] = []
        for at in range(0, max(len(frames), 1), _MOST):
            last = at + _MOST >= len(frames)
            answers += self._start(frames[at : at + _MOST], opening if last else b"")
        return answers

    def _start(self, frames: Sequence[bytes], opening: bytes) -> list[bytes]:
        if self._error is not None:
            raise MapStopped(self._error)
        for name, text in (("requests", b"".join(frames)), ("opening", opening)):
            if text:
                data = np.frombuffer(text, dtype=np.uint8)
                self._machine.write(self._places[name], data)
        shakes = Handshake.TAKE | Handshake.COLLECT if opening else 0
        given = {"count": len(frames), "interval": 0, "handshake": int(shakes)}
        ended = self._machine.run({**self._places, **given})
        self.cycles += ended.cycles
        if ended.error is not None:
            self._error = ended.error
            raise MapStopped(ended.error)
        size, places = self._frames.size, self._places
        answers = [self._read(places["responses"] + k * size, size) for k in range(len(frames))]
        if opening:
            answers.append(self._read(places["welcome"], self._welcome_bytes))
        return answers

    def _read(self, at: int, size: int) -> bytes:
        return self._machine.read(at, size).tobytes()

    def close(self) -> None:
        self._machine.close()


#: powers a device up with a root
Powers = Callable[[OmapConfig, bytes], DeviceCarrier]
