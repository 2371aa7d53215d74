"""Resources of a plan: multiplier blocks and block RAMs counted from what the hardware is written with, look-up tables and flip-flops from its parts.

The whole device is counted where the target has its memory and link on the chip (`Target.shared`), as `penstock build` makes it; else the engine in its
shell. Products and memories are those of `storages`, mapped as Yosys maps them (`models.mapping`): on the ECP5 both counts are exact. Look-up
tables are a sum over the parts of the hardware (`parts`), each a number of things times what one of them took when it was synthesised alone for an
ECP5: `benchmarks/estimates.py` compares, and `docs/howto/boards.md` has its table. Other families get these in proportion
(`models.resources.CONTROL`, `UNITS`).
"""

from collections.abc import Mapping
from functools import cache

from ..mapping import Storage, map_storage, memory_blocks, multiplier_blocks, ultra_shapes
from ..numerics.formats import Format
from ..numerics.latency import Cost
from ..numerics.latency import cost as of_codes
from ..resources import APART, CONTROL, DEVICE, SHELL, UNITS, Resources, device_memories
from ..rows.units import integer_unit
from ..strider import resources as strider
from ..target import Target
from . import reorder, storages
from .config import AnalyticsPlan, depth

#: look-up tables of one of each kind of thing that `features` counts; fitted by benchmarks/estimates.py --fit
COEFFICIENTS: dict[str, dict[str, float]] = {
    "device": {"device": DEVICE},
    "shell": {"shell": SHELL, "wide": 600.0},
    "port": strider.COEFFICIENTS,
    "core": {"core": 367.0, "parameters": 10.9, "reductions": 6.19, "storage": 1.14, "units": 0.91},
    "thread": {
        "thread": 381.0,
        "units": 0.89,
        "operands": 0.75,
        "reductions": 0.55,
        "storage": 1.1,
    },
}


def estimate(plan: AnalyticsPlan, target: Target) -> Resources:
    family = target.family
    memories = list(storages.memories(plan))
    if target.shared is not None:
        memories += device_memories(plan.bus_bytes, target.shared)
    dsp = (
        sum(unit.live * _blocks(unit.fn, plan.format, family) for unit in storages.arithmetic(plan))
        if target.dsp
        else 0
    )
    costs = parts(plan, target)
    return Resources(
        round(sum(part.lut for part in costs.values())),
        round(sum(part.ff for part in costs.values())),
        dsp,
        *memory_blocks(memories, target),
    )


@cache
def _blocks(fn: str, fmt: Format, family: str) -> int:
    """Return the multiplier blocks that a unit takes."""
    return multiplier_blocks(storages.products(fn, fmt), family)


def parts(plan: AnalyticsPlan, target: Target) -> dict[str, Cost]:
    """Return look-up tables and flip-flops of each part of the hardware: all threads, core, memory ports, shell, and the device around them."""
    copies = {"thread": plan.threads, "port": plan.ports}
    flops = _flops(plan)
    costs = {}
    for part, counts in features(plan, target).items():
        scale = (UNITS if part in ("core", "thread") else CONTROL)[target.family]
        luts = sum(COEFFICIENTS[part].get(name, 0.0) * count for name, count in counts.items())
        costs[part] = Cost(
            round(copies.get(part, 1) * luts * scale), round(copies.get(part, 1) * flops[part])
        )
    if plan.row_unit is not None:
        costs["rows"] = plan.row_unit.cost + _ports_of_rows(plan)
    if plan.rows.reorder:
        costs["reorder"] = reorder.cost(plan)
    return costs


