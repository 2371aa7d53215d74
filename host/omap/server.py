"""A server that hands a client's sealed messages to a device, and has no key that opens them."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from contextlib import suppress
from typing import NamedTuple

from ...models.errors import HardwareError
from .backends import Carrier, MapStopped
from .frames import Frames, Kind, greeting

__all__ = ["MapServer"]

#: seconds that a client has to take a refusal and hang up, and a server's last answers
_LINGER = 1.0


class _Waiting(NamedTuple):
    number: int
    sealed: bytes
    writer: asyncio.StreamWriter


class MapServer:
    """Serves one device to the client of its session.

    Parameters
    ----------
    carrier
        Takes sealed requests to the device. It is called in a thread of its own, one call at a time.
    admission
        The key by which messages are the client's (`host.omap.session.admission_key`).
    first
        The number of the request that the device waits for.
    batch
        Most requests of one call of the carrier.
    kept
        How many of the latest sealed responses are kept: a client whose connection broke sends its
        unanswered messages again, the same bytes, and gets the answers that it has missed.
    patience
        Seconds after which a connection that does not take its answers is ended. None of its messages
        is read meanwhile, so that answers for it do not pile up.
    connections
        Most connections at a time. One more ends the one whose latest new request is oldest, those
        that never brought one first: whoever only has messages that were sent before cannot displace
        the client.

    ```
    async with MapServer(carrier, key) as server:
        await server.listen("127.0.0.1", 0, context)
        print(server.port)
        await server.serve()
    ```

    A message of another size, changed, or used before is refused, the connection of the first two is
    closed, and the map still answers. Once the device has stopped, every request is answered with its
    error.
    """

    def __init__(
        self,
        carrier: Carrier,
        admission: bytes,
        *,
        first: int = 0,
        batch: int = 64,
        kept: int = 4096,
        patience: float = 60.0,
        connections: int = 256,
    ) -> None:
        self._carrier, self._batch, self._kept = carrier, batch, kept
        self._patience, self._most = patience, connections
        self._frames = Frames(carrier.config, admission)
        self.next = first
        self._answers: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(4 * batch)
        self._stopped: HardwareError | None = None
        self._server: asyncio.Server | None = None
        self._worker: asyncio.Task[None] | None = None
        #: the latest new request of each connection, 0 before the first
        self._writers: dict[asyncio.StreamWriter, int] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self.calls = 0

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def listen(
        self, host: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None
    ) -> None:
        """Begin to listen. `port` 0: one that is free; `context`: TLS, without it messages have no
        outer channel. Raises OSError where the port cannot be had."""
        self._server = await asyncio.start_server(self._connected, host, port, ssl=context)
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
        await asyncio.gather(*self._connections)
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
        self._writers[writer] = 0
        try:
            writer.write(greeting(self._carrier.config, self.next, self._stopped))
            await self._drain(writer)
            await self._read(reader, writer)
        except TimeoutError:
            writer.transport.abort()  # what it does not take would keep it open
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone
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
            oldest = min(self._writers, key=self._writers.__getitem__)
            del self._writers[oldest]
            oldest.transport.abort()

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        """Wait until little is left that the other side has not taken. Raises TimeoutError."""
        async with asyncio.timeout(self._patience):
            await writer.drain()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = self._frames.request_bytes
        while True:
            await self._drain(writer)
            length = int.from_bytes(await reader.readexactly(4), "little")
            if length != size:
                return await self._refuse(reader, writer, Kind.SIZE, 4 + size)
            read = self._frames.read_request(await reader.readexactly(size))
            if read is None:
                return await self._refuse(reader, writer, Kind.CHANGED)
            # a full queue makes the client wait
            await self._queue.put(_Waiting(*read, writer))

    async def _refuse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        kind: Kind,
        value: int = 0,
    ) -> None:
        """Say that a connection ends, and why."""
        writer.write(self._frames.refusal(kind, 0, value))
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
            while len(waiting) < self._batch and not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            fresh: list[_Waiting] = []
            for message in waiting:
                if message.number != self.next + len(fresh) and self._stopped is None:
                    # whether it was used before is known when the ones before it are answered
                    await self._carry(fresh)
                    fresh = []
                    if message.number != self.next and self._stopped is None:
                        self._again(message)
                        continue
                fresh.append(message)
            await self._carry(fresh)

    async def _carry(self, fresh: list[_Waiting]) -> None:
        if fresh and self._stopped is None:
            try:
                sealed = [message.sealed for message in fresh]
                answers = await asyncio.to_thread(self._carrier.carry, sealed)
                self.calls += 1
            except MapStopped as problem:
                self._stopped = problem.error
            else:
                self.next += len(fresh)
                for message, answer in zip(fresh, answers, strict=True):
                    self._keep(message, answer)
                    if message.writer in self._writers:
                        self._writers[message.writer] = message.number + 1
                    self._send(message.writer, self._frames.answer(message.number, answer))
                return
        for message in fresh:
            assert self._stopped is not None
            code = int(self._stopped.code)
            self._send(message.writer, self._frames.refusal(Kind.STOPPED, message.number, code))

    def _keep(self, message: _Waiting, answer: bytes) -> None:
        self._answers[message.number] = hashlib.sha256(message.sealed).digest(), answer
        while len(self._answers) > self._kept:
            self._answers.popitem(last=False)

    def _again(self, message: _Waiting) -> None:
        """Answer a message that is not the next one: with the answer that it had, if it is the same."""
        digest, answer = self._answers.get(message.number, (b"", b""))
        if digest == hashlib.sha256(message.sealed).digest():
            self._send(message.writer, self._frames.answer(message.number, answer))
        else:
            refusal = self._frames.refusal(Kind.NUMBER, message.number, self.next)
            self._send(message.writer, refusal)

    def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        # the writer's own task waits until it is taken, before it reads on
        if not writer.is_closing():
            writer.write(frame)
