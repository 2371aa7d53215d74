"""Pages that a host pushes into rings (`models.ring`), golden: the device puts them into their slots and raises `pages_ready` itself.

Two kinds of requests (`envelope`) have a port, which counts from 0:

* 6 begins a port's stream anew. `address`: where the ring lies (32 bits), above it the logarithm of a page's size in pieces of `PIECE` bytes
  (3 bits; higher ones are passed over). `length`: pieces in the ring, 1,024 at most.
* 7 pushes a piece. `address`: its position in the stream of all epochs, in bytes: page n begins at n × the page's size and lies in slot n mod the
  ring's pages. Pieces come in any order.

A piece that is there already changes nothing. The status is DECERR where there is no such port, SLVERR where it is no whole piece, FULL where its slot
is not free yet or it is `WINDOW` pieces or more beyond the first one that is missing, else that of memory. What is refused leaves no trace, its sequence
is not taken either: it may come again. `pages` of an answer are those that the port has read, as was last seen: the counter is looked at where an answer
is asked for, and where the slot does not seem to be free.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .frames import Request, Response, Space, Status

#: bytes of a piece
PIECE = 1024
#: pieces from the first missing one on that a port takes
WINDOW = 64
#: bits of counts of pieces: 32 of pages, the most of a page
_COUNT = 32 + 7
_WORD = 4


def describe(at: int, page_bytes: int) -> int:
    """Return the address in a request that begins a stream."""
    return (page_bytes // PIECE).bit_length() - 1 << 32 | at


@dataclass
class Stream:
    """A port's stream."""

    at: int = 0  #: of its ring
    size: int = 0  #: pieces in it
    shift: int = 0  #: log2 of the pieces of a page
    first: int = 0  #: the first piece that is missing
    slot: int = 0  #: its place in the ring
    bitmap: int = 0  #: bit k for the k-th piece from that one on
    done: int = 0  #: pages that were read, as was last seen


class Pushes:
    """The rings of a device. `places`: of each port, the registers that say what is ready and what is done; `perform`: does a request."""

    def __init__(
        self, places: Sequence[tuple[int, int]], perform: Callable[[Request], Response]
    ) -> None:
        self.places, self.perform = places, perform
        self.streams = [Stream() for _ in places]

    def pages(self, port: int) -> int:
        return self.streams[port].done if port < len(self.streams) else 0

    def begin(self, port: int, address: int, length: int) -> int:
        """Begin a stream; return the status."""
        if port >= len(self.streams):
            return Status.DECERR
        low, shift = address % (1 << 32), address >> 32 & 7
        self.streams[port] = Stream(low, length, shift)
        return Status.OKAY

    def take(self, port: int, position: int, data: bytes, asked: bool) -> int:
        """Take a piece; return the status."""
        if port >= len(self.streams):
            return Status.DECERR
        if len(data) != PIECE or position % PIECE:
            return Status.SLVERR
        stream = self.streams[port]
        piece = position // PIECE % (1 << _COUNT)
        ahead = (piece - stream.first) % (1 << _COUNT)
        if asked or not self._free(stream, piece):
            read = self.perform(Request(0, Space.REGISTERS, self.places[port][1], _WORD))
            stream.done = int.from_bytes(read.data, "little")
        if ahead >> _COUNT - 1 or (ahead < WINDOW and stream.bitmap >> ahead & 1):
            return Status.OKAY
        if ahead >= WINDOW or ahead >= stream.size or not self._free(stream, piece):
            return Status.FULL
        place = stream.slot + ahead
        place -= stream.size if place >= stream.size else 0
        at = (stream.at + PIECE * place) % (1 << 32)
        if status := self.perform(Request(0, Space.MEMORY, at, data=data)).status:
            return status
        self._keep(port, stream, ahead)
        return Status.OKAY

    def _free(self, stream: Stream, piece: int) -> bool:
        return ((piece >> stream.shift) - stream.done) % (1 << 32) < stream.size >> stream.shift

    def _keep(self, port: int, stream: Stream, ahead: int) -> None:
        """A piece is in memory."""
        before = stream.first >> stream.shift
        stream.bitmap |= 1 << ahead
        while stream.bitmap & 1:
            stream.bitmap >>= 1
            stream.first = (stream.first + 1) % (1 << _COUNT)
            stream.slot = (stream.slot + 1) % stream.size
        ready = (stream.first >> stream.shift) % (1 << 32)
        if ready != before % (1 << 32):
            word = ready.to_bytes(_WORD, "little")
            self.perform(Request(0, Space.REGISTERS, self.places[port][0], data=word))
