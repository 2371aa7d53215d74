"""DRAM and its controller as numbers, for `dram.hpp`."""

import numpy as np
from numpy.typing import NDArray

from ...models.memory.dram.controller import DEPTH
from ...models.memory.dram.memory import Dram

_TIMES = """
nBL nCL nCWL nRCDRD nRCDWR nRP nRAS nRC nCCDS nCCDL nRRDS nRRDL nFAW nWTRS nWTRL nRTW nWR nRTP nRFC nREFI nPPD
"""


def parameters(memory: Dram) -> NDArray[np.int64]:
    """Return what `dram::Parameters` holds, in its order."""
    timing, parts = memory.timing, memory.timing.organisation
    if parts.ranks > 1:
        raise ValueError(f"{timing.name}: a controller has one rank")
    return np.array(
        [
            *(timing[name] for name in _TIMES.split()),
            *(
                timing.act_cycles,
                timing.row_bus,
                parts.groups,
                parts.banks,
                parts.columns // timing.beats,
            ),
            *(parts.rows, timing.burst_bytes, DEPTH),
            *(memory.ratio.numerator, memory.ratio.denominator, memory.transit),
        ],
        dtype=np.int64,
    )
