"""In which order rows are asked of DRAM, and at which addresses, so that its banks work side by side.

A controller that serves requests in order waits for the bank of each. So rows are asked for in an order that spreads them: of
a window of waiting ones, that goes first whose bank has been left alone for longest. And all of a row lies in one DRAM row, so
that one is opened for it, not one in each bank group that its bursts would go to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from penstock.models.memory.dram.controller import Mapping
from penstock.models.memory.dram.timing import Timing

__all__ = ["Placement", "in_bank_order", "least_clocks", "ordered_bursts"]


@dataclass(frozen=True)
class Placement:
    """Where the rows of a table lie in the bursts of one port's DRAM.

    Parameters
    ----------
    timing: which DRAM.
    bytes: of a row, a power of two.
    """

    timing: Timing
    bytes: int

    @property
    def bursts(self) -> int:
        """DRAM bursts of a row: 1 where several rows share one."""
        return max(1, self.bytes // self.timing.burst_bytes)

    def burst(self, number: int) -> int:
        """Return at which burst of the address space the burst of that number lies, counted through rows one after the other.

        Bits are exchanged, nothing else: the bank group takes low bits of the row's number, where it had those of the burst in
        the row. Rows that are longer than a DRAM row fill whole ones.
        """
        groups = self.timing.organisation.groups
        together = min(self.bursts, Mapping(self.timing).bursts)
        row, part = divmod(number, together)
        row, group = divmod(row, groups)
        return (row * together + part) * groups + group

    def of_row(self, row: int) -> list[int]:
        """Return the bursts of a row, in order."""
        first = row * self.bytes // self.timing.burst_bytes
        return [self.burst(first + part) for part in range(self.bursts)]

    def bank_of(self, row: int) -> tuple[int, int]:
        """Return the group and the bank in it of a row's first burst."""
        at = Mapping(self.timing).address(self.of_row(row)[0])
        return at.group, at.bank


def in_bank_order(banks: Iterable[tuple[int, int]], window: int) -> Iterator[int]:
    """Yield the numbers of rows, whose groups and banks are given, in the order in which they are asked for.

    Of the first `window` ≥ 1 that wait, one goes first that is not of the group of the row before, where there is one; among
    those that whose bank was used least recently; of equals the oldest. So rows of one bank keep their order.
    """
    waiting: deque[tuple[int, tuple[int, int]]] = deque()
    used: dict[tuple[int, int], int] = {}
    source, more = enumerate(banks), True
    turn, group = 0, -1
    while more or waiting:
        while more and len(waiting) < window:
            row = next(source, None)
            more = row is not None
            if row is not None:
                waiting.append(row)
        if waiting:
            keys = [(bank[0] == group, used.get(bank, -1)) for _, bank in waiting]
            chosen = keys.index(min(keys))
            number, bank = waiting[chosen]
            del waiting[chosen]
            group, used[bank], turn = bank[0], turn, turn + 1
            yield number


def ordered_bursts(placement: Placement, rows: Sequence[int], window: int) -> Iterator[int]:
    """Yield the bursts of rows in the order in which they are asked of the DRAM.

    Where it has bank groups, the bursts of two rows that follow each other take turns: one group cannot have its next burst as
    soon as another.
    """
    taken = in_bank_order((placement.bank_of(row) for row in rows), window)
    at_once = 2 if placement.timing.organisation.groups > 1 else 1
    while parts := [placement.of_row(rows[n]) for n in islice(taken, at_once)]:
        for bursts in zip(*parts, strict=True):
            yield from bursts


def least_clocks(timing: Timing, row_bytes: int) -> Fraction:
    """Return the fewest DRAM clocks that a row at random takes, in the long run, whoever orders the requests.

    Each opens a row in a bank of its own (four activations in nFAW, one in nRRDS, and one of a bank in nRC), and moves its
    bursts (one in nCCDS); refreshes take their share of all clocks.
    """
    parts = timing.organisation
    gap = timing["nCCDS"] if parts.groups > 1 else timing["nCCDL"]
    clocks = max(
        Fraction(timing["nFAW"], 4),
        Fraction(timing["nRRDS"] if parts.groups > 1 else timing["nRRDL"]),
        Fraction(timing["nRC"], parts.banks_of_rank),
        Fraction(Placement(timing, row_bytes).bursts * max(timing["nBL"], gap)),
    )
    return clocks / (1 - Fraction(timing["nRFC"], timing["nREFI"]))
