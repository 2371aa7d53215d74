"""A table behind a store of sets, as none of the hardware is: results that do not depend on where rows are held.

Sets of 8 lines with a 2-bit prediction each of how soon the row is used again (re-reference interval prediction: Jaleel, Theobald, Steely, Emer, ISCA
2010, the bimodal variant). A hit makes it "near". A row that comes in is "distant", one in 32 "long", drawn by a shift register. The first "distant"
line of a set gives way; where there is none all age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.models.numerics.formats import Codes, Format
from penstock.models.rows.golden import Changes, Table, in_order, taken
from penstock.models.rows.store import SEED, Counts, next_random

__all__ = ["LONG", "WAYS", "Policy", "StoreConfig", "StoredTable"]

#: lines of a set
WAYS = 8
NEAR, LONG, DISTANT = 0, 2, 3
#: a row that comes in is "long" where these bits of the shift register are 0; neighbours would be 0 in runs
_RARELY = 0x4889


@dataclass(frozen=True)
class StoreConfig:
    """The store of hot rows.

    Parameters
    ----------
    lines: rows that it holds, 0 for none; else `banks` times a power of two of sets of 8.
    banks: that are asked at once, a power of two.
    pinned: rows that are held from the start to the end, as a profile names them; what finds no line is not pinned.
    """

    lines: int
    banks: int = 1
    pinned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.banks < 1 or self.banks & (self.banks - 1):
            raise ValueError(f"banks must be a power of two, not {self.banks}")
        sets = self.lines // WAYS
        if self.lines and (self.lines % WAYS or sets & (sets - 1) or sets < self.banks):
            raise ValueError(
                f"lines must be {WAYS * self.banks} times a power of two, not {self.lines}"
            )

    @property
    def sets(self) -> int:
        return self.lines // WAYS

    def place(self, row: int) -> int:
        """Return the set that may hold a row. Its low bits are the bank; higher bits of the row are folded in."""
        bits = max(1, (self.sets - 1).bit_length())
        folded = row
        while row := row >> bits:
            folded ^= row
        return folded & (self.sets - 1)

    def bank(self, row: int) -> int:
        return self.place(row) & (self.banks - 1)


@dataclass(frozen=True)
class Access:
    """What an access does. `line`: that holds the row now, None where the row passes by; `evicted`: the row that gave way,
    `written`: whether it was changed, and so is written back."""

    hit: bool
    line: int | None
    evicted: int | None = None
    written: bool = False


class Policy:
    """The tags of a store. `lines[n]` is the row that line n holds, −1 for none; line n is way n mod 8 of set n // 8."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self.lines = [-1] * config.lines
        self.soon = [DISTANT] * config.lines
        self.changed = [False] * config.lines
        self.counts = Counts()
        self.random = SEED
        self.where: dict[int, int] = {}
        self.pinned: set[int] = set()
        for row in config.pinned:
            self._pin(row)

    def _pin(self, row: int) -> None:
        """Hold a row for good, if its set has a line left."""
        first = self.config.place(row) * WAYS if self.config.lines else 0
        for line in range(first, first + WAYS if self.config.lines else 0):
            if self.lines[line] < 0 and row not in self.where:
                self.lines[line], self.where[row] = row, line
                self.pinned.add(line)
                self.counts.fetched += 1

    def access(self, row: int, change: bool = False) -> Access:
        """Look a row up, and let it in where it is not held; `change`: it is changed, not only read."""
        counts = self.counts
        counts.lookups += 1
        line = self.where.get(row)
        if line is not None:
            counts.hits += 1
            self.soon[line] = NEAR
            self.changed[line] |= change
            return Access(True, line)
        counts.fetched += 1
        line = self._victim(row)
        if line is None:
            counts.written += change
            return Access(False, None)
        return self._fill(line, row, change)

    def _victim(self, row: int) -> int | None:
        """Return the line that takes a new row: an empty one, else the first that is "distant"; None where all are pinned."""
        if not self.config.lines:
            return None
        first = self.config.place(row) * WAYS
        free = [line for line in range(first, first + WAYS) if line not in self.pinned]
        for line in free:
            if self.lines[line] < 0:
                return line
        if not free:
            return None
        aged = DISTANT - max(self.soon[line] for line in free)
        for line in free:
            self.soon[line] += aged
        return next(line for line in free if self.soon[line] == DISTANT)

    def _fill(self, line: int, row: int, change: bool) -> Access:
        old, written = self.lines[line], self.changed[line]
        if old >= 0:
            del self.where[old]
            self.counts.written += written
        self.lines[line], self.where[row], self.changed[line] = row, line, change
        self.random = next_random(self.random)
        self.soon[line] = DISTANT if self.random & _RARELY else LONG
        return Access(False, line, old if old >= 0 else None, old >= 0 and written)

    def flush(self) -> list[int]:
        """Return the lines that are written back at the end of a run, in order; they stay held, unchanged."""
        dirty = [line for line, changed in enumerate(self.changed) if changed]
        self.changed = [False] * len(self.lines)
        self.counts.written += len(dirty)
        return dirty


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
        found = np.zeros_like(taken(self.codes, rows))
        for place in np.ndindex(rows.shape):
            if rows[place] >= 0:
                found[place] = self._row(int(rows[place]), False)
        return found

    def change(self, changes: Sequence[Changes]) -> None:
        for part in changes:
            taken(self.codes, part.rows)
        for kind, row, codes in in_order(changes):
            old = self._row(row, True)
            new = self._combined(kind, old, np.asarray(codes, dtype=np.int64))[0]
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
