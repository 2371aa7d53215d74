"""Resources of a plan, estimated from its units, buffers and Striders (what is placed is another matter: see the docs)."""

from __future__ import annotations

from ..numerics.latency import Cost, convert_cost, cost
from ..resources import Resources, memory_blocks
from ..target import Target
from .config import Buffer, Plan
from .timing import REDUCE_FN

__all__ = ["estimate"]


def estimate(plan: Plan, target: Target) -> Resources:
    """Return what the plan is expected to take on `target`."""
    fmt, shape = plan.format, target.multiplier
    total = Cost(1500, 1500, 0)                                    # control registers and conductor
    for number, unit in enumerate(plan.units):
        copies = plan.threads if unit.home == "thread" else 1
        if unit.fn.startswith("merge-"):
            combine = cost(REDUCE_FN[unit.fn.removeprefix("merge-")], fmt, shape)
            total += unit.lanes * plan.threads * combine               # threads - 1 in the tree, one accumulates
            continue
        total += copies * unit.lanes * (cost(unit.fn, fmt, shape) + Cost(fmt.width // 2, 2 * fmt.width, 0))
        kinds = {(op.reduce, op.lane_reduce): max(o.extents[2] for o in plan.ops
                                                       if o.unit == number and o.reduce == op.reduce and o.lane_reduce == op.lane_reduce)
                 for op in plan.ops if op.unit == number and op.reduce is not None}
        for (reduce, lane_reduce), longest in kinds.items():
            assert reduce is not None
            adders = (unit.lanes - 1 if lane_reduce else 0) + (longest - 1).bit_length() * (1 if lane_reduce else unit.lanes)
            total += copies * adders * cost(REDUCE_FN[reduce], fmt, shape)
    bram = luts = 0
    for number, buffer in enumerate(plan.buffers):
        b, t = _buffer(plan, number, buffer, target)
        bram, luts = bram + b, luts + t
    total += Cost(luts + 60 * len(plan.ops), 60 * len(plan.ops), 0)
    port_cost, port_bram = _port(plan, target)
    total += plan.ports * port_cost
    tables = -(-total.bram * 18 * 1024 // target.bram_bits)        # units count theirs in blocks of 18 kbit
    return Resources(total.lut, total.ff, total.dsp, bram + tables + plan.ports * port_bram)


def _buffer(plan: Plan, number: int, buffer: Buffer, target: Target) -> tuple[int, int]:
    readers = sum(operand.buffer == number for op in plan.ops for operand in op.operands) + (buffer.kind == "model") + (buffer.kind == "acc")
    copies = plan.threads if buffer.home == "thread" else 1
    blocks, luts = memory_blocks(buffer.width(plan.lanes) * plan.format.width, buffer.beats(plan.lanes) * buffer.slots, readers, target)
    return copies * blocks, copies * luts


def _port(plan: Plan, target: Target) -> tuple[Cost, int]:
    """Return logic and block RAMs of one memory port with its Striders."""
    port, fmt = plan.port, plan.format
    elements = max(port.elements(name) for name in port.types)
    pages, _ = memory_blocks(8 * port.bus_bytes // 2, 2 * port.words_per_page * port.buffers // 2, 1, target)
    slots, slot_luts = memory_blocks(plan.lanes * fmt.width, port.slots * port.beats, 1, target)
    walker = Cost(1200 + 24 * port.bus_bytes + slot_luts, 900 + 12 * port.bus_bytes, 0) + elements * convert_cost(port.types, fmt)
    return Cost(800, 900, 0) + plan.walkers * walker, plan.walkers * (2 * pages + slots + 1)
