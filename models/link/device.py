"""The device's end of the link, golden: requests are answered by a memory and registers in Python."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from typing import Protocol

from .frames import (
    DROPPED,
    MAXIMUM,
    RING,
    FrameError,
    Parser,
    Request,
    Response,
    Space,
    Status,
    decode_request,
)

#: of frames and spaces, major in the high half
LINK_VERSION = 0x10
#: "PLNK"
_MAGIC = 0x4B4E_4C50
_LAYOUT = "<IBBBBII"


@dataclass(frozen=True)
class Identity:
    """What a device says of itself: sizes in bytes, the clock in Hz."""

    bus_bytes: int
    memory_bytes: int
    clock_hz: int
    version: int = LINK_VERSION
    maximum: int = MAXIMUM
    ring: int = RING

    def encode(self) -> bytes:
        """The 16 bytes of the identity space."""
        return struct.pack(
            _LAYOUT,
            _MAGIC,
            self.version,
            self.maximum,
            self.ring.bit_length() - 1,
            self.bus_bytes.bit_length() - 1,
            self.memory_bytes,
            self.clock_hz,
        )

    @classmethod
    def decode(cls, data: bytes) -> Identity:
        """Raises FrameError where these bytes are no identity."""
        if len(data) != 16:
            raise FrameError("an identity has 16 bytes")
        magic, version, *rest = struct.unpack(_LAYOUT, data)
        if magic != _MAGIC:
            raise FrameError("the device is not a Penstock link")
        if version >> 4 != LINK_VERSION >> 4:
            raise FrameError(
                f"the device speaks version {version >> 4} of the link, not {LINK_VERSION >> 4}"
            )
        maximum, ring, bus = rest[:3]
        if not maximum or ring > 31 or bus > 7:
            raise FrameError("the device's sizes make no sense")
        return cls(1 << bus, rest[3], rest[4], version, maximum, 1 << ring)


assert struct.calcsize(_LAYOUT) == 16 and len(astuple(Identity(8, 0, 0))) == 6


class Bus(Protocol):
    """Something with words of `bus_bytes` bytes at addresses that are multiples of it."""

    bus_bytes: int

    def read(self, address: int) -> tuple[bytes, int]:
        """Return a word and the response."""

    def write(self, address: int, word: bytes, strobes: int) -> int:
        """Write the bytes of a word whose bits in `strobes` are set; return the response."""


class Device:
    """Answers frames. `registers` has words of 4 bytes, `memory` of the engine's bus."""

    def __init__(self, identity: Identity, registers: Bus, memory: Bus) -> None:
        self.identity = identity
        self._spaces = {Space.REGISTERS: registers, Space.MEMORY: memory}
        self._parser = Parser()
        self._last: tuple[int, int] | None = (
            None  # sequence and status of the last write to registers
        )

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the host; return those that are answered."""
        out = bytearray()
        for body in self._parser.feed(data):
            try:
                request = decode_request(body)
            except FrameError:
                out += DROPPED.encode()
            else:
                out += self.answer(request).encode()
        return bytes(out)

    def answer(self, request: Request) -> Response:
        if request.space == Space.IDENTITY:
            self._last = None
        if (
            request.data is not None
            and request.space == Space.REGISTERS
            and self._last is not None
            and self._last[0] == request.sequence
        ):
            return Response(request.sequence, request.kind, b"", self._last[1])
        response = self.perform(request)
        if request.data is not None and request.space == Space.REGISTERS:
            self._last = request.sequence, response.status
        return response

    def perform(self, request: Request) -> Response:
        """Do what is asked, whatever came before."""
        if request.data is None:
            return self._read(request)
        return Response(request.sequence, request.kind, b"", self._write(request, request.data))

    def _read(self, request: Request) -> Response:
        if request.space == Space.IDENTITY:
            text = self.identity.encode()
            return Response(
                request.sequence,
                request.kind,
                bytes(text[(request.address + k) % 16] for k in range(request.length)),
                Status.OKAY,
            )
        bus = self._bus(request.space)
        if bus is None:
            return Response(request.sequence, request.kind, bytes(request.length), Status.DECERR)
        data, status = bytearray(), 0
        address = request.address
        while len(data) < request.length:
            lane = address % bus.bus_bytes
            word, response = bus.read(address - lane)
            taken = word[lane : lane + request.length - len(data)]
            data += taken if not response else bytes(len(taken))
            address += len(taken)
            status |= response
        return Response(request.sequence, request.kind, bytes(data), status)

    def _write(self, request: Request, data: bytes) -> int:
        bus = self._bus(request.space)
        if bus is None:
            return Status.DECERR
        status, position, address = 0, 0, request.address
        while position < len(data):
            lane = address % bus.bus_bytes
            part = data[position : position + bus.bus_bytes - lane]
            word = bytes(lane) + part + bytes(bus.bus_bytes - lane - len(part))
            status |= bus.write(address - lane, word, (1 << len(part)) - 1 << lane)
            position, address = position + len(part), address + len(part)
        return status

    def _bus(self, space: int) -> Bus | None:
        return self._spaces.get(Space(space)) if space in (Space.REGISTERS, Space.MEMORY) else None
