"""What a map keeps outside its device: sealed files of records, from which a device restores the map.

Every operation, GET as well, makes one record: the item that is there afterwards, that none is, or nothing.
A *log* holds the records of operations one after another. A *snapshot* holds those of a walk, one GET for
each entry of the position map or, where there is none, an operation that changes nothing, and of all
operations between its steps: applied in their order they are the map at its last serial. One more operation
ends it. A record is as long as an answer.

    file      head   sealed record   sealed record …
    head      "pmap"  kind u8  generation u24  serial u64  incarnation (16)  previous (16)
    record    key  value  what u8  since u64

A file's key follows from the root and from its head: its kind, the generation of keys that it was written
under, the serial behind which it begins, the incarnation that wrote it and the one before that. A device opens
older generations' files as well, no later ones, and writes its own. No incarnation begins two files of a kind at one serial.
A record's number is its place, from 1 on. So a record that is moved, or is another file's, does not open,
and a head that is changed opens nothing. A file without a record says nothing.

`since` is the serial behind which the host's call began that carried the operation in: what came before is
on the host's disk, or was to be. It tells a torn end from a damaged middle.

The heads of logs are the map's past: each one says at which serial of which incarnation its own began. A
*link* is such a head with the first record behind it, of a log whose other records a snapshot replaced.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ..crypto import gcm
from ..crypto.noise import LAST_NONCE, nonce_bytes
from .config import OmapConfig
from .sessions import Answer
from .vault import KeySchedule

_HEAD = Struct("<4sIQ16s16s")
_MAGIC = b"pmap"
HEAD = _HEAD.size
_NOBODY = bytes(16)


class Kind(IntEnum):
    """Of a file; a link has a log's key."""

    LOG = 0
    SNAPSHOT = 1
    LINK = 2


class What(IntEnum):
    """What a record says of its key: the operation that makes it so, or NOTHING. END: the snapshot is whole."""

    NOTHING = 0
    HELD = 2
    GONE = 3
    END = 4


class Told(IntEnum):
    """What became of a record. APPLIED, or END of a snapshot; TORN: it does not open; CHANGED: it does, and
    shows that one before it, which does not, was on disk; STRAY: the file does not follow those before it,
    or is of a later generation. Behind the last two a device must be powered up again."""

    APPLIED = 32
    END = 33
    TORN = 34
    CHANGED = 35
    STRAY = 36


class Link(NamedTuple):
    """A power-up that came before: its incarnation, and the serial behind which the next one began."""

    incarnation: bytes
    serial: int


class Head(NamedTuple):
    """What a file says of itself in plain: it is believed once a record opens. `previous`: the incarnation
    from which the file's own one restored its map, zeros for a new map."""

    kind: int
    serial: int
    incarnation: bytes
    previous: bytes
    generation: int = 0

    def pack(self) -> bytes:
        """Return its `HEAD` bytes."""
        kind, *names, generation = self
        return _HEAD.pack(_MAGIC, kind | generation << 8, *names)

    @classmethod
    def parse(cls, text: bytes) -> Head:
        """Return what `HEAD` bytes say, whatever they are."""
        _, kind, *names = _HEAD.unpack(text)
        return cls._make((kind & 0xFF, *names, kind >> 8))

    @classmethod
    def unpack(cls, text: bytes) -> Head:
        """Return what a file's first bytes say. Raises ValueError for those that are no head."""
        if len(text) >= HEAD:
            head = cls.parse(text[:HEAD])
            if head.kind in set(Kind) and head.pack() == text[:HEAD]:
                return head
        raise ValueError("it has no head")


class Record(NamedTuple):
    """An operation's."""

    key: int
    value: bytes
    what: int
    since: int

    @staticmethod
    def size(config: OmapConfig) -> int:
        """Return the bytes of a sealed record."""
        return config.key_bytes + config.value_bytes + 1 + 8 + gcm.TAG


def file_key(keys: KeySchedule, head: Head) -> bytes:
    names = head.incarnation, head.previous
    return keys.state_key(*names, head.kind & 1, head.serial, head.generation)


