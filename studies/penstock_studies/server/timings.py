"""The memory's clocks: as published, or with row timings that keep their nanoseconds."""

import math

from penstock.models.memory.dram.presets import PRESETS
from penstock.models.memory.dram.timing import Timing

from .assumptions import Assumptions

#: the clock for which the published figures are right
_NOMINAL_MHZ = 1000
#: what takes nanoseconds, whatever the clock; bursts and the distances of columns take clocks
_ROWS = ("nRRDS", "nFAW", "nRCDRD", "nRAS", "nRC", "nRTP", "nWR", "nRP", "nREFI", "nRFC")


def memory_timing(mhz: float, assumptions: Assumptions) -> Timing:
    """Return clocks at `mhz`. The paper uses those of 1 GHz unchanged at 1.512 and 2.626 GHz; with
    `scaled_rows` those of rows keep their nanoseconds, rounded up."""
    timing = PRESETS["pimba"]
    if not assumptions.scaled_rows:
        return timing
    scale = mhz / _NOMINAL_MHZ
    return timing.with_(**{name: math.ceil(timing[name] * scale) for name in _ROWS})
