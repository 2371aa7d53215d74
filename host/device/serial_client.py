"""Requests over a serial line: which are in flight, when each is sent again, when the device is given up. Over UDP: `udp_session`.

Everything here runs in one event loop.

How losses are found, on a line that keeps order: an answer to a request says that those sent before it which are not answered were lost, and they are
sent again at once; a nack or a spoilt answer says so of the only one under way; for the rest there is a timer that follows the time that answers take
(as TCP's, RFC 6298).
"""

from __future__ import annotations

import asyncio
import errno
import os
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import serial

from ...models.link.device import Identity
from ...models.link.frames import (
    MAXIMUM,
    NACK,
    FrameError,
    Parser,
    Request,
    Response,
    Space,
    decode_response,
)
from ...models.link.timing import BYTE_BITS
from .errors import LinkError
from .roundtrip import RoundTrip
from .transport import Statistics

#: attempts at one request, where they took the time-out at least: a full frame with one byte in a hundred spoilt comes through every fifth time
_TRIES = 200
#: least time of the retry timer in seconds; it is at most a third of the time-out (`_send`)
_SOONEST = 0.02
#: fewest bytes of data in a frame of a longer transfer on a bad line
_SMALLEST = 16
#: bytes around a request and around its answer, about
_FRAME = 20
#: requests in flight
_OPEN = 16


@dataclass
class _Waiting:
    """A request in flight. `first`, `sent`: when it was sent first and last; `due`: when the timer sends it again; `order`: the number of the last sending."""

    request: Request
    answer: asyncio.Future[Response]
    first: float
    order: int = 0
    sent: float = 0.0
    due: float = 0.0
    lost: bool = False  # known to be, without the timer
    tries: int = field(default=0)


def _refusal(path: str, problem: Exception) -> LinkError:
    """Return what it means that a port cannot be opened."""
    number = problem.errno if isinstance(problem, OSError) else None
    if isinstance(problem, termios.error):
        number = problem.args[0]
    if number in (errno.EAGAIN, errno.EBUSY):
        return LinkError(
            f"cannot open {path}: another program has it open",
            "close that program, or the device that was opened before in this one",
        )
    if number in (errno.EACCES, errno.EPERM):
        return LinkError(
            f"cannot open {path}: {os.strerror(number)}",
            "may this user open serial ports? On Debian and Ubuntu: sudo adduser $USER dialout, "
            "then log in again",
        )
    if number is not None:
        return LinkError(f"cannot open {path}: {os.strerror(number)}")
    if "configure" in str(problem):
        return LinkError(f"cannot open {path}: it is no serial port")
    return LinkError(f"cannot open {path}: {problem}")


@contextmanager
def _together(parts: list[asyncio.Future[Response]]) -> Iterator[None]:
    """Requests of one transfer: when it is cancelled, so are all of them."""
    try:
        yield
    except asyncio.CancelledError:
        for part in parts:
            part.cancel()
        raise


class _Wire:
    """A serial port in the event loop. `take` is called with the bytes that come, `gone` where the port is gone."""

    def __init__(
        self, path: str, baud: int, take: Callable[[bytes], None], gone: Callable[[LinkError], None]
    ) -> None:
        self.path, self.take, self.gone = path, take, gone
        self._loop, self._closed = asyncio.get_running_loop(), False
        self._outgoing = bytearray()
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
        except (OSError, ValueError, OverflowError, termios.error) as problem:
            raise _refusal(path, problem) from None  # SerialException is an OSError
        # what pyserial raises for other kinds of ports
        with suppress(AttributeError, OSError, NotImplementedError, ValueError):
            self._port.set_low_latency_mode(True)  # a USB bridge else waits 16 ms for more bytes
        try:
            self._port.reset_input_buffer()
        except (OSError, termios.error) as problem:  # pulled meanwhile
            self._port.close()
            raise _refusal(path, problem) from None
        self._handle = self._port.fileno()
        self._loop.add_reader(self._handle, self._readable)

    def put(self, data: bytes) -> None:
        if not self._closed:
            self._outgoing += data
            self._writable()

    def _writable(self) -> None:
        """Hand the port what it takes; come back when it takes more."""
        try:
            del self._outgoing[: os.write(self._handle, self._outgoing)]
        except BlockingIOError:
            pass
        except OSError as problem:
            self.gone(LinkError(f"{self.path} is gone: {problem.strerror}"))
            return
        if self._outgoing:
            self._loop.add_writer(self._handle, self._writable)
        else:
            self._loop.remove_writer(self._handle)

    def _readable(self) -> None:
        try:
            data = os.read(self._handle, 65536)
        except BlockingIOError:
            return
        except OSError as problem:
            self.gone(LinkError(f"{self.path} is gone: {problem.strerror}"))
            return
        if data:
            self.take(data)
        else:
            self.gone(LinkError(f"{self.path} is gone"))

    def close(self) -> None:
        self._closed = True
        self._loop.remove_reader(self._handle)
        self._loop.remove_writer(self._handle)
        with suppress(OSError):  # a port that is gone cannot be closed well
            self._port.close()


