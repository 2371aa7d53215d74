"""A server that hands clients' frames to a device, and has no key that opens them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ...models.crypto.noise import second_bytes
from ...models.errors import HardwareError
from ...models.omap.boundary import Header
from ...models.omap.errors import MapStopped
from ...models.omap.sessions import WELCOME_BYTES, Denied
from .devices import DeviceCarrier
from .frames import HELLO, TOKEN, Code, Hello, Messages, Welcome, greeting
from .process import DeviceProcess
from .state import ServerFull

_LOG = logging.getLogger(__name__)  # without a handler: a line on stderr
#: seconds that a client has to take a refusal and hang up, and a server's last answers
_LINGER = 1.0
_SLOTS = 64
#: requests that are answered soon, and the seconds of that
_FEW, _SOON = 4, 0.0003


@dataclass(eq=False)
class _Session:
    """A session of the device's, and the connection that it has at the moment."""

    slot: int
    writer: asyncio.StreamWriter
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN))
    next: int = 0
    asked: int = 0  #: when its latest new request came, 0 before the first
    #: the latest ones, with hashes of their requests
    answers: OrderedDict[int, tuple[int, bytes]] = field(default_factory=OrderedDict)


class _Waiting(NamedTuple):
    session: _Session
    number: int
    sealed: bytes
    writer: asyncio.StreamWriter


class _Opening(NamedTuple):
    hello: Hello
    writer: asyncio.StreamWriter
    opened: asyncio.Future[_Session | None]


