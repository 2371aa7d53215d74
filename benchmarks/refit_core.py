"""Refits on one core in C: `refit.c`, built here for a number of columns, checked, and timed.

It is the CPU's side of every ratio for refits. What it computes is held against float64 least squares before it is timed.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["COMMAND", "keys_seconds", "table_seconds"]

COMMAND = ("gcc", "-O3", "-march=native", "-shared", "-fPIC")
_SOURCE = Path(__file__).with_name("refit.c")
#: vectors of the C program
_LANES = 8
#: groups that take turns, and turns: the fastest one counts
_GROUPS, _REPEATS = 64, 400


class _Core:
    """One group in the C program."""

    def __init__(self, columns: int, offsets: NDArray[np.int32]) -> None:
        self.columns, self.library = columns, _built(columns)
        size = int(self.library.group_bytes())
        room = np.zeros(size + 64, dtype=np.uint8)
        start = -room.ctypes.data % 64
        self.bytes = room[start : start + size]
        self.library.start_group(_at(self.bytes), _at(offsets))

    @property
    def weights(self) -> NDArray[np.float64]:
        at = self.library.group_weights(_at(self.bytes))
        return np.ctypeslib.as_array(at, (self.columns,)).astype(np.float64)

    def many(self) -> NDArray[np.uint8]:
        """Return as many equal groups as take turns."""
        room = np.zeros(len(self.bytes) * _GROUPS + 64, dtype=np.uint8)
        start = -room.ctypes.data % 64
        groups = room[start : start + len(self.bytes) * _GROUPS]
        groups[:] = np.tile(self.bytes, _GROUPS)
        return groups


@cache
def _built(columns: int) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "refit.so"
        subprocess.run(
            [*COMMAND, f"-DCOLUMNS={columns}", str(_SOURCE), "-o", str(library)], check=True
        )
        loaded = ctypes.CDLL(str(library))
    loaded.group_bytes.restype = ctypes.c_size_t
    loaded.group_weights.restype = ctypes.POINTER(ctypes.c_float)
    loaded.time_keys.restype = loaded.time_table.restype = ctypes.c_double
    return loaded


def _at(array: NDArray[np.generic]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def _agree(found: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """Raise where predictions are not those of the best weights."""
    if not np.abs(found - best).max() <= 1e-3 * np.ptp(best):
        raise AssertionError("refit.c does not fit its rows best")


def keys_seconds(rows: int, columns: int, come: int, move: int, repeats: int = _REPEATS) -> float:
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
    core, order = _Core(columns, offsets), source.permutation(len(stored))
    change = np.zeros(move + 1, dtype=np.int32)
    for at in range(0, rows, come):  # the first training
        part = order[at : min(at + come, rows)]
        keys, places = stored[part], labels[part]  # kept: the program has their addresses
        core.library.refit_keys(_at(core.bytes), _at(keys), _at(places), _at(change), len(part), 0)
    last = np.concatenate([order[rows:], order[:move]])
    keys, places = stored[last], labels[last]
    refit = (_at(keys), _at(places), _at(change), come, move)
    core.library.refit_keys(_at(core.bytes), *refit)
    a = stored[:, :columns].astype(float) - offsets
    best = np.linalg.lstsq(a, labels.astype(float), rcond=None)[0]
    _agree(a @ core.weights, a @ best)
    groups = core.many()
    return float(core.library.time_keys(_at(groups), _GROUPS, *refit, repeats))


def table_seconds(rows: int, features: int, change: int, repeats: int = _REPEATS) -> float:
    """Return the least seconds of a refit of a table when `change` rows come and as many go."""
    columns, source = features + 1, np.random.default_rng(1)
    values = source.standard_normal((rows + change, columns)).astype(np.float32)
    values[:, -1] = values[:, :-1] @ source.standard_normal(features)
    scale = 2.0 ** (16 - np.ceil(np.log2(np.abs(values).max() + 1)))
    units = np.rint(values.astype(np.float64) * scale)
    offsets, nothing = np.rint(units.mean(axis=0)), np.zeros((0, columns), dtype=np.float32)
    core = _Core(columns, np.zeros(columns, dtype=np.int32))
    ends = (_at(offsets), ctypes.c_double(scale))
    for at in range(0, rows, change):
        first = values[at : min(at + change, rows)]
        core.library.refit_table(_at(core.bytes), _at(first), len(first), _at(nothing), 0, *ends)
    come = values[rows:]
    refit = (_at(come), change, _at(values), change, *ends)
    core.library.refit_table(_at(core.bytes), *refit)
    a = units[change:] - offsets
    a, b = np.column_stack([np.ones(len(a)), a[:, :-1]]), a[:, -1]
    _agree(a @ core.weights, a @ np.linalg.lstsq(a, b, rcond=None)[0])
    groups = core.many()
    return float(core.library.time_table(_at(groups), _GROUPS, *refit, repeats))