class Client:
    """A connection over a serial line. Make it with `open`.

    * `path`, `baud`: the serial port.
    * `timeout`: seconds without a sound frame from the device, while it owes an answer, after which the
      connection is given up.
    """

    def __init__(self, path: str, baud: int, timeout: float) -> None:
        self.path = path
        self.baud = baud
        self.timeout = timeout
        self.statistics = Statistics()
        self.identity: Identity | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._waiting: dict[int, _Waiting] = {}
        self._failure: LinkError | None = None
        self._freed = asyncio.Event()
        self._sequence = 0
        # sequences by which the device may know its latest register write
        self._written: set[int] = set()
        self._orders = 0
        self._heard = time.monotonic()
        self._trip = RoundTrip(0.05, 0.05)
        self._patience = 1  # times the timer, after it was too short
        # bytes of data in a frame: halved at each resend, 2 more at each answer to a first try
        self._chunk = MAXIMUM
        self._timer: asyncio.TimerHandle | None = None
        self._wire = _Wire(path, baud, self._take, self._fail)

    @classmethod
    async def open(cls, path: str, baud: int, timeout: float) -> Client:
        """Connect, and ask the device what it is. Raises LinkError."""
        client = cls(path, baud, timeout)
        try:
            # the identity space is also where a device forgets the register write of whoever was here before
            client.identity = Identity.decode((await client._ask(Space.IDENTITY, 0, 16)).data)
        except FrameError as problem:
            client.close()
            raise LinkError(f"{path}: {problem}") from None
        except BaseException:
            client.close()
            raise
        return client

    def close(self) -> None:
        """End the connection; closing twice is fine."""
        self._fail(LinkError(f"{self.path} is closed"))

    @property
    def failed(self) -> bool:
        """Whether the connection is over."""
        return self._failure is not None

    async def read(self, space: Space, address: int, length: int) -> tuple[bytes, int]:
        """Read bytes; return them and the statuses of their requests, ORed (`models.link.frames.Status`)."""
        return await self._transfer(space, address, length)

    async def write(self, space: Space, address: int, data: bytes) -> int:
        """Write bytes; return the statuses of their requests, ORed. Writes to registers are done once, whatever happens on the line."""
        if space is Space.REGISTERS:
            status = 0
            # one after the other: the device remembers only the latest
            for position in range(0, len(data), MAXIMUM):
                piece = data[position : position + MAXIMUM]
                status |= (await self._ask(space, address + position, data=piece)).status
            return status
        return (await self._transfer(space, address, len(data), data))[1]

    async def _transfer(
        self, space: Space, address: int, length: int, data: bytes | None = None
    ) -> tuple[bytes, int]:
        """Read bytes, or write `data`, in frames that the line bears; return what was read, and the statuses ORed."""
        parts: list[asyncio.Future[Response]] = []
        position = status = 0
        with _together(parts):
            while position < length:
                count = min(self._chunk, length - position)
                piece = None if data is None else data[position : position + count]
                asked = 0 if piece else count  # a write's answer has no data
                parts.append(await self._begin(space, address + position, asked, piece))
                position += count
            answers = await asyncio.gather(*parts)
        for answer in answers:
            status |= answer.status
        return b"".join(answer.data for answer in answers), status

    async def _ask(
        self, space: Space, address: int, length: int = 0, data: bytes | None = None
    ) -> Response:
        return await (await self._begin(space, address, length, data))

    async def _begin(
        self, space: Space, address: int, length: int = 0, data: bytes | None = None
    ) -> asyncio.Future[Response]:
        """Send a request as soon as the device has room for it; return what waits for its answer."""
        # bytes of requests that the device has room for; few until the identity is known
        ring = self.identity.ring if self.identity else 64
        size = Request(0, space, address, length, data).size
        while (
            self._failure is None
            and self._waiting
            and (
                sum(w.request.size for w in self._waiting.values()) + size >= ring
                or len(self._waiting) >= _OPEN
            )
        ):
            self._freed.clear()
            await self._freed.wait()
        if self._failure is not None:
            raise self._failure
        once = space is Space.REGISTERS and data is not None
        # else it would be taken for a repeated one
        while self._sequence in self._waiting or (once and self._sequence in self._written):
            self._sequence = self._sequence + 1 & 0xFF
        if once:
            self._written.add(self._sequence)
        request = Request(self._sequence, space, address, length, data)
        self._sequence = self._sequence + 1 & 0xFF
        now = time.monotonic()
        if not self._waiting:
            self._heard = now
        waiting = _Waiting(request, self._loop.create_future(), now)
        self._waiting[request.sequence] = waiting
        waiting.answer.add_done_callback(
            lambda answer: self._forget(waiting) if answer.cancelled() else None
        )
        self._send(waiting)
        return waiting.answer

    def _forget(self, waiting: _Waiting) -> None:
        """Forget a request whose answer nobody awaits any more: it must not be sent again, after later ones."""
        if self._waiting.get(waiting.request.sequence) is waiting:
            del self._waiting[waiting.request.sequence]
            self._freed.set()

    # the line

    def _send(self, waiting: _Waiting) -> None:
        """Send a request, first or again, and set the timer for its answer. Give the connection up where it was sent often enough."""
        if waiting.answer.cancelled():
            self._forget(waiting)
            return
        now = time.monotonic()
        waiting.tries += 1
        if waiting.tries > _TRIES and now - waiting.first >= self.timeout:
            noisy = f"{self.path}: the line is too noisy: a request failed {_TRIES} times"
            self._fail(self._silence() if now >= self._deadline() else LinkError(noisy))
            return
        self.statistics.sent += 1
        if waiting.tries > 1:
            self.statistics.again += 1
            self._chunk = max(_SMALLEST, self._chunk // 2)
        self._orders += 1
        waiting.order, waiting.sent, waiting.lost = self._orders, now, False
        size = sum(w.request.size + w.request.length + _FRAME for w in self._waiting.values())
        wire = size * BYTE_BITS / self.baud  # seconds of all requests in flight and their answers
        patience = max(self._trip.late, _SOONEST, 1.5 * wire) * self._patience
        waiting.due = now + min(patience, self.timeout / 3)
        self._wire.put(waiting.request.encode())
        self._set_timer(now)

    def _take(self, data: bytes) -> None:
        lost = False  # after the last sound answer
        for body in self._parser.feed(data):
            try:
                answer = decode_response(body)
            except FrameError:
                self.statistics.spoilt += 1
                lost = True
            else:
                lost = self._answered(answer)
        if lost:
            self._lost()

    def _answered(self, answer: Response) -> bool:
        """Take a sound answer; return whether it was a nack."""
        self._heard = time.monotonic()
        self.statistics.received += 1
        if answer.kind == NACK:
            self.statistics.nacks += 1
            return True
        waiting = self._waiting.get(answer.sequence)
        if (
            waiting is None
            or waiting.request.kind != answer.kind
            or len(answer.data) != waiting.request.length
        ):
            return False  # a second answer to a request that was sent twice
        del self._waiting[answer.sequence]
        if waiting.request.data is not None and waiting.request.space == Space.REGISTERS:
            self._written = {answer.sequence}
        if waiting.tries == 1:
            self._trip.add(self._heard - waiting.first)
            self._patience = 1
            self._chunk = min(MAXIMUM, self._chunk + 2)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._freed.set()
        for other in [w for w in self._waiting.values() if w.order < waiting.order]:
            self._send(other)
        return False

    def _lost(self) -> None:
        """Something was lost on the way. If there is only one request that it can have been, send that again.

        Not before it can have left, however: garbage that a line is full of is no answer to it, and must not fill the line in the other direction.
        """
        if len(self._waiting) == 1:
            [waiting] = self._waiting.values()
            waiting.lost = True
            waiting.due = min(
                waiting.due, waiting.sent + BYTE_BITS / self.baud * waiting.request.size
            )
            now = time.monotonic()
            if waiting.due <= now:
                self._send(waiting)
            else:
                self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        """Come back when the first request is overdue, or the device was silent for too long."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._waiting and self._failure is None:
            at = min(min(w.due for w in self._waiting.values()), self._deadline())
            self._timer = self._loop.call_later(max(at - now, 0.0005), self._tick)

    def _deadline(self) -> float:
        return max(self._heard, min(w.first for w in self._waiting.values())) + self.timeout

    def _silence(self) -> LinkError:
        return LinkError(f"{self.path}: the device did not answer for {self.timeout:g} s")

    def _tick(self) -> None:
        """Send again what is overdue; give up a device that is silent."""
        self._timer = None
        if self._failure is not None or not self._waiting:
            return
        now = time.monotonic()
        if now >= self._deadline():
            self._fail(self._silence())
            return
        overdue = [w for w in self._waiting.values() if w.due <= now]
        if not all(w.lost for w in overdue):
            # an answer to what was sent twice says nothing about the time it takes: only waiting longer shows that (Karn's algorithm)
            self._patience = min(2 * self._patience, 8)
        for waiting in overdue:
            self._send(waiting)
        self._set_timer(now)

    def _fail(self, failure: LinkError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._timer is not None:
            self._timer.cancel()
        self._wire.close()
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(failure)
                waiting.answer.exception()  # nobody may come for it: the first failure ends a transfer
        self._waiting.clear()
        self._freed.set()
