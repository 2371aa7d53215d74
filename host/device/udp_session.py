"""Requests over UDP: what to send, when each datagram is sent again, what answers mean. Over a serial line: `serial_client`.

It is the host's end of the envelope (`models.link.envelope`), with neither socket nor clock.

Losses: an answer that tells of a request says that those are lost which were sent more than `_REORDERED` datagrams before it and which its bitmap
lacks; they are sent again at once. Of one that was sent twice the first is taken for the one that came, as it may have been late. For the rest
there is one timer, by RFC 6298; when it runs out, the oldest request asks again.
"""

import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct

from ...models.link.device import Identity
from ...models.link.envelope import ASK, OPENING, WINDOW, Answer, decode_answer, follows
from ...models.link.frames import Space, Status
from .errors import LinkError
from .roundtrip import RoundTrip
from .transport import Piece as Pushed
from .transport import Refused, Statistics

#: kind (above its 8 bits the port), address, length, data: what is asked in one datagram
Piece = tuple[int, int, int, bytes | memoryview]

#: datagrams by which one may be late without being taken for lost
_REORDERED = 3
#: datagrams that may wait for an answer which none has asked for, if they do not take half of the device's room: the other half keeps it busy meanwhile
_UNASKED = 8
#: least seconds of the timer (of RFC 6298's one second for far networks), and its parts of the time-out: at first, and at most
_SOONEST, _FIRST, _LONGEST = 0.001, 8, 4

_HEAD = Struct("<IIHHQ")
_CRC = Struct("<I")
_MASK = (1 << 32) - 1
#: kinds of which one answer tells about others
_TOLD = (Space.MEMORY << 1 | 1, Space.RING << 1 | 1)
#: the order of what the timer doubts
_DOUBTED = -_REORDERED - 1


def pushing(pieces: Iterable[Pushed | None]) -> Iterator[Piece | None]:
    """Yield what pushes pages: a `transport.Piece` each."""
    kind = Space.RING << 1 | 1
    for piece in pieces:
        if piece is None:
            yield None
        else:
            port, at, data = piece
            yield kind | port << 8, at, len(data), data


class _Sent:
    """A request under way. `order`: how many datagrams were sent before; `earliest`: before its first sending that may have come."""

    __slots__ = ("again", "at", "body", "earliest", "index", "kind", "order", "size")

    def __init__(self, kind: int, index: int, body: bytes, size: int) -> None:
        self.kind, self.index = kind, index
        self.body, self.size = body, size
        self.order = self.earliest = 0
        self.at, self.again = 0.0, False


class _Transfer:
    """Pieces that are asked for, in no order; None among them: there is none for the moment."""

    def __init__(self, pieces: Iterable[Piece | None]) -> None:
        self.sent: dict[int, _Sent] = {}  #: under way, in the order of their sequences
        self.lost: list[int] = []  #: sequences to send again
        self.count = self.size = 0  #: requests sent in all, bytes under way
        #: requests and bytes since the latest request that asks for an answer
        self.unasked = self.untold = 0
        self.data: list[bytes] = []  #: that was read, by request
        self.status = 0  #: of refusals
        self._pieces = iter(pieces)
        self.advance()

    def advance(self) -> None:
        """Look at the next piece."""
        pieces = [*islice(self._pieces, 1)]
        self.waits = pieces == [None]  #: for a piece
        self.ahead = pieces[0] if pieces else None

    def take(self, sequence: int) -> None:
        """A request is answered."""
        self.size -= self.sent.pop(sequence).size


