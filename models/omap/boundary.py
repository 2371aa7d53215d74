"""The boundary of a map: frames of sessions as they lie in the host's memory, and what becomes of each.

A frame is a header of one block, then what was sealed, in whole blocks, and its tag:

    slot u16 | code u8 | zeros | number u64      text      tag

The host writes slot and number of a request; nothing of a header is believed. A request that is not its
session's next one is carried out as an operation that changes nothing, and its answer's header has the
reason as `code`; there is no text and no tag. An answer that was sealed has code 0. Only its session's
client learns from it that its role may not ask for an operation (`Status.REFUSED`).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ..crypto.gcm import TAG
from ..crypto.noise import FIRST_BYTES, Keys, Refusal, second_bytes
from . import messages
from .config import BLOCK, OmapConfig
from .sessions import ROLES, WELCOME_BYTES, Answer, Denied, Sessions, Welcome
from .vault import Role

_HEADER = Struct("<HB5xQ")


def _whole(text: bytes, size: int) -> bytes:
    return text + bytes(size - len(text))


class Header(NamedTuple):
    """The first block of a frame. `code`: of an answer, a `Denied` or 0."""

    slot: int
    code: int
    number: int

    def pack(self) -> bytes:
        """Return its 16 bytes."""
        return _HEADER.pack(*self)

    @classmethod
    def unpack(cls, text: bytes) -> Header:
        """Return what a frame's header says."""
        return cls(*_HEADER.unpack(text[:BLOCK]))


