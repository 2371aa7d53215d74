"""Resources of the engine for fits over numeric columns, estimated from its units."""

from __future__ import annotations

from ..mapping import Storage, map_storage, memory_blocks, multiplier_blocks, ultra_shapes
from ..numerics.formats import float32
from ..numerics.latency import convert_cost, cost
from ..resources import CONTROL, DEVICE, SHELL, UNITS, Resources, device_memories
from ..strider import resources as strider
from ..target import Target
from .columns import OPERAND
from .table_config import AHEAD, UNIT_BYTES, TableFitPlan

__all__ = ["COEFFICIENTS", "estimate", "features", "flops", "memories"]

_BITS = 8 * UNIT_BYTES
#: look-up tables of one of each kind of thing that `features` counts, but for the Striders'; benchmarks/fit_estimates.py compares
COEFFICIENTS = {
    "device": DEVICE,
    "shell": SHELL,
    "engine": 2450.0,
    "bus": 5.0,
    "column": 193.0,
    "lane": 242.0,
    "operands": 0.75,
    "units": 0.91,
    "cells": 4.4,
}


def memories(engine: TableFitPlan) -> list[tuple[int, Storage]]:
    """Return (copies, memory) of all that the engine's hardware has."""
    return [*strider.memories(engine.port), *_memories(engine)]


def _memories(engine: TableFitPlan) -> list[tuple[int, Storage]]:
    """Return (copies, memory) of what is behind the Striders: sums, words of the answer, the solver's rows and limits."""
    columns, places = engine.columns, 2 << (engine.solver.n_max - 1).bit_length()
    sums = [(columns.gram_lanes, Storage(_BITS, columns.slots))] if columns.slots > 1 else []
    return [
        *sums,
        (1, Storage(_BITS, engine.head)),
        (1, Storage(8 * engine.bus_bytes, AHEAD)),
        (engine.solver.lanes + 1, Storage(32, places, apart=True)),
    ]


def features(engine: TableFitPlan, target: Target) -> dict[str, float]:
    """Return how many of each kind of thing there are behind the Striders: `COEFFICIENTS` has what one takes."""
    columns, shape = engine.columns, target.multiplier
    mul, add, div = (cost(op, float32, shape).lut for op in ("mul", "add", "div"))
    cells = sum(
        copies * map_storage(memory, target.family).cells for copies, memory in _memories(engine)
    )
    return {
        "device": int(target.shared is not None),
        "shell": 1,
        "engine": 1,
        "bus": 8 * engine.bus_bytes,
        "column": columns.factors - 1,
        "lane": columns.gram_lanes,
        "operands": columns.gram_lanes * 2 * OPERAND * (columns.slots - 1),
        "cells": cells,
        "units": engine.solver.lanes * (mul + add) + div + convert_cost(["int8"], float32).lut,
    }


def flops(engine: TableFitPlan, target: Target) -> float:
    """Return the flip-flops: those of the Striders, of shell and device, of words and numbers on their way, and of the solver's units with their delays."""
    columns, shape = engine.columns, target.multiplier
    mul, add, div = (cost(op, float32, shape).ff for op in ("mul", "add", "div"))
    units = engine.solver.lanes * (mul + add) + div
    around = 880 + 600 * (target.shared is not None)
    found = strider.flops(engine.port) + around + 94 * engine.bus_bytes
    return found + 432 * (columns.factors - 1) + 150 * columns.gram_lanes + 1.66 * units


def estimate(engine: TableFitPlan, target: Target) -> Resources:
    """Return what an engine is expected to take on `target`, the whole device where the target has its memory and link on the chip.

    Multiplier blocks and block RAMs are those that the hardware is written with, mapped as Yosys maps them; look-up tables and flip-flops are sums over its
    parts.
    """
    columns, family = engine.columns, target.family
    held = memories(engine)
    striders = strider.features(engine.port, family, ultra_shapes(held, target))
    lut = CONTROL[family] * sum(strider.COEFFICIENTS[n] * count for n, count in striders.items())
    for name, count in features(engine, target).items():
        scale = (CONTROL if name in ("shell", "device") else UNITS)[family]
        lut += scale * COEFFICIENTS[name] * count
    if target.shared is not None:
        held += device_memories(engine.bus_bytes, target.shared)
    floats = sum(
        copies * cost(op, float32, target.multiplier).dsp
        for copies, op in ((engine.solver.lanes, "mul"), (engine.solver.lanes, "add"), (1, "div"))
    )
    constant = columns.slots == 1  # one lane counts rows, a product of constants
    dsp = (columns.gram_lanes - constant) * multiplier_blocks(
        [(OPERAND, OPERAND, False)], family
    ) + floats
    found = round(lut), round(flops(engine, target)), dsp if target.dsp else 0
    return Resources(*found, *memory_blocks(held, target))
