"""The host's end of the link: requests in flight, retries, time-outs. Everything here runs in one event loop.

How losses are found, on a line that keeps order: an answer to a request says that those sent before it which are not answered were lost, and they are
sent again at once; a nack or a spoilt answer says so of the only one under way; for the rest there is a timer that follows the time that answers take
(as TCP's, RFC 6298).
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field

import serial

from ...models.link import MAXIMUM, NACK, FrameError, Identity, Parser, Request, Response, Space, decode_response
from .errors import LinkError

__all__ = ["Client", "Statistics"]

#: attempts at one request: a full frame with one byte in a hundred spoilt comes through every fifth time
_TRIES = 200
#: bounds of the retry timer in seconds; the upper one is a part of the time-out
_SOONEST = 0.02
#: fewest bytes of data in a frame of a longer transfer on a bad line
_SMALLEST = 16
#: requests in flight
_OPEN = 16


@dataclass
class Statistics:
    """What happened on the line so far."""

    sent: int = 0
    again: int = 0
    received: int = 0
    spoilt: int = 0
    nacks: int = 0


@dataclass
class _Waiting:
    request: Request
    answer: asyncio.Future[Response]
    first: float
    order: int = 0
    due: float = 0.0
    tries: int = field(default=0)


class Client:
    """A connection. Make it with `open`.

    Parameters
    ----------
    path, baud
        The serial port.
    timeout
        Seconds without a sound frame from the device, while it owes an answer, after which the connection is given up.
    """

    def __init__(self, path: str, baud: int, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self.statistics = Statistics()
        self.identity: Identity | None = None
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._waiting: dict[int, _Waiting] = {}
        self._outgoing = bytearray()
        self._failure: LinkError | None = None
        self._freed = asyncio.Event()
        self._sequence = 0
        self._orders = 0
        self._heard = time.monotonic()
        self._smoothed, self._variation = 0.05, 0.05           # seconds, of answers
        self._patience = 1                                   # times the timer, after it was too short
        self._chunk = MAXIMUM
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
        except (OSError, ValueError) as problem:             # SerialException is an OSError
            raise LinkError(f"cannot open {path}: {problem}") from None
        with suppress(AttributeError, OSError, NotImplementedError, ValueError):     # what pyserial raises for other kinds of ports
            self._port.set_low_latency_mode(True)            # a USB bridge else waits 16 ms for more bytes
        self._port.reset_input_buffer()
        self._handle = self._port.fileno()
        self._loop.add_reader(self._handle, self._readable)

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
        """Read bytes; return them and the worst response."""
        parts: list[asyncio.Future[Response]] = []
        position = 0
        while position < length:
            count = min(self._chunk, length - position)
            parts.append(await self._begin(space, address + position, count))
            position += count
        return await self._gather(parts)

    async def write(self, space: Space, address: int, data: bytes) -> int:
        """Write bytes; return the worst response. Writes to registers are done once, whatever happens on the line."""
        if space is Space.REGISTERS:
            status = 0
            for position in range(0, len(data), MAXIMUM):    # one after the other: the device remembers only the latest
                status |= (await self._ask(space, address + position, data=data[position:position + MAXIMUM])).status
            return status
        parts: list[asyncio.Future[Response]] = []
        position = 0
        while position < len(data):
            piece = data[position:position + self._chunk]
            parts.append(await self._begin(space, address + position, data=piece))
            position += len(piece)
        return (await self._gather(parts))[1]

    async def _gather(self, parts: list[asyncio.Future[Response]]) -> tuple[bytes, int]:
        answers = await asyncio.gather(*parts)
        status = 0
        for answer in answers:
            status |= answer.status
        return b"".join(answer.data for answer in answers), status

    async def _ask(self, space: Space, address: int, length: int = 0, data: bytes | None = None) -> Response:
        return await (await self._begin(space, address, length, data))

    async def _begin(self, space: Space, address: int, length: int = 0, data: bytes | None = None) -> asyncio.Future[Response]:
        """Send a request as soon as the device has room for it; return what waits for its answer."""
        ring = self.identity.ring if self.identity else 64
        size = Request(0, space, address, length, data).size
        while self._failure is None and self._waiting and (sum(w.request.size for w in self._waiting.values()) + size >= ring or len(self._waiting) >= _OPEN):
            self._freed.clear()
            await self._freed.wait()
        if self._failure is not None:
            raise self._failure
        while self._sequence in self._waiting:
            self._sequence = self._sequence + 1 & 0xFF
        request = Request(self._sequence, space, address, length, data)
        self._sequence = self._sequence + 1 & 0xFF
        now = time.monotonic()
        if not self._waiting:
            self._heard = now
        waiting = _Waiting(request, self._loop.create_future(), now)
        self._waiting[request.sequence] = waiting
        self._send(waiting)
        return waiting.answer

    # the line

    def _send(self, waiting: _Waiting) -> None:
        now = time.monotonic()
        waiting.tries += 1
        if waiting.tries > _TRIES:
            self._fail(LinkError(f"{self.path}: the line is too noisy: a request failed {_TRIES} times"))
            return
        self.statistics.sent += 1
        if waiting.tries > 1:
            self.statistics.again += 1
            self._chunk = max(_SMALLEST, self._chunk // 2)
        self._orders += 1
        waiting.order = self._orders
        patience = min(max(self._smoothed + 4 * self._variation, _SOONEST) * self._patience, self.timeout / 4)
        waiting.due = now + patience
        self._outgoing += waiting.request.encode()
        self._writable()
        if self._timer is None and self._failure is None:
            self._timer = self._loop.call_later(patience, self._tick)

    def _writable(self) -> None:
        """Hand the port what it takes; come back when it takes more."""
        if self._failure is not None:
            return
        try:
            del self._outgoing[:os.write(self._handle, self._outgoing)]
        except BlockingIOError:
            pass
        except OSError as problem:
            self._fail(LinkError(f"{self.path} is gone: {problem.strerror}"))
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
            self._fail(LinkError(f"{self.path} is gone: {problem.strerror}"))
            return
        if not data:
            self._fail(LinkError(f"{self.path} is gone"))
            return
        for body in self._parser.feed(data):
            try:
                answer = decode_response(body)
            except FrameError:
                self.statistics.spoilt += 1
                self._lost()
            else:
                self._answered(answer)

    def _answered(self, answer: Response) -> None:
        self._heard = time.monotonic()
        self.statistics.received += 1
        if answer.kind == NACK:
            self.statistics.nacks += 1
            self._lost()
            return
        waiting = self._waiting.get(answer.sequence)
        if waiting is None or waiting.request.kind != answer.kind or len(answer.data) != waiting.request.length:
            return                                           # a second answer to a request that was sent twice
        del self._waiting[answer.sequence]
        if waiting.tries == 1:
            took = self._heard - waiting.first
            self._variation += (abs(took - self._smoothed) - self._variation) / 4
            self._smoothed += (took - self._smoothed) / 8
            self._patience = 1
            self._chunk = min(MAXIMUM, self._chunk + 2)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._freed.set()
        for other in [w for w in self._waiting.values() if w.order < waiting.order]:
            self._send(other)

    def _lost(self) -> None:
        """Something was lost on the way. If there is only one request that it can have been, send that again."""
        if len(self._waiting) == 1:
            self._send(next(iter(self._waiting.values())))

    def _tick(self) -> None:
        """Send again what is overdue; give up a device that is silent."""
        self._timer = None
        if self._failure is not None or not self._waiting:
            return
        now = time.monotonic()
        if now - max(self._heard, min(w.first for w in self._waiting.values())) >= self.timeout:
            self._fail(LinkError(f"{self.path}: the device did not answer for {self.timeout:g} s"))
            return
        overdue = [w for w in self._waiting.values() if w.due <= now]
        if overdue:
            # an answer to what was sent twice says nothing about the time it takes: only waiting longer shows that (Karn's algorithm)
            self._patience = min(2 * self._patience, 8)
        for waiting in overdue:
            self._send(waiting)
        if self._waiting and self._timer is None and self._failure is None:
            due = min(w.due for w in self._waiting.values())
            self._timer = self._loop.call_later(min(max(due - now, 0.001), self.timeout / 4), self._tick)

    def _fail(self, failure: LinkError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._handle)
        self._loop.remove_writer(self._handle)
        self._outgoing.clear()
        try:
            self._port.close()
        except OSError:
            pass                                             # a port that is gone cannot be closed well
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(failure)
                waiting.answer.exception()                   # nobody may come for it: the first failure ends a transfer
        self._waiting.clear()
        self._freed.set()
