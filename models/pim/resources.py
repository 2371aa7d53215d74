"""What a device is expected to take of a part."""

from collections.abc import Iterator

from ..mapping import Storage, memory_blocks
from ..memory.prefetcher import Prefetcher
from ..resources import CONTROL, DEVICE, SHELL, UNITS, Resources, device_memories
from ..target import Target
from .config import COLUMNS, TILE, PimConfig
from .softmax import LIMIT

#: LUTs, flip-flops and multipliers of an ECP5 for one unit (`benchmarks/area.py`), and for one pair's registers, random
#: bits and results
_UNIT = {"mx8": (21323, 5298, 32), "float16": (15976, 6310, 32)}
_PAIR = {"mx8": (6900, 5290, 0), "float16": (5360, 4580, 0)}
#: flip-flops of a pair beside block RAM that hold operands of the next round and results of the last
_HELD = {"mx8": 2960, "float16": 3080}
#: the command stream, the timing check and the result path: what synthesis of whole devices has besides (docs/explanation/pim.md)
_CONTROL = (2400, 860, 0)
#: the softmax unit of two items (`cells` of `benchmarks/area.py`)
_SOFTMAX = {"mx8": (4620, 1800, 4), "float16": (2900, 1480, 4)}


def memories(config: PimConfig) -> Iterator[tuple[int, Storage]]:
    """Yield (copies, memory): the banks; words of the program; of the softmax unit the parts of scores, their sums and the words of slots."""
    yield 2 * config.pairs, Storage(256, config.rows * COLUMNS)
    yield 1, Storage(8 * config.bus, Prefetcher.DEPTH)
    if slots := 2 * config.soft_items:
        yield 1, Storage(256, 2 * slots * config.soft_parts_wide * config.result_reads)
        yield 1, Storage(LIMIT + 1, TILE)
        yield 1, Storage(256, slots * config.soft_words, clocked=False)


def resources_of(config: PimConfig, part: Target) -> Resources:
    """Return what a device takes of a part, the shell with it; link and memory as well where the part has
    them on the chip."""
    units = 2 // config.design.banks
    lut, ff, dsp = (
        control + config.pairs * (units * unit + pair) + (config.soft_items > 0) * softmax
        for control, unit, pair, softmax in zip(
            _CONTROL, *(table[config.format] for table in (_UNIT, _PAIR, _SOFTMAX)), strict=True
        )
    )
    ff += config.chip * config.pairs * _HELD[config.format]
    if config.fast:  # a multiplier for each product; look-up tables as of units that share one
        dsp *= 3
    held = list(memories(config))
    around = SHELL
    if part.shared is not None:
        held += device_memories(config.bus, part.shared)
        around += round(DEVICE)
    return Resources(
        round(lut * UNITS[part.family] + around * CONTROL[part.family]),
        ff + 900,
        dsp if part.dsp else 0,
        *memory_blocks(held, part),
    )
