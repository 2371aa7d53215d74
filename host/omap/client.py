"""Clients of a map's server: `AsyncMap` with coroutines, `connect` for a MutableMapping."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ...models.errors import Error
from ...models.omap.config import OmapConfig
from ...models.omap.errors import error_of
from ...models.omap.messages import Operation, Request, Response, Status
from ...sim.machine import Closing
from .backends import MapStopped
from .frames import GREETING, Frames, Kind, Refused, greeting_bytes, read_greeting
from .keyfiles import name_of, read_client
from .mapping import ObliviousMap, make_request
from .numbers import Numbers
from .session import MessageChanged, Session

__all__ = ["AsyncMap", "ConnectionLost", "RemoteMap", "SessionMoved", "connect"]

_Result = TypeVar("_Result")


class ConnectionLost(Error, ConnectionError):
    """There is no connection to the server, or no more. Operations without an answer may have been
    carried out: `reconnect` asks for their answers."""


class SessionMoved(Error):
    """The device is at another place of the session than this client: it was used by another one, or
    is another device."""


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until it is."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


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


class AsyncMap:
    """A map behind a server, for asyncio. Operations that are started without waiting for each other are
    under way together.

    ```
    async with await AsyncMap.connect(host, port, "keys/client.json", tls=context) as box:
        await box.put(7, b"12345678")
        one, two = await asyncio.gather(box.get(7), box.get(8))
    ```

    A session has one client at a time. Its numbers are never used twice: each is written down beside the
    client's keys before its request is sent (`host.omap.numbers`). A client that goes on with a session
    first sends what an earlier one may have left without an answer.
    """

    def __init__(self, host: str, port: int, keys: str | Path, timeout: float) -> None:
        self._place, self._timeout = (host, port), timeout
        self._key, self._digest = read_client(keys)
        self._numbers = Numbers(keys, name_of(self._key))
        self._tls: ssl.SSLContext | None = None
        self._name: str | None = None
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._asked: dict[int, Request] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._closing: list[asyncio.StreamWriter] = []
        self._reading: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._lost = "it is closed"

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        keys: str | Path,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        timeout: float = 60.0,
    ) -> AsyncMap:
        """Connect to a server.

        Parameters: `keys`: the client's file of keys, which has its file of numbers beside it; `tls`:
        of the outer channel; `server_name`: that its certificate has, `host` unless given; `timeout`:
        seconds for connecting and for each answer.

        Raises ConnectionLost where there is no server of the map that the keys were made for, MapStopped
        where its map has stopped, SessionMoved where the device waits for a number that this session
        cannot have, `keyfiles.KeyFileError` where the files cannot be used or another client has them.
        """
        made = cls(host, port, keys, timeout)
        made._tls, made._name = tls, server_name
        try:
            await made._open()
        except BaseException:
            made._numbers.close()
            raise
        return made

    @property
    def config(self) -> OmapConfig:
        assert self._session is not None
        return self._session.config

    @property
    def number(self) -> int:
        """The number of the next request."""
        return self._numbers.next

    # operations

    async def get(self, key: int) -> bytes | None:
        """Return a key's value, None where there is none."""
        return await self._value(Operation.GET, key)

    async def put(self, key: int, value: bytes) -> None:
        """Set a key's value. Raises OverflowError where a new key goes beyond the capacity."""
        [response] = await self.batch([(Operation.PUT, key, value)])
        if response.status == Status.FULL:
            raise OverflowError(f"the map holds {self.config.capacity:,} items already")

    async def delete(self, key: int) -> bytes | None:
        """Delete a key; return the value that it had, None where there was none."""
        return await self._value(Operation.DELETE, key)

    async def _value(self, operation: Operation, key: int) -> bytes | None:
        [response] = await self.batch([(operation, key, None)])
        return response.value if response.status == Status.FOUND else None

    async def batch(
        self, operations: Iterable[tuple[Operation, int, bytes | None]]
    ) -> list[Response]:
        """Carry out operations (kind, key, value of a PUT or None) in order; return the responses.

        Raises TypeError and ValueError for keys and values that the map does not take, before any of
        them is sent, MapStopped, ConnectionLost, MessageChanged, `frames.Refused`, and
        `keyfiles.KeyFileError` where numbers cannot be written down: then none is sent.
        """
        return await self.run([make_request(self.config, *each) for each in operations])

    async def run(self, requests: Sequence[Request]) -> list[Response]:
        """As `batch`, of requests."""
        if self._writer is None:
            raise self._gone()
        assert self._session is not None
        first = self._session.number
        sealed = self._session.seal(requests)
        frames = [self._frames.request(number, text) for number, text in enumerate(sealed, first)]
        self._numbers.note(frames)
        self._asked |= dict(enumerate(requests, first))
        return await self._answers(self._sent(dict(enumerate(frames, first))))

    def _sent(self, frames: dict[int, bytes]) -> list[asyncio.Future[Response]]:
        """Send frames; return what will have their answers."""
        assert self._writer is not None
        loop = asyncio.get_running_loop()
        self._waiting |= {number: loop.create_future() for number in frames}
        self._writer.write(b"".join(frames.values()))
        return [self._waiting[number] for number in frames]

    async def _answers(self, futures: list[asyncio.Future[Response]]) -> list[Response]:
        """Wait for answers; the first error ends the wait."""
        gathered = asyncio.gather(*futures)
        try:
            if self._writer is not None:
                await self._writer.drain()
            # the wait is for the next answer, not for all
            while not gathered.done():
                left = sum(not future.done() for future in futures)
                await asyncio.wait([gathered], timeout=self._timeout)
                if not gathered.done() and left == sum(not future.done() for future in futures):
                    await self._end(f"no answer in {self._timeout:g} s")
        except (ConnectionError, ssl.SSLError) as problem:
            await self._end(str(problem) or type(problem).__name__)
        try:
            return list(await gathered)
        finally:
            for future in futures:
                if future.done() and not future.cancelled():
                    future.exception()  # seen

    # the connection

    async def _open(self) -> None:
        host, port = self._place
        name = None if self._tls is None else self._name or host
        self._numbers.check()
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._timeout):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=self._tls, server_hostname=name
                )
                size = greeting_bytes(await reader.readexactly(GREETING.size))
                said = read_greeting(await reader.readexactly(size), self._digest)
            if said.stopped is not None:
                raise MapStopped(said.stopped)
            self._agree(said.config, said.next)
        except BaseException as problem:
            if writer is not None:
                await _closed(writer)
            if isinstance(problem, (OSError, EOFError, ValueError)):
                raise self._gone(_reason(problem, self._timeout)) from None
            raise
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader))
        for number, frame in list(self._numbers.waiting.items()):
            if number not in self._asked:  # an earlier client's: nobody waits for its answer
                if number < said.next:
                    del self._numbers.waiting[number]
                else:
                    writer.write(frame)

    def _agree(self, config: OmapConfig, expected: int) -> None:
        """Check that the device is where this client believes it to be: what the server says of it
        changes no number."""
        number = self._numbers.next
        if self._session is None:
            self._session = Session(config, self._key, number)
            self._frames = Frames(config, self._session.admission)
        least = min(self._numbers.waiting, default=number)
        if not least <= expected <= number:
            raise SessionMoved(
                f"the device waits for request {expected}, this client has sent {number}: a session "
                "has one client, and no number is used twice"
            )

    async def reconnect(self) -> list[tuple[Request, Response]]:
        """Connect again; return the requests that had no answer, with their responses: they are sent
        once more as they were, and are carried out once. Raises as `connect`."""
        await self._end("it was closed")
        await self._open()
        missed = dict(sorted(self._asked.items()))
        frames = {number: self._numbers.waiting[number] for number in missed}
        responses = await self._answers(self._sent(frames)) if frames else []
        return list(zip(missed.values(), responses, strict=True))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        reason = "it closed the connection"
        try:
            while True:
                self._take(await reader.readexactly(self._frames.answer_bytes))
        except asyncio.IncompleteReadError:
            pass
        except (OSError, ValueError) as problem:
            reason = str(getattr(problem, "reason", None) or problem) or reason
        finally:
            self._drop(reason)

    def _take(self, frame: bytes) -> None:
        assert self._session is not None
        answer = self._frames.read_answer(frame)
        if answer.kind in (Kind.SIZE, Kind.CHANGED):
            # the message could not be read: it is the first one without an answer
            number = min(self._waiting, default=answer.number)
            for other in [k for k in self._waiting if k >= number]:
                # the device never gets them, and the session does not go on
                self._settle(other, Refused(answer.kind, number, answer.value))
            raise ConnectionError("the server refused a message")
        number = answer.number
        if answer.kind == Kind.NUMBER:
            return self._settle(number, Refused(answer.kind, number, answer.value))
        if answer.kind == Kind.STOPPED:
            return self._settle(number, MapStopped(error_of(answer.value)))
        if number not in self._numbers.waiting:
            raise ValueError(f"it answered request {number}, which waits for no answer")
        try:
            response = self._session.open(number, answer.sealed, self._asked.get(number))
        except MessageChanged as problem:
            return self._settle(number, problem)
        del self._numbers.waiting[number]
        self._asked.pop(number, None)
        self._settle(number, response)

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
        host, port = self._place
        return ConnectionLost(f"no connection to the map's server at {host}:{port}: {self._lost}")

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
        """End the connection, and let another client have the session."""
        await self._end("it is closed")
        self._numbers.close()

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
        self.config, self.first = self.client.config, self.client.number

    def wait(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def run(self, requests: Sequence[Request]) -> list[Response]:
        return self.wait(self.client.run(requests))

    def close(self) -> None:
        if not self._loop.is_closed():
            self.wait(self.client.close())
            self._end()

    def _end(self) -> None:
        self.wait(asyncio.sleep(0))  # what has been closed is taken down
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RemoteMap(ObliviousMap):
    """A map behind a server, as a MutableMapping (`connect`)."""

    def __init__(self, backend: _Blocking) -> None:
        super().__init__(backend=backend)
        self._remote = backend

    @property
    def number(self) -> int:
        """The number of the session's next request."""
        return self._remote.client.number

    def reconnect(self) -> list[tuple[Request, Response]]:
        """As `AsyncMap.reconnect`. Raises ValueError once the map is closed."""
        self._check_open()
        missed = self._remote.wait(self._remote.client.reconnect())
        self._note([request for request, _ in missed], [response for _, response in missed])
        return missed


def connect(
    host: str,
    port: int,
    keys: str | Path,
    *,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    timeout: float = 60.0,
) -> RemoteMap:
    """Return the map behind a server, with the calls of a dictionary. Parameters and errors are those of
    `AsyncMap.connect`; `close` or a `with` statement ends the connection."""
    return RemoteMap(_Blocking(host, port, keys, tls=tls, server_name=server_name, timeout=timeout))
