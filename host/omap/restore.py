"""Files of state to a device that is powered up: the way from a disk to what `models.omap.state` says."""

from collections.abc import Sequence
from typing import Protocol

from ...models.omap.boundary import Frames, Header
from ...models.omap.config import BLOCK, OmapConfig
from ...models.omap.state import HEAD, Head, Kind, Record, Told

_GOOD = (Told.APPLIED, Told.END)
_STRAY = "it does not follow the files before it, or is of later keys"


class Damaged(Exception):
    """A file is not what a device wrote. `file`: its place among those that were given; `record`: the
    first one that is wrong, 0 for the head."""

    def __init__(self, file: int, record: int, why: str) -> None:
        super().__init__(why)
        self.file, self.record, self.why = file, record, why


class Restores(Protocol):
    """What takes records (`models.omap.kept_device.KeptDevice`)."""

    def take(self, frames: Sequence[bytes], opening: bytes = b"") -> list[bytes]: ...

    def begin(self) -> bytes: ...


def restored(config: OmapConfig, device: Restores, files: Sequence[bytes]) -> tuple[bytes, int]:
    """Make the device's map what files say, in the order in which they were written. Return the head of a new
    log, and how many bytes of the last file count. Raises Damaged: then the device must be powered up again."""
    used = end = 0
    for place, text in enumerate(files):
        file = _File(config, device, place, text)
        used, begin, last = file.restore()
        # a log without records too, which the device does not look at
        if begin != end and not file.snapshot:
            raise Damaged(place, 0, _STRAY)
        end = last
    answer = device.begin()
    if Header.unpack(answer).code:
        raise Damaged(max(len(files) - 1, 0), 0, "it does not follow what the device has")
    return answer[BLOCK : BLOCK + HEAD], used


class _File:
    def __init__(self, config: OmapConfig, device: Restores, place: int, text: bytes) -> None:
        self._device, self._place, self._text = device, place, text
        self._frames, self._size, self._at = Frames.of(config), Record.size(config), 0
        self._ended = self.snapshot = False  # `_ended`: its last record is a snapshot's

    def restore(self) -> tuple[int, int, int]:
        """Return how many bytes of the file count, and the serials behind which it begins and ends."""
        links = 0
        while (head := self._head(links)).kind == Kind.LINK:
            links += 1
            self._at += HEAD
            if self._told(head, [self._text[self._at : self._at + self._size]], links) != 1:
                raise Damaged(self._place, links, "it was changed")
            self._at += self._size
        self._at += HEAD
        self.snapshot = head.kind == Kind.SNAPSHOT
        records = [
            self._text[at : at + self._size]
            for at in range(self._at, len(self._text) - self._size + 1, self._size)
        ]
        end = self._at + len(records) * self._size
        if head.kind == Kind.LOG:
            while records and not any(records[-1]):  # room that was reserved
                records.pop()
        good = self._told(head, records, links)
        if self.snapshot and (good < len(records) or end != len(self._text) or not self._ended):
            raise Damaged(self._place, links + good + 1, "it is not whole, or was changed")
        return self._at + good * self._size, head.serial, head.serial + good

    def _head(self, links: int) -> Head:
        try:
            return Head.unpack(self._text[self._at : self._at + HEAD])
        except ValueError as problem:
            raise Damaged(self._place, links, str(problem)) from None

    def _told(self, head: Head, records: Sequence[bytes], before: int) -> int:
        """Give the device records; return how many are good."""
        frames = self._frames
        opening = Header(0, 0, 0).pack() + head.pack()
        texts = [
            frames.pack(Header(0, 0, k + 1), frames.answer_blocks, record)
            for k, record in enumerate(records)
        ]
        answers = self._device.take(
            texts, opening.ljust(frames.opening_beats * frames.bus_bytes, b"\0")
        )
        codes = [Header.unpack(answer).code for answer in answers]
        good = next((k for k, one in enumerate(codes) if one not in _GOOD), len(codes))
        if Told.CHANGED in codes:
            raise Damaged(
                self._place, before + good + 1, "it was changed: records behind it are whole"
            )
        if Told.STRAY in codes:
            raise Damaged(self._place, 0, _STRAY)
        self._ended = bool(codes) and codes[-1] == Told.END
        return good
