"""Resources of a qr engine, estimated from its units."""

from __future__ import annotations

from ..mapping import map_storage, multiplier_blocks
from ..numerics.formats import float32
from ..numerics.latency import Cost, convert_cost, cost
from ..resources import DEVICE as DEVICE_LUT
from ..resources import Resources, device_memories, memory_blocks
from ..target import Target
from .config import FitPlan
from .job import Bounds, Method
from .layout import ENTRY_BYTES, Size, block_words, frame_words, held_words
from .ranks import BLOCK_BITS
from .rotations import RING
from .schedule import WIDEN_SHARED

__all__ = ["estimate"]

#: the host's link and the memory's control
DEVICE = Cost(round(DEVICE_LUT), 600)
#: multiplier blocks that Yosys makes of products with constants (sizes), and that of h and a column's sum
STRAY = 11
#: flip-flops, of those of units and parts: values wait beside pipelines (40,006 were synthesised of an engine of 9 columns on an ECP5)
DELAYS = 1.84
#: look-up tables, of those of units and parts: the same engine took 59,315 with its LUT RAM
BETWEEN = 1.34


def estimate(config: FitPlan, target: Target) -> Resources:
    """Return what an engine is expected to take on `target`.

    The whole device is counted where the target has its memory and link on the chip (`Target.shared`). Integer products of two 9-bit numbers take
    one multiplier block each, label (32 bits) times byte two of 18 or more bits, float32 times byte one or two; float32 units as in `numerics.latency`.
    """
    shape, n, adders = target.multiplier, config.n_max, -(-config.n_max // WIDEN_SHARED)
    mul, add, div = (cost(op, float32, shape) for op in ("mul", "add", "div"))
    triangle = n * (n + 1) // 2
    shared_lanes = config.gram_lanes < triangle
    total = Cost(
        9200 + 40 * config.bus_bytes, 5760 + 62 * config.bus_bytes
    )  # shell, ring, requests; what cuts and joins words
    total += n * Cost(160, 160, 2)  # labels times rows
    if config.method is Method.GRAM:
        total += config.gram_lanes * (
            Cost(60, 20, 1) if shared_lanes else Cost(68, 74, 1)
        ) + config.solvers * (config.lanes * (mul + add) + div)
        total += (config.bus_bytes // ENTRY_BYTES + 2) * convert_cost(
            ["int8"], float32
        ) + div  # the loader's
    else:
        total += (
            config.vectors * config.lanes * (3 * mul + 2 * add)
            + 3 * mul
            + add
            + 3 * div
            + 5 * convert_cost(["int8"], float32)
        )
        total += n * Cost(300, 300, 1) + config.contexts * n * Cost(
            40, 16
        )  # sums of squares; places before the columns
    times = Cost(
        mul.lut, mul.ff, multiplier_blocks([(float32.fraction_bits + 1, 9)], target.family)
    )  # float32 by byte
    total += config.row_units * n * (times + add)
    if config.bounds is Bounds.WIDENED:
        total += adders * add  # the segment's sums
    if config.row_units > 1 or n > 1:
        total += config.row_units * n * Cost(120, 120)  # suffix sums
    largest, of_blocks = Size(n, 0), 0
    if config.blocks:
        # what c grows by; what records change, in memories of 64 places with two readers; the blocks that they change
        of_blocks = frame_words(config) + block_words(largest, config)
        total += (
            n * Cost(120, 150, 1)
            + Cost(2 * -(-config.blocks // 32) * BLOCK_BITS * n)
            + Cost(900 + 4 * config.blocks, 700 + 2 * config.blocks, 4)
        )
        if config.bounds is Bounds.WIDENED:
            total += adders * mul + Cost(300, 300, 4)
    if target.family != "amd":
        total += Cost(0, 0, STRAY)
    # how many, width, depth, readers
    memories = [
        (
            1,
            8 * config.bus_bytes,
            config.jobs * (of_blocks + -(-(6 * triangle + 64 * n) // config.bus_bytes)),
            1,
        ),
        (
            1,
            8 * config.bus_bytes,
            held_words(config),
            1,
        ),
    ]
    if config.method is Method.GRAM:
        if shared_lanes:  # else a lane's one entry is in registers
            memories.append(
                (config.gram_lanes, 8 * ENTRY_BYTES, 2 * -(-triangle // config.gram_lanes), 2)
            )
        memories.append(
            (config.solvers, 32 * config.lanes, config.contexts * -(-triangle // config.lanes), 2)
        )
    else:
        groups, units = -(-(n - 1) // config.lanes), config.vectors * config.lanes
        own = config.contexts * -(-n // config.vectors) * groups
        memories += [
            (units, 32, own, 1),
            (units, 32, 4 * own, 1),
            (config.lanes, 32, config.contexts * n * groups, 2),
            (1, 9 * (n - 1), RING * config.contexts, 1),
            (2, 32, 4 * n * config.contexts, 1),
            (3, 32, n * config.contexts, 1),
        ]
    blocks = 0
    for copies, width, depth, readers in memories:
        block, lut = memory_blocks(width, depth, readers, target)
        blocks, total = blocks + copies * block, total + Cost(copies * lut)
    if target.shared is not None:
        total += DEVICE
        blocks += sum(
            copies * map_storage(memory, target.family).blocks
            for copies, memory in device_memories(config.bus_bytes, target.shared)
        )
    return Resources(
        round((1.0 if target.family == "amd" else BETWEEN) * total.lut),
        round(DELAYS * total.ff),
        total.dsp,
        blocks,
    )
