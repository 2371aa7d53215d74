"""Sessions that end in the device: handshakes in slots, and what each role may ask.

A frame that opens a session has a slot, a role and a handshake's first message; the answer's payload is
a `Welcome`. Requests of a session are numbered from 0, and sealed with AES-256-GCM under one of its
keys; the answer to each is sealed under the other one with the request's number. The host says which
number a request has, so that several may be opened at once: a wrong word does not open.

A session's number moves on when its request's tag has been found right, in the order of requests, and
never otherwise. So a forged message moves no number, and a replayed one is not answered: no number is
taken twice, and no (key, number) seals two answers. A wrong frame is refused by name and changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ..crypto import gcm
from ..crypto.handshake import cycles as handshake_cycles
from ..crypto.noise import LAST_NONCE, Keys, Refusal, Responder, nonce_bytes
from .config import OmapConfig, digest_of
from .vault import KeySchedule, Role, draw_cycles

MOST_SLOTS = 1024
_VERSION = b"penstock map 2"
_WELCOME = Struct("<16sQQB")
WELCOME_BYTES = _WELCOME.size
#: by the byte that a frame has
ROLES = (Role.READER, Role.WRITER, Role.KEEPER)


class Asked(IntEnum):
    GET = 1
    PUT = 2
    DELETE = 3
    RECEIPT = 4
    SNAPSHOT = 5


_MAY = {
    Role.READER: (Asked.GET, Asked.RECEIPT),
    Role.WRITER: (Asked.GET, Asked.PUT, Asked.DELETE, Asked.RECEIPT),
    Role.KEEPER: (Asked.RECEIPT, Asked.SNAPSHOT),
}
#: which operations each role may ask for
ALLOWED = {role: frozenset(few) for role, few in _MAY.items()}


class Denied(IntEnum):
    """Why a frame is refused, beside a handshake's `noise.Refusal`. SLOT: the table has no such slot;
    ROLE: there is no such role; SESSION: the slot has no session; TAG: it does not open under the
    session's key and its number; NUMBER: it is not the session's next request; OPERATION: the role may
    not ask for it, which the session's client alone learns."""

    SLOT = 16
    ROLE = 17
    SESSION = 18
    TAG = 19
    NUMBER = 20
    OPERATION = 21


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
        *numbers, confirmed = _WELCOME.unpack(text)
        incarnation, serial, snapshot = numbers
        return cls(incarnation, serial, snapshot, bool(confirmed))


class Request(NamedTuple):
    """`value`: as long as the map's values."""

    key: int
    value: bytes
    operation: int

    def pack(self, key_bytes: int = 8) -> bytes:
        """Return its bytes: key, value, operation in one."""
        return self.key.to_bytes(key_bytes, "little") + self.value + bytes([self.operation])

    @classmethod
    def unpack(cls, text: bytes, key_bytes: int = 8) -> Request:
        """Return what bytes ask for."""
        return cls(int.from_bytes(text[:key_bytes], "little"), text[key_bytes:-1], text[-1])


class Answer(NamedTuple):
    """The answer to a request."""

    key: int
    value: bytes
    status: int  #: how the request was answered
    serial: int  #: number of its operation

    def pack(self, key_bytes: int = 8) -> bytes:
        """Return its bytes: key, value, status in one, serial in 8."""
        text = self.key.to_bytes(key_bytes, "little") + self.value + bytes([self.status])
        return text + self.serial.to_bytes(8, "little")

    @classmethod
    def unpack(cls, text: bytes, key_bytes: int = 8) -> Answer:
        """Return what bytes say."""
        key, serial = (int.from_bytes(part, "little") for part in (text[:key_bytes], text[-8:]))
        return cls(key, text[key_bytes:-9], text[-9], serial)


def digest_of_map(config: OmapConfig) -> bytes:
    """Return the 32 bytes that name a map's configuration and this protocol."""
    return bytes.fromhex(digest_of([config.to_json(), _VERSION.decode()]))