def _ports_of_rows(plan: AnalyticsPlan) -> Cost:
    """Return what judges where rows lie, and deals them over several memory ports, as synthesised alone for an ECP5: `hdl.memory.Dealt` chooses every bit
    of a word that comes."""
    tables, others = len(plan.rows.tables), 2 + plan.ports if plan.rows.deal.ports == 1 else 0
    lut, ff = APART * (tables * others + tables * (tables - 1) // 2), 0
    if plan.rows.deal.channels > 1:
        lut, ff = (
            300 + 8 * plan.bus_bytes * plan.rows.deal.joined * (plan.rows.deal.channels - 1),
            63,
        )
    if plan.rows.deal.joined > 1:
        lut, ff = lut + 15 * plan.rows.deal.ports, ff + 3 * plan.rows.deal.ports
    return Cost(lut, ff)


def features(plan: AnalyticsPlan, target: Target) -> dict[str, dict[str, float]]:
    """Return how many of each kind of thing there are in one of each part: `COEFFICIENTS` has what one takes."""
    ultra = ultra_shapes(storages.memories(plan), target) if target.uram else ()
    counts: dict[str, dict[str, float]] = {
        "shell": {"shell": 1, "wide": int(not plan.striders.lean)},
        "port": strider.features(plan.port, target.family, ultra),
        "core": _core(plan, target),
        "thread": _thread(plan, target),
    }
    if target.shared is not None:
        counts["device"] = {"device": 1}
    return counts


@cache
def cost(fn: str, fmt: Format, multiplier: tuple[int, int]) -> Cost:
    """Return what a unit takes, of codes or of integers."""
    unit = integer_unit(fn)
    return of_codes(fn, fmt, multiplier) if unit is None else unit.cost


def _thread(plan: AnalyticsPlan, target: Target) -> dict[str, float]:
    return {"thread": 1, **_datapath(plan, target, "thread")}


def _core(plan: AnalyticsPlan, target: Target) -> dict[str, float]:
    ways_out = sum(plan.buffers[n].width(plan.lanes) * plan.format.width for n in plan.roles.models)
    return {"core": 1, "parameters": ways_out, **_datapath(plan, target, "core")}


def _datapath(plan: AnalyticsPlan, target: Target, home: str) -> dict[str, float]:
    """Count arithmetic, operand multiplexers, reductions and storage of one thread, or of the core."""
    fmt, shape, width = plan.format, target.multiplier, plan.format.width
    share = plan.threads if home == "thread" else 1
    here = [unit for unit in storages.arithmetic(plan) if unit.home == home]
    units = sum(unit.copies // share * cost(unit.fn, fmt, shape).lut for unit in here)
    if (
        not target.dsp
    ):  # multipliers made of adders: a look-up table with carry for each bit of each row
        units += sum(
            unit.live // share * sum(a * b for a, b, _ in storages.products(unit.fn, fmt))
            for unit in here
        )
    operands = reductions = 0
    for number, unit in enumerate(plan.units):
        users = [op for op in plan.ops if op.unit == number and op.home == home]
        if not users:
            continue
        operands += unit.lanes * width * (len(users) - 1) * len(users[0].operands)
        for lane_reduce in {op.lane_reduce for op in users if op.reduce is not None}:
            levels = max(
                depth(op.extents[2])
                for op in users
                if op.reduce is not None and op.lane_reduce == lane_reduce
            )
            reductions += width * (
                unit.lanes + 2 * levels if lane_reduce else 2 * levels * unit.lanes
            )
    storage = 0.0
    for where, copies, memory in storages.buffers(plan.core):
        if where == home:
            storage += copies // share * _storage(memory, target)
    return {"units": units, "operands": operands, "reductions": reductions, "storage": storage}


def _storage(memory: Storage, target: Target) -> float:
    """Return the look-up tables of a memory: LUT RAM or multiplexers of flip-flops, and what makes block RAM read the old word while the new one is written."""
    mapping = map_storage(memory, target.family)
    choice = (mapping.banks - 1) * memory.width * memory.readers * 0.7
    if mapping.blocks:
        return choice + (
            0 if memory.apart or not memory.granules else memory.readers * (memory.width + 8) + 4
        )
    if mapping.cells:
        return choice + 4 * mapping.cells
    return 0.6 * mapping.bits * memory.readers + 8 if memory.depth > 1 else 0


def _flops(plan: AnalyticsPlan) -> Mapping[str, float]:
    """Return the flip-flops of each part: registers of operands and units, of delays, and of the ports."""
    fmt, shape, width = plan.format, (18, 18), plan.format.width
    per = {"thread": 20.0, "core": 25.0 * len(plan.ops)}
    for home in per:
        share = plan.threads if home == "thread" else 1
        per[home] += 1.2 * sum(
            unit.copies // share * (cost(unit.fn, fmt, shape).ff + 2 * width)
            for unit in storages.arithmetic(plan)
            if unit.home == home
        )
    return {
        **per,
        "port": strider.flops(plan.port),
        "shell": 580 if plan.striders.lean else 1400,
        "device": 600,
    }
