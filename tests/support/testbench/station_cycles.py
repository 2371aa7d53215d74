"""The cycles of a device's station on Ethernet, which `hdl.link.station.Ethernet` equals: frames and answers, as
`models.link.ethernet` has them, with their times."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from penstock.models.link.ethernet import (
    FCS,
    FRAMES,
    GAP,
    PEER,
    SHIFT,
    SLACK,
    Given,
    Kind,
    Station,
    Taken,
    on_wire,
)

__all__ = ["Clocked"]

#: bytes before what UDP carries, and before an ICMP echo's numbers
_HEAD, _ECHO = 42, 38
#: bytes of a word, and words of a peer
_WORD, _SENDER = 4, PEER // 4
#: cycles from a frame's last byte on the wire to its first word in the reader; from the last byte composed to the sender's start;
#: from there, beyond a frame's bytes, until the next may be composed, and until it may be sent
_CROSSES, _LEAVES = 7, 4
_EMPTIES, _FOLLOWS = 10, 8 + FCS + GAP
#: cycles after which the receiver knows that a word was read
_SEEN = 4


def _words(size: int) -> int:
    return -(-size // _WORD)


@dataclass
class Clocked:
    """The cycles of a station whose two domains are one, and which finds taken at once what it hands on.

    `answers`: datagrams to send, each with the cycle from which it is offered, but not before the one before it is taken.
    """

    station: Station
    answers: list[tuple[int, Given]] = field(default_factory=list)
    #: cycles of the first byte, and bytes on the wire; cycles of the peer's first word, and what was handed on
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    datagrams: list[tuple[int, Given]] = field(default_factory=list)
    _free: int = 0  # when the reader takes a next word,
    _rests: int = 0  # the composer a next answer,
    _quiet: int = 0  # and the line a next frame
    _kept: int = 0  # words that were ever in the buffer,
    _read: list[int] = field(default_factory=list)  # and the cycle in which each was read

    def receive(self, came: Taken) -> None:
        """Take a frame, if there is room."""
        frame = came.frame
        if self._full(came):
            return
        words = _words(SHIFT + len(frame))
        self._kept += words
        self._free = max(came.end + _CROSSES, self._free)
        kind, found = self.station.header(frame), self.station.receive(frame)
        size = min(int.from_bytes(frame[16:18], "big") + 14, len(frame))
        head = _words(SHIFT + (_ECHO if kind is Kind.ECHO else _HEAD))
        self._pass(head)
        if kind is Kind.ARP:
            self._free = self._turn(self._free) + PEER + 1
            self._compose(self._free + _HEAD - 1, found)
        elif kind is Kind.ECHO:
            self._free = self._turn(self._free) + PEER + 1
            self._echoes(size - _ECHO)
            if found is not None:
                self._compose(self._free + _ECHO - 1, found)
            head = _words(SHIFT + size)
        elif kind is Kind.UDP:
            if isinstance(found, Given):
                self.datagrams.append((self._free, found))
            self._free += _SENDER
            self._pass(_words(size - _HEAD))
            self._free += 1
            head = _words(SHIFT + size)
        self._pass(words - head)

    def _echoes(self, count: int) -> None:
        """Have the reader take words of an echo's bytes, which the composer takes one a cycle."""
        self._read += range(self._free, self._free + count, _WORD)
        self._free += count + 1
        self._rests = self._free

    def _full(self, came: Taken) -> bool:
        """Return whether there was no room, in the cycle before a frame's first byte or where a word of it begins."""
        size = len(came.frame)
        first = came.end - size - FCS
        looks = [first, *range(first + 8, came.end + 2, _WORD)]
        return any(
            self._kept + k - bisect_right(self._read, at - _SEEN) >= (FRAMES - SLACK) // _WORD
            for k, at in enumerate(looks)
        )

    def _pass(self, count: int) -> None:
        """Have the reader take words."""
        self._read += range(self._free, self._free + count)
        self._free += count

    def finish(self) -> None:
        """Send what is left of the answers."""
        self._turn(1 << 62)

    def _turn(self, asks: int) -> int:
        """Return when the composer takes what a reader offers from a cycle on; send answers that come before."""
        while self.answers and max(self.answers[0][0], self._rests) < max(asks, self._rests):
            at, given = self.answers.pop(0)
            start = max(at, self._rests)
            frame = self.station.datagram(given)
            self._compose(start + PEER + len(given.data) + _HEAD, frame)
        return max(asks, self._rests)

    def _compose(self, last: int, frame: bytes | Given | None) -> None:
        """A frame's last byte is composed."""
        assert isinstance(frame, bytes)
        start = max(last + _LEAVES, self._quiet)
        wire = on_wire(frame)
        self.sent.append((start + 2, wire))
        body = len(wire) - 8 - FCS
        self._rests, self._quiet = start + _EMPTIES + body, start + _FOLLOWS + body
