"""What a DRAM's commands must keep apart, in cycles of its command clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from .organisation import Organisation

__all__ = ["HBM2", "Timing"]


#: a channel of 8 Gb
HBM2 = Organisation(width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One DRAM at one speed. All times are cycles of the command clock (CK).

    What is left out is that of HBM2 at 2 Gb/s a pin, but for the second cycle of its ACT.

    Parameters
    ----------
    nBL
        Cycles that a burst takes on the data bus, not its beats: half of them where data move on both
        edges.
    nCL, nCWL
        From RD or WR to the first cycle of data.
    nRCDRD, nRCDWR
        ACT to RD and to WR of the bank.
    nRP, nRAS, nRC
        PRE to ACT, ACT to PRE, ACT to ACT of a bank.
    nCCDS, nCCDL
        From column command to column command of one kind, in different bank groups and in the same
        one.
    nRRDS, nRRDL, nFAW
        ACT to ACT in different bank groups and in the same one; four ACTs to the next.
    nWTRS, nWTRL
        End of a write's data to RD, in different bank groups and in the same one.
    nRTW
        RD to WR. Given as None it is nCL + nBL + 2 - nCWL: two cycles for the data bus to turn.
    nWR, nRTP
        End of a write's data to PRE of the bank; RD to PRE of the bank.
    nRFC, nRFCpb
        All-bank refresh to the next command of the rank; per-bank refresh to that of the bank.
        nRFCpb = 0: there is no per-bank refresh.
    nRREFD
        Per-bank refresh to ACT or another per-bank refresh of other banks.
    nREFI
        From one all-bank refresh to the next, on average at most.
    nPPD
        PRE to PRE of the rank.
    nRTRS
        Cycles between the data of two ranks.
    name, title
        As `--memory` takes it, and in words.
    clock_hz
        Of the command clock, a whole number or a fraction.
    organisation
        What there is of it. A preset has one channel.
    beats
        Words of the data bus in a burst.
    act_cycles
        Cycles that ACT takes on its command bus. A command's cycle is the last one of them, from
        which JEDEC counts.
    row_bus
        ACT, PRE and REF have a bus of their own, beside that of RD and WR.
    sources
        Where figures come from: by parameter, "" for those that are not named.
    """

    nBL: int = 2
    nCL: int = 14
    nCWL: int = 5
    nRCDRD: int = 14
    nRCDWR: int = 12
    nRP: int = 14
    nRAS: int = 34
    nRC: int = 48
    nCCDS: int = 2
    nCCDL: int = 4
    nRRDS: int = 4
    nRRDL: int = 4
    nFAW: int = 15
    nWTRS: int = 6
    nWTRL: int = 8
    nRTW: int | None = None
    nWR: int = 16
    nRTP: int = 5
    nRFC: int = 350
    nRFCpb: int = 160
    nRREFD: int = 8
    nREFI: int = 3_900
    nPPD: int = 0
    nRTRS: int = 2
    name: str = "timing"
    title: str = "a DRAM of one's own"
    clock_hz: Fraction = Fraction(1_000_000_000)
    organisation: Organisation = HBM2
    beats: int = 4
    act_cycles: int = 1
    row_bus: bool = True
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
