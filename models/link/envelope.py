"""The envelope of requests in datagrams: what the bytes mean, and the device's end, golden (`hdl.link.link.Link` equals it datagram for datagram).

Request, host to device (numbers little-endian):

    session u32 | sequence u32 | kind u8 | port u8 | length u16 | address u64 | data (length bytes, of a write) | crc u32

Answer, device to host:

    session u32 | sequence u32 | kind u8 + 0x80 | status u8 | length u16 | bitmap u64 | first u32 | pages u32 | data (length bytes, of a read) | crc u32

The CRC is that of `frames`, over all before it; `kind` is a space and a direction as there, and `ASK` where an answer is wanted in any case. `port` and
`pages` are of pages that are pushed (`pushes`; a device without a ring does not know these kinds), else 0. A datagram that is no such request is dropped
without an answer.

Opening: a read of the identity is outside of sequences. It makes its session the device's, if the device has none (0), has the one that its `address`
names, or has not heard of its own for `SILENCE` seconds; a device whose session it is already answers again. Else the answer is BUSY. Session 0 is
nobody's, so it closes. A new session's sequences begin at `first` of the answer: `WINDOW` behind the last one's, so that no number comes again soon
and what is left of another session in the network is old, whoever it belongs to. Requests of other sessions are answered GONE.

The device takes each sequence once, in any order from `first` on, the first one missing, to `WINDOW` after it; `bitmap` has bit k for `first` + k, and
numbers compare as in RFC 1982. What comes again is answered again and changes nothing; a read is done again. What is beyond is dropped. Memory that is
written is answered where `ASK` is set, where something before it is missing, and where it is refused; the status is the worst since the opening. So are
pushes, with a status of their own. All else is answered always.
"""

import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from .device import Device
from .ethernet import PEER
from .frames import CRC_BYTES, MAXIMUM, RESPONSE, Request, Space, Status
from .pushes import PIECE, Pushes

#: most bytes of data in a datagram
LONGEST = 1024
#: sequences from the first missing one on that a device takes
WINDOW = 64
#: bytes of a device's buffer of requests: three whole ones
BUFFER = 4096
#: bytes a second of Gigabit Ethernet; those around a datagram's data: of it, of IP and UDP, of Ethernet with preamble and gap
LINE_RATE, AROUND = 125_000_000, 24 + 28 + 38
#: seconds without a datagram of its session after which a device may be taken over
SILENCE = 10
#: in `kind`: an answer is wanted
ASK = 0x40
#: kind of what opens a session
OPENING = Space.IDENTITY << 1

_REQUEST = struct.Struct("<IIBBHQ")
_ANSWER = struct.Struct("<IIBBHQII")


class Answer(NamedTuple):
    """What a device answers. `kind` is the request's."""

    session: int
    sequence: int
    kind: int
    status: int
    bitmap: int
    first: int
    data: bytes
    pages: int = 0

    def encode(self) -> bytes:
        """Return the datagram."""
        kind, length = self.kind | RESPONSE, len(self.data)
        head = (self.session, self.sequence, kind, self.status, length, self.bitmap, self.first)
        return _closed(_ANSWER.pack(*head, self.pages) + self.data)


def _closed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(CRC_BYTES, "little")


def encode(
    session: int,
    sequence: int,
    kind: int,
    address: int,
    length: int,
    data: bytes = b"",
    port: int = 0,
) -> bytes:
    """Return a request's datagram."""
    return _closed(_REQUEST.pack(session, sequence, kind, port, length, address) + data)


def _opened(datagram: bytes, layout: struct.Struct) -> tuple[tuple[int, ...], bytes] | None:
    """Return the numbers and the data of a sound datagram, else None."""
    size = layout.size
    fits = size + CRC_BYTES <= len(datagram) <= size + LONGEST + CRC_BYTES
    body = datagram[:-CRC_BYTES]
    if not fits or zlib.crc32(body) != int.from_bytes(datagram[-CRC_BYTES:], "little"):
        return None
    return layout.unpack(body[:size]), body[size:]


def decode_answer(datagram: bytes) -> Answer | None:
    """Return the answer in a datagram; None where it is none."""
    fields = _opened(datagram, _ANSWER)
    if fields is None:
        return None
    (session, sequence, kind, status, length, bitmap, first, pages), data = fields
    if not kind & RESPONSE or length != len(data) or status not in set(Status):
        return None
    return Answer(session, sequence, kind & ~RESPONSE, status, bitmap, first, data, pages)


#: cycles of a write to memory beside its bytes: of a datagram (head, decision, its place in the window), of each piece of `MAXIMUM`
#: bytes, of each bus word until on-chip memory has answered
_EACH, _PIECE, _WORD = 10, 17, 7
#: of one that is whole bus words, and until memory takes the first
_BURST, _TAKES = 16, 3
_BYTES = 4  # of a word of datagrams
#: cycles from a request's last word to its answer's first byte, about
_BEGINS = 24


def write_cycles(size: int, bus_bytes: int, peer: int = PEER) -> int:
    """Return in how many cycles a device (`hdl.link`) does a write of `size` bytes, from an aligned address on, to memory of its own part: from one
    datagram to the next, while others wait. `peer`: bytes before each datagram. Slower memory takes longer."""
    if size % bus_bytes == 0:
        return (peer + size) // _BYTES + _BURST + max(_TAKES - bus_bytes // _BYTES, 0)
    pieces = (min(MAXIMUM, size - k) for k in range(0, size, MAXIMUM))
    return peer // _BYTES + _EACH + size + sum(piece_cycles(piece, bus_bytes) for piece in pieces)