@dataclass(frozen=True)
class Frames:
    value_bytes: int  #: of the map's values
    bus_bytes: int  #: of a word of the bus to the host's memory
    key_bytes: int = 8  #: of the map's keys

    @classmethod
    def of(cls, config: OmapConfig) -> Frames:
        """Return the frames of a map."""
        return cls(config.value_bytes, config.host_bus_bytes, config.key_bytes)

    @property
    def request_bytes(self) -> int:
        """Bytes of a request: key, value, operation."""
        return self.key_bytes + self.value_bytes + 1

    @property
    def answer_bytes(self) -> int:
        """Bytes of an answer: key, value, status, serial."""
        return self.request_bytes + 8

    @property
    def request_blocks(self) -> int:
        return -(-self.request_bytes // BLOCK)

    @property
    def answer_blocks(self) -> int:
        return -(-self.answer_bytes // BLOCK)

    @property
    def size(self) -> int:
        """Bytes of a frame, whole bus words."""
        return BLOCK * (self.answer_blocks + 2) + self.bus_bytes - 1 & -self.bus_bytes

    @property
    def beats(self) -> int:
        return self.size // self.bus_bytes

    @property
    def opening_beats(self) -> int:
        """Bus words of a frame that opens a session: a header, whose code is the role, and the first
        message."""
        return -(-(BLOCK + FIRST_BYTES) // self.bus_bytes)

    @property
    def welcome_beats(self) -> int:
        """Bus words of its answer: a header and the second message, zeros where it is refused."""
        return -(-(BLOCK + second_bytes(WELCOME_BYTES)) // self.bus_bytes)

    def opening(self, slot: int, role: Role, first: bytes) -> bytes:
        """Return a frame that opens a session."""
        text = Header(slot, ROLES.index(role), 0).pack() + first
        return _whole(text, self.opening_beats * self.bus_bytes)

    def welcome(self, frame: bytes) -> bytes:
        """Return the second message of an answer."""
        return frame[BLOCK : BLOCK + second_bytes(WELCOME_BYTES)]

    def pack(self, header: Header, blocks: int, sealed: bytes = b"") -> bytes:
        """Return a frame. `blocks`: of its text; `sealed`: text and tag, nothing for zeros."""
        text, tag = sealed[:-TAG], sealed[-TAG:]
        return _whole(header.pack() + _whole(text, blocks * BLOCK) + tag, self.size)

    def request(self, slot: int, number: int, sealed: bytes) -> bytes:
        """Return a request's frame. Raises ValueError for one that was not sealed for this map."""
        if len(sealed) != self.request_bytes + TAG:
            raise ValueError(f"a request has {self.request_bytes + TAG} bytes, not {len(sealed)}")
        return self.pack(Header(slot, 0, number), self.request_blocks, sealed)

    def sealed(self, frame: bytes, size: int) -> bytes:
        """Return text of so many bytes and tag of a frame."""
        blocks = -(-size // BLOCK)
        tag = BLOCK * (1 + blocks)
        return frame[BLOCK : BLOCK + size] + frame[tag : tag + TAG]


class Ruling(NamedTuple):
    """What becomes of a frame."""

    slot: int
    number: int
    request: messages.Request  #: what the map carries out
    denied: Denied | None  #: why it is not what was asked for, None where it is


class Boundary:
    """The device's end of all sessions' requests, in their order."""

    def __init__(self, frames: Frames, sessions: Sessions, incarnation: bytes) -> None:
        self._frames, self._sessions, self.incarnation = frames, sessions, incarnation
        self._made: tuple[int, int, Keys | Denied | Refusal] | None = None
        self._welcome = bytes(frames.welcome_beats * frames.bus_bytes)

    def open(self, frame: bytes, serial: int, snapshot: int = 0, confirmed: bool = False) -> None:
        """Begin a handshake, whatever the frame's bytes are. `serial`: of the map's last operation;
        `snapshot`, `confirmed`: as in `Welcome`. Does nothing while another one has no answer."""
        if self._made is not None:
            return
        slot, role, _ = Header.unpack(frame)
        first = frame[BLOCK : BLOCK + FIRST_BYTES]
        welcome = Welcome(self.incarnation, serial, snapshot, confirmed)
        self._made = slot, role, self._sessions.shake(slot, role, first, welcome)

    def collect(self) -> bytes:
        """Return the answer's frame once no request is under way: its session takes the slot. Without a
        new handshake the last answer comes again."""
        if self._made is not None:
            (slot, role, answer), self._made = self._made, None
            if isinstance(answer, Keys):
                self._sessions.take(slot, role, answer)
                text = Header(slot, 0, 0).pack() + answer.message
            else:
                text = Header(slot, int(answer), 0).pack()
            self._welcome = _whole(text, len(self._welcome))
        return self._welcome

    def role(self, slot: int) -> Role | None:
        """Return who a slot's session is with, None without one."""
        return self._sessions.role(slot)

    def keys(self, slot: int) -> Keys | None:
        """Return the keys of a slot's session, None without one."""
        return self._sessions.keys(slot)

    def ask(self, frame: bytes) -> Ruling:
        """Return what becomes of a frame, whatever its bytes are."""
        slot, _, number = Header.unpack(frame)
        sealed = self._frames.sealed(frame, self._frames.request_bytes)
        asked, denied = self._sessions.request(slot, number, sealed)
        request = messages.Request(0, asked.key if asked else 0, bytes(self._frames.value_bytes))
        if asked is not None and denied is None:
            request = messages.Request(asked.operation, asked.key, asked.value)
        return Ruling(slot, number, request, denied)

    def tell(self, ruling: Ruling, response: messages.Response, serial: int) -> bytes:
        """Return the answer's frame. `serial`: of the operation that was carried out."""
        slot, number, denied = ruling.slot, ruling.number, ruling.denied
        header, blocks = Header(slot, 0, number), self._frames.answer_blocks
        if denied not in (None, Denied.OPERATION):
            return self._frames.pack(header._replace(code=int(denied or 0)), blocks)
        status = messages.Status.REFUSED if denied else response.status
        answer = Answer(response.key, response.value, int(status), serial)
        sealed = self._sessions.answer(slot, number, answer)
        assert sealed is not None
        return self._frames.pack(header, blocks, sealed)
