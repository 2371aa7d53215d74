"""Requests and responses: their fields, and how they are sealed for the session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ..crypto import ascon
from .config import BLOCK, KEY_BYTES, OmapConfig

__all__ = [
    "COUNT_BITS",
    "Keys",
    "Operation",
    "Request",
    "Response",
    "Status",
    "open_request",
    "open_response",
    "pack_request",
    "pack_response",
    "request_nonce",
    "response_nonce",
    "seal_response",
]

#: bits that a nonce has for a count: of a page's writes, of a session's requests
COUNT_BITS = 56


class Operation(IntEnum):
    """What a request asks for; any other number is answered with UNKNOWN."""

    GET = 1
    PUT = 2
    DELETE = 3


class Status(IntEnum):
    """How a request was answered. FOUND: the key was there, and the value is the one before the
    request; MISSING: it was not (a PUT has inserted it); FULL: a PUT of a new key had no room; REFUSED:
    the session's role may not ask for it."""

    FOUND = 0
    MISSING = 1
    FULL = 2
    UNKNOWN = 3
    REFUSED = 4


class Request(NamedTuple):
    """`operation`: an `Operation`, or any number below 256; `key`: 64 bits; `value`: as long as the
    map's values, zeros but for a PUT."""

    operation: int
    key: int
    value: bytes


class Response(NamedTuple):
    """`key`: the request's; `value`: what was there before the request, zeros where nothing was."""

    status: int
    key: int
    value: bytes


@dataclass(frozen=True)
class Keys:
    """128 bits each, the first byte lowest: for pages, for the session with the client, for the
    position map's hash, and for pairs of bins."""

    page: int
    session: int
    hash: int
    pairs: int


def _packed(config: OmapConfig, key: int, value: bytes, code: int) -> bytes:
    text = key.to_bytes(KEY_BYTES, "little") + value + code.to_bytes(8, "little")
    return text + bytes(config.message_blocks * BLOCK - len(text))


def pack_request(config: OmapConfig, request: Request) -> bytes:
    """Return a request's bytes: key in 8, value, operation in 8. Raises ValueError for a value of
    another length, and for a key or an operation that its bytes cannot hold, TypeError for what is
    no number or no bytes."""
    value = bytes(memoryview(request.value))
    if len(value) != config.value_bytes:
        raise ValueError(f"a value has {config.value_bytes} bytes, not {len(value)}")
    for name, number, bits in (("key", request.key, 64), ("operation", request.operation, 8)):
        if not isinstance(number, int):
            raise TypeError(f"a request's {name} is an integer, not {type(number).__name__}")
        if not 0 <= number < 1 << bits:
            raise ValueError(f"a request's {name} has {bits} bits, not {number}")
    return _packed(config, request.key, value, request.operation)


def unpack_request(config: OmapConfig, text: bytes) -> Request:
    """Return what a request's bytes ask for."""
    end = KEY_BYTES + config.value_bytes
    return Request(text[end], int.from_bytes(text[:KEY_BYTES], "little"), text[KEY_BYTES:end])


def pack_response(config: OmapConfig, response: Response) -> bytes:
    """Return a response's bytes: key in 8, value, status in 8."""
    return _packed(config, response.key, response.value, response.status)


def unpack_response(config: OmapConfig, text: bytes) -> Response:
    """Return what a response's bytes say."""
    end = KEY_BYTES + config.value_bytes
    key = int.from_bytes(text[:KEY_BYTES], "little")
    return Response(Status(text[end]), key, text[KEY_BYTES:end])


def request_nonce(number: int) -> int:
    """Return the nonce of the session's request of this number."""
    return number


def response_nonce(number: int) -> int:
    """Return the nonce of its response."""
    return number | 1 << 127


def open_request(config: OmapConfig, key: int, number: int, sealed: bytes) -> Request | None:
    """Return the request; None where it was not sealed for this place in the session."""
    size = (config.message_blocks + 1) * BLOCK
    nonce = request_nonce(number)
    text = None if any(sealed[size:]) else ascon.open_(key, nonce, sealed[:size])
    return None if text is None else unpack_request(config, text)


def seal_response(config: OmapConfig, key: int, number: int, response: Response) -> bytes:
    """Return a response as the device writes it."""
    sealed = ascon.seal(key, response_nonce(number), pack_response(config, response))
    return sealed + bytes(config.message_bytes - len(sealed))


def open_response(config: OmapConfig, key: int, number: int, sealed: bytes) -> Response | None:
    """Return the response; None where it is not the device's answer to this request."""
    size = (config.message_blocks + 1) * BLOCK
    nonce = response_nonce(number)
    text = None if any(sealed[size:]) else ascon.open_(key, nonce, sealed[:size])
    return None if text is None else unpack_response(config, text)
