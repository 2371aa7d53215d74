"""Resources of the engine for fits over numeric columns, estimated from its units."""

from __future__ import annotations

from ..mapping import map_storage, multiplier_blocks
from ..numerics.formats import float32
from ..numerics.latency import Cost, convert_cost, cost
from ..resources import Resources, device_memories, memory_blocks
from ..target import Target
from .resources import BETWEEN, DELAYS, DEVICE
from .table_engine import AHEAD, UNIT_BYTES, TableEngine

__all__ = ["estimate"]

_BITS = 8 * UNIT_BYTES


def estimate(engine: TableEngine, target: Target) -> Resources:
    """Return what an engine is expected to take on `target`, the whole device where the target has its memory and link on the chip."""
    columns, port, shape = engine.columns, engine.port, target.multiplier
    n, solver = columns.n, engine.solver
    mul, add, div = (cost(op, float32, shape) for op in ("mul", "add", "div"))
    width = columns.format.width
    # shell, requests, what cuts and joins words; Striders: their windows' shifters, converters and buffers
    total = Cost(2600 + 8 * engine.bus_bytes, 2200 + 16 * engine.bus_bytes)
    converters = max(port.elements(name) for name in port.types)
    shifter = 8 * engine.bus_bytes * max(1, engine.bus_bytes.bit_length() - 1) // 2
    total += engine.walkers * (Cost(1300 + shifter, 500 + 8 * engine.bus_bytes) + converters * convert_cost(port.types, columns.format))
    total += n * Cost(2 * width + 40, 2 * width + 20)                                   # values less offsets, and on their way
    blocks = multiplier_blocks([(18, 18)], target.family)
    operands = 18 * min(columns.slots, n)                                                # which of a row's values a lane takes
    total += columns.gram_lanes * Cost(2 * _BITS + 36 + operands, 2 * _BITS + 72, blocks)
    total += solver.lanes * (mul + add + Cost(130, 96)) + div + convert_cost(["int8"], float32)
    memories = [(columns.gram_lanes, _BITS, columns.slots, 1), (1, 8 * engine.bus_bytes, AHEAD, 1), (solver.lanes, 32, 2 * n, 1),
                (engine.walkers, n * width, engine.slots, 1), (engine.walkers, 8 * engine.bus_bytes, engine.buffers * port.words_per_page, 1)]
    bram = 0
    for copies, bits, depth, readers in memories:
        block, lut = memory_blocks(bits, depth, readers, target)
        bram, total = bram + copies * block, total + Cost(copies * lut)
    if target.shared is not None:
        total += DEVICE
        bram += sum(copies * map_storage(memory, target.family).blocks for copies, memory in device_memories(engine.bus_bytes, target.shared))
    return Resources(round((1.0 if target.family == "amd" else BETWEEN) * total.lut), round(DELAYS * total.ff), total.dsp, bram)
