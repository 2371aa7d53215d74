"""What stands on the host's side of a device: frames of sessions go in, answers come out.

A carrier has no key, and learns which session asks and how often. The device behind it is the golden
model, or hardware.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ...models.errors import HardwareError
from ...models.omap.boundary import Frames, Header
from ...models.omap.config import BLOCK, OmapConfig
from ...models.omap.device import Stopped
from ...models.omap.errors import MapError, MapStopped
from ...models.omap.kept_device import Carried, KeptDevice
from ...models.omap.shell import WALK_BITS, Handshake
from ...models.omap.state import HEAD, Head, Kind
from ...sim.machine import Closing, Machine, round_up
from .restore import restored

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


class KeptCarrier(DeviceCarrier, Protocol):
    """A carrier to a device that seals its state (`models.omap.kept_device`)."""

    def restore(self, files: Sequence[bytes]) -> tuple[bytes, int]:
        """As `restore.restored`. Raises restore.Damaged, MapStopped."""
        ...

    def step(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> Carried:
        """As `KeptDevice.carry`. Raises MapStopped."""
        ...


class GoldenDevice(Closing):
    """The golden model, powered up with a root and entropy of the system's generator: the host's pages lie in `pages` as ciphertext."""

    def __init__(self, config: OmapConfig, root: bytes, generation: int = 0) -> None:
        entropy = secrets.token_bytes(32)
        self.config = config
        self._device = KeptDevice(config, root, entropy, generation=generation)

    @property
    def pages(self) -> bytearray:
        return self._device.device.pages

    def restore(self, files: Sequence[bytes]) -> tuple[bytes, int]:
        """As `restore.restored`. Raises restore.Damaged, MapStopped."""
        try:
            return restored(self.config, self._device, files)
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


class _Steps(NamedTuple):
    """A snapshot's part of a run: buckets, operations, and whether the last one ends it."""

    buckets: int
    operations: int
    ends: bool


@dataclass
class _Files:
    """What belongs into the map's files, as in `Carried`."""

    log: bytes = b""
    snapshot: bytes = b""
    fresh: bytes = b""


