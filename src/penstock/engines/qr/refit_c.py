"""Refits on one core in C: `refit.c`, built for a number of columns, checked against float64 least squares, and timed.

It is the CPU's side of every ratio for refits.
"""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.sim.native.toolchain import build_text

FLAGS = ("-x", "c", "-O3", "-march=native", "-shared", "-fPIC")
#: vectors of the C program
_LANES = 8
#: groups that take turns, and turns: the fastest one counts
GROUPS, REPEATS = 64, 400


class Group:
    """One group in the C program."""

    def __init__(self, columns: int, offsets: NDArray[np.int32]) -> None:
        self.columns, self.library = columns, _built(columns)
        self.bytes = _aligned(int(self.library.group_bytes()))
        self.library.start_group(address(self.bytes), address(offsets))

    @property
    def weights(self) -> NDArray[np.float64]:
        pointer = self.library.group_weights(address(self.bytes))
        return np.ctypeslib.as_array(pointer, (self.columns,)).astype(np.float64)

    def many(self) -> NDArray[np.uint8]:
        """Return as many equal groups as take turns."""
        groups = _aligned(len(self.bytes) * GROUPS)
        groups[:] = np.tile(self.bytes, GROUPS)
        return groups


@cache
def _built(columns: int) -> ctypes.CDLL:
    text = f"#define COLUMNS {columns}\n{Path(__file__).with_name('refit.c').read_text()}"
    loaded = ctypes.CDLL(str(build_text("refit", text, FLAGS)))
    loaded.group_bytes.restype = ctypes.c_size_t
    loaded.group_weights.restype = ctypes.POINTER(ctypes.c_float)
    loaded.time_keys.restype = loaded.time_table.restype = ctypes.c_double
    return loaded


def _aligned(size: int) -> NDArray[np.uint8]:
    room = np.zeros(size + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size]


def address(array: NDArray[np.generic]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def agree(predictions: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """Raise where predictions are not those of the best weights."""
    if not np.abs(predictions - best).max() <= 1e-3 * np.ptp(best):
        raise AssertionError("refit.c does not fit its rows best")


@cache
def keys_seconds(rows: int, columns: int, come: int, move: int, repeats: int = REPEATS) -> float:
    """Return the least seconds of a refit of a group of so many random keys of `columns` - 1 letters:
    `come` keys come, an even number, and `move` others change their labels."""
    source = np.random.default_rng(1)
    letters = source.integers(48, 110, (rows + come, columns - 1))
    letters = letters[np.lexsort(letters.T[::-1])]
    stored = np.zeros((len(letters), -(-(columns + 1) // _LANES) * _LANES), dtype=np.uint8)
    stored[:, 0], stored[:, 1:columns] = 1, letters
    labels = 2 * np.arange(len(stored), dtype=np.int32)
    offsets = np.zeros(columns, dtype=np.int32)
    offsets[1:] = np.rint(letters.mean(axis=0))
    core, order = Group(columns, offsets), source.permutation(len(stored))
    change = np.zeros(move + 1, dtype=np.int32)
    for at in range(0, rows, come):  # the first training
        part = order[at : min(at + come, rows)]
        keys, places = stored[part], labels[part]  # kept: the program has their addresses
        core.library.refit_keys(
            address(core.bytes), address(keys), address(places), address(change), len(part), 0
        )
    last = np.concatenate([order[rows:], order[:move]])
    keys, places = stored[last], labels[last]
    refit = (address(keys), address(places), address(change), come, move)
    core.library.refit_keys(address(core.bytes), *refit)
    a = stored[:, :columns].astype(float) - offsets
    best = np.linalg.lstsq(a, labels.astype(float), rcond=None)[0]
    agree(a @ core.weights, a @ best)
    groups = core.many()
    return float(core.library.time_keys(address(groups), GROUPS, *refit, repeats))