def prologue(digest: bytes, role: Role) -> bytes:
    """Return what both sides of a session agree on: version, the map's digest of 32 bytes, the role."""
    return _VERSION + digest + bytes([ROLES.index(role)])


@dataclass
class _Session:
    role: Role
    keys: Keys
    received: int = 0
    unanswered: set[int] = field(default_factory=set)


def opening_cycles(role: Role, *, first: bool = False) -> int:
    """Return the cycles in which `hdl.omap.door` answers a first message, from its start until the answer
    is ready: a scalar, and a handshake. `first`: it is the first one since power-up, and makes the
    static public key."""
    shared = role is not Role.READER
    return 2 + draw_cycles() + handshake_cycles(shared, WELCOME_BYTES, first)


class Sessions:
    """The table of a device.

    * `keys`: of this power-up.
    * `digest`: 32 bytes that name the map's configuration.
    * `value_bytes`, `key_bytes`: of the map's values, and of its keys.
    * `slots`: 64 to `MOST_SLOTS`.
    """

    def __init__(
        self,
        keys: KeySchedule,
        digest: bytes,
        value_bytes: int,
        slots: int = 64,
        *,
        key_bytes: int = 8,
    ) -> None:
        if not 64 <= slots <= MOST_SLOTS:
            raise ValueError(f"slots must be 64 to {MOST_SLOTS}, not {slots}")
        self._keys, self._key_bytes, self.slots = keys, key_bytes, slots
        self._request_bytes = key_bytes + value_bytes + 1
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
        answer = self.shake(slot, role, first, welcome)
        if isinstance(answer, Keys):
            self.take(slot, role, answer)
            return answer.message
        return answer

    def shake(
        self, slot: int, role: int, first: bytes, welcome: Welcome
    ) -> Keys | Denied | Refusal:
        """Return what a handshake leaves. Nothing but the next ephemeral scalar changes."""
        if not 0 <= slot < self.slots:
            return Denied.SLOT
        if not 0 <= role < len(ROLES):
            return Denied.ROLE
        responder = self._responders[ROLES[role]]
        return responder.answer(first, self._keys.ephemeral(), welcome.pack())

    def take(self, slot: int, role: int, keys: Keys) -> None:
        """Let a session take its slot."""
        self._table[slot] = _Session(ROLES[role], keys)

    def role(self, slot: int) -> Role | None:
        """Return who a slot's session is with, None without one."""
        return self._table[slot].role if slot in self._table else None

    def keys(self, slot: int) -> Keys | None:
        """Return the keys of a slot's session, None without one."""
        return self._table[slot].keys if slot in self._table else None

    def request(
        self, slot: int, number: int, sealed: bytes
    ) -> tuple[Request | None, Denied | None]:
        """Return what a session's request asks for, None where it is none, and why it is refused, None
        where it is not. `number`: that the host says it has. A request that is the session's next one
        is used, whether its role may ask for it or not."""
        session = self._table.get(slot)
        if session is None:
            return None, Denied.SESSION
        text = None
        if len(sealed) == self._request_bytes + gcm.TAG and number < LAST_NONCE:
            text = gcm.open_(session.keys.receive, nonce_bytes(number), sealed)
        if text is None:
            return None, Denied.TAG
        if number != session.received:
            return None, Denied.NUMBER
        session.received += 1
        session.unanswered.add(number)
        request = Request.unpack(text, self._key_bytes)
        return request, None if request.operation in ALLOWED[session.role] else Denied.OPERATION

    def answer(self, slot: int, number: int, answer: Answer) -> bytes | None:
        """Return the answer to the session's request of this number; None where the session has none
        without an answer."""
        session = self._table.get(slot)
        if session is None or number not in session.unanswered:
            return None
        session.unanswered.remove(number)
        return gcm.seal(session.keys.send, nonce_bytes(number), answer.pack(self._key_bytes))
