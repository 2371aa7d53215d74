"""What a device is expected to take of a part."""

from __future__ import annotations

from ..resources import SCALE, SHELL, Resources, memory_blocks
from ..target import Capacity
from .config import COLUMNS, PimConfig

__all__ = ["resources_of"]

#: LUTs, flip-flops and multipliers of an ECP5 for one unit, and for one pair's registers and results.
#: Guesses that no synthesis has confirmed but for the results of MX8: `benchmarks/pim_area.py` measures them
_UNIT = {"mx8": (14500, 5200, 0), "float16": (16500, 9500, 48)}
_PAIR = {"mx8": (6500, 3700, 0), "float16": (5500, 3900, 0)}
#: the command stream, the timing check and the result path
_DEVICE = (2600, 1500, 0)


def resources_of(config: PimConfig, part: Capacity) -> Resources:
    """Return what a device takes of a part, the shell with it."""
    units = 2 // config.design.banks
    scale = SCALE.get(part.family, 1.0)
    lut, ff, dsp = (
        device + config.pairs * (units * unit + pair)
        for device, unit, pair in zip(
            _DEVICE, _UNIT[config.format], _PAIR[config.format], strict=True
        )
    )
    blocks, more = memory_blocks(256, config.rows * COLUMNS, 1, part)
    banks = config.groups * config.banks
    return Resources(
        round((lut + SHELL + banks * more) * scale), ff + 900, dsp, banks * blocks + 12
    )
