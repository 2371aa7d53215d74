"""AMD's XDMA driver (PG195) before an engine's top in simulation: the files of one device."""

import errno
import os
import threading

import numpy as np

from ...models.shell import Status
from ...sim.native import RegisterError, Session

#: cycles of the engine that pass in a call: while it rests, and while it works
_REST, _WORK = 500, 1 << 17


class Driver:
    """`xdma.Files` of the device /dev/xdma0, whose engine is that of a session. `size`: bytes of its memory."""

    def __init__(self, session: Session, size: int) -> None:
        self.session, self.busy = session, threading.Lock()
        self.memory = np.zeros(size, dtype=np.uint8)
        session.map(0, self.memory)
        self.opened: dict[int, str] = {}

    def open(self, path: str, flags: int, /) -> int:
        ways = {"user": os.O_RDWR, "h2c_0": os.O_WRONLY, "c2h_0": os.O_RDONLY}
        name = path.removeprefix("/dev/xdma0_")
        if ways.get(name) != flags:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.opened[handle := 100 + len(self.opened)] = name
        return handle

    def close(self, handle: int, /) -> None:
        del self.opened[handle]

    def pread(self, handle: int, size: int, offset: int, /) -> bytes:
        with self.busy:
            if self.begun(handle, "user", "c2h_0") == "user":
                return self._register(offset, size).to_bytes(4, "little")
            return self.memory[offset : offset + self.some(offset, size)].tobytes()

    def pwrite(self, handle: int, data: bytes | memoryview, offset: int, /) -> int:
        with self.busy:
            if self.begun(handle, "user", "h2c_0") == "user":
                self._register(offset, len(data), int.from_bytes(data, "little"))
                return len(data)
            count = self.some(offset, len(data))
            self.memory[offset : offset + count] = np.frombuffer(data[:count], dtype=np.uint8)
            return count

    def begun(self, handle: int, *able: str) -> str:
        """Return which file a call is of; time passes."""
        name = self.opened.get(handle, "")
        if name not in able:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        rests = Status(self.session.read("status")) & Status.IDLE
        self.session.step(_REST if rests else _WORK)
        return name

    def some(self, offset: int, size: int) -> int:
        """Return how many bytes are moved: as many as were asked for."""
        if offset + size > len(self.memory):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return size

    def _register(self, at: int, size: int, value: int | None = None) -> int:
        if at % 4 or size != 4:
            raise OSError(errno.EINVAL, "registers are aligned words")
        try:
            if value is not None:
                self.session.write_word(at, value)
                return 0
            return self.session.read_word(at)
        except RegisterError:  # the driver hears nothing of it
            return 0xFFFF_FFFF
