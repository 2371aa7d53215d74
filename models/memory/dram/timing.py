"""What a DRAM's commands must keep apart, in cycles of its command clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from .organisation import Organisation

__all__ = ["Timing"]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One DRAM at one speed. All times are cycles of the command clock (CK).

    Parameters
    ----------
    name, title
        As `--memory` takes it, and in words.
    clock_hz
        Of the command clock, a whole number or a fraction.
    organisation
        What there is of it. A preset has one channel.
    BL
        Cycles that a burst takes on the data bus, not its beats: half of them where data move on both
        edges.
    beats
        Words of the data bus in a burst.
    CL, CWL
        From RD or WR to the first cycle of data.
    tRCDRD, tRCDWR
        ACT to RD and to WR of the bank.
    tRP, tRAS, tRC
        PRE to ACT, ACT to PRE, ACT to ACT of a bank.
    tCCD_S, tCCD_L
        From column command to column command of one kind, in different bank groups and in the same
        one.
    tRRD_S, tRRD_L, tFAW
        ACT to ACT in different bank groups and in the same one; four ACTs to the next.
    tWTR_S, tWTR_L
        End of a write's data to RD, in different bank groups and in the same one.
    tRTW
        RD to WR. Given as None it is CL + BL + 2 - CWL: two cycles for the data bus to turn.
    tWR, tRTP
        End of a write's data to PRE of the bank; RD to PRE of the bank.
    tRFCab, tRFCpb
        All-bank refresh to the next command of the rank; per-bank refresh to that of the bank.
        tRFCpb = 0: there is no per-bank refresh.
    tRREFD
        Per-bank refresh to ACT or another per-bank refresh of other banks.
    tREFI
        From one all-bank refresh to the next, on average at most.
    tRTRS
        Cycles between the data of two ranks.
    tPPD
        PRE to PRE of the rank.
    act_cycles
        Cycles that ACT takes on its command bus. A command's cycle is the last one of them, from
        which JEDEC counts.
    row_bus
        ACT, PRE and REF have a bus of their own, beside that of RD and WR.
    sources
        Where figures come from: by parameter, "" for those that are not named.
    """

    name: str
    title: str
    clock_hz: Fraction
    organisation: Organisation
    BL: int
    beats: int
    CL: int
    CWL: int
    tRCDRD: int
    tRCDWR: int
    tRP: int
    tRAS: int
    tRC: int
    tCCD_S: int
    tCCD_L: int
    tRRD_S: int
    tRRD_L: int
    tFAW: int
    tWTR_S: int
    tWTR_L: int
    tWR: int
    tRTP: int
    tRFCab: int
    tREFI: int
    tRTW: int | None = None
    tRFCpb: int = 0
    tRREFD: int = 0
    tRTRS: int = 2
    tPPD: int = 0
    act_cycles: int = 1
    row_bus: bool = False
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        if self.clock_hz <= 0:
            raise ValueError(f"{self.name}: the clock must be above 0, not {self.clock_hz}")
        for name, value in self.figures().items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{self.name}: {name} must be a whole number, not {value!r}")
        if self.beats & (self.beats - 1) or not 1 <= self.BL <= self.beats:
            raise ValueError(
                f"{self.name}: {self.beats} beats do not pass in {self.BL} cycles of data"
            )
        if self.tREFI <= self.tRFCab + self.tRP + self.tRC:
            raise ValueError(f"{self.name}: tREFI leaves no time between two refreshes")

    def figures(self) -> dict[str, int]:
        """Return every time by its name, those that follow from others as well."""
        return {
            name: value
            for name, value in {**vars(self), "tRTW": self.read_to_write}.items()
            if name in ("BL", "CL", "CWL", "beats", "act_cycles")
            or (name[0] == "t" and name[1].isupper())
        }

    def with_(self, **figures: Any) -> Timing:
        """Return it with other figures. Raises ValueError, and TypeError for what it does not have."""
        return replace(self, **figures)

    @property
    def read_to_write(self) -> int:
        """RD to WR anywhere in a rank."""
        return self.CL + self.BL + 2 - self.CWL if self.tRTW is None else self.tRTW

    @property
    def write_to_precharge(self) -> int:
        """WR to PRE of the bank."""
        return self.CWL + self.BL + self.tWR

    @property
    def burst_bytes(self) -> int:
        """Bytes that one RD or WR moves."""
        return self.beats * self.organisation.width // 8

    @property
    def read_latency(self) -> int:
        """RD to the end of its data."""
        return self.CL + self.BL

    @property
    def write_latency(self) -> int:
        """WR to the end of its data."""
        return self.CWL + self.BL

    @property
    def bandwidth(self) -> float:
        """Bytes a second of the pins of a pseudo-channel (a channel where there are none)."""
        return float(self.burst_bytes / self.BL * self.clock_hz)

    @property
    def refresh_share(self) -> float:
        """Part of all time that all-bank refreshes take: each closes the rows (tRP), lasts tRFC and
        is followed by an ACT (tRCD)."""
        return (self.tRFCab + self.tRP + self.tRCDRD) / self.tREFI

    def source(self, name: str) -> str:
        """Return where a figure comes from."""
        return self.sources.get(name) or self.sources.get("", "")
