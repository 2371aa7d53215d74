"""Resources of a qr engine, estimated from its units."""

from __future__ import annotations

from ..mapping import Storage, map_storage, memory_blocks, multiplier_blocks
from ..numerics.formats import float32
from ..numerics.latency import Cost, convert_cost, cost
from ..resources import DEVICE as DEVICE_LUT
from ..resources import Resources, device_memories
from ..target import Target
from .config import FitPlan
from .job import Method
from .layout import ENTRY_BYTES, entry_counts
from .schedule import WIDEN_SHARED
from .storages import memories, strays

__all__ = ["estimate"]

#: the host's link and the memory's control
DEVICE = Cost(round(DEVICE_LUT), 600)
#: of a column of method `givens`: numbers that its lane holds, and what chooses among them (not synthesised, but for multipliers)
GIVENS_LANE = Cost(700, 330)
#: flip-flops, of those of units and parts: values wait beside pipelines (40,006 were synthesised of an engine of 9 columns on an ECP5)
DELAYS = 1.84
#: look-up tables, of those of units and parts: the same engine took 59,315, 2,596 of them in LUT RAM
BETWEEN = 1.29
#: on UltraScale+, whose look-up tables are wider: benchmarks/ultrascale.py
WIDER = 0.78


def estimate(config: FitPlan, target: Target) -> Resources:
    """Return what an engine is expected to take on `target`.

    The whole device is counted where the target has its memory and link on the chip (`Target.shared`). Integer products of two 9-bit numbers take
    one multiplier block each, label (32 bits) times byte two of 18 or more bits, float32 times byte one or two; float32 units as in `numerics.latency`.
    """
    shape, n, adders = target.multiplier, config.n_max, -(-config.n_max // WIDEN_SHARED)
    mul, add, div = (cost(op, float32, shape) for op in ("mul", "add", "div"))
    count = entry_counts(config)[-1]
    shared_lanes = config.gram_lanes < count
    total = Cost(
        9200 + 40 * config.bus_bytes, 5760 + 62 * config.bus_bytes
    )  # shell, ring, requests; what cuts and joins words
    total += n * Cost(160, 160, 2)  # labels times rows
    total += min(config.gram_lanes, count) * (
        Cost(60, 20, 1) if shared_lanes else Cost(68, 74, 1)
    ) + config.solvers * (config.lanes * (mul + add) + div)
    total += (config.bus_bytes // ENTRY_BYTES + 2) * convert_cost(
        ["int8"], float32
    ) + div  # the loader's
    if config.method is Method.GIVENS:
        total += n * GIVENS_LANE + Cost(0, 0, -1)  # the number of rows is two of the entries
    times = Cost(
        mul.lut, mul.ff, multiplier_blocks([(float32.fraction_bits + 1, 9, False)], target.family)
    )  # float32 by byte
    total += config.row_units * n * (times + add)
    if config.incremental:
        total += adders * add  # the segment's sums
    if config.row_units > 1 or n > 1:
        total += config.row_units * n * Cost(120, 120)  # suffix sums
    total += Cost(0, 0, multiplier_blocks(strays(config), target.family))
    held = list(memories(config))
    kept = list(held)
    if shared_lanes:  # else a lane's one entry is in registers
        slots = 2 * -(-count // config.gram_lanes)
        kept.append((config.gram_lanes, Storage(8 * ENTRY_BYTES, slots, 2, clocked=False)))
    cells = sum(copies * map_storage(memory, target.family).cells for copies, memory in kept)
    if target.shared is not None:
        total += DEVICE
        held += device_memories(config.bus_bytes, target.shared)
    lut = (WIDER if target.family == "amd" else BETWEEN) * total.lut
    return Resources(
        round(lut) + 4 * cells, round(DELAYS * total.ff), total.dsp, *memory_blocks(held, target)
    )
