"""A device on a serial line, as a transport: an event loop and a thread of its own for `serial_client.Client`, which sends lost requests again."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, wait
from typing import Any, TypeVar

from ...models.link.frames import Space
from .errors import DeviceError, LinkError
from .serial_client import Client
from .transport import Refused, seconds

#: of boards, unless the design's folder says otherwise
BAUD = 1_000_000
#: longest sleep in seconds during a call, so that an interrupt ends it
_INTERRUPTIBLE = 0.2

T = TypeVar("T")


class Uart:
    """A `transport.Transport` over the serial port `path`.

    The link lives in an event loop and a thread of its own, so all calls work inside a running event loop as well; they block it, and
    `asyncio.to_thread` is the way around that.
    """

    def __init__(self, path: str, *, baud: int = BAUD, timeout: float = 2.0) -> None:
        if not isinstance(baud, int) or baud < 1:
            raise DeviceError(
                f"a baud rate is a whole number of bits in a second, not {baud!r}",
                f"boards have {BAUD}",
            )
        self.path, self.timeout = path, seconds(timeout)
        self._lock = threading.Lock()  # held during a call
        self._gate = threading.Lock()  # between calls that begin and the end
        self._closed = False
        self._client: Client | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="penstock-device", daemon=True
        )
        self._thread.start()
        try:
            self._client = self._do(Client.open(path, baud, timeout))
        except BaseException:
            self.close()
            raise
        self.statistics = self._client.statistics
        assert self._client.identity is not None
        self.identity = self._client.identity

    def read(self, space: Space, at: int, size: int) -> bytes:
        data, status = self._do(self._line.read(space, at, size))
        if status:
            raise Refused(status)
        return data

    def write(self, space: Space, at: int, data: bytes) -> None:
        if status := self._do(self._line.write(space, at, data)):
            raise Refused(status)

    @property
    def _line(self) -> Client:
        assert self._client is not None
        return self._client

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            with self._gate:
                if self._closed:
                    work.close()
                    raise LinkError(f"{self.path} is closed")
                waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
            try:
                # a signal that comes just before a thread blocks is seen when it wakes: it must not sleep for long
                while not wait([waiting], _INTERRUPTIBLE).done:
                    pass
                return waiting.result()
            except CancelledError:
                raise LinkError(f"{self.path} is closed") from None
            except BaseException:  # an interrupt: nothing more of this is sent
                waiting.cancel()
                raise

    def close(self) -> None:
        with self._gate:
            first, self._closed = not self._closed, True
        if first:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        """Close the line, and see calls under way end."""
        if self._client is not None:
            self._client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, late = await asyncio.wait(others, timeout=0.2)
            for task in late:  # one that was just connecting
                task.cancel()
            if late:
                await asyncio.wait(late)