class Session:
    """A session of one host. `begin` a transfer; then `send` what it returns, `take` what comes, until it is `done`; at `due` send again.

    Parameters: `number`: of the session, 0 to close; `before`: the session that it follows, 0: none; `timeout`: seconds without an answer that tells
    something new, after which `send` raises LinkError; `name`: of the device, for messages. `pages`: that each port has read, as its latest answer says.
    """

    def __init__(self, number: int, timeout: float, name: str, before: int = 0) -> None:
        self.number, self.timeout, self.name = number, timeout, name
        self.statistics = Statistics()
        self.identity: Identity | None = None
        self.pages: dict[int, int] = {}
        self.due = float("inf")
        self._next = 0  # sequence
        self._order = 0  # datagrams sent
        self._room = 1  # bytes that may be under way; a datagram always may
        self._transfer = _Transfer(())
        self._heard = 0.0
        self._trip = RoundTrip()
        self._patience = min(1.0, timeout / _FIRST)  # seconds of the timer
        self._trouble, self._gone = f"the device did not answer for {timeout:g} s", False
        self._before = before

    @property
    def data(self) -> list[bytes]:
        """What the transfer has read."""
        return self._transfer.data

    def open(self, now: float) -> None:
        """Begin the opening, which is a transfer of its own."""
        self.begin([(OPENING, self._before, 16, b"")], now)

    def begin(self, pieces: Iterable[Piece | None], now: float) -> None:
        """Begin a transfer of pieces that need no order among them; the one before is done.

        None among them: there is none for the moment. They are asked again when answers have come, and left when nothing is under way.
        """
        self._transfer, self._heard = _Transfer(pieces), now

    @property
    def done(self) -> bool:
        return not self._transfer.sent and self._transfer.ahead is None

    def finish(self) -> None:
        """Raise Refused where the device refused something of the transfer."""
        if self._transfer.status:
            raise Refused(self._transfer.status)

    def send(self, now: float) -> list[bytes]:
        """Return the datagrams to send now. Raises LinkError where there is no use."""
        transfer = self._transfer
        if self._gone or (transfer.sent and now >= self._heard + self.timeout):
            raise LinkError(f"{self.name}: {self._trouble}")
        if transfer.sent and now >= self.due:
            self._patience = min(2 * self._patience, self.timeout / _LONGEST)
            for sent in transfer.sent.values():
                sent.order = sent.earliest = _DOUBTED
            transfer.lost = [next(iter(transfer.sent))]
        out = [self._encoded(at, now, at == transfer.lost[-1]) for at in transfer.lost]
        self.statistics.again += len(out)
        transfer.lost = []
        if transfer.waits and transfer.sent:
            transfer.advance()
        if transfer.ahead is not None:
            self._more(out, now)
        self.statistics.sent += len(out)
        if out:
            self.due = min(now + self._patience, self._heard + self.timeout)
        return out

    def _more(self, out: list[bytes], now: float) -> None:
        """Add what is new, as far as the device has room."""
        transfer = self._transfer
        oldest = next(iter(transfer.sent), self._next)
        while (piece := transfer.ahead) is not None:
            kind, data = piece[0], piece[3]
            size = _HEAD.size + len(data)
            full = transfer.size + size >= self._room
            if transfer.sent and ((self._next - oldest) & _MASK >= WINDOW or full):
                return
            transfer.advance()
            following = transfer.ahead
            transfer.size += size
            transfer.unasked += 1
            transfer.untold += size
            ends = following is None or transfer.size + _HEAD.size + len(following[3]) >= self._room
            many = transfer.unasked >= _UNASKED or 2 * transfer.untold >= self._room
            asks = ends or many or (self._next + 1 - oldest) & _MASK >= WINDOW
            asked = kind | ASK if asks else kind
            head = _HEAD.pack(self.number, self._next, asked, piece[2], piece[1])
            if asks:
                transfer.unasked = transfer.untold = 0
            sent = _Sent(kind, transfer.count, b"".join((head, data)), size)
            transfer.sent[self._next] = sent
            self._order += 1
            sent.order = sent.earliest = self._order
            sent.at = now
            out.append(sent.body + _CRC.pack(zlib.crc32(sent.body)))
            transfer.count += 1
            if kind != OPENING:
                self._next = self._next + 1 & _MASK

    def _encoded(self, sequence: int, now: float, asks: bool) -> bytes:
        """Return what is sent again."""
        sent = self._transfer.sent[sequence]
        self._order += 1
        sent.order, sent.at, sent.again = self._order, now, True
        if sent.earliest == _DOUBTED:
            sent.earliest = self._order
        body = bytearray(sent.body)
        body[8] = (sent.kind | ASK if asks else sent.kind) & 0xFF
        return bytes(body) + _CRC.pack(zlib.crc32(body))

    def take(self, datagram: bytes, now: float) -> None:
        answer = decode_answer(datagram)
        if answer is None:
            self.statistics.spoilt += 1
            return
        self.statistics.received += 1
        if answer.session != self.number:
            return
        transfer = self._transfer
        sent, before = transfer.sent.get(answer.sequence), len(transfer.sent)
        latest = _DOUBTED
        if answer.status == Status.FULL:
            return  # it is sent again, later
        if sent is not None and sent.kind & 0xFF == answer.kind & ~ASK:
            if answer.status in (Status.BUSY, Status.GONE):
                self._turned_away(answer.status)
                return
            latest = self._answered(answer, sent, now)
        if answer.kind & ~ASK in _TOLD and answer.status != Status.GONE:
            latest = max(latest, self._told(answer))
        if len(transfer.sent) < before:
            self._heard = now
            if self._trip.smoothed:
                self._patience = min(max(self._trip.late, _SOONEST), self.timeout / _LONGEST)
            self.due = now + self._patience
            sure = latest - _REORDERED
            transfer.lost = [at for at, other in transfer.sent.items() if other.order < sure]

    def _turned_away(self, status: int) -> None:
        if status == Status.GONE:
            self._gone = True
            self._trouble = "another host took the device over, or it was switched off and on"
        else:
            self._trouble = "another host has the device; it is free 10 s after that falls silent"

    def _answered(self, answer: Answer, sent: _Sent, now: float) -> int:
        """Take the answer to a request; return its order."""
        transfer = self._transfer
        transfer.take(answer.sequence)
        transfer.status |= answer.status
        if sent.kind & 0xFF == Space.RING << 1 | 1:
            port = sent.kind >> 8
            if follows(answer.pages, self.pages.get(port, 0)) > 0:  # answers may be overtaken
                self.pages[port] = answer.pages
        if sent.kind == OPENING:
            self._next = answer.first
            self.identity = Identity.decode(answer.data)
            self._room = self.identity.ring
        elif not sent.kind & 1:
            transfer.data += [b""] * (sent.index + 1 - len(transfer.data))
            transfer.data[sent.index] = answer.data
        if not sent.again:
            self._trip.add(now - sent.at)
        return sent.earliest

    def _told(self, answer: Answer) -> int:
        """Take what an answer to a write to memory says of the others; return the latest one's order."""
        latest, orders = _DOUBTED, []
        for at, sent in self._transfer.sent.items():
            distance = follows(at, answer.first)
            if distance < 0 or (distance < WINDOW and answer.bitmap >> distance & 1):
                if sent.kind & 0xFF in _TOLD:
                    orders.append(at)
                    latest = max(latest, sent.earliest)
            elif not answer.bitmap:
                break
        for at in orders:
            self._transfer.take(at)
        if orders:
            self._transfer.status |= answer.status
        return latest
