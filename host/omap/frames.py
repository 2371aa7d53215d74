"""What client and server send each other, inside TLS.

A connection begins with the server's greeting: its length in 4 bytes, then JSON with the protocol's
`version`, the map's `config`, and `next`, the number of the request that the device waits for; where
the map has stopped, `stopped` is the error's code. Then
requests go one way and answers the other, all of one size, numbers with the lowest byte first:

    request   length (4)  number (8)  sealed request   code (16)
    answer    kind (4)    number (8)  sealed response, or what a refusal says

`length` is that of all that follows it. `code` is HMAC-SHA256, cut to 16 bytes, of number and sealed
request under the admission key, which the server has: by it the server tells the client's messages
from others', and the device, which a wrong message would stop, gets none of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from ...models.errors import Error, HardwareError
from ...models.omap.config import OmapConfig, digest_of
from ...models.omap.errors import error_of

__all__ = [
    "GREETING",
    "VERSION",
    "Answer",
    "Frames",
    "Greeting",
    "Kind",
    "Refused",
    "greeting",
    "greeting_bytes",
    "read_greeting",
]

VERSION = 1
#: a greeting's length
GREETING = struct.Struct("<I")
#: most bytes of a greeting
_MOST = 1 << 16
_REQUEST, _ANSWER = struct.Struct("<IQ"), struct.Struct("<IQ")
_CODE = 16


class Kind(IntEnum):
    """What an answer is: a sealed response, or why there is none."""

    RESPONSE = 0
    SIZE = 1
    CHANGED = 2
    NUMBER = 3
    STOPPED = 4


_TEXTS = {
    Kind.SIZE: ("the server takes messages of {value} bytes", "the client has another map"),
    Kind.CHANGED: (
        "a message was changed, or sealed with another key",
        "the client needs the device's session key",
    ),
    Kind.NUMBER: (
        "the message has been used before, or is not the next one: the server waits for number {value}",
        "a number is used once; a session has one client",
    ),
}


class Refused(Error):
    """The server did not hand a message to the device. The map still answers. `kind`: why; `hint`:
    what to do."""

    def __init__(self, kind: Kind, number: int, value: int) -> None:
        what, hint = _TEXTS[kind]
        super().__init__(f"request {number}: {what.format(value=value)}; {hint}", hint)
        self.kind, self.number = kind, number


class Answer(NamedTuple):
    """`value`: with a refusal, what it says of it."""

    kind: Kind
    number: int
    sealed: bytes

    @property
    def value(self) -> int:
        return int.from_bytes(self.sealed[:8], "little")


class Greeting(NamedTuple):
    """What a server says first. `next`: the number that the device waits for; `stopped`: why the map
    answers no more."""

    config: OmapConfig
    next: int
    stopped: HardwareError | None


class Frames:
    """Messages of one map. `key`: of admission."""

    def __init__(self, config: OmapConfig, key: bytes) -> None:
        self.message_bytes, self._key = config.message_bytes, key
        #: bytes of a request behind its length, and of an answer
        self.request_bytes = 8 + self.message_bytes + _CODE
        self.answer_bytes = _ANSWER.size + self.message_bytes

    def _code(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, hashlib.sha256)[:_CODE]

    def request(self, number: int, sealed: bytes) -> bytes:
        """Return a request's frame."""
        text = _REQUEST.pack(self.request_bytes, number) + sealed
        return text + self._code(text[4:])

    def read_request(self, text: bytes) -> tuple[int, bytes] | None:
        """Return number and sealed request of a frame without its length; None where it is not the
        client's."""
        if not hmac.compare_digest(self._code(text[:-_CODE]), text[-_CODE:]):
            return None
        return int.from_bytes(text[:8], "little"), text[8:-_CODE]

    def answer(self, number: int, sealed: bytes) -> bytes:
        """Return the frame of a sealed response."""
        return _ANSWER.pack(Kind.RESPONSE, number) + sealed

    def refusal(self, kind: Kind, number: int, value: int = 0) -> bytes:
        """Return the frame of a refusal."""
        said = value.to_bytes(8, "little")
        return _ANSWER.pack(kind, number) + said + bytes(self.message_bytes - len(said))

    def read_answer(self, text: bytes) -> Answer:
        """Return what an answer's frame says. Raises ValueError for a kind that there is not."""
        kind, number = _ANSWER.unpack_from(text)
        return Answer(Kind(kind), number, text[_ANSWER.size :])


def greeting(config: OmapConfig, expected: int, stopped: HardwareError | None = None) -> bytes:
    """Return a server's greeting."""
    said = {"version": VERSION, "config": config.to_json(), "next": expected}
    if stopped is not None:
        said["stopped"] = int(stopped.code)
    text = json.dumps(said).encode()
    return GREETING.pack(len(text)) + text


def read_greeting(text: bytes, digest: str) -> Greeting:
    """Return what a greeting says. Raises ValueError for one that is none, of another version, or of a
    map that does not have this digest."""
    try:
        said: Any = json.loads(text)
        if said["version"] != VERSION:
            raise ValueError(f"the server speaks version {said['version']}, this client {VERSION}")
        if digest_of(said["config"]) != digest:
            raise ValueError("its map is not the one that the client's keys were made for")
        stopped = said.get("stopped")
        return Greeting(
            OmapConfig.from_json(said["config"]),
            int(said["next"]),
            None if stopped is None else error_of(int(stopped)),
        )
    except (KeyError, TypeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError("what answers there is no server of an oblivious map") from None


def greeting_bytes(head: bytes) -> int:
    """Return the length of a greeting. Raises ValueError for one that no server has."""
    [size] = GREETING.unpack(head)
    if not 0 < size <= _MOST:
        raise ValueError("what answers there is no server of an oblivious map")
    return int(size)
