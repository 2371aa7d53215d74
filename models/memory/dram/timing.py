"""The times of a DRAM by the names of its standard, in cycles of its command clock; `commands` has the rules that they are for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from .organisation import Organisation

#: a channel of 8 Gb
HBM2 = Organisation(width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2)


#: HBM2 at 2 Gb/s a pin, but for the second cycle of its ACT
_HBM2_CYCLES = {
    # a burst's time on the data bus, which is half its beats where data move on both edges
    "nBL": 2,
    # from RD, and from WR, to the first cycle of data
    "nCL": 14,
    "nCWL": 5,
    # ACT to RD, and to WR, of the bank
    "nRCDRD": 14,
    "nRCDWR": 12,
    # PRE to ACT, ACT to PRE, ACT to ACT of a bank
    "nRP": 14,
    "nRAS": 34,
    "nRC": 48,
    # column command to column command of one kind, in different bank groups and in the same one
    "nCCDS": 2,
    "nCCDL": 4,
    # ACT to ACT in different bank groups and in the same one; four ACTs to the next
    "nRRDS": 4,
    "nRRDL": 4,
    "nFAW": 15,
    # end of a write's data to RD, in different bank groups and in the same one
    "nWTRS": 6,
    "nWTRL": 8,
    # end of a write's data to PRE of the bank; RD to PRE of the bank
    "nWR": 16,
    "nRTP": 5,
    # refresh of all banks to the next command of the rank, and of one bank to that of the bank; with 0 single banks are not refreshed
    "nRFC": 350,
    "nRFCpb": 160,
    # refresh of a bank to ACT or to the refresh of another bank
    "nRREFD": 8,
    # from one refresh of all banks to the next, on average at most
    "nREFI": 3_900,
    # PRE to PRE of the rank
    "nPPD": 0,
    # between the data of two ranks
    "nRTRS": 2,
}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One DRAM at one speed. What is left out is that of HBM2."""

    #: what differs from HBM2 in cycles of the command clock (CK). "nRTW", RD to WR anywhere in a rank, is nCL + nBL + 2 - nCWL
    #: where nothing is said: two cycles for the data bus to turn
    figures: Mapping[str, int] = field(default_factory=dict, hash=False)
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
        if unknown := self.figures.keys() - {*_HBM2_CYCLES, "nRTW"}:
            raise TypeError(f"{self.name}: a DRAM has no {min(unknown)}")
        whole = {**self.figures, "beats": self.beats, "act_cycles": self.act_cycles}
        for name, value in whole.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{self.name}: {name} must be a whole number, not {value!r}")
        if self.beats & (self.beats - 1) or not 1 <= self["nBL"] <= self.beats:
            raise ValueError(
                f"{self.name}: {self.beats} beats do not pass in {self['nBL']} cycles of data"
            )
        if self["nREFI"] <= self["nRFC"] + self["nRP"] + self["nRC"]:
            raise ValueError(f"{self.name}: nREFI leaves no time between two refreshes")

    @cached_property
    def cycles(self) -> Mapping[str, int]:
        """Every time by its name."""
        cycles = {**_HBM2_CYCLES, **self.figures}
        return {"nRTW": cycles["nCL"] + cycles["nBL"] + 2 - cycles["nCWL"], **cycles}

    def __getitem__(self, name: str) -> int:
        """Return a time by its name."""
        return self.cycles[name]

    def with_(self, **changes: Any) -> Timing:
        """Return it with other figures and fields. Raises ValueError, and TypeError for what it does not have."""
        figures = {n: changes.pop(n) for n in [*changes] if re.match("n[A-Z]", n)}
        return replace(self, figures={**self.figures, **figures}, **changes)

    @property
    def burst_bytes(self) -> int:
        """Bytes that one RD or WR moves."""
        return self.beats * self.organisation.width // 8

    @property
    def read_latency(self) -> int:
        """RD to the end of its data."""
        return self["nCL"] + self["nBL"]

    @property
    def write_latency(self) -> int:
        """WR to the end of its data."""
        return self["nCWL"] + self["nBL"]

    @property
    def bandwidth(self) -> float:
        """Bytes a second of the pins of a pseudo-channel (a channel where there are none)."""
        return float(self.burst_bytes / self["nBL"] * self.clock_hz)

    def source(self, name: str) -> str:
        """Return where a figure comes from."""
        return self.sources.get(name) or self.sources.get("", "")
