"""What becomes of a table: rows as a batch reads them, and changes one by one, bit for bit.

All that a batch reads is as the batch before left it. Its changes are done in the order of tuples, of the lines in which they
are written, and of the places in a bag, each rounded and, in fixed point, saturated by itself: `numpy.add.at` in the format's
numbers. So no result depends on the store, which a `StoredTable` shows: it has memory and lines apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..numerics.formats import Codes, Format
from .config import StoreConfig
from .store import Policy

__all__ = ["CHANGES", "Changes", "StoredTable", "Table", "in_order"]

#: changes of rows and the unit that does each; "set" has none
CHANGES = {"add": "add", "subtract": "sub", "max": "max", "min": "min", "set": ""}


@dataclass(frozen=True)
class Changes:
    """Changes of one kind: `rows` (tuples, places), −1 where a place is left out; `codes` (tuples, places, columns)."""

    kind: str
    rows: np.ndarray
    codes: Codes


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


class Table:
    """A table of rows without a store: `codes` (rows, columns). `left_range` counts results that left the format's range."""

    def __init__(self, codes: Codes, fmt: Format) -> None:
        self.codes, self.fmt = np.array(codes, dtype=np.int64), fmt
        self.left_range = 0

    def read(self, rows: np.ndarray) -> Codes:
        """Return the rows' codes, with an axis of columns behind; +0 for −1. Raises IndexError for a row that there is not."""
        self._check(rows)
        found = self.codes[np.maximum(rows, 0)]
        found[rows < 0] = 0
        return found

    def change(self, changes: Sequence[Changes]) -> None:
        """Do the changes of a batch: of each row in order; different rows have nothing to do with each other.

        Raises IndexError for a row that there is not.
        """
        for part in changes:
            self._check(part.rows)
        steps = in_order(changes)
        turn: dict[int, int] = {}
        rounds: dict[tuple[int, str], list[int]] = {}
        for n, (kind, row, _) in enumerate(steps):
            turn[row] = turn.get(row, -1) + 1
            rounds.setdefault((turn[row], kind), []).append(n)
        for (_, kind), members in sorted(rounds.items(), key=lambda item: item[0][0]):
            rows = np.array([steps[n][1] for n in members])
            codes = np.array([steps[n][2] for n in members], dtype=np.int64)
            self.codes[rows] = self._combined(kind, self.codes[rows], codes)

    def _combined(self, kind: str, old: Codes, codes: Codes) -> Codes:
        if not (unit := CHANGES[kind]):
            return codes
        new = self.fmt.op(unit, old, codes)
        self.left_range += int(np.count_nonzero(self.fmt.left_range(unit, new, old, codes)))
        return new

    def _check(self, rows: np.ndarray) -> None:
        wrong = (rows < -1) | (rows >= len(self.codes))
        if wrong.any():
            raise IndexError(f"rows 0 to {len(self.codes) - 1}, not {int(rows[wrong].flat[0])}")


class StoredTable(Table):
    """A table behind a store: `codes` is what lies in memory, `held` what the lines have.

    `flush` brings memory up to date. `policy.counts` are the rows that were moved.
    """

    def __init__(self, codes: Codes, fmt: Format, store: StoreConfig) -> None:
        super().__init__(codes, fmt)
        self.policy = Policy(store)
        self.held = np.zeros((store.lines, self.codes.shape[1]), dtype=np.int64)
        for row, line in self.policy.where.items():
            self.held[line] = self.codes[row]

    def read(self, rows: np.ndarray) -> Codes:
        self._check(rows)
        found = np.zeros((*rows.shape, self.codes.shape[1]), dtype=np.int64)
        for place in np.ndindex(rows.shape):
            if rows[place] >= 0:
                found[place] = self._row(int(rows[place]), False)
        return found

    def change(self, changes: Sequence[Changes]) -> None:
        for part in changes:
            self._check(part.rows)
        for kind, row, codes in in_order(changes):
            old = self._row(row, True)
            new = self._combined(kind, old, np.asarray(codes, dtype=np.int64))
            line = self.policy.where.get(row)
            if line is None:
                self.codes[row] = new
            else:
                self.held[line] = new

    def _row(self, row: int, change: bool) -> Codes:
        """Return a row's codes, let in where the policy says so; what gives way is written back."""
        access = self.policy.access(row, change)
        if access.hit:
            return self.held[access.line]
        if access.line is None:
            return self.codes[row]
        if access.written:
            self.codes[access.evicted] = self.held[access.line]
        self.held[access.line] = self.codes[row]
        return self.held[access.line]

    def flush(self) -> None:
        """Write back all lines that were changed."""
        for line in self.policy.flush():
            self.codes[self.policy.lines[line]] = self.held[line]
