"""Caches that grow: the rounds that write a token's key, or its value, behind those that the banks hold.

A row of a cache is one column of a row of the banks: a transfer of 32 bytes a bank, for keys in both banks of a pair, for values in one. The
first column of a row of the banks comes with zeros in all others (of values, in both banks): what lies beyond the keys counts in what results
are coded beside, and must be nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .config import COLUMNS
from .device import Step
from .layout import Layout
from .operands import Floats
from .rounds import Round

__all__ = ["appended"]

Bytes = NDArray[np.uint8]


def appended(layout: Layout, rows: Floats, held: NDArray[np.int64]) -> list[Step]:
    """Return the rounds that write a row of each item (items, dim) behind the `held` (items) that its cache has."""
    attends = layout.mode == "attend"
    [data] = layout.sub_chunks(rows[None])
    whole: dict[int, dict[int, Bytes]] = {}
    single: dict[int, dict[int, tuple[int, Bytes]]] = {}
    for n, slot in enumerate(layout.slots.tolist()):
        chunk, place = divmod(int(held[n // layout.parts]), layout.each)
        seat, pair = divmod(slot, layout.config.pairs)
        row, (half, column) = layout.row(seat, chunk), divmod(place, COLUMNS)
        for bank in (0, 1):
            own = not attends or bank == half
            if place == 0:
                cells = np.zeros((COLUMNS, 32), dtype=np.uint8)
                cells[0] = data[n, bank] * own
                whole.setdefault(row, {})[2 * pair + bank] = cells
            elif own:
                single.setdefault(row, {})[2 * pair + bank] = column, data[n, bank]
    steps = [_load(row, banks) for row, banks in whole.items()]
    for row, given in single.items():
        columns = tuple(column for _, (column, _) in sorted(given.items()))
        steps.append(_load(row, {bank: x[None] for bank, (_, x) in given.items()}, columns))
    return steps


def _load(row: int, banks: Mapping[int, Bytes], columns: tuple[int, ...] = ()) -> Step:
    order = sorted(banks)
    given = Round("load", 0, row, 0, banks=tuple(order), columns=columns)
    return Step(given, np.stack([banks[bank] for bank in order]))
