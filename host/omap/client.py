"""Clients of a map's server: `AsyncMap` with coroutines, `connect` for a MutableMapping."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...models.crypto.noise import Refusal
from ...models.errors import Error
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapStopped, error_of
from ...models.omap.kept_device import receipt_value
from ...models.omap.messages import Operation, Request, Response, Status
from ...models.omap.sessions import Asked
from ...sim.machine import Closing
from .frames import (
    GREETING,
    WELCOME,
    Code,
    Hello,
    MessageChanged,
    Messages,
    OtherMap,
    Refused,
    Welcome,
    greeting_bytes,
    read_greeting,
)
from .handshake import HandshakeRefused
from .keyfiles import KeyFileError, read_map, read_role
from .mapping import ObliviousMap, check_room, load_operations, make_request
from .receipts import UNKNOWN, Receipt, ReceiptError, RolledBack, read_receipt, write_receipt
from .session import MapSession, initiator

_Result = TypeVar("_Result")

#: seconds for a connection's end
_CLOSING = 1.0
#: requests of a batch that are sealed and sent at a time, while those before are under way
_PIECE = 1024


class ConnectionLost(Error, ConnectionError):
    """There is no connection to the server, or no more. Operations without an answer may have been
    carried out: `reconnect` asks for their answers."""


class SessionMoved(Error):
    """The session is over: the device has been powered up again, or another client has taken its slot.
    Whether operations without an answer were carried out is not known."""


class NotAllowed(Error):
    """The session's role may not ask for an operation. The device did not carry it out."""


class Busy(Error, TimeoutError):
    """Another thread's operations on a map have taken too long. Those of this call were not sent."""


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until it is; cut it where the other side takes nothing."""
    writer.close()
    with suppress(OSError):
        async with asyncio.timeout(_CLOSING):
            await writer.wait_closed()
    writer.transport.abort()


def _reason(problem: Exception, timeout: float) -> str:
    """Return why there is no connection."""
    if isinstance(problem, TimeoutError):
        return f"no greeting in {timeout:g} s"
    if isinstance(problem, (asyncio.IncompleteReadError, ConnectionResetError)):
        return "it closed the connection"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS: {problem.reason or problem}"
    if isinstance(problem, OSError) and problem.errno and not isinstance(problem, socket.gaierror):
        return os.strerror(problem.errno)
    return str(getattr(problem, "strerror", None) or problem)


def _seen(futures: Iterable[asyncio.Future[Response]]) -> None:
    """Wait for answers no longer."""
    for future in futures:
        if not future.cancel() and not future.cancelled():
            future.exception()


class _Answers(asyncio.StreamReader):
    """A reader that hands messages of one size on as they come, from `hand` on."""

    _size, _rest = 0, b""

    @classmethod
    async def connected(
        cls, host: str, port: int, tls: ssl.SSLContext | None, name: str | None
    ) -> tuple[_Answers, asyncio.StreamWriter]:
        """As `asyncio.open_connection`."""
        reader, loop = cls(), asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(
            lambda: protocol, host, port, ssl=tls, server_hostname=name
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def hand(self, size: int, take: Callable[[bytes], None]) -> None:
        """Hand on what comes; what is there already stays."""
        self._size, self._hand = size, take

    def feed_data(self, data: Any) -> None:
        if not self._size:
            return super().feed_data(data)
        text, size = self._rest + data, self._size
        end = len(text) // size * size
        self._rest = text[end:]
        for at in range(0, end, size):
            self._hand(text[at : at + size])


@dataclass
class _Server:
    """Where a server is, and how it is reached."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    name: str | None  #: that its certificate has; None: the host's
    timeout: float  #: seconds

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    async def connected(self) -> tuple[_Answers, asyncio.StreamWriter]:
        name = None if self.tls is None else self.name or self.host
        return await _Answers.connected(self.host, self.port, self.tls, name)


