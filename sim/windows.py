"""The memory of a simulated machine: windows of bytes in address spaces that are mostly empty."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .machine import PAGE, round_up


@dataclass(frozen=True)
class Window:
    """Bytes of a space."""

    space: int
    at: int  #: their first address
    content: NDArray[np.uint8]
    writable: bool  #: the engine may write them

    @property
    def end(self) -> int:
        return self.at + len(self.content)


class Windows:
    """Windows that do not overlap. Bytes may be read and written across those that meet."""

    def __init__(self) -> None:
        self._all: list[Window] = []

    def reserve(self, at: int, size: int, space: int = 0) -> Window | None:
        """Add a window of zeros, in multiples of `PAGE`; None where it is there already.

        Raises ValueError where it overlaps others, or does not begin at a multiple of `PAGE`.
        """
        if self.find(at, max(size, 1), space) is not None:
            return None
        return self._add(Window(space, at, np.zeros(round_up(max(size, 1)), dtype=np.uint8), True))

    def place(self, at: int, data: NDArray[np.uint8], space: int = 0) -> Window | None:
        """Write bytes where there are windows; else add one of the array itself, without a copy,
        which the engine can only read, and return it."""
        flat = np.ascontiguousarray(data).reshape(-1)
        if not flat.size:
            return None
        parts = self._parts(at, flat.size, space)
        if parts is None:
            return self._add(Window(space, at, flat, False))
        for window, first, count, done in parts:
            window.content[first : first + count] = flat[done : done + count]
        return None

    def read(self, at: int, size: int, space: int = 0) -> NDArray[np.uint8]:
        """Return a copy of bytes. Raises ValueError where there are none."""
        parts = self._parts(at, size, space)
        if parts is None:
            raise ValueError(f"no memory at {at:#x}")
        pieces = [window.content[first : first + count] for window, first, count, _ in parts]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint8)

    def find(self, at: int, size: int, space: int = 0) -> Window | None:
        """Return the window that all these bytes lie in."""
        for window in self._all:
            if window.space == space and window.at <= at and at + size <= window.end:
                return window
        return None

    def _add(self, window: Window) -> Window:
        if window.at % PAGE:
            raise ValueError(f"memory must begin at a multiple of {PAGE}, not {window.at:#x}")
        for other in self._all:
            if other.space == window.space and window.at < other.end and other.at < window.end:
                raise ValueError(f"memory at {window.at:#x} overlaps that at {other.at:#x}")
        self._all.append(window)
        return window

    def _parts(self, at: int, size: int, space: int) -> list[tuple[Window, int, int, int]] | None:
        """Return the windows that bytes lie in: each with the first of its bytes, how many, and
        how many came before; None where some bytes are in none."""
        parts, done = [], 0
        while done < size:
            window = self.find(at + done, 1, space)
            if window is None:
                return None
            first = at + done - window.at
            count = min(size - done, len(window.content) - first)
            parts.append((window, first, count, done))
            done += count
        return parts
