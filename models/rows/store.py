"""Which rows the store of hot rows holds: the policy, one access after the other.

Sets of 8 lines with a 2-bit prediction each of how soon the row is used again (re-reference interval prediction: Jaleel,
Theobald, Steely, Emer, ISCA 2010, the bimodal variant). A hit makes it "near". A row that comes in is "distant", one in 32
"long", drawn by a shift register. The first "distant" line of a set gives way; where there is none all age.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import WAYS, StoreConfig

__all__ = ["DISTANT", "LONG", "NEAR", "SEED", "TAPS", "Access", "Counts", "Policy", "next_random"]

NEAR, LONG, DISTANT = 0, 2, 3
#: a row that comes in is "long" where these bits of the shift register are 0; neighbours would be 0 in runs
_RARELY = 0x4889
#: the state that the shift register begins with
SEED = 0xACE1
#: x^16 + x^14 + x^13 + x^11 + 1
TAPS = 0xB400


def next_random(state: int) -> int:
    """Return the next state of the 16-bit shift register, which has all states but 0."""
    return (state >> 1) ^ (TAPS if state & 1 else 0)


@dataclass(frozen=True)
class Access:
    """What an access does. `line`: that holds the row now, None where the row passes by; `evicted`: the row that gave way,
    `written`: whether it was changed, and so is written back."""

    hit: bool
    line: int | None
    evicted: int | None = None
    written: bool = False


@dataclass
class Counts:
    """Rows that were asked for, found, fetched from memory and written back to it."""

    lookups: int = 0
    hits: int = 0
    fetched: int = 0
    written: int = 0


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
