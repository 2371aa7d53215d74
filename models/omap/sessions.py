"""Sessions that end in the device: handshakes in slots, and what each role may ask.

A frame that opens a session has a slot, a role and a handshake's first message; the answer's payload is
a `Welcome`. Requests and answers of a session are AES-256-GCM under its two keys, numbered from 0 in
each direction. A wrong frame is refused by name and changes nothing but the number of answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ..crypto import gcm
from ..crypto.noise import Keys, Refusal, Responder, nonce_bytes
from .vault import KeySchedule, Role

__all__ = [
    "ALLOWED",
    "MOST_SLOTS",
    "ROLES",
    "Answer",
    "Asked",
    "Denied",
    "Request",
    "Sessions",
    "Welcome",
    "prologue",
]

MOST_SLOTS = 1024
_VERSION = b"penstock map 2"
_WELCOME = Struct("<16sQQB")
#: by the byte that a frame has
ROLES = (Role.READER, Role.WRITER, Role.KEEPER)


class Asked(IntEnum):
    """Operations of a request."""

    GET = 1
    PUT = 2
    DELETE = 3
    RECEIPT = 4
    LOAD = 5
    SNAPSHOT = 6


_MAY = {
    Role.READER: (Asked.GET, Asked.RECEIPT),
    Role.WRITER: (Asked.GET, Asked.PUT, Asked.DELETE, Asked.RECEIPT, Asked.LOAD),
    Role.KEEPER: (Asked.RECEIPT, Asked.SNAPSHOT),
}
#: which operations each role may ask for
ALLOWED = {role: frozenset(few) for role, few in _MAY.items()}


class Denied(IntEnum):
    """Why a frame is refused, beside a handshake's `noise.Refusal`. SLOT: the table has no such slot;
    ROLE: there is no such role; SESSION: the slot has no session; TAG: it is not the session's next
    request; OPERATION: the role may not ask for it."""

    SLOT = 16
    ROLE = 17
    SESSION = 18
    TAG = 19
    OPERATION = 20


class Welcome(NamedTuple):
    """What the device says of itself in a handshake: the map's incarnation (16 bytes), the serial of
    its last operation, that of its last snapshot, and whether a keeper has confirmed it."""

    incarnation: bytes
    serial: int
    snapshot: int
    confirmed: bool

    def pack(self) -> bytes:
        """Return its 33 bytes."""
        return _WELCOME.pack(*self)

    @classmethod
    def unpack(cls, text: bytes) -> Welcome:
        """Return what 33 bytes say."""
        incarnation, serial, snapshot, confirmed = _WELCOME.unpack(text)
        return cls(incarnation, serial, snapshot, bool(confirmed))


class Request(NamedTuple):
    """`value`: as long as the map's values."""

    key: int
    value: bytes
    operation: int

    def pack(self) -> bytes:
        """Return its bytes: key in 8, value, operation in one."""
        return self.key.to_bytes(8, "little") + self.value + bytes([self.operation])

    @classmethod
    def unpack(cls, text: bytes) -> Request:
        """Return what bytes ask for."""
        return cls(int.from_bytes(text[:8], "little"), text[8:-1], text[-1])


class Answer(NamedTuple):
    """`status`: how the request was answered; `serial`: of its operation."""

    key: int
    value: bytes
    status: int
    serial: int

    def pack(self) -> bytes:
        """Return its bytes: key in 8, value, status in one, serial in 8."""
        text = self.key.to_bytes(8, "little") + self.value + bytes([self.status])
        return text + self.serial.to_bytes(8, "little")

    @classmethod
    def unpack(cls, text: bytes) -> Answer:
        """Return what bytes say."""
        key, serial = (int.from_bytes(part, "little") for part in (text[:8], text[-8:]))
        return cls(key, text[8:-9], text[-9], serial)


def prologue(digest: bytes, role: Role) -> bytes:
    """Return what both sides of a session agree on: version, the map's digest of 32 bytes, the role."""
    return _VERSION + digest + bytes([ROLES.index(role)])


@dataclass
class _Session:
    role: Role
    keys: Keys
    received: int = 0
    sent: int = 0


class Sessions:
    """The table of a device.

    Parameters
    ----------
    keys
        Of this power-up.
    digest
        32 bytes that name the map's configuration.
    value_bytes
        Of the map's values.
    slots
        64 to `MOST_SLOTS`.
    """

    def __init__(self, keys: KeySchedule, digest: bytes, value_bytes: int, slots: int = 64) -> None:
        if not 64 <= slots <= MOST_SLOTS:
            raise ValueError(f"slots must be 64 to {MOST_SLOTS}, not {slots}")
        self._keys, self._value_bytes, self.slots = keys, value_bytes, slots
        self._table: dict[int, _Session] = {}
        static = keys.static
        self._responders = {
            role: Responder(static, prologue(digest, role), keys.role_key(role)) for role in ROLES
        }

    def open(
        self, slot: int, role: int, first: bytes, welcome: Welcome
    ) -> bytes | Denied | Refusal:
        """Return the answer to a first message, whose session takes the slot; a refused one leaves the
        slot as it was."""
        if not 0 <= slot < self.slots:
            return Denied.SLOT
        if not 0 <= role < len(ROLES):
            return Denied.ROLE
        responder = self._responders[ROLES[role]]
        made = responder.answer(first, self._keys.ephemeral(), welcome.pack())
        if isinstance(made, Refusal):
            return made
        self._table[slot] = _Session(ROLES[role], made)
        return made.message

    def request(self, slot: int, sealed: bytes) -> Request | Denied:
        """Return what a session's next request asks for. A request that was opened is used, whether
        its role may ask for it or not."""
        session = self._table.get(slot)
        if session is None:
            return Denied.SESSION
        text = None
        if len(sealed) == 8 + self._value_bytes + 1 + gcm.TAG:
            text = gcm.open_(session.keys.receive, nonce_bytes(session.received), sealed)
        if text is None:
            return Denied.TAG
        session.received += 1
        request = Request.unpack(text)
        return request if request.operation in ALLOWED[session.role] else Denied.OPERATION

    def answer(self, slot: int, answer: Answer) -> bytes | None:
        """Return the session's next answer; None where the slot has no session. No number is used
        twice."""
        session = self._table.get(slot)
        if session is None:
            return None
        session.sent += 1
        return gcm.seal(session.keys.send, nonce_bytes(session.sent - 1), answer.pack())
