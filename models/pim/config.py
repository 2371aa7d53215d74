"""What a device with state-update units is: its banks, its units and their format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from .timing import FAST, ITERATION, LAST, LATER, ON_CHIP, PIMBA, PimTiming

#: sub-chunks of a row, each of 32 bytes
COLUMNS = 32
#: rows of a bank, at most: a row's address has 16 bits
MOST_ROWS = 1 << 16
#: keys that the softmax unit takes together
TILE = 2 * COLUMNS


class Design(Enum):
    """How units and banks go together. Each is (banks of a unit, slots a column, name in words).

    A *slot* is one COMP command. PIMBA: a unit serves two banks, whose reads and writes alternate.
    PER_BANK: each bank has a pipelined unit, of which every other slot writes. TIME_MULTIPLEXED: each bank
    has a unit that takes one step of a column in each slot. HBM_PIM: one such unit for two banks.
    """

    PIMBA = "pimba", 2, 1
    PER_BANK = "per-bank", 1, 2
    TIME_MULTIPLEXED = "time-multiplexed", 1, 4
    HBM_PIM = "hbm-pim", 2, 4

    def __init__(self, label: str, banks: int, spacing: int) -> None:
        self.label, self.banks, self.spacing = label, banks, spacing

    @property
    def slots(self) -> int:
        """COMP commands that a row takes as published: one for each column's turn."""
        return COLUMNS * self.banks * self.spacing

    def drained(self, lag: int) -> int:
        """COMP commands until the last column is written: a write comes `lag` slots after its read."""
        last = (COLUMNS * self.banks - 1) * self.spacing
        return max(self.slots, last + lag + 1)

    @classmethod
    def named(cls, label: str) -> Design:
        """Return the design of a name. Raises ValueError."""
        for design in cls:
            if design.label == label:
                return design
        raise ValueError(f"no design {label!r}; there are {', '.join(d.label for d in cls)}")