class Writer:
    """Seals a file, record by record."""

    def __init__(self, keys: KeySchedule, head: Head, key_bytes: int = 8) -> None:
        self.head, self._key, self._number = head, file_key(keys, head), 0
        self._key_bytes = key_bytes

    def record(self, record: Record) -> bytes:
        """Return the next record, sealed."""
        self._number += 1
        return gcm.seal(self._key, nonce_bytes(self._number), Answer(*record).pack(self._key_bytes))


class Past:
    """What a device knows of its map from files, which it is given in the order in which they were written:
    links and a snapshot, if there is one, and the logs behind it.

    `serial`: of the last operation; `current`: the incarnation that carried it out; `links`: the last ones
    before it, by the first byte of their names, which counts power-ups.
    """

    def __init__(self, keys: KeySchedule, key_bytes: int = 8) -> None:
        self._keys, self._key_bytes = keys, key_bytes
        self.serial, self.current = 0, _NOBODY
        self.links: dict[int, Link] = {}
        self._wrong, self._whole, self._owed = False, True, 0
        self._head: Head | None = None

    def open(self, text: bytes) -> None:
        """Go on with a file that has this head."""
        self._head = head = Head.parse(text)
        self._key = file_key(self._keys, head)
        self._number, self._torn, self._known = 0, False, False

    def record(self, number: int, sealed: bytes) -> tuple[Told, Record | None]:
        """Return what becomes of a record that the host says has this number, and what is applied."""
        verdict, record = self._record(number, sealed)
        self._wrong |= verdict in (Told.CHANGED, Told.STRAY)
        return verdict, record if verdict == Told.APPLIED else None

    def _record(self, number: int, sealed: bytes) -> tuple[Told, Record | None]:
        later = self._head is not None and self._head.generation > self._keys.generation
        if self._head is None or self._wrong or later:
            return Told.STRAY, None
        self._number += 1
        text = None
        if number == self._number and number < LAST_NONCE:
            text = gcm.open_(self._key, nonce_bytes(number), sealed)
        if text is None:
            self._torn = True
            return Told.TORN, None
        record = Record(*Answer.unpack(text, self._key_bytes))
        if self._torn:
            return (Told.CHANGED if record.since > self.serial else Told.TORN), None
        if not self._known and not self._follows(self._head):
            return Told.STRAY, None
        self._known = True
        if self._head.kind & Kind.LINK:
            return Told.APPLIED, record._replace(what=What.NOTHING)
        self.serial += 1
        if record.what == What.END:
            self._whole = True
            return Told.END, None
        return Told.APPLIED, record

    def _follows(self, head: Head) -> bool:
        """Whether a file goes on where the ones before it end; then it is part of the past from now on."""
        is_current, first = head.incarnation == self.current, self.current == _NOBODY
        after = is_current or head.previous == self.current
        if head.kind & Kind.LINK:
            fits = self.serial == 0 and (after or first)
        elif head.kind & Kind.SNAPSHOT:
            fits = self.serial == 0 and (is_current or first)
        else:
            fits = after and self._whole and head.serial == self.serial
        if not fits:
            return False
        if not is_current:
            self._linked(head.serial)
            self.current = head.incarnation
        if head.kind & Kind.LINK:
            self._owed = max(self._owed, head.serial)
        elif head.kind & Kind.SNAPSHOT:
            self.serial, self._whole = head.serial, False
        return True

    def _linked(self, serial: int) -> None:
        if self.current != _NOBODY:
            self.links[self.current[0]] = Link(self.current, serial)

    def end(self) -> Head | None:
        """Return the head of this device's first log, None where files are missing or wrong."""
        if self._wrong or not self._whole or self._owed > self.serial:
            return None
        number = 0 if self.current == _NOBODY else (self.current[0] + 1) % 256
        self._linked(self.serial)
        previous, incarnation = self.current, bytes([number]) + self._keys.incarnation[1:]
        self.current, self._wrong = incarnation, True  # files are not believed any more
        return Head(Kind.LOG, self.serial, incarnation, previous, self._keys.generation)
