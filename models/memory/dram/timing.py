"""What a DRAM's commands must keep apart, in cycles of its command clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from .organisation import Organisation

#: a channel of 8 Gb
HBM2 = Organisation(width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One DRAM at one speed. All times are cycles of the command clock (CK).

    What is left out is that of HBM2 at 2 Gb/s a pin, but for the second cycle of its ACT.
    """

    #: a burst's time on the data bus, which is half its beats where data move on both edges
    nBL: int = 2
    #: from RD, and from WR, to the first cycle of data
    nCL: int = 14
    nCWL: int = 5
    #: ACT to RD, and to WR, of the bank
    nRCDRD: int = 14
    nRCDWR: int = 12
    #: PRE to ACT, ACT to PRE, ACT to ACT of a bank
    nRP: int = 14
    nRAS: int = 34
    nRC: int = 48
    #: column command to column command of one kind, in different bank groups and in the same one
    nCCDS: int = 2
    nCCDL: int = 4
    #: ACT to ACT in different bank groups and in the same one; four ACTs to the next
    nRRDS: int = 4
    nRRDL: int = 4
    nFAW: int = 15
    #: end of a write's data to RD, in different bank groups and in the same one
    nWTRS: int = 6
    nWTRL: int = 8
    #: RD to WR; None is nCL + nBL + 2 - nCWL: two cycles for the data bus to turn
    nRTW: int | None = None
    #: end of a write's data to PRE of the bank; RD to PRE of the bank
    nWR: int = 16
    nRTP: int = 5
    #: refresh of all banks to the next command of the rank, and of one bank to that of the bank; with 0 single banks are not refreshed
    nRFC: int = 350
    nRFCpb: int = 160
    #: refresh of a bank to ACT or to the refresh of another bank
    nRREFD: int = 8
    #: from one refresh of all banks to the next, on average at most
    nREFI: int = 3_900
    #: PRE to PRE of the rank
    nPPD: int = 0
    #: between the data of two ranks
    nRTRS: int = 2
    #: as `--memory` takes it, and in words
    name: str = "timing"
    title: str = "a DRAM of one's own"
    #: of the command clock
    clock_hz: Fraction = Fraction(1_000_000_000)
    #: a preset has one channel
    organisation: Organisation = HBM2
    #: whose table of `commands.STANDARDS` its commands keep
    standard: str = "HBM2"
    #: words of the data bus in a burst
    beats: int = 4
    #: of ACT on its command bus; a command's cycle is the last one of them, from which JEDEC counts
    act_cycles: int = 1
    #: ACT, PRE and REF have a bus of their own, beside that of RD and WR
    row_bus: bool = True
    #: where figures come from: by parameter, "" for those that are not named
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        if self.clock_hz <= 0:
            raise ValueError(f"{self.name}: the clock must be above 0, not {self.clock_hz}")
        for name, value in self.figures().items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{self.name}: {name} must be a whole number, not {value!r}")
        if self.beats & (self.beats - 1) or not 1 <= self.nBL <= self.beats:
            raise ValueError(
                f"{self.name}: {self.beats} beats do not pass in {self.nBL} cycles of data"
            )
        if self.nREFI <= self.nRFC + self.nRP + self.nRC:
            raise ValueError(f"{self.name}: nREFI leaves no time between two refreshes")

    def figures(self) -> dict[str, int]:
        """Return every time by its name, those that follow from others as well."""
        return {
            name: value
            for name, value in {**vars(self), "nRTW": self.read_to_write}.items()
            if name in ("beats", "act_cycles") or (name[0] == "n" and name[1].isupper())
        }

    def with_(self, **figures: Any) -> Timing:
        """Return it with other figures. Raises ValueError, and TypeError for what it does not have."""
        return replace(self, **figures)

    @property
    def read_to_write(self) -> int:
        """RD to WR anywhere in a rank."""
        return self.nCL + self.nBL + 2 - self.nCWL if self.nRTW is None else self.nRTW

    @property
    def write_to_precharge(self) -> int:
        """WR to PRE of the bank."""
        return self.nCWL + self.nBL + self.nWR

    @property
    def burst_bytes(self) -> int:
        """Bytes that one RD or WR moves."""
        return self.beats * self.organisation.width // 8

    @property
    def read_latency(self) -> int:
        """RD to the end of its data."""
        return self.nCL + self.nBL

    @property
    def write_latency(self) -> int:
        """WR to the end of its data."""
        return self.nCWL + self.nBL

    @property
    def bandwidth(self) -> float:
        """Bytes a second of the pins of a pseudo-channel (a channel where there are none)."""
        return float(self.burst_bytes / self.nBL * self.clock_hz)

    def source(self, name: str) -> str:
        """Return where a figure comes from."""
        return self.sources.get(name) or self.sources.get("", "")
