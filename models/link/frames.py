"""Frames on the host link: what the bytes mean, and the golden parser.

A frame is a *body* between two flags (0x7E). Inside, 0x7E and 0x7D are written as 0x7D and the byte XOR 0x20: the byte stuffing of HDLC-like framing
(RFC 1662, section 4.2), so that a flag is a frame's edge wherever it is seen and a receiver is in step again after the first flag that follows
garbage. A flag may end one frame and begin the next; empty bodies are nothing.

Request, host to device (numbers little-endian):

    sequence u8 | kind u8 | length u8 | address u32 | data (length bytes, of a write) | crc u32

Response, device to host:

    sequence u8 | kind u8 + 0x80 | length u8 | data (length bytes, of a read) | status u8 | crc u32

The CRC is CRC-32 of IEEE 802.3 (polynomial 0x04C11DB7, reflected 0xEDB88320, start and final XOR all ones: the FCS-32 of RFC 1662, C.3, and zlib's)
over all of the body before it. `kind` is a space and a direction: `space << 1 | write`. `address` counts bytes in the space; `length` ≤ `MAXIMUM` bytes from
there on, whatever the alignment.

A device drops a body that is not such a request (too short, too long, wrong CRC, no room for it) and answers a *nack*: sequence 0, kind 0xFF, status
DROPPED. Several drops before the device comes to answer are one nack. Every request that is not dropped is answered, in order.

Retries: a host that waits in vain sends the request again, with the same sequence. Reads and memory writes are simply done again. A write to the
registers is done once: one with the sequence of the register write before it is answered as that was; so a host must not give the next one that
sequence, however many requests of other kinds lie between. Any access to the identity space forgets that one, so a host begins with it.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

FLAG = 0x7E
ESCAPE = 0x7D
ESCAPE_XOR = 0x20

#: reflected; for hardware that shifts least significant bits first
CRC_POLYNOMIAL = 0xEDB8_8320
#: what the shift register (not inverted) holds after a body with its CRC
CRC_RESIDUE = 0xDEBB_20E3
#: bytes of the CRC
CRC_BYTES = 4

#: bytes of a request before its data
HEADER = 7
#: most bytes of data in a frame
MAXIMUM = 128
#: bytes of the device's buffer of requests; header and data of all requests under way must be fewer
RING = 512
#: set in the kind of a response
RESPONSE = 0x80
#: kind of a nack
NACK = 0xFF


class Space(IntEnum):
    """What an address is in."""

    IDENTITY = 0  #: 16 bytes that say what the device is (`models.link.device.Identity`), again and again; read only
    REGISTERS = 1  #: the shell's registers, on AXI4-Lite
    MEMORY = 2  #: the engine's memory, on AXI4
    RING = 3  #: of datagrams (`pushes`): rings of pages in that memory


class Status(IntEnum):
    """How a request went: the AXI response of its words, ORed."""

    OKAY = 0
    DROPPED = 1  #: of a nack
    SLVERR = 2
    DECERR = 3  #: also: a space that does not exist, a write to the identity
    BUSY = 4  #: of datagrams (`envelope`): another session has the device
    GONE = 5  #: of datagrams: the session is not the device's
    FULL = 6  #: of datagrams: a page comes before its slot is free


class FrameError(ValueError):
    """Bytes that are not a frame."""


@dataclass(frozen=True)
class Request:
    """What a host asks."""

    sequence: int
    space: int
    address: int
    length: int = 0  #: bytes to read
    data: bytes | None = None  #: bytes to write, in place of `length`

    @property
    def kind(self) -> int:
        return self.space << 1 | (self.data is not None)

    @property
    def size(self) -> int:
        """Bytes that the request takes in the device's buffer."""
        return HEADER + len(self.data or b"")

    def body(self) -> bytes:
        """The body without its CRC."""
        data = self.data or b""
        count = self.length if self.data is None else len(data)
        if count > MAXIMUM:
            raise FrameError(f"a frame carries at most {MAXIMUM} bytes, not {count}")
        return struct.pack("<BBBI", self.sequence, self.kind, count, self.address) + data

    def encode(self) -> bytes:
        """The bytes to send, with a flag on either side."""
        return stuff(self.body())


@dataclass(frozen=True)
class Response:
    """What a device answers. `kind` is the request's; `NACK` of a nack."""

    sequence: int
    kind: int
    data: bytes
    status: int

    def body(self) -> bytes:
        """The body without its CRC."""
        return (
            bytes([self.sequence, self.kind | RESPONSE, len(self.data)])
            + self.data
            + bytes([self.status])
        )

    def encode(self) -> bytes:
        """The bytes to send, with a flag on either side."""
        return stuff(self.body())


#: what a device answers to a body that is no request
DROPPED = Response(0, NACK, b"", Status.DROPPED)


def stuff(body: bytes) -> bytes:
    """Return the frame of a body: CRC added, bytes stuffed, flags around it."""
    out = bytearray([FLAG])
    for byte in body + zlib.crc32(body).to_bytes(CRC_BYTES, "little"):
        out += bytes([ESCAPE, byte ^ ESCAPE_XOR]) if byte in (FLAG, ESCAPE) else bytes([byte])
    out.append(FLAG)
    return bytes(out)


class Parser:
    """From bytes to bodies, one byte at a time; what is not well framed is dropped whole. The state is what the hardware keeps."""

    #: a body of more bytes than this is none, on either way
    LIMIT = HEADER + MAXIMUM + CRC_BYTES

    def __init__(self) -> None:
        self._body = bytearray()
        self._escape = False
        self._seen = False

    def push(self, byte: int) -> bytes | None:
        """Take a byte; at the end of a body return it without its CRC, or b"" when it is dropped; else None."""
        if byte == FLAG:
            body, complete, seen = bytes(self._body), not self._escape, self._seen
            self._body.clear()
            self._escape = self._seen = False
            if not seen:
                return None
            sound = (
                complete
                and CRC_BYTES < len(body) <= self.LIMIT
                and zlib.crc32(body[:-CRC_BYTES]) == int.from_bytes(body[-CRC_BYTES:], "little")
            )
            return body[:-CRC_BYTES] if sound else b""
        self._seen = True
        if byte == ESCAPE and not self._escape:
            self._escape = True
        else:
            if len(self._body) <= self.LIMIT:
                self._body.append(byte ^ ESCAPE_XOR if self._escape else byte)
            self._escape = False
        return None

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the bodies that ended in them, b"" for each that is dropped."""
        return [body for byte in data if (body := self.push(byte)) is not None]


def decode_request(body: bytes) -> Request:
    """Return the request in a body. Raises FrameError where it is none."""
    if len(body) < HEADER:
        raise FrameError(f"a request has at least {HEADER} bytes, not {len(body)}")
    sequence, kind, length = body[:3]
    address, data = int.from_bytes(body[3:HEADER], "little"), body[HEADER:]
    if length > MAXIMUM or len(data) != (length if kind & 1 else 0):
        raise FrameError("a request's length is not that of its data")
    return (
        Request(sequence, kind >> 1, address, 0, data)
        if kind & 1
        else Request(sequence, kind >> 1, address, length)
    )


def decode_response(body: bytes) -> Response:
    """Return the response in a body. Raises FrameError where it is none."""
    if len(body) < 4 or len(body) != 4 + body[2] or not body[1] & RESPONSE or body[-1] > 3:
        raise FrameError("not a response")
    return Response(body[0], NACK if body[1] == NACK else body[1] & ~RESPONSE, body[3:-1], body[-1])
