"""Blocks of suffix sums: ranks' c = Aᵀb kept exact at a cost that grows with the changes and the logarithm of the rows.

A new row at rank p moves every row behind it, so c grows by the sum of these rows. Rows lie in leaves of up to `LEAF`; above them a tree of fixed shape, `FAN`
children a node, holds each child's column sums (of bytes, no offsets), in just enough bits: a child over r rows needs 8 + log2 r bits a column. The host keeps
the same leaves and names leaf and place; the engine's walk over a batch goes from the last change to the first and reads each word once.

The sum behind a place: rows behind it in its leaf, then, at each level, the later children of its node; or, where these are more, the node's own entry one
level up (which the change reads and writes anyway) less the child's and the earlier children's. A change adds to or takes from one entry a level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .job import Integers, Rows
from .layout import row_stride

__all__ = ["FAN", "LEAF", "Blocks", "Traffic"]

#: rows that a leaf holds at most; a fresh one has half of them
LEAF = 16
#: children of a node
FAN = 8


@dataclass(frozen=True)
class Traffic:
    """Bus words that a batch reads and writes."""

    read: int
    written: int


class Blocks:
    """The blocks of one group.

    Parameters
    ----------
    rows
        uint8 (m, length), in order.
    bus_bytes
        Bytes of a bus word, for `Traffic`.
    """

    def __init__(self, rows: Rows, bus_bytes: int = 64) -> None:
        self.length, self.bus_bytes = rows.shape[1], bus_bytes
        self.leaves = [rows[at:at + LEAF // 2] for at in range(0, max(len(rows), 1), LEAF // 2)]
        self.levels: list[Integers] = [np.array([leaf.astype(np.int64).sum(axis=0) for leaf in self.leaves])]
        while len(self.levels[-1]) > FAN:
            below = self.levels[-1]
            padded = np.concatenate([below, np.zeros((-len(below) % FAN, self.length), dtype=np.int64)])
            self.levels.append(padded.reshape(-1, FAN, self.length).sum(axis=1))

    @property
    def words(self) -> int:
        """Bus words of the whole."""
        nodes = sum(-(-len(sums) // FAN) * -(-FAN * self.entry_bytes(level) // self.bus_bytes) for level, sums in enumerate(self.levels))
        return nodes + -(-len(self.leaves) * LEAF * row_stride(self.length) // self.bus_bytes)

    def place(self, rank: int) -> tuple[int, int]:
        """The leaf and place of the row with this rank (or of the end): what the host knows."""
        ends = np.cumsum([len(leaf) for leaf in self.leaves])
        leaf = min(int(np.searchsorted(ends, rank, side="left")), len(self.leaves) - 1)
        return leaf, rank - int(ends[leaf]) + len(self.leaves[leaf])

    def behind(self, leaf: int, place: int) -> Integers:
        """Column sums of all rows from this place on."""
        total: Integers = self.leaves[leaf][place:].astype(np.int64).sum(axis=0)
        node = leaf
        for sums in self.levels:
            first = node - node % FAN
            total = total + sums[node + 1:first + FAN].sum(axis=0)
            node //= FAN
        return total

    def insert(self, leaf: int, place: int, row: NDArray[np.uint8]) -> bool:
        """Put a row in front of this place; False, and nothing done, where the leaf is full: the host then asks for a full job."""
        rows = self.leaves[leaf]
        if len(rows) == LEAF:
            return False
        self.leaves[leaf] = np.concatenate([rows[:place], row[None], rows[place:]])
        self._add(leaf, row.astype(np.int64))
        return True

    def remove(self, leaf: int, place: int) -> None:
        """Take the row at this place out."""
        rows = self.leaves[leaf]
        self._add(leaf, -rows[place].astype(np.int64))
        self.leaves[leaf] = np.delete(rows, place, axis=0)

    def _add(self, node: int, row: Integers) -> None:
        for sums in self.levels:
            sums[node] += row
            node //= FAN

    def entry_bytes(self, level: int) -> int:
        """Bytes of one child's sums at this level (0: leaves)."""
        rows = LEAF * FAN ** level
        return -(-self.length * (8 + rows.bit_length() - 1) // 8)

    def traffic(self, places: list[tuple[int, int]]) -> Traffic:
        """Words that a batch of changes at these places reads and writes: rows from the first change in a leaf on; each changed child on the way, and its
        siblings on the shorter side.
        """
        read = written = 0
        first: dict[int, int] = {}
        for leaf, place in places:
            first[leaf] = min(first.get(leaf, LEAF), place)
        stride = row_stride(self.length)
        for leaf, place in first.items():
            span = len(range(place * stride // self.bus_bytes, -(-len(self.leaves[leaf]) * stride // self.bus_bytes)))
            read += span
            written += max(span, 1)
        changed = set(first)
        for level in range(len(self.levels)):
            size = self.entry_bytes(level)
            base = -(-FAN * size // self.bus_bytes)              # a node's children begin on a bus word
            touched: set[int] = set()
            own: set[int] = set()
            for node in changed:
                parent, child = divmod(node, FAN)
                later = FAN - 1 - child <= child or level + 1 == len(self.levels)
                begin, end = (child, FAN) if later else (0, child + 1)
                words = range(begin * size // self.bus_bytes, (end * size - 1) // self.bus_bytes + 1)
                touched.update(parent * base + word for word in words)
                own.update(parent * base + word for word in range(child * size // self.bus_bytes, (child * size + size - 1) // self.bus_bytes + 1))
            read, written = read + len(touched), written + len(own)
            changed = {node // FAN for node in changed}
        return Traffic(read, written)
