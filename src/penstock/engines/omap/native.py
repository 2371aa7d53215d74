"""A map's device in C++: golden of `models.omap.kept_device` bit for bit, and what a server has in its place.

Handshakes, keys and what files say stay in Python; requests, pages and records are C++, a call a batch.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from penstock.host.omap.devices import GoldenDevice
from penstock.models.crypto.gcm import TAG
from penstock.models.omap.boundary import Frames, Header
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.device import Device, Stopped
from penstock.models.omap.errors import MapError
from penstock.models.omap.kept_device import KeptDevice
from penstock.models.omap.messages import Keys, Request, Response
from penstock.models.omap.sessions import ALLOWED, ROLES, Answer
from penstock.models.omap.state import Head, Kind, Record, Writer, file_key
from penstock.sim.native.toolchain import NATIVE, build_text

_SHAPE = (
    *(
        "capacity",
        "value_bytes",
        "key_bytes",
        "bins",
        "hbm_bins",
        "slots",
        "buckets",
        "bucket_slots",
    ),
    *("frames", "chunks", "chunk_blocks", "slot_blocks", "page_bytes", "bin_bits"),
)
_FRAMES = ("request_bytes", "answer_bytes", "request_blocks", "answer_blocks", "size")
#: bytes of a link: whether it is there, its name, its serial
_LINK = 25


@cache
def _library() -> ctypes.CDLL:
    """Raises BuildError."""
    text = Path(__file__).with_name("device.cpp").read_text(encoding="utf-8")
    loaded = ctypes.CDLL(str(build_text("map_device", text, NATIVE)))
    at, number = ctypes.c_void_p, ctypes.c_uint64
    for name, result, takes in (
        ("new", at, (at, at, at)),
        ("free", None, (at,)),
        ("take", None, (at, number, number, at, at)),
        ("past", None, (at, at, at)),
        ("file", None, (at, number, at)),
        ("record", None, (at, number, at, at)),
        ("step", number, (at, number, at, at, at)),
        ("run", number, (at, at, number, number, number, at, at, at, at)),
        ("bucket", None, (at, number, at)),
    ):
        function = getattr(loaded, f"device_{name}")
        function.restype, function.argtypes = result, takes
    return loaded


class _Step:
    """What is known of an operation."""

    def __init__(self, response: Response) -> None:
        self.response = response


class _Map:
    """In place of `models.omap.device.Device`. `pages`: the host's memory, which others may change."""

    def __init__(self, config: OmapConfig, keys: Keys) -> None:
        frames, self._library = Frames.of(config), _library()
        shape = [getattr(config, name) for name in _SHAPE]
        shape += [getattr(frames, name) for name in _FRAMES]
        shape += [sum(1 << operation for operation in ALLOWED[role]) for role in ROLES]
        self.config, self.pages = config, bytearray(config.host_bins * config.page_bytes)
        # what C++ keeps a pointer to must not move
        self._memory = (ctypes.c_uint8 * len(self.pages)).from_buffer(self.pages)
        secret = b"".join(key.to_bytes(16, "little") for key in (keys.page, keys.hash, keys.pairs))
        numbers = (ctypes.c_uint64 * len(shape))(*shape)
        self.at = self._library.device_new(numbers, secret, self._memory)
        self._size = 0

    def __del__(self) -> None:
        if hasattr(self, "at"):
            self._library.device_free(self.at)

    @property
    def map(self) -> _Map:
        return self

    def bucket(self, number: int) -> list[int | None]:
        """Return the keys of a bucket's entries, slot by slot."""
        size, slots = 1 + self.config.key_bytes, self.config.bucket_slots
        out = ctypes.create_string_buffer(slots * size)
        self._library.device_bucket(self.at, number, out)
        entries = [out.raw[k * size :][:size] for k in range(slots)]
        return [int.from_bytes(text[1:], "little") if text[0] else None for text in entries]

    def step(self, request: Request) -> _Step:
        """Carry out one request. Raises Stopped."""
        out = ctypes.create_string_buffer(1 + self.config.value_bytes)
        key = request.key.to_bytes(self.config.key_bytes, "little")
        judged(self._library.device_step(self.at, request.operation, key, request.value, out))
        return _Step(Response(out.raw[0], request.key, out.raw[1:]))


def judged(code: int) -> None:
    """Raise Stopped for an error's code."""
    if code:
        raise Stopped(MapError(code))


class _File(Writer):
    """A file whose records C++ seals."""

    def __init__(self, device: NativeKept, head: Head, key: bytes) -> None:
        self.head, self._device, self._which = head, device, head.kind & 1
        device.library.device_file(device.at, self._which, key)

    def record(self, record: Record) -> bytes:
        config = self._device.config
        out = ctypes.create_string_buffer(Record.size(config))
        text = Answer(*record).pack(config.key_bytes)
        self._device.library.device_record(self._device.at, self._which, text, out)
        return out.raw


class NativeKept(KeptDevice):
    """A device whose map is C++. Raises BuildError."""

    @staticmethod
    def _powered(config: OmapConfig, keys: Keys) -> Device:
        return cast(Device, _Map(config, keys))

    @property
    def library(self) -> ctypes.CDLL:
        return _library()

    @property
    def at(self) -> Any:
        """Where the map is."""
        return cast(_Map, self.device).at

    def run(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]:
        answers = super().run(frames, opening)
        if opening:
            slot, code, _ = Header.unpack(answers[-1])
            keys, role = self._boundary.keys(slot), self._boundary.role(slot)
            if not code and keys is not None and role is not None:
                place = ROLES.index(role)
                self.library.device_take(self.at, slot, place, keys.receive, keys.send)
        return answers

    def begin(self) -> bytes:
        answer = super().begin()
        if self._log is not None:
            links = bytearray(256 * _LINK)
            for number, link in self._past.links.items():
                text = b"\1" + link.incarnation + link.serial.to_bytes(8, "little")
                links[number * _LINK : (number + 1) * _LINK] = text
            self.library.device_past(self.at, self._past.current, bytes(links))
        return answer

    def _writer(self, head: Head) -> Writer:
        return _File(self, head, file_key(self._keys, head))

    def _ended(self) -> bytes:
        answer = super()._ended()
        self.library.device_file(self.at, Kind.SNAPSHOT, None)
        return answer

    def _answered(self, frames: Sequence[bytes]) -> list[bytes]:
        if not frames:
            return []
        size, count = self.frames.size, len(frames)
        record = self.frames.answer_bytes + TAG
        answers = ctypes.create_string_buffer(count * size)
        log, snapshot = (ctypes.create_string_buffer(count * record) for _ in range(2))
        done, text = (ctypes.c_uint64 * 2)(), b"".join(frames)
        arguments = self.at, text, count, self.serial, self._since
        code = self.library.device_run(*arguments, answers, log, snapshot, done)
        self.serial += done[0]
        self.confirmed = self.confirmed or bool(done[1])
        if self._log is not None:
            self._out[Kind.LOG].append(log.raw[: done[0] * record])
        if self._snapshot is not None:
            self._out[Kind.SNAPSHOT].append(snapshot.raw[: done[0] * record])
        judged(code)
        replies = answers.raw
        return [replies[k * size : (k + 1) * size] for k in range(count)]


class NativeDevice(GoldenDevice):
    """`host.omap.devices.GoldenDevice` with a device in C++. Raises BuildError."""

    def __init__(self, config: OmapConfig, root: bytes, generation: int = 0) -> None:
        entropy = secrets.token_bytes(32)
        self.config = config
        self._device = NativeKept(config, root, entropy, generation=generation)
