"""Windows of a simulated machine's memory."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.sim.machine import PAGE
from penstock.sim.windows import Windows


def filled(size: int, first: int = 1) -> np.ndarray:
    return (np.arange(size) + first).astype(np.uint8)


def test_reserved_memory_is_writable_zeros_in_whole_pages() -> None:
    memory = Windows()
    window = memory.reserve(PAGE, 10)
    assert window is not None and (window.at, window.end, window.writable) == (PAGE, 2 * PAGE, True)
    assert not window.content.any()
    assert memory.reserve(PAGE, PAGE) is None and memory.reserve(PAGE + 5, 3) is None
    assert memory.find(PAGE, PAGE) is window and memory.find(2 * PAGE - 1, 2) is None
    least = memory.reserve(8 * PAGE, 0)
    assert least is not None and len(least.content) == PAGE


def test_bytes_without_memory_become_a_window_without_a_copy() -> None:
    memory, data = Windows(), filled(100)
    window = memory.place(0, data)
    assert window is not None and not window.writable and np.shares_memory(window.content, data)
    assert memory.place(10, filled(5, 200)) is None  # it is the host's own to change
    assert data[10:15].tolist() == [200, 201, 202, 203, 204]
    table = filled(2 * PAGE).reshape(2, PAGE)
    assert (memory.place(PAGE, table), memory.read(PAGE, 2 * PAGE).tobytes())[1] == table.tobytes()


def test_nothing_is_read_or_written_where_there_is_no_memory() -> None:
    memory = Windows()
    memory.reserve(0, PAGE)
    for at, size in ((PAGE, 1), (PAGE - 1, 2), (5 * PAGE, 4)):
        with pytest.raises(ValueError, match=f"^no memory at {at:#x}$"):
            memory.read(at, size)
    assert memory.read(0, 0).size == 0
    with pytest.raises(ValueError, match="must begin at a multiple of 4096, not 0xfff"):
        memory.place(PAGE - 1, filled(2))  # only its first byte has memory
    assert not memory.read(PAGE - 1, 1).any()
    assert memory.place(9 * PAGE, filled(0)) is None and memory.find(9 * PAGE, 1) is None


def test_windows_do_not_overlap() -> None:
    memory = Windows()
    memory.reserve(PAGE, PAGE)
    for at, size in ((0, PAGE + 1), (PAGE, 2 * PAGE)):
        with pytest.raises(ValueError, match=f"^memory at {at:#x} overlaps that at 0x1000$"):
            memory.reserve(at, size)
    with pytest.raises(ValueError, match="must begin at a multiple of 4096, not 0x2001"):
        memory.reserve(2 * PAGE + 1, 5)
