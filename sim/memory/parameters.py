"""DRAM and its controller as numbers, for `dram.hpp`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...models.memory.dram import DEPTH, Dram

__all__ = ["parameters"]


def parameters(memory: Dram) -> NDArray[np.int64]:
    """Return what `dram::Parameters` holds, in its order."""
    timing, parts = memory.timing, memory.timing.organisation
    if parts.ranks > 1:
        raise ValueError(f"{timing.name}: a controller has one rank")
    return np.array(
        [
            *(timing.BL, timing.CL, timing.CWL, timing.tRCDRD, timing.tRCDWR, timing.tRP),
            *(timing.tRAS, timing.tRC, timing.tCCD_S, timing.tCCD_L, timing.tRRD_S, timing.tRRD_L),
            *(timing.tFAW, timing.tWTR_S, timing.tWTR_L, timing.read_to_write, timing.tWR),
            *(timing.tRTP, timing.tRFCab, timing.tREFI, timing.tPPD, timing.act_cycles),
            *(timing.row_bus, parts.groups, parts.banks, parts.columns // timing.beats),
            *(parts.rows, timing.burst_bytes, DEPTH),
            *(memory.ratio.numerator, memory.ratio.denominator, memory.transit),
        ],
        dtype=np.int64,
    )