class AsyncMap:
    """A map behind a server, for asyncio. Operations that are started without waiting for each other are
    under way together.

    ```
    async with await AsyncMap.connect(host, port, "keys/map.json", role="keys/writer.json") as box:
        await box.put(7, b"12345678")
        one, two = await asyncio.gather(box.get(7), box.get(8))
    ```

    Its session ends in the device: nobody between the two reads or changes a message. Each client has a
    session of its own, with fresh keys, and many may be connected at a time.
    """

    def __init__(
        self,
        server: _Server,
        keys: str | Path,
        role: str | Path | None,
        receipt: str | Path | None,
    ) -> None:
        self._server = server
        self._keys, self._role_file, self._receipt = keys, role, receipt
        self._known = read_map(keys)
        self.role, self._secret = read_role(role, self._known)
        #: requests without an answer, their messages, and what waits for them
        self._asked: dict[int, Request] = {}
        self._unanswered = OrderedDict[int, bytes]()  # the next one's is looked up for each answer
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._closing: list[asyncio.StreamWriter] = []
        self._reading: asyncio.Task[None] | None = None
        self._session: MapSession | None = None
        self._token, self._lost = b"", "it is closed"
        self._trusted = False  # the receipt fits
        self._unkept: ReceiptError | None = None  # why the receipt's file is behind
        self.config: OmapConfig

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        keys: str | Path,
        *,
        role: str | Path | None = None,
        receipt: str | Path | None = None,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        timeout: float = 60.0,
    ) -> AsyncMap:
        """Connect to a server, and open a session with its device.

        Parameters: `keys`: the map's public file, `map.json`; `role`: the file of a role's key,
        `writer.json`, without which the client is a reader; `receipt`: a file of this client's own, in
        which it keeps what it saw last, and by which it finds a map that was rolled back; `tls`: of the outer channel; `server_name`:
        that its certificate has, `host` unless given; `timeout`: seconds for connecting and for each
        answer.

        Raises ConnectionLost where there is no server of a map, MapStopped where its map has stopped,
        `keyfiles.KeyFileError` where the files cannot be used, or are another map's or device's,
        `receipts.RolledBack` and `receipts.ReceiptError`.
        """
        client = cls(_Server(host, port, tls, server_name, timeout), keys, role, receipt)
        await client._open()
        return client

    @property
    def serial(self) -> int:
        """Of the map's latest operation that this client knows of."""
        return 0 if self._session is None else self._session.serial

    @property
    def confirmed(self) -> bool:
        """Whether a keeper had confirmed the map when this session began."""
        return self._session is not None and self._session.welcome.confirmed

    # operations

    async def get(self, key: Any) -> bytes | None:
        """Return a key's value, None where there is none."""
        return await self._value(Operation.GET, key)

    async def put(self, key: Any, value: bytes) -> None:
        """Set a key's value. Raises OverflowError where a new key goes beyond the capacity."""
        await self.load([(key, value)])

    async def load(
        self, items: Mapping[Any, bytes] | Iterable[tuple[Any, bytes]], *, records: int = 0
    ) -> None:
        """As `ObliviousMap.load`."""
        operations = load_operations(self.config, items, records)
        check_room(self.config, operations, await self.batch(operations))

    async def delete(self, key: Any) -> bytes | None:
        """Delete a key; return the value that it had, None where there was none."""
        return await self._value(Operation.DELETE, key)

    async def _value(self, operation: Operation, key: Any) -> bytes | None:
        [response] = await self.batch([(operation, key, None)])
        return response.value if response.status == Status.FOUND else None

    async def batch(
        self, operations: Iterable[tuple[Operation, Any, bytes | None]]
    ) -> list[Response]:
        """Carry out operations (kind, key, value of a PUT or None) in order; return the responses.

        Raises TypeError and ValueError for keys and values that the map does not take, before any of
        them is sent, MapStopped, NotAllowed, ConnectionLost, SessionMoved, MessageChanged and
        `frames.Refused`.
        """
        return await self.run(
            [make_request(self.config, self._known.salt, *each) for each in operations]
        )

    async def run(self, requests: Sequence[Request]) -> list[Response]:
        """As `batch`, of requests. Raises ReceiptError, before any of them is sent, where what was seen before
        has no room in the receipt's file."""
        if self._writer is None or self._session is None:
            raise self._gone()
        self._kept()
        responses: list[Response] = []
        under_way = deque[list[asyncio.Future[Response]]]()
        at = 0
        try:
            while under_way or at < len(requests):
                if at < len(requests):
                    piece, at = requests[at : at + _PIECE], at + _PIECE
                    under_way.append(self._sent(self._sealed(piece)))
                if len(under_way) > 1 or at >= len(requests):
                    responses += await self._answers(under_way.popleft())
        except ConnectionLost:
            self._sealed(requests[at:])  # `reconnect` sends them too
            raise
        finally:
            for futures in under_way:
                _seen(futures)
            self._note()
        return responses

    def _sealed(self, requests: Sequence[Request]) -> dict[int, bytes]:
        """Seal requests; return their frames, which have no answer yet."""
        assert self._session is not None
        frames: dict[int, bytes] = {}
        for request in requests:
            number, sealed = self._session.seal(request)
            frames[number] = self._messages.request(number, sealed)
            self._asked[number] = request
        self._unanswered |= frames
        return frames

    def _sent(self, frames: dict[int, bytes]) -> list[asyncio.Future[Response]]:
        """Send frames; return what will have their answers. Raises ConnectionLost."""
        if self._writer is None:
            raise self._gone()
        loop = asyncio.get_running_loop()
        self._waiting |= {number: loop.create_future() for number in frames}
        self._writer.write(b"".join(frames.values()))
        return [self._waiting[number] for number in frames]

    async def _answers(self, futures: list[asyncio.Future[Response]]) -> list[Response]:
        """Wait for answers, which come in order; the first error ends the wait."""
        try:  # all is in the writer's buffer: a wait for room in it would be one without a timer
            return [f.result() if f.done() else await self._next(f) for f in futures]
        finally:
            _seen(futures)

    async def _next(self, future: asyncio.Future[Response]) -> Response:
        """Wait for the next answer."""
        late = f"no answer in {self._server.timeout:g} s"
        timer = asyncio.get_running_loop().call_later(self._server.timeout, self._drop, late)
        try:
            return await future
        finally:
            timer.cancel()

    # the connection

    async def _open(self) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._server.timeout):
                reader, writer = await self._server.connected()
                size = greeting_bytes(await reader.readexactly(GREETING.size))
                self.config = read_greeting(await reader.readexactly(size), self._known.digest)
                if self.config.key != "u64" and not self._known.salt:
                    raise KeyFileError(f"{self._keys} has no salt: keys of the map are hashed")
                self._messages = Messages(self.config)
                # what has no answer yet is asked for in the session that it was sealed for
                if self._unanswered:
                    writer.write(Hello(True, 0, self._token).pack())
                    self._went_on(Welcome.unpack(await reader.readexactly(WELCOME.size)))
                else:
                    await self._shake(reader, writer)
        except BaseException as problem:
            if writer is not None:
                await _closed(writer)
            if isinstance(problem, OtherMap):
                raise KeyFileError(
                    f"{self._keys} was made for another map than {self._server} serves"
                ) from None
            if isinstance(problem, (OSError, EOFError, ValueError)):
                raise self._gone(_reason(problem, self._server.timeout)) from None
            raise
        self._writer = writer
        reader.hand(self._messages.answer_bytes, self._take)
        self._reading = asyncio.create_task(self._read(reader))
        if self._receipt is not None and not self._unanswered:
            try:
                await self.present()
            except BaseException:
                await self._end("its map is not the one of the receipt")
                raise

    def _note(self) -> None:
        """Keep what was seen last. Where that fails, operations have ended as they have: `_kept` says it."""
        if self._receipt is not None and self._session is not None and self._trusted:
            seen = Receipt(self._session.welcome.incarnation, self._session.serial)
            try:
                write_receipt(self._receipt, seen, self._known.digest)
                self._unkept = None
            except ReceiptError as problem:
                self._unkept = problem

    def _kept(self) -> None:
        """See to it that what was seen last is kept. Raises ReceiptError."""
        if self._unkept is not None:
            self._note()
        if self._unkept is not None:
            raise self._unkept

    async def present(self) -> None:
        """Have the device accept the receipt, if there is one, and write a new one. Raises RolledBack where
        it does not, ReceiptError, also without a file, and ConnectionLost."""
        if self._receipt is None:
            raise ReceiptError("there is no receipt: name its file when connecting, receipt=")
        if self._session is None:
            raise self._gone()
        self._trusted = False
        welcome, seen = self._session.welcome, read_receipt(self._receipt, self._known.digest)
        # the first one is nobody's; its record makes this incarnation a part of the map's past
        shown = Receipt(bytes(16), 0) if seen is None else seen
        value = receipt_value(self.config, shown.incarnation)
        is_current = shown.incarnation == welcome.incarnation and shown.serial <= self.serial
        [answer] = await self.run([Request(Asked.RECEIPT, shown.serial, value)])
        if seen is not None and not is_current and answer.status != Status.FOUND:
            # what is known of older power-ups than the map's last 255 is nothing
            gone = seen.serial > welcome.serial
            raise RolledBack(
                f"the map is not the one that {self._receipt} saw: "
                + ("operations that were acknowledged are gone" if gone else UNKNOWN)
            )
        self._trusted = True
        self._note()
        self._kept()

    def _went_on(self, welcome: Welcome) -> None:
        """Check that the server still has this client's session."""
        if welcome.code:
            self._asked, self._unanswered = {}, OrderedDict()
            raise SessionMoved(
                "the server no longer has this client's session: whether operations without an answer "
                "were carried out is not known; reconnect opens a new one"
            )

    async def _shake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open a session with the device. Raises KeyFileError, MapStopped, ValueError."""
        known = self._known
        try:
            asked = initiator(known.public, known.digest, self.role, self._secret)
        except ValueError:
            raise KeyFileError(f"{self._keys} has no device's public key") from None
        writer.write(Hello.of(self.role, asked.message).pack())
        answer = Welcome.unpack(await reader.readexactly(WELCOME.size))
        if answer.code == Code.STOPPED:
            raise MapStopped(error_of(answer.value))
        if answer.code in (Refusal.TAG, Refusal.POINT):
            raise KeyFileError(f"{self._keys} is another device's: {Refusal.TAG.meaning}")
        if answer.code:
            raise ValueError(f"it refused the handshake, {answer.code}")
        try:
            welcome, session = asked.finish(answer.message)
        except HandshakeRefused:
            file = self._keys if self._role_file is None else self._role_file
            raise KeyFileError(
                f"the device's answer does not open: {file} is not this device's, or the answer was "
                "changed"
            ) from None
        self._session = MapSession(session, welcome, self.config.key_bytes)
        self._token = answer.token

    async def reconnect(self) -> list[tuple[Request, Response]]:
        """Connect again; return the requests that had no answer, with their responses: they are sent
        once more as they were, and are carried out once. Without any, the session is a new one. Raises as
        `connect`, SessionMoved where the server no longer has the session, and MessageChanged: then
        the next call opens a new one."""
        await self._end("it was closed")
        await self._open()
        missed, frames = dict(sorted(self._asked.items())), dict(self._unanswered)
        try:
            responses = await self._answers(self._sent(frames)) if frames else []
        except MessageChanged:
            self._asked, self._unanswered = {}, OrderedDict()  # there will be no other answer
            raise
        return list(zip(missed.values(), responses, strict=True))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Wait for the connection's end."""
        reason = "it closed the connection"
        try:
            if await reader.read(1):
                reason = "it said more than it was asked for"
        except OSError as problem:
            reason = str(getattr(problem, "reason", None) or problem) or reason
        finally:
            self._drop(reason)

    def _take(self, frame: bytes) -> None:
        if self._writer is None:
            return
        try:
            self._judge(frame)
        except ValueError as problem:
            self._drop(str(problem))

    def _judge(self, frame: bytes) -> None:
        answer = self._messages.read_answer(frame)
        number = answer.number
        if number != next(iter(self._unanswered), None):
            raise ValueError(
                f"it answered request {number}, which is not the next one to be answered"
            )
        if answer.code == Code.STOPPED:
            self._forget(number)
            return self._settle(number, MapStopped(error_of(answer.value)))
        if answer.code:
            # the device never took it, and takes none of those behind it
            for other in list(self._unanswered):
                self._forget(other)
                self._settle(other, Refused(answer.code, number))
            raise ValueError("it refused a request")
        try:
            assert self._session is not None
            request = self._asked[number]
            response = self._session.open(number, answer.sealed, request)
        except MessageChanged as problem:
            self._settle(number, problem)
            raise ValueError("it changed an answer") from None
        self._forget(number)
        if response.status == Status.REFUSED:
            name, role = Operation(request.operation).name, self.role.value
            return self._settle(number, NotAllowed(f"a {role}'s session may not ask for {name}"))
        self._settle(number, response)

    def _forget(self, number: int) -> None:
        self._unanswered.pop(number, None)
        self._asked.pop(number, None)

    def _settle(self, number: int, end: Response | Exception) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if isinstance(end, Exception):
            future.set_exception(end)
        else:
            future.set_result(end)

    def _gone(self, why: str | None = None) -> ConnectionLost:
        if why is not None:
            self._lost = why
        return ConnectionLost(f"no connection to the map's server at {self._server}: {self._lost}")

    def _drop(self, why: str) -> None:
        if self._writer is not None:
            self._writer.close()
            self._closing.append(self._writer)
            self._writer, self._lost = None, why
        for number in list(self._waiting):
            self._settle(number, self._gone())

    async def _end(self, why: str) -> None:
        self._drop(why)
        task, self._reading = self._reading, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        while self._closing:
            await _closed(self._closing.pop())

    async def close(self) -> None:
        """End the connection. Raises ReceiptError where what was seen last could not be kept."""
        await self._end("it is closed")
        self._kept()

    async def __aenter__(self) -> AsyncMap:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Blocking(Closing):
    """An `AsyncMap` as a backend: its loop runs in a thread."""

    def __init__(self, host: str, port: int, keys: str | Path, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.client = self.wait(AsyncMap.connect(host, port, keys, **options))
        except BaseException:
            self._end()
            raise
        session = self.client._session
        assert session is not None
        # a receipt that has been shown since is an operation, and no item
        self.config, self.first = self.client.config, session.welcome.serial
        self.salt = self.client._known.salt

    def wait(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def run(self, requests: Sequence[Request]) -> list[Response]:
        return self.wait(self.client.run(requests))

    def close(self) -> None:
        if not self._loop.is_closed():
            try:
                self.wait(self.client.close())
            finally:
                self._end()

    def _end(self) -> None:
        self.wait(asyncio.sleep(0))  # what has been closed is taken down
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RemoteMap(ObliviousMap):
    """A map behind a server, as a MutableMapping (`connect`). Threads may share it: one batch goes through
    at a time, and others wait for it no longer than `timeout`, then raise Busy."""

    def __init__(self, backend: _Blocking) -> None:
        super().__init__(backend=backend)
        self._remote, self._lock = backend, threading.Lock()

    def batch(self, operations: Iterable[tuple[Operation, Any, bytes | None]]) -> list[Response]:
        operations = list(operations)
        with self._alone():
            return super().batch(operations)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out. Raises Busy."""
        timeout = self._remote.client._server.timeout
        if not self._lock.acquire(timeout=timeout):
            raise Busy(f"another thread's operations take more than {timeout:g} s")
        try:
            yield
        finally:
            self._lock.release()

    @property
    def serial(self) -> int:
        """Of the map's latest operation that this client knows of."""
        return self._remote.client.serial

    @property
    def confirmed(self) -> bool:
        """As `AsyncMap.confirmed`."""
        return self._remote.client.confirmed

    def reconnect(self) -> list[tuple[Request, Response]]:
        """As `AsyncMap.reconnect`. Raises ValueError once the map is closed."""
        with self._alone():
            self._check_open()
            missed = self._remote.wait(self._remote.client.reconnect())
            self._note([request for request, _ in missed], [response for _, response in missed])
        return missed


def connect(
    host: str,
    port: int,
    keys: str | Path,
    *,
    role: str | Path | None = None,
    receipt: str | Path | None = None,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    timeout: float = 60.0,
) -> RemoteMap:
    """Return the map behind a server, with the calls of a dictionary. Parameters and errors are those of
    `AsyncMap.connect`; `close` or a `with` statement ends the connection."""
    options = {"role": role, "receipt": receipt, "tls": tls, "server_name": server_name}
    return RemoteMap(_Blocking(host, port, keys, timeout=timeout, **options))
