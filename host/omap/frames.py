"""What client and server send each other, inside TLS.

A connection begins with the server's greeting: its length in 4 bytes, then JSON with the protocol's
`version` and the map's `config`, which the client compares with the digest in its `map.json`. Then all
messages of a direction have one size, numbers with the lowest byte first:

    hello     kind (1)  role (1)  the handshake's first message, or the token of a session (48)
    welcome   code (1)  token (16)  value (8)  the handshake's second message (81)
    request   number (8)  sealed request
    answer    code (1)  number (8)  sealed answer, or zeros and what a refusal says of it (8)

The first hello opens a session. One of kind RESUME goes on with a session of the server's, whose
connection broke: `token` is known to its client alone, and keeps others from its answers. A code of 0 is
none of refusal; others are the device's (`models.omap.sessions.Denied`, `models.crypto.noise.Refusal`) or
the server's (`Code`).
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import NamedTuple

from ...models.crypto.gcm import TAG
from ...models.crypto.noise import FIRST_BYTES, second_bytes
from ...models.errors import Error
from ...models.inputs import Input
from ...models.omap.boundary import Frames
from ...models.omap.config import OmapConfig
from ...models.omap.sessions import ROLES, WELCOME_BYTES, Denied, digest_of_map
from ...models.omap.vault import Role

VERSION = 2
#: a greeting's length
GREETING = struct.Struct("<I")
#: most bytes of a greeting
_MOST = 1 << 16
_GREETING = Input(
    "a greeting", "", lambda *_: ValueError("what answers there is no server of an oblivious map")
)
TOKEN = 16
HELLO = struct.Struct(f"<BB{FIRST_BYTES}s")
WELCOME = struct.Struct(f"<B{TOKEN}sQ{second_bytes(WELCOME_BYTES)}s")
_REQUEST, _ANSWER = struct.Struct("<Q"), struct.Struct("<BQ")
_OPEN, _RESUME = 0, 1


class Code(IntEnum):
    """The server's own refusals. ORDER: a request is not the session's next one; TOKEN: there is no such
    session, another one has taken its slot; STOPPED: the map has stopped, for the error that is told; FULL:
    the server has no room for what must be kept of it."""

    ORDER = 64
    TOKEN = 65
    STOPPED = 66
    FULL = 67


_TEXTS = {
    int(Code.ORDER): "it is not the session's next request, and was not asked before",
    int(Code.FULL): "the server's disk is full",
    int(Denied.TAG): "it was changed on its way",
    int(Denied.NUMBER): "it has been used before, or is not the session's next request",
    int(Denied.SESSION): "the device has no such session",
}


class OtherMap(ValueError):
    """The server has another map than the one that a client's keys were made for."""


class Refused(Error):
    """The server says that a request was refused. Nothing seals that: it may have been carried out.
    `refusal`: a `Denied` or a `Code`."""

    def __init__(self, code: int, number: int) -> None:
        hint = "reconnect: a new session begins with request 0"
        text = _TEXTS.get(code, f"refusal {code}")
        super().__init__(
            f"request {number}: the server says: {text}; it may have been carried out; {hint}", hint
        )
        self.refusal, self.number = code, number


class MessageChanged(Error):
    """A response is not the device's answer to its request: it was changed on its way, or belongs to
    another request. The request may have been carried out."""


class Hello(NamedTuple):
    """What a connection begins with. `role`: as in a frame that opens a session."""

    resumes: bool
    role: int
    first: bytes

    def pack(self) -> bytes:
        return HELLO.pack(_RESUME if self.resumes else _OPEN, self.role, self.first)

    @classmethod
    def of(cls, role: Role, first: bytes) -> Hello:
        """Return what opens a session."""
        return cls(False, ROLES.index(role), first)

    @classmethod
    def unpack(cls, text: bytes) -> Hello:
        """Return what a hello says. Raises ValueError for a kind that there is not."""
        kind, role, first = HELLO.unpack(text)
        if kind not in (_OPEN, _RESUME):
            raise ValueError(f"there is no hello of kind {kind}")
        return cls(kind == _RESUME, role, first)


class Welcome(NamedTuple):
    """`value`: of the error, where the map has stopped; of a session that goes on, its next request."""

    code: int
    token: bytes
    value: int
    message: bytes

    def pack(self) -> bytes:
        return WELCOME.pack(*self)

    @classmethod
    def unpack(cls, text: bytes) -> Welcome:
        return cls(*WELCOME.unpack(text))


class Answer(NamedTuple):
    """`value`: what a refusal says."""

    code: int
    number: int
    sealed: bytes

    @property
    def value(self) -> int:
        return int.from_bytes(self.sealed[:8], "little")


class Messages:
    """Requests and answers of one map."""

    def __init__(self, config: OmapConfig) -> None:
        self.frames = Frames.of(config)
        self.sealed_bytes = self.frames.request_bytes + TAG
        self.request_bytes = _REQUEST.size + self.sealed_bytes
        self.answer_bytes = _ANSWER.size + self.frames.answer_bytes + TAG

    def request(self, number: int, sealed: bytes) -> bytes:
        return _REQUEST.pack(number) + sealed

    def read_request(self, text: bytes) -> tuple[int, bytes]:
        """Return number and sealed request."""
        return int.from_bytes(text[: _REQUEST.size], "little"), text[_REQUEST.size :]

    def answer(self, number: int, sealed: bytes) -> bytes:
        return _ANSWER.pack(0, number) + sealed

    def refusal(self, code: int, number: int, value: int = 0) -> bytes:
        text = _ANSWER.pack(code, number) + value.to_bytes(8, "little")
        return text.ljust(self.answer_bytes, b"\0")

    def read_answer(self, text: bytes) -> Answer:
        code, number = _ANSWER.unpack_from(text)
        return Answer(code, number, text[_ANSWER.size :])


def greeting(config: OmapConfig) -> bytes:
    text = json.dumps({"version": VERSION, "config": config.to_json()}).encode()
    return GREETING.pack(len(text)) + text


def read_greeting(text: bytes, digest: bytes) -> OmapConfig:
    """Return the map that a server says it has. Raises ValueError for a greeting that is none, of another
    version; OtherMap for a map that does not have this digest."""
    with _GREETING.parsing(""):
        greeting = _GREETING.json_of(text, "")
        version = greeting["version"]
        config = OmapConfig.from_json(greeting["config"]) if version == VERSION else None
        map_digest = config and digest_of_map(config)
    if config is None:
        raise ValueError(f"the server speaks version {version!r:.99}, this client {VERSION}")
    if map_digest != digest:
        raise OtherMap("its map is not the one that the client's keys were made for")
    return config


def greeting_bytes(head: bytes) -> int:
    """Return the length of a greeting. Raises ValueError for one that no server has."""
    [size] = GREETING.unpack(head)
    if not 0 < size <= _MOST:
        raise ValueError("what answers there is no server of an oblivious map")
    return int(size)
