"""Files that grow, on a disk that may be full or lose its power."""

import os
from pathlib import Path

#: bytes that are reserved at a time
AHEAD = 1 << 16


class Disk:
    """The system's calls that change files."""

    def create(self, path: Path) -> int:
        """Return a handle of a new, empty file."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def write(self, handle: int, at: int, data: bytes) -> None:
        while data:
            done = os.pwrite(handle, data, at)
            data, at = data[done:], at + done

    def reserve(self, handle: int, at: int, size: int) -> None:
        os.posix_fallocate(handle, at, size)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def rename(self, path: Path, to: Path) -> None:
        os.replace(path, to)

    def remove(self, path: Path) -> None:
        path.unlink()


class Growing:
    """A file that grows; room for it is reserved ahead, and reads as zeros."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk, self.path = disk, path
        self.size = self._room = 0
        self.handle = disk.create(path)

    def reserve(self, size: int) -> None:
        """See to it that so many bytes have room. Raises OSError."""
        if self.size + size > self._room:
            more = max(size, AHEAD)
            self._disk.reserve(self.handle, self.size, more)
            self._room = self.size + more

    def append(self, data: bytes) -> None:
        self._disk.write(self.handle, self.size, data)
        self.size += len(data)

    def sync(self) -> None:
        self._disk.sync(self.handle)

    def close(self) -> None:
        os.close(self.handle)