def piece_cycles(size: int, bus_bytes: int) -> int:
    """Return in how many cycles a `Bridge` writes at most `MAXIMUM` bytes that it has to memory of its own part."""
    return _PIECE + _WORD * -(-size // bus_bytes)


#: cycles of a push of a piece beyond those of a write, of a page that is whole, of a look at the counter and an answer, without the peer before it
_JUDGED, _WHOLE, _ANSWERED = 8, 23, 57
#: pieces of which hosts ask about one
_ASKED = 8


def push_cycles(page: int, bus_bytes: int, peer: int = PEER, asked: int = _ASKED) -> Fraction:
    """Return in how many cycles a device takes a page of `page` bytes that is pushed while others wait: as of `write_cycles`, and one of `asked` pieces is
    answered."""
    each = write_cycles(PIECE, bus_bytes, peer) + _JUDGED + Fraction(_ANSWERED + peer, asked)
    return page // PIECE * each + _WHOLE


def room(clock_hz: int, bus_bytes: int) -> int:
    """Return the bytes of requests that hosts may have under way to a device with memory of its own part (`Identity.ring`): as many as its window has
    where it takes pages as fast as Gigabit Ethernet brings them, else those of its buffer."""
    fast = push_cycles(PIECE, bus_bytes) * LINE_RATE <= clock_hz * (PIECE + AROUND)
    return WINDOW * LONGEST if fast else BUFFER


def beginning(ports: int, peer: int = PEER) -> tuple[list[int], int]:
    """Return the datagrams that follow each other from a run's start until a first piece of a page is in the device, by their bytes, and the cycles that the
    device takes for them: its answer to the start; of each port how its stream begins, and a look at its counter of 64 bits, each with an answer; the piece,
    which it has whole before it looks at it."""
    asked, answer, piece = (
        size + CRC_BYTES for size in (_REQUEST.size, _ANSWER.size, _REQUEST.size + PIECE)
    )
    requests, answers = [*[asked] * 2 * ports, piece], [answer, *[answer, answer + 8] * ports]
    taken = sum((size + peer) // _BYTES for size in requests)
    answer_cycles = sum(answers) + len(answers) * peer
    return [*requests, *answers], taken + answer_cycles + 2 * ports * _BEGINS


def follows(sequence: int, other: int) -> int:
    """Return how far a sequence lies behind another one: below 0 where it comes before (RFC 1982)."""
    return (sequence - other + (1 << 31)) % (1 << 32) - (1 << 31)


class Envelope:
    """Answers datagrams. `device` does what they ask; `silence`: cycles after which it may be taken over; `rings`: the registers of each port's ring
    (`models.ring.places`)."""

    def __init__(self, device: Device, silence: int, rings: Sequence[tuple[int, int]] = ()) -> None:
        self.device, self.silence = device, silence
        self.pushes = Pushes(rings, device.perform)
        self.session = self.heard = 0
        self.first = self.bitmap = 0
        self._worst = self._register = (
            0  # statuses: of memory since the opening, of the last write to registers
        )

    def receive(self, datagram: bytes, now: int) -> bytes | None:
        """Take a datagram at a cycle; return what is answered, if anything is."""
        fields = _opened(datagram, _REQUEST)
        if fields is None:
            return None
        (session, sequence, kind, port, length, address), data = fields
        if length > LONGEST or kind & RESPONSE or len(data) != (length if kind & 1 else 0):
            return None
        bare, pages = kind & ~ASK, 0
        rings = bool(self.pushes.places) and bare >> 1 == Space.RING
        request = (
            Request(0, bare >> 1, address, 0, data)
            if kind & 1
            else Request(0, bare >> 1, address, length)
        )
        if bare == OPENING:
            status, read = self._open(session, address, now), b""
            if status == Status.OKAY:
                read = self.device.perform(Request(0, Space.IDENTITY, 0, length)).data
        elif session != self.session or not session:
            status, read = Status.GONE, b""
        else:
            self.heard = now
            distance = follows(sequence, self.first)
            if distance >= WINDOW:
                return None
            again = distance < 0 or bool(self.bitmap >> distance & 1)
            if rings:
                status = 0 if again else self._push(port, request, bool(kind & ASK))
                read, pages = b"", self.pushes.pages(port)
            else:
                status, read = self._do(request, again)
            if not again and not (rings and status):
                self._take(distance)
            quiet = bare == Space.MEMORY << 1 | 1 or (rings and kind & 1)
            if quiet and not (kind & ASK or again or self.bitmap or status):
                return None
        head = (session, sequence, kind, status, self.bitmap, self.first)
        return Answer(*head, read, pages).encode()

    def _push(self, port: int, request: Request, asked: bool) -> int:
        if request.data is None:
            return self.pushes.begin(port, request.address, request.length)
        return self.pushes.take(port, request.address, request.data, asked)

    def _open(self, session: int, before: int, now: int) -> int:
        if session == self.session:
            self.heard = now
            return Status.OKAY
        silent = session != 0 and now - self.heard >= self.silence
        if self.session and before != self.session and not silent:
            return Status.BUSY
        self.session, self.heard = session, now
        self.first, self.bitmap = (self.first + WINDOW) % (1 << 32), 0
        self._worst = self._register = 0
        return Status.OKAY

    def _do(self, request: Request, again: bool) -> tuple[int, bytes]:
        """Do what is asked, if it was not done; return the status and what was read."""
        if request.data is None:
            answer = self.device.perform(request)
            return answer.status, answer.data
        status = 0 if again else self.device.perform(request).status
        if request.space == Space.REGISTERS:
            self._register = self._register if again else status
            return self._register, b""
        self._worst |= status
        return self._worst, b""

    def _take(self, distance: int) -> None:
        self.bitmap |= 1 << distance
        while self.bitmap & 1:
            self.first, self.bitmap = (self.first + 1) % (1 << 32), self.bitmap >> 1
