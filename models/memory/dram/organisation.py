"""How a DRAM is divided: channels, pseudo-channels, ranks, bank groups, banks, rows, columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

#: what a constraint may hold within, from the whole device to one bank
LEVELS = ("device", "channel", "pseudo", "rank", "group", "bank")


class Address(NamedTuple):
    """A place in a DRAM. `bank` counts within its bank group, `column` in words of the data bus.

    Wherever an address is asked for, a plain tuple of its first six fields or all seven will do.
    """

    channel: int = 0
    pseudo: int = 0
    group: int = 0
    bank: int = 0
    row: int = 0
    column: int = 0
    rank: int = 0

    def within(self, level: str) -> tuple[int, ...]:
        """Return what names the channel, pseudo-channel, rank, group or bank that this lies in."""
        path = self.channel, self.pseudo, self.rank, self.group, self.bank
        return path[: LEVELS.index(level)]


@dataclass(frozen=True)
class Organisation:
    """Counts of each level in the one above, all powers of two."""

    width: int  #: bits of the data bus of a pseudo-channel (of a channel where there are none)
    rows: int
    columns: int  #: columns of a row
    banks: int = 4  #: banks of a bank group
    groups: int = 1
    ranks: int = 1
    pseudos: int = 1
    channels: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value!r}")
        if self.width % 8:
            raise ValueError(f"a data bus has whole bytes, not {self.width} bits")

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a bank: of its row buffer."""
        return self.columns * self.width // 8

    @property
    def banks_of_rank(self) -> int:
        return self.groups * self.banks

    @property
    def pseudo_bytes(self) -> int:
        """Bytes of a pseudo-channel (of a channel where there are none)."""
        return self.row_bytes * self.rows * self.banks_of_rank * self.ranks

    @property
    def channel_bytes(self) -> int:
        return self.pseudo_bytes * self.pseudos

    @property
    def bytes(self) -> int:
        """Bytes of all of it, the product of all counts."""
        return self.channel_bytes * self.channels

    def holds(self, address: Address) -> bool:
        """Return whether there is such a place."""
        counts = (
            self.channels,
            self.pseudos,
            self.groups,
            self.banks,
            self.rows,
            self.columns,
            self.ranks,
        )
        return all(0 <= at < count for at, count in zip(address, counts, strict=True))

    def banks_in(self, address: Address, level: str) -> Iterator[Address]:
        """Give the banks of the channel, pseudo-channel, rank, group or bank that `address` is in,
        with the row and column of `address`."""
        fixed = LEVELS.index(level)
        counts = (self.channels, self.pseudos, self.ranks, self.groups, self.banks)
        fields = [
            (at,) if place < fixed else range(count)
            for place, (at, count) in enumerate(zip(address.within("bank"), counts, strict=True))
        ]
        for channel, pseudo, rank, group, bank in product(*fields):
            yield Address(channel, pseudo, group, bank, address.row, address.column, rank)
