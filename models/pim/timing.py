"""What the commands of units beside the banks must keep apart, in cycles of the DRAM's command clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..memory.dram import PRESETS, Timing

__all__ = ["PIMBA", "PimTiming", "timing_named"]


@dataclass(frozen=True)
class PimTiming:
    """The figures that schedules need, named as in `models.memory.dram.Timing`.

    `burst` is the data bus's time for 32 bytes; `tCCD_L` that of one iteration of a unit, and between two
    transfers of registers or results; `tCCD_S` between column commands of different bank groups.
    """

    name: str
    burst: int
    tCCD_S: int
    tCCD_L: int
    tRCD: int
    tRP: int
    tRAS: int
    tRRD: int
    tFAW: int
    tWR: int
    tRTP: int
    tRTW: int
    tWTR: int
    tREFI: int
    tRFCab: int
    tRFCpb: int
    tRREFD: int
    inner_write_to_read: (
        int  #: CWL + BL + tWTR_L, of a bank whose accesses are charged as WR and RD
    )

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "name" and (not isinstance(value, int) or value < 0):
                raise ValueError(f"{self.name}: {name} must be a whole number, not {value!r}")
        if self.tCCD_L < 2:
            raise ValueError(
                f"{self.name}: an iteration takes 2 cycles at least, not {self.tCCD_L}"
            )

    @classmethod
    def of(cls, timing: Timing) -> PimTiming:
        """Return those of a `models.memory.dram.Timing`."""
        burst = max(timing.BL * 32 // timing.burst_bytes, 1)
        return cls(
            timing.name,
            burst,
            timing.tCCD_S,
            max(timing.tCCD_L, 2),
            timing.tRCDRD,
            timing.tRP,
            timing.tRAS,
            max(timing.tRRD_S, timing.tRRD_L),
            timing.tFAW,
            timing.tWR,
            timing.tRTP,
            timing.read_to_write,
            timing.tWTR_L,
            timing.tREFI,
            timing.tRFCab,
            timing.tRFCpb,
            timing.tRREFD,
            timing.CWL + timing.BL + timing.tWTR_L,
        )

    def with_(self, **figures: Any) -> PimTiming:
        """Return it with other figures."""
        return replace(self, **figures)


#: Pimba's preset
PIMBA = PimTiming.of(PRESETS["pimba"])


def timing_named(name: str) -> PimTiming:
    """Return the figures of a preset of `models.memory.dram`. Raises ValueError."""
    if name not in PRESETS:
        raise ValueError(f"no timing {name!r}; there are {', '.join(PRESETS)}")
    return PimTiming.of(PRESETS[name])