class MapServer:
    """Serves one device to many clients, each with a session of its own.

    * `carrier`: takes frames to the device. It is called in a thread of its own, one call at a time; but a
      few requests go to a `DeviceProcess` at once, which is waited for some 0.3 ms before a thread does.
    * `batch`: most requests of one call of the carrier.
    * `kept`: how many of a session's latest answers are kept: a client whose connection broke goes on with
      its session, sends its unanswered requests again, the same bytes, and gets the answers it has missed.
    * `patience`: seconds after which a connection that does not take its answers, or says nothing at first,
      is ended. None of its messages is read meanwhile, so that answers for it do not pile up.
    * `connections`: most connections at a time.

    ```
    async with MapServer(carrier) as server:
        await server.listen("127.0.0.1", 0, context)
        print(server.port)
        await server.serve()
    ```

    A new session takes a slot of the device's, if need be that of the session whose latest new request
    is oldest, those that never brought one first. In the same order connections end where there are more
    than may be. A request that is changed, or used before, is refused, and the map still answers. Once
    the device has stopped, every request is answered with its error.
    """

    def __init__(
        self,
        carrier: DeviceCarrier,
        *,
        batch: int = 64,
        kept: int = 4096,
        patience: float = 60.0,
        connections: int = 256,
        slots: int = _SLOTS,
    ) -> None:
        self._carrier, self._batch, self._kept = carrier, batch, kept
        self._patience, self._most = patience, connections
        self._messages = Messages(carrier.config)
        self._slots: list[_Session | None] = [None] * slots
        self._queue: asyncio.Queue[_Waiting | _Opening] = asyncio.Queue(4 * batch)
        self._working = asyncio.Lock()  # of who calls the device
        self._stopped: HardwareError | None = None
        self._server: asyncio.Server | None = None
        self._worker: asyncio.Task[None] | None = None
        self._writers: dict[asyncio.StreamWriter, _Session | None] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self.calls = self._clock = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def listen(
        self, host: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None
    ) -> None:
        """Begin to listen. `port` 0: one that is free; `context`: TLS, without it messages have no
        outer channel. Raises OSError where the port cannot be had."""
        shake = None if context is None else self._patience
        self._server = await asyncio.start_server(
            self._connected, host, port, ssl=context, ssl_handshake_timeout=shake
        )
        self._worker = asyncio.create_task(self._work())

    async def serve(self) -> None:
        """Serve until the server is closed."""
        assert self._worker is not None
        await self._worker

    async def close(self) -> None:
        """End all connections. The carrier is left open."""
        if self._server is not None:
            self._server.close()
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        for writer in list(self._writers):
            writer.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_LINGER)
        for writer in list(self._writers):
            writer.transport.abort()
        for task in self._connections:  # those that wait for the device
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._server = self._worker = None

    async def __aenter__(self) -> MapServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # connections

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._make_room()
        self._writers[writer] = None
        try:
            writer.write(greeting(self._carrier.config))
            await self._drain(writer)
            session = await self._hello(reader, writer)
            if session is not None:
                await self._read(reader, writer, session)
            await self._linger(reader, writer)
        except TimeoutError:
            writer.transport.abort()  # what it does not take would keep it open
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone
        except asyncio.CancelledError:
            pass  # the server ends; the streams of asyncio print what a cancelled task leaves
        finally:
            writer.close()
            with suppress(OSError):
                async with asyncio.timeout(self._patience):
                    await writer.wait_closed()
            writer.transport.abort()
            self._writers.pop(writer, None)
            self._connections.discard(task)

    def _make_room(self) -> None:
        while len(self._writers) >= self._most:
            asked = lambda pair: 0 if pair[1] is None else pair[1].asked
            oldest, _ = min(self._writers.items(), key=asked)
            del self._writers[oldest]
            oldest.transport.abort()

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        """Wait until little is left that the other side has not taken. Raises TimeoutError."""
        async with asyncio.timeout(self._patience):
            await writer.drain()

    async def _hello(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Session | None:
        """Return the session of a connection, None where it gets none."""
        async with asyncio.timeout(self._patience):
            text = await reader.readexactly(HELLO.size)
        try:
            hello = Hello.unpack(text)
        except ValueError:
            self._refuse_hello(writer, Denied.ROLE)
            return None
        if hello.resumes:
            return self._resumed(hello.first[:TOKEN], writer)
        opening = _Opening(hello, writer, asyncio.get_running_loop().create_future())
        await self._queue.put(opening)
        return await opening.opened

    def _refuse_hello(self, writer: asyncio.StreamWriter, code: int, value: int = 0) -> None:
        none = bytes(second_bytes(WELCOME_BYTES))
        self._send(writer, Welcome(code, bytes(TOKEN), value, none).pack())

    def _resumed(self, token: bytes, writer: asyncio.StreamWriter) -> _Session | None:
        for session in self._slots:
            if session is not None and secrets.compare_digest(session.token, token):
                if session.writer is not writer:
                    session.writer.transport.abort()
                session.writer = self._take(writer, session)
                none = bytes(second_bytes(WELCOME_BYTES))
                self._send(writer, Welcome(0, token, session.next, none).pack())
                return session
        self._refuse_hello(writer, Code.TOKEN)
        return None

    def _take(self, writer: asyncio.StreamWriter, session: _Session) -> asyncio.StreamWriter:
        if writer in self._writers:
            self._writers[writer] = session
        return writer

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: _Session
    ) -> None:
        size, text = self._messages.request_bytes, b""
        while session.writer is writer:
            if writer.transport.get_write_buffer_size():
                await self._drain(writer)
            more = await reader.read(size * self._batch)
            if not more:
                return
            text += more
            end = len(text) // size * size
            asked = [
                _Waiting(session, *self._messages.read_request(text[at : at + size]), writer)
                for at in range(0, end, size)
            ]
            text = text[end:]
            if len(asked) <= _FEW and self._queue.empty() and not self._working.locked():
                async with self._working:
                    await self._hand(asked)
                continue
            for one in asked:  # a full queue makes the client wait
                await self._queue.put(one)

    async def _linger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let the other side read what was said last."""
        await self._drain(writer)
        # what the client has sent meanwhile is read: a line that is closed before loses the refusal
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                while await reader.read(1 << 16):
                    pass

    # the device

    async def _work(self) -> None:
        """Hand requests on, as many at a time as there are."""
        while True:
            waiting = [await self._queue.get()]
            async with self._working:
                while len(waiting) < self._batch and not self._queue.empty():
                    waiting.append(self._queue.get_nowait())
                await self._hand(waiting)

    async def _hand(self, waiting: Sequence[_Waiting | _Opening]) -> None:
        """Hand requests on, in order."""
        fresh: list[_Waiting] = []
        for one in waiting:
            if isinstance(one, _Opening):
                await self._carry(fresh)
                fresh = []
                await self._open(one)
                continue
            if self._is_next(one, fresh) or self._stopped is not None:
                fresh.append(one)
                continue
            # whether it was used before is known when the ones before it are answered
            await self._carry(fresh)
            fresh = [one] if self._is_next(one, []) else []
            if not fresh:
                self._again(one)
        await self._carry(fresh)

    @staticmethod
    def _is_next(one: _Waiting, fresh: Sequence[_Waiting]) -> bool:
        before = sum(other.session is one.session for other in fresh)
        return one.number == one.session.next + before

    async def _ask(self, frames: list[bytes], opening: bytes = b"") -> list[bytes] | None:
        """Return the device's answers, None where it has stopped. Raises state.ServerFull."""
        if self._stopped is None:
            try:
                answers = await self._carried(frames, opening)
                self.calls += 1
                return answers
            except MapStopped as problem:
                self._stopped = problem.error
                why = f" ({problem.__cause__})" if problem.__cause__ else ""
                _LOG.error("the map has stopped: %s%s", problem, why)
        return None

    async def _carried(self, frames: list[bytes], opening: bytes) -> list[bytes]:
        """Carry in a thread; not for few requests whose device answers in less time than a thread takes."""
        carrier = self._carrier
        if opening or len(frames) > _FEW or not isinstance(carrier, DeviceProcess):
            return await asyncio.to_thread(carrier.carry, frames, opening)
        if carrier.ask(frames, _SOON):
            return carrier.answers()
        return await asyncio.to_thread(carrier.answers)

    async def _open(self, asked: _Opening) -> None:
        """Open a session, which takes a slot, and tell its client."""
        session, writer = None, asked.writer
        if not writer.is_closing():
            ages = [-1 if held is None else held.asked for held in self._slots]
            slot = ages.index(min(ages))
            shape = self._messages.frames
            header = Header(slot, asked.hello.role, 0).pack()
            opening = (header + asked.hello.first).ljust(
                shape.opening_beats * shape.bus_bytes, b"\0"
            )
            try:
                answers = await self._ask([], opening)
            except ServerFull:
                answers = [Header(slot, Code.FULL, 0).pack()]
            if answers is None:
                assert self._stopped is not None
                self._refuse_hello(writer, Code.STOPPED, int(self._stopped.code))
            elif code := Header.unpack(answers[0]).code:
                self._refuse_hello(writer, code)
            else:
                session = self._opened(slot, writer, shape.welcome(answers[0]))
        if not asked.opened.done():
            asked.opened.set_result(session)

    def _opened(self, slot: int, writer: asyncio.StreamWriter, message: bytes) -> _Session:
        old = self._slots[slot]
        if old is not None:
            old.writer.transport.abort()
        session = _Session(slot, writer)
        self._slots[slot] = session
        self._take(writer, session)
        self._send(writer, Welcome(0, session.token, 0, message).pack())
        return session

    async def _carry(self, fresh: list[_Waiting]) -> None:
        shape = self._messages.frames
        # a session that another one has displaced has no more requests
        fresh = [one for one in fresh if self._slots[one.session.slot] is one.session]
        if not fresh:
            return
        frames = [shape.request(one.session.slot, one.number, one.sealed) for one in fresh]
        try:
            answers = await self._ask(frames)
        except ServerFull:
            answers = [Header(0, Code.FULL, 0).pack()] * len(fresh)
        value = 0
        if answers is None:
            assert self._stopped is not None
            value = int(self._stopped.code)
            answers = [Header(0, Code.STOPPED, 0).pack()] * len(fresh)
        replies: dict[asyncio.StreamWriter, list[bytes]] = defaultdict(list)
        for one, answer in zip(fresh, answers, strict=True):
            if code := Header.unpack(answer).code:
                replies[one.writer].append(self._messages.refusal(code, one.number, value))
                continue
            session, self._clock = one.session, self._clock + 1
            session.next, session.asked = one.number + 1, self._clock
            sealed = shape.sealed(answer, shape.answer_bytes)
            session.answers[one.number] = hash(one.sealed), sealed
            while len(session.answers) > self._kept:
                session.answers.popitem(last=False)
            replies[one.writer].append(self._messages.answer(one.number, sealed))
        for writer, texts in replies.items():  # in one record of TLS
            self._send(writer, b"".join(texts))

    def _again(self, one: _Waiting) -> None:
        """Answer a request that is not the next one: with the answer that it had, if it is the same."""
        digest, answer = one.session.answers.get(one.number, (None, b""))
        if digest == hash(one.sealed):
            self._send(one.writer, self._messages.answer(one.number, answer))
        else:
            self._send(one.writer, self._messages.refusal(Code.ORDER, one.number))

    def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        # the writer's own task waits until it is taken, before it reads on
        if not writer.is_closing():
            writer.write(frame)
