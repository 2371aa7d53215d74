"""A table of rows and the store in front of it: sizes, where a row lies, in which line it may be held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["WAYS", "StoreConfig", "TableConfig", "row_bytes"]

#: lines of a set
WAYS = 8


def row_bytes(columns: Sequence[int], code_bytes: int) -> int:
    """Return the bytes of a row of models with so many columns each, which share it: the next power of two, at least a code."""
    needed = max(1, sum(columns)) * code_bytes
    return 1 << (needed - 1).bit_length()


@dataclass(frozen=True)
class TableConfig:
    """A table in memory.

    Parameters
    ----------
    rows: how many.
    bytes: of one, a power of two.
    ports: memory ports over which rows are striped, a power of two.
    base: address of the first row on each port.
    """

    rows: int
    bytes: int
    ports: int = 1
    base: int = 0

    def __post_init__(self) -> None:
        for name in ("bytes", "ports"):
            if (value := getattr(self, name)) < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value}")
        if self.rows < 1:
            raise ValueError(f"a table has at least one row, not {self.rows}")

    def port(self, row: int) -> int:
        """Return the port that a row lies on: row mod ports, with higher bits folded in, so that no stride stays on one port."""
        bits = (self.ports - 1).bit_length()
        folded = row
        while bits and (row := row >> bits):
            folded ^= row
        return folded & (self.ports - 1)

    def address(self, row: int) -> int:
        """Return the address of a row on its port: no two rows of a port share one."""
        return self.base + row // self.ports * self.bytes


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
