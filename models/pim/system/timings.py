"""The memory's clocks: as published, or with row timings that keep their nanoseconds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .assumptions import Assumptions
from .rounds import RowTiming

__all__ = ["PUBLISHED_TIMING", "Clocks", "memory_timing"]


@dataclass(frozen=True)
class Clocks:
    """`penstock.models.pim.system.rounds.RowTiming` as numbers."""

    nBL: int
    nCCDL: int
    nRRDS: int
    nFAW: int
    nRCDRD: int
    nRAS: int
    nRTPL: int
    nWR: int
    nRP: int
    nREFI: int
    nRFC: int


#: Pimba (MICRO 2025), table 1; nRCDRD, nRRDS and nRFC from its public simulator
PUBLISHED_TIMING = Clocks(2, 4, 4, 30, 14, 34, 6, 16, 14, 3900, 350)
#: the clock for which those are right
_NOMINAL_MHZ = 1000


def memory_timing(mhz: float, assumptions: Assumptions) -> RowTiming:
    """Return clocks at `mhz`. The paper uses those of 1 GHz unchanged at 1.512 and 2.626 GHz; with
    `scaled_rows` all but bursts and distances of columns keep their nanoseconds, rounded up."""
    if not assumptions.scaled_rows:
        return PUBLISHED_TIMING
    timing = PUBLISHED_TIMING
    scale = mhz / _NOMINAL_MHZ

    def scaled(clocks: int) -> int:
        return math.ceil(clocks * scale)

    return Clocks(
        timing.nBL,
        timing.nCCDL,
        *(
            scaled(getattr(timing, name))
            for name in ("nRRDS", "nFAW", "nRCDRD", "nRAS", "nRTPL", "nWR", "nRP", "nREFI", "nRFC")
        ),
    )
