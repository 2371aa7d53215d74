"""What a map keeps outside its device: sealed files of records, from which a device restores the map.

Every operation, GET as well, makes one record: its serial, and the item that is there afterwards, or that
none is. A *log* holds the records of operations one after another. A *snapshot* holds those of a walk, one
GET for each place of the map, and of all operations between its steps: applied in their order they are the
map at its last serial. All records of a map have one size.

    file      head   sealed chain   sealed record   sealed record …
    head      "pmap"  kind u8  zeros (3)  links u32  zeros (4)  incarnation (16)  serial u64
    chain     so many links: incarnation (16)  serial u64
    record    serial u64  since u64  what u8  key u64  value

A file's key follows from the root, its kind, the incarnation that wrote it and the serial behind which it
begins: no incarnation begins two files of a kind at one serial. The chain is its text number 0, a record's
number is its place. So a record that is moved, or is another file's, does not open, and a head that is
changed opens nothing. `since` is the serial behind which the host's call began that carried the operation
in: what came before is on the host's disk, or was to be. It tells a torn end from a damaged middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ..crypto import gcm
from ..crypto.noise import nonce_bytes
from .config import OmapConfig
from .vault import KeySchedule

__all__ = [
    "HEAD",
    "MOST_LINKS",
    "Damaged",
    "Head",
    "Kind",
    "Link",
    "Reader",
    "Record",
    "What",
    "Writer",
]

_HEAD = Struct("<4sB3xI4x16sQ")
_MAGIC = b"pmap"
HEAD = _HEAD.size
_LINK = Struct("<16sQ")
_RECORD = Struct("<QQBQ")
#: most links of a chain; older ones are forgotten
MOST_LINKS = 1024


class Kind(IntEnum):
    """Of a file."""

    LOG = 0
    SNAPSHOT = 1


class What(IntEnum):
    """What a record says of its key. NOTHING: no key was asked for; END: the snapshot is whole."""

    NOTHING = 0
    HELD = 1
    GONE = 2
    END = 3


class Damaged(Exception):
    """A file is not what the device wrote. `file`: its place among those that were given; `record`: the
    first one that does not open, 0 for the head."""

    def __init__(self, file: int, record: int, why: str) -> None:
        super().__init__(why)
        self.file, self.record, self.why = file, record, why


class Link(NamedTuple):
    """A power-up that came before: its incarnation, and the serial behind which the next one began."""

    incarnation: bytes
    serial: int


class Head(NamedTuple):
    """What a file says of itself in plain: it is believed once the chain opens."""

    kind: Kind
    links: int
    incarnation: bytes
    serial: int

    def pack(self) -> bytes:
        """Return its `HEAD` bytes."""
        return _HEAD.pack(_MAGIC, self.kind, self.links, self.incarnation, self.serial)

    @classmethod
    def unpack(cls, text: bytes) -> Head:
        """Return what a file's first bytes say. Raises ValueError for those that are no head."""
        if len(text) < HEAD:
            raise ValueError("it has no head")
        magic, kind, *rest = _HEAD.unpack_from(text)
        head = cls(Kind(kind), *rest)
        if magic != _MAGIC or head.links > MOST_LINKS or head.pack() != text[:HEAD]:
            raise ValueError("it has no head")
        return head

    @property
    def chain_bytes(self) -> int:
        """Bytes of the sealed chain."""
        return self.links * _LINK.size + gcm.TAG


class Record(NamedTuple):
    """An operation's."""

    serial: int
    since: int
    what: What
    key: int
    value: bytes

    @staticmethod
    def size(config: OmapConfig) -> int:
        """Return the bytes of a sealed record."""
        return _RECORD.size + config.value_bytes + gcm.TAG


class Writer:
    """Seals a file, text by text. `head`: its first bytes."""

    def __init__(self, keys: KeySchedule, kind: Kind, serial: int, chain: Sequence[Link]) -> None:
        head = Head(kind, len(chain), keys.incarnation, serial)
        self._key, self._number = keys.state_key(keys.incarnation, kind, serial), 0
        text = b"".join(_LINK.pack(*link) for link in chain)
        self.head = head.pack() + self._sealed(text, head.pack())

    def _sealed(self, text: bytes, data: bytes = b"") -> bytes:
        sealed = gcm.seal(self._key, nonce_bytes(self._number), text, data)
        self._number += 1
        return sealed

    def record(self, record: Record) -> bytes:
        """Return the next record, sealed."""
        return self._sealed(_RECORD.pack(*record[:4]) + record.value)

    @property
    def records(self) -> int:
        return self._number - 1


class Reader:
    """Opens a file. `chain`: what it says of its past. `used`: bytes that were read and opened.

    Raises Damaged, here for what does not begin as a file of this device.
    """

    def __init__(self, keys: KeySchedule, config: OmapConfig, text: bytes, place: int = 0) -> None:
        self._text, self._place, self._size = text, place, Record.size(config)
        try:
            self.head = head = Head.unpack(text)
        except ValueError as problem:
            raise Damaged(place, 0, str(problem)) from None
        self._key = keys.state_key(head.incarnation, head.kind, head.serial)
        self.used = HEAD + head.chain_bytes
        sealed = text[HEAD : self.used]
        chain = (
            gcm.open_(self._key, nonce_bytes(0), sealed, head.pack())
            if len(sealed) >= gcm.TAG
            else None
        )
        if chain is None:
            raise Damaged(place, 0, "it is another device's, or was changed")
        self.chain = tuple(Link(*link) for link in _LINK.iter_unpack(chain))

    def _open(self, number: int) -> Record | None:
        at = HEAD + self.head.chain_bytes + (number - 1) * self._size
        sealed = self._text[at : at + self._size]
        text = (
            gcm.open_(self._key, nonce_bytes(number), sealed) if len(sealed) == self._size else None
        )
        if text is None:
            return None
        numbers = _RECORD.unpack_from(text)
        what = What(numbers[2])
        return Record(numbers[0], numbers[1], what, numbers[3], text[_RECORD.size :])

    def records(self) -> list[Record]:
        """Return the records of the file, up to one that does not open. Raises Damaged where that is not
        its torn end: a later one shows that it was on disk, or it is a snapshot's."""
        made: list[Record] = []
        while (record := self._open(len(made) + 1)) is not None:
            made.append(record)
        self.used += len(made) * self._size
        missing = len(made) + 1
        if self.head.kind == Kind.SNAPSHOT:
            if not made or made[-1].what != What.END or len(self._text) != self.used:
                raise Damaged(self._place, missing, "it is not whole, or was changed")
            return made[:-1]
        end = made[-1].serial if made else self.head.serial
        most = (len(self._text) - HEAD - self.head.chain_bytes) // self._size
        for number in range(missing + 1, most + 1):
            later = self._open(number)
            if later is not None and later.since > end:
                raise Damaged(self._place, missing, "it was changed: records behind it are whole")
        return made