@dataclass(frozen=True)
class PimConfig:
    """A device: one pseudo-channel."""

    format: str = "mx8"  #: "mx8" or "float16", of the state and of all operands
    stochastic: bool = False  #: the new state is rounded stochastically (MX8 alone)
    groups: int = 4  #: bank groups
    banks: int = 4  #: of each group, an even number
    rows: int = 64  #: of a bank, of 1 KB each
    design: Design = Design.PIMBA  #: how units and banks go together
    #: sets of bank groups that work staggered; 1: all banks open and close rows together
    sets: int = 1
    bank_local: bool = False  #: COMPs of different bank groups need not keep tCCD_S
    timing: PimTiming = PIMBA  #: of the DRAM
    #: "none", "window" (rounds do not cross a multiple of tREFI, and no refresh is issued: as
    #: published), "all-bank" or "per-bank"
    refresh: str = "none"
    #: items (heads of requests) of which the softmax unit keeps scores, 0 where there is none
    soft_items: int = 0
    soft_parts: int = 0  #: parts that a score is the sum of (`models.pim.softmax`)
    bus: int = 8  #: bytes of a word of the memory port: 8 or 32
    stripes: int = 1  #: pairs of banks over which the columns of a state are dealt

    def __post_init__(self) -> None:
        if self.format not in ("mx8", "float16"):
            raise ValueError(f"units compute in mx8 or float16, not in {self.format}")
        if self.stochastic and self.format != "mx8":
            raise ValueError("float16 is rounded to nearest")
        if self.banks < 2 or self.banks % 2 or self.banks & (self.banks - 1):
            raise ValueError(f"a bank group has 2, 4, … banks, not {self.banks}")
        if not 1 <= self.groups <= 8 or self.groups & (self.groups - 1):
            raise ValueError(f"there are 1, 2, 4 or 8 bank groups, not {self.groups}")
        if self.sets not in (1, 2, 4) or self.groups % self.sets:
            raise ValueError(f"{self.groups} bank groups cannot work as {self.sets} sets")
        if self.refresh not in ("none", "window", "all-bank", "per-bank"):
            raise ValueError(f"no refresh {self.refresh!r}")
        if self.bus not in (8, 32):
            raise ValueError(f"the port is 8 or 32 bytes wide, not {self.bus}")
        if not 1 <= self.rows <= MOST_ROWS:
            raise ValueError(f"a bank has 1 to {MOST_ROWS} rows, not {self.rows}")
        if self.soft_items and self.sets > 1:
            raise ValueError("the softmax unit serves one set of bank groups")
        if self.soft_items > self.most_soft_items:
            raise ValueError(f"the softmax unit keeps {self.most_soft_items} items at most")

    @property
    def lanes(self) -> int:
        """Numbers of a sub-chunk: 32 bytes."""
        return 32 if self.format == "mx8" else 16

    @property
    def pairs(self) -> int:
        """Pairs of banks: those that share a dim_state range, upper and bottom."""
        return self.groups * self.banks // 2

    @property
    def chip(self) -> bool:
        """Whether the banks are an FPGA's own block RAM: nothing but its parts keeps commands apart, and an operand of several banks is sent
        once. Beside the softmax unit all is as beside a DRAM."""
        return self.timing.name == ON_CHIP and not self.soft_items

    @property
    def fast(self) -> bool:
        """Whether units take an iteration each cycle."""
        return self.timing.tCCD_L == 1

    @property
    def lag(self) -> int:
        """Slots from the read of a column until it is written."""
        return LATER if self.fast else 3

    @property
    def last(self) -> int:
        """Cycles from the last slot to its result, at least."""
        return FAST if self.fast else LAST

    @property
    def too_fast(self) -> str:
        """In words, which time of the banks is shorter than what units need; nothing where none is."""
        least = 1 if self.fast else ITERATION[self.format]
        close = max(self.timing.tRTP, self.timing.tWR)
        if self.interval < least:
            return f"an iteration takes {least} cycles, column commands come every {self.interval} (tCCD)"
        if close < self.last:
            return (
                f"a result is ready {self.last} cycles after the last iteration, and rows close "
                f"{close} cycles after it (the longer of tWR and tRTP)"
            )
        return ""

    @property
    def transfer(self) -> int:
        """Cycles that a transfer of an operand or a result takes."""
        return 1 if self.chip else max(self.timing.burst, self.timing.tCCD_L)

    @property
    def ahead(self) -> int:
        """Commands with their data that the device holds: a wide port is meant to be busy while units are."""
        return 16 if self.bus == 8 else 64

    @property
    def interval(self) -> int:
        """Cycles from COMP to COMP of a set."""
        if self.chip:
            return self.timing.tCCD_L
        apart = 1 if self.bank_local else max(1, self.timing.tCCD_S)
        return max(self.timing.tCCD_L, apart * self.sets if self.sets > 1 else 0)

    @property
    def result_reads(self) -> int:
        """Transfers of 32 bytes that the results of one pair and row take."""
        return 1 if self.format == "mx8" else 2

    @property
    def soft_parts_wide(self) -> int:
        """Places of a score's parts in the softmax unit: a power of two."""
        return 1 << max(self.soft_parts - 1, 0).bit_length()

    @property
    def most_soft_items(self) -> int:
        """As many as their places and words have numbers of 16 bits."""
        return (1 << 16) // (2 * self.result_reads * max(2 * self.soft_parts_wide, 4))

    @property
    def soft_words(self) -> int:
        """Places of a slot's words there: a power of two."""
        return 4 * self.result_reads

    @property
    def tile_cycles(self) -> int:
        """Cycles that the softmax unit takes over a tile of an item, from its last part on: the sums, then the weights, with the ranks between."""
        return TILE * (self.soft_parts + 1) + 16

    def set_groups(self, number: int) -> tuple[int, ...]:
        each = self.groups // self.sets
        return tuple(range(number * each, (number + 1) * each))

    def to_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        return {**asdict(self), "design": self.design.label}

    @classmethod
    def from_json(cls, data: Any) -> PimConfig:
        values = dict(data)
        values["design"] = Design.named(values["design"])
        values["timing"] = PimTiming(**values["timing"])
        return cls(**values)
