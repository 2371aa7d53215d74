"""What a map is asked for, and what it answers."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


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
    """A request of a client."""

    operation: int  #: an `Operation`, or any number below 256
    key: int  #: of the map's `key_bytes`
    value: bytes  #: as long as the map's values, zeros but for a PUT


class Response(NamedTuple):
    """What the map answers."""

    status: int
    key: int  #: the request's
    value: bytes  #: what was there before the request, zeros where nothing was


@dataclass(frozen=True)
class Keys:
    """128 bits each, the first byte lowest: for pages, for the position map's hash, and for pairs of
    bins."""

    page: int
    hash: int
    pairs: int
