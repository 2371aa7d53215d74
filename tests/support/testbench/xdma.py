"""AMD's XDMA driver (PG195) in front of an engine's top in simulation: the files of a device, with what they may do."""

from __future__ import annotations

import errno
import os
import random
import threading

import numpy as np

from penstock.sim.native import RegisterError, Session

__all__ = ["Driver"]

#: cycles of the engine that pass in a call
_CYCLES = 500


class Driver:
    """`host.device.xdma.Files` of one device. `fails`: an errno, from the `after`-th call on."""

    def __init__(self, session: Session, size: int, seed: int = 1) -> None:
        self.session, self.random = session, random.Random(seed)
        self.memory = np.zeros(size, dtype=np.uint8)
        session.map(0, self.memory)
        self.opened: dict[int, str] = {}
        self.calls: dict[str, int] = {}
        self.busy = threading.Lock()
        self.fails, self.after = 0, 1 << 62

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
            if self._begun(handle, "user", "c2h_0") == "user":
                return self._register(offset, size).to_bytes(4, "little")
            return self.memory[offset : offset + self._some(offset, size)].tobytes()

    def pwrite(self, handle: int, data: bytes | memoryview, offset: int, /) -> int:
        with self.busy:
            if self._begun(handle, "user", "h2c_0") == "user":
                self._register(offset, len(data), int.from_bytes(data, "little"))
                return len(data)
            count = self._some(offset, len(data))
            self.memory[offset : offset + count] = np.frombuffer(data[:count], dtype=np.uint8)
            return count

    def _begun(self, handle: int, *able: str) -> str:
        name = self.opened.get(handle, "")
        self.calls[name] = self.calls.get(name, 0) + 1
        if sum(self.calls.values()) >= self.after:
            raise OSError(self.fails, os.strerror(self.fails))
        if name not in able:
            raise OSError(errno.EBADF, "not for this")
        if self.random.random() < 0.1:
            raise InterruptedError(errno.EINTR, "interrupted")
        self.session.step(_CYCLES)
        return name

    def _some(self, offset: int, size: int) -> int:
        """Return how many bytes are moved: as many as were asked for, or fewer."""
        if offset + size > len(self.memory):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.random.randint(1, size) if self.random.random() < 0.7 else size

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
