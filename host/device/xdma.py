"""A device behind PCIe, as a transport: the character devices of AMD's XDMA driver (PG195; dma_ip_drivers, XDMA, Linux kernel).

`<name>_user` are the registers, in aligned words of 32 bits. `<name>_h2c_0` writes memory and `<name>_c2h_0` reads it, at the file's offset. A call may
move less than it was asked to. An error response of the bus is not told: such a register reads as ones.
"""

import os
import threading
from contextlib import suppress
from typing import Protocol

from ...models.link.device import Identity
from ...models.link.frames import Space
from .errors import LinkError
from .transport import Statistics, seconds

#: most bytes of a call; what an engine's ports can address, where nobody says how much memory there is
_CALL, _ADDRESSES = 1 << 22, 1 << 40
_WORD = 4


class Files(Protocol):
    """The system calls of the driver: module `os`, but for tests."""

    def open(self, path: str, flags: int, /) -> int: ...
    def pread(self, handle: int, size: int, offset: int, /) -> bytes: ...
    def pwrite(self, handle: int, data: bytes | memoryview, offset: int, /) -> int: ...
    def close(self, handle: int, /) -> None: ...


class Xdma:
    """A `transport.Transport` by the driver's files of `place`, as "/dev/xdma0".

    `timeout`: seconds for what the engine is waited for, 2 where it is None; the driver has one of its own for transfers. `memory_bytes`: of the board,
    which does not say so itself, nor its clock.
    """

    def __init__(
        self,
        place: str,
        timeout: float | None = None,
        *,
        memory_bytes: int | None = None,
        files: Files = os,
    ) -> None:
        self.name, self.timeout = f"xdma:{place}", seconds(2.0 if timeout is None else timeout)
        self.identity = Identity(_WORD, memory_bytes or _ADDRESSES, 0)
        self.statistics = Statistics()
        self._files, self._lock = files, threading.Lock()  # a channel has one thread
        self._handles: dict[str, int] = {}
        self._failure: LinkError | None = None
        flags = {"user": os.O_RDWR, "h2c_0": os.O_WRONLY, "c2h_0": os.O_RDONLY}
        try:
            for what, how in flags.items():
                path = f"{place}_{what}"
                self._handles[what] = files.open(path, how)
        except (OSError, ValueError) as problem:  # no name of a file has a zero in it
            self.close()
            why = problem.strerror if isinstance(problem, OSError) else problem
            hint = "is the board's bitstream loaded, AMD's driver too, and may you open its files?"
            raise LinkError(f"{path} cannot be opened: {why}", hint) from None

    def read(self, space: Space, at: int, size: int) -> bytes:
        if space is Space.REGISTERS:
            return b"".join(self._get("user", k, _WORD) for k in _words(at, size))
        return self._get("c2h_0", at, size)

    def write(self, space: Space, at: int, data: bytes) -> None:
        if space is Space.REGISTERS:
            for k in _words(at, len(data)):
                self._put("user", k, data[k - at : k - at + _WORD])
        else:
            self._put("h2c_0", at, data)

    def _get(self, what: str, at: int, size: int) -> bytes:
        parts, left = [], size
        while left:
            part = self._do(what, "pread", min(left, _CALL), at + size - left)
            assert isinstance(part, bytes)
            self._moved(what, len(part))
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _put(self, what: str, at: int, data: bytes) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            count = self._do(what, "pwrite", view[done : done + _CALL], at + done)
            assert isinstance(count, int)
            self._moved(what, count)
            done += count

    def _do(self, what: str, call: str, *arguments: object) -> bytes | int:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            while True:
                try:
                    moved: bytes | int = getattr(self._files, call)(self._handles[what], *arguments)
                    self.statistics.sent += 1
                    return moved
                except InterruptedError:
                    self.statistics.again += 1
                except OSError as problem:
                    raise self._lost(what, problem.strerror) from None

    def _moved(self, what: str, count: int) -> None:
        if not count:
            raise self._lost(what, "no byte was moved")

    def _lost(self, what: str, why: str | None) -> LinkError:
        self._failure = LinkError(f"{self.name}: {what} failed: {why}")
        return self._failure

    def close(self) -> None:
        with self._lock:
            self._failure = LinkError(f"{self.name} is closed")
            handles, self._handles = self._handles, {}
        for handle in handles.values():
            with suppress(OSError):
                self._files.close(handle)


def _words(at: int, size: int) -> range:
    """Return the addresses of registers' words. Raises ValueError where they are no whole ones."""
    if at % _WORD or size % _WORD:
        raise ValueError(f"registers are words of {_WORD} bytes, not {size} bytes at {at:#x}")
    return range(at, at + size, _WORD)