class MachineDevice(Closing):
    """Hardware that has been powered up with a vault.

    Parameters: `machine`: runs the engine; closed with the carrier; `state`: it keeps its map's state.
    Raises ValueError for a machine whose HBM the host could read, because it has one memory.
    """

    def __init__(self, config: OmapConfig, machine: Machine, state: bool = False) -> None:
        if machine.capacity is not None:
            raise ValueError(
                "the device has one memory, which its host reads: it would hide nothing"
            )
        self.config, self._machine, self._frames = config, machine, Frames.of(config)
        self._error: HardwareError | None = None
        #: the head of the log, the serial, and how many buckets a snapshot went through, None without one
        self._head: Head | None = None
        self._serial = 0
        self._walked: int | None = None
        frames, at = self._frames, round_up(config.host_bytes)
        self._welcome_bytes = frames.welcome_beats * frames.bus_bytes
        sizes = {
            "requests": _MOST * frames.size,
            "responses": _MOST * frames.size,
            "opening": frames.opening_beats * frames.bus_bytes,
            "welcome": self._welcome_bytes,
        }
        most = _MOST + ((1 << WALK_BITS) - 1) * config.bucket_slots + 1
        sizes |= dict.fromkeys(("log", "snapshot"), most * frames.size) if state else {}
        self._places = {"pages": 0}
        for name, size in sizes.items():
            self._places[name], at = at, at + round_up(size)
        machine.reserve(0, at)
        for space, size in enumerate(config.channels, 1):
            machine.reserve(0, size, space=space)
        self.cycles = 0

    def carry(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        return self.step(frames, opening).answers

    def step(self, frames: Sequence[bytes], opening: bytes = b"", walk: int = 0) -> Carried:
        """As `KeptDevice.carry`, with no more buckets than a run reads. Raises MapStopped."""
        answers, files = list[bytes](), _Files()
        shakes = Handshake.TAKE | Handshake.COLLECT if opening else Handshake(0)
        for at in range(0, max(len(frames), 1), _MOST):
            some = frames[at : at + _MOST]
            last = at + _MOST >= len(frames)
            steps = self._begin_walk(min(walk, (1 << WALK_BITS) - 1) if last else 0, files)
            self._start(some, opening, shakes if last else Handshake(0), steps.buckets)
            answers += self._read_frames("responses", len(some))
            if self._head is not None:
                self._keep(files, len(some) + steps.operations, steps.ends)
        if opening:
            answers.append(self._read("welcome", self._welcome_bytes))
        return Carried(answers, files.log, files.snapshot, files.fresh)

    def _begin_walk(self, buckets: int, files: _Files) -> _Steps:
        """Return what a snapshot takes of a run; it begins where none is under way."""
        if self._head is None or not buckets:
            return _Steps(0, 0, False)
        if self._walked is None:
            self._walked = 0
            files.snapshot += self._head._replace(kind=Kind.SNAPSHOT, serial=self._serial).pack()
        buckets = min(buckets, self.config.buckets - self._walked)
        self._walked += buckets
        ends = self._walked == self.config.buckets
        return _Steps(buckets, buckets * self.config.bucket_slots + ends, ends)

    def _keep(self, files: _Files, count: int, ends: bool) -> None:
        """Take the records of so many operations."""
        assert self._head is not None
        size = self._frames.answer_bytes
        texts = {"log": b"", "snapshot": b""}
        for name in texts if self._walked is not None else ("log",):
            records = self._read_frames(name, count)
            texts[name] = b"".join(self._frames.sealed(record, size) for record in records)
        files.log += texts["log"]
        files.snapshot += texts["snapshot"]
        self._serial += count
        if ends:
            self._walked, self._head = None, self._head._replace(serial=self._serial)
            files.fresh = self._head.pack()

    def restore(self, files: Sequence[bytes]) -> tuple[bytes, int]:
        """As `KeptCarrier`."""
        if "log" not in self._places:
            raise MapStopped(HardwareError(MapError.STOPPED))
        return restored(self.config, self, files)

    def take(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        """As `KeptDevice.take`. Raises MapStopped."""
        answers = list[bytes]()
        shakes = Handshake.TAKE | Handshake.FILE
        for at in range(0, max(len(frames), 1), _MOST):
            some = frames[at : at + _MOST]
            self._start(some, opening, shakes if opening and not at else Handshake.FILE)
            answers += self._read_frames("responses", len(some))
        return answers

    def begin(self) -> bytes:
        """As `KeptDevice.begin`. Raises MapStopped."""
        self._start([], b"", Handshake.FILE | Handshake.COLLECT)
        welcome = self._read("welcome", self._welcome_bytes)
        if not Header.unpack(welcome).code:
            self._head = Head.unpack(welcome[BLOCK : BLOCK + HEAD])
            self._serial = self._head.serial
        return welcome

    def _start(
        self, frames: Sequence[bytes], opening: bytes, shakes: Handshake, walk: int = 0
    ) -> None:
        if self._error is not None:
            raise MapStopped(self._error)
        for name, text in (("requests", b"".join(frames)), ("opening", opening)):
            if text:
                data = np.frombuffer(text, dtype=np.uint8)
                self._machine.write(self._places[name], data)
        registers = {"count": len(frames), "interval": 0, "handshake": int(shakes)}
        registers |= {"walk": walk} if "log" in self._places else {}
        ended = self._machine.run({**self._places, **registers})
        self.cycles += ended.cycles
        if ended.error is not None:
            self._error = ended.error
            raise MapStopped(ended.error)

    def _read_frames(self, name: str, count: int) -> list[bytes]:
        size = self._frames.size
        text = self._read(name, count * size) if count else b""
        return [text[at : at + size] for at in range(0, len(text), size)]

    def _read(self, name: str, size: int) -> bytes:
        return self._machine.read(self._places[name], size).tobytes()

    def close(self) -> None:
        self._machine.close()


class Powers(Protocol):
    """Powers a device up with a root, and the generation of the keys that clients know."""

    def __call__(self, config: OmapConfig, root: bytes, generation: int = 0) -> KeptCarrier: ...
