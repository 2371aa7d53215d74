"""What becomes of a table: rows as a batch reads them, and changes one by one, bit for bit.

All that a batch reads is as the batch before left it. Its changes are done in the order of tuples, of the lines in which they
are written, and of the places in a bag, each rounded and, in fixed point, saturated by itself: `numpy.add.at` in the format's
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..numerics.formats import Codes, Format

#: changes of rows and the unit that does each; "set" has none
CHANGES = {"add": "add", "subtract": "sub", "max": "max", "min": "min", "set": ""}


#: of an integer that no row is named by
TOO_WIDE = "an integer that is made of its indices does not fit in 64 bits"


class NoRow(IndexError):
    """A row that there is not, as `message` says. `at`: which of the first axis asked for it, a tuple of a batch."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at

    @classmethod
    def beyond(cls, row: int, rows: int, at: int) -> NoRow:
        """Return the error for a row that a table of so many rows does not have."""
        return cls(f"rows 0 to {rows - 1}, not {row}", at)


@dataclass(frozen=True)
class Changes:
    """Changes of one kind."""

    kind: str
    rows: np.ndarray  #: (tuples, places), −1 where a place is left out
    codes: Codes  #: (tuples, places, columns)


def in_order(changes: Sequence[Changes]) -> list[tuple[str, int, Codes]]:
    """Return the single changes (kind, row, codes) in the order in which they are done."""
    tuples = len(changes[0].rows) if changes else 0
    return [
        (part.kind, int(row), codes)
        for t in range(tuples)
        for part in changes
        for row, codes in zip(part.rows[t], part.codes[t], strict=True)
        if row >= 0
    ]


def taken(codes: Codes, rows: np.ndarray) -> Codes:
    """Return rows of a table, with an axis of columns behind; +0 for −1. Raises NoRow."""
    _check(len(codes), rows)
    content = codes[np.maximum(rows, 0)]
    content[rows < 0] = 0
    return content


def _check(rows: int, asked: np.ndarray) -> None:
    wrong = (asked < -1) | (asked >= rows)
    if wrong.any():
        first = np.argwhere(wrong)[0]
        raise NoRow.beyond(int(asked[tuple(first)]), rows, int(first[0]) if len(first) else 0)


def _turns(rows: np.ndarray) -> np.ndarray:
    """Return of each change how many there are of its row before it."""
    order = np.argsort(rows, kind="stable")
    first = np.r_[True, np.diff(rows[order]) != 0]
    begins = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    turns = np.empty(len(rows), np.int64)
    turns[order] = np.arange(len(rows)) - begins
    return turns


class Table:
    """A table of rows: `codes` (rows, columns). `left_range` counts results that left the format's range; `beyond`: tuple, row and column
    of the first one of the last batch, None where there is none."""

    def __init__(self, codes: Codes, fmt: Format) -> None:
        self.codes, self.fmt = np.array(codes, dtype=np.int64), fmt
        self.left_range = 0
        self.beyond: tuple[int, int, int] | None = None

    def read(self, rows: np.ndarray) -> Codes:
        """Return `taken` of the table."""
        return taken(self.codes, rows)

    def change(self, changes: Sequence[Changes]) -> None:
        """Do the changes of a batch: of each row in order; different rows have nothing to do with each other. Raises NoRow."""
        for part in changes:
            _check(len(self.codes), part.rows)
        rows = np.concatenate([part.rows for part in changes], axis=1)
        which = np.repeat(np.arange(len(changes)), [part.rows.shape[1] for part in changes])
        which = np.broadcast_to(which, rows.shape)
        codes = np.concatenate([part.codes for part in changes], axis=1)
        present = rows >= 0
        rows, which, codes = rows[present], which[present], codes[present]
        self.beyond, firsts = None, list[tuple[int, int]]()
        if not len(rows):
            return
        turns = _turns(rows)
        order = np.argsort(turns, kind="stable")
        ends = np.cumsum(np.bincount(turns))
        for members in np.split(order, ends[:-1]):  # one change of each row
            for n in np.unique(which[members]):
                part = members[which[members] == n]
                at = rows[part]
                new, left = self._combined(changes[n].kind, self.codes[at], codes[part])
                self.codes[at] = new
                if left.any():
                    firsts.append(min((int(part[k]), int(c)) for k, c in np.argwhere(left)))
        if firsts:
            place, column = min(firsts)
            self.beyond = int(np.nonzero(present)[0][place]), int(rows[place]), column

    def _combined(self, kind: str, old: Codes, codes: Codes) -> tuple[Codes, np.ndarray]:
        """Return what rows are after a change, and which codes left the range."""
        if not (unit := CHANGES[kind]):
            return codes, np.zeros(0, bool)
        new = self.fmt.op(unit, old, codes)
        left = np.asarray(self.fmt.left_range(unit, new, old, codes))
        self.left_range += int(np.count_nonzero(left))
        return new, left

    def flush(self) -> None:
        """Bring `codes` up to date: they are."""
