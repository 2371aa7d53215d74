"""What the commands of units beside the banks must keep apart, in cycles of the DRAM's command clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..memory.dram.presets import PRESETS, preset
from ..memory.dram.timing import Timing

#: the name of no DRAM, but of an FPGA's own block RAM
ON_CHIP = "on-chip"
NAMES = (*PRESETS, ON_CHIP)
#: cycles of an iteration that units of a format need, and from the last one to its result
ITERATION = {"mx8": 3, "float16": 4}
LAST = 15
#: of units that take an iteration each cycle: cycles from a column's read to its write, and from the last write to the result
LATER, FAST = 8, 5
#: cycles from the end of a round beside block RAM until its results are kept
HELD = 2


@dataclass(frozen=True)
class PimTiming:
    """The figures that schedules need, named as in data sheets."""

    name: str
    burst: int  #: the data bus's time for 32 bytes
    tCCD_S: int  #: between two column commands in different bank groups
    tCCD_L: int  #: an iteration of a unit, and from transfer to transfer of registers or results
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
        if self.tCCD_L < 1:
            raise ValueError(f"{self.name}: an iteration takes a cycle at least, not {self.tCCD_L}")

    @classmethod
    def of(cls, timing: Timing) -> PimTiming:
        """Return those of a `models.memory.dram.timing.Timing`, as it has them."""
        burst = max(timing["nBL"] * 32 // timing.burst_bytes, 1)
        return cls(
            timing.name,
            burst,
            timing["nCCDS"],
            max(timing["nCCDL"], 2),
            timing["nRCDRD"],
            timing["nRP"],
            timing["nRAS"],
            max(timing["nRRDS"], timing["nRRDL"]),
            timing["nFAW"],
            timing["nWR"],
            timing["nRTP"],
            timing["nRTW"],
            timing["nWTRL"],
            timing["nREFI"],
            timing["nRFC"],
            timing["nRFCpb"],
            timing["nRREFD"],
            timing["nCWL"] + timing["nBL"] + timing["nWTRL"],
        )

    def with_(self, **figures: Any) -> PimTiming:
        """Return it with other figures."""
        return replace(self, **figures)


#: Pimba's preset as published, with its tRTW of 3 cycles
PIMBA = PimTiming.of(PRESETS["pimba"])


def timing_named(name: str, format: str = "mx8", fast: bool = False) -> PimTiming:
    """Return the figures that a device keeps with a preset of `models.memory.dram`. The data bus has to turn from read to
    write: tRTW is CL + BL + 2 − CWL at least, whatever the preset has.

    Of block RAM (`ON_CHIP`) no row is opened, nothing is refreshed, and no bus turns: what is left is the time of units of the `format`,
    an iteration each cycle where they are `fast` (MX8 without attend).

    Raises ValueError.
    """
    if name == ON_CHIP:
        none = dict.fromkeys(("tREFI", "tRFCab", "tRFCpb", "tRREFD"), 0)
        one = dict.fromkeys(("burst", "tCCD_S", "tRCD", "tRP", "tRAS", "tRRD", "tFAW", "tRTW"), 1)
        last = FAST if fast else LAST
        intervals = {"tCCD_L": 1 if fast else ITERATION[format], "tWR": last, "tRTP": last}
        return PimTiming(name, **none, **one, **intervals, tWTR=1, inner_write_to_read=1)
    try:
        dram = preset(name)
    except KeyError:
        raise ValueError(f"no timing {name!r}; there are {', '.join(NAMES)}") from None
    turned = dram["nCL"] + dram["nBL"] + 2 - dram["nCWL"]
    return PimTiming.of(dram).with_(tRTW=max(dram["nRTW"], turned))
