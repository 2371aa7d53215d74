"""Resources of engines for fits over keys and over numeric columns, estimated from their units; and the memories that they are written with."""

from collections.abc import Iterator

from ..mapping import (
    DISTRIBUTED_BITS,
    Factors,
    Storage,
    map_storage,
    memory_blocks,
    multiplier_blocks,
    ultra_shapes,
)
from ..numerics.formats import float32
from ..numerics.latency import Cost, convert_cost, cost
from ..resources import CONTROL, SHELL, UNITS, Resources, device_memories
from ..resources import DEVICE as DEVICE_LUT
from ..strider import resources as strider
from ..target import Target
from .columns import OPERAND
from .config import FitPlan
from .job import Method
from .layout import ENTRY_BYTES, Size, entry_counts, held_words, memo_parts
from .requests import AHEAD
from .schedule import CONVERT, WIDEN_SHARED
from .table_config import AHEAD as ANSWERS_AHEAD
from .table_config import UNIT_BYTES, TableFitPlan

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

_BITS = 8 * UNIT_BYTES
#: over columns: look-up tables of one of each kind of thing that `features` counts, but for the Striders'; benchmarks/estimates.py compares
COEFFICIENTS = {
    "device": DEVICE_LUT,
    "shell": SHELL,
    "engine": 2450.0,
    "bus": 5.0,
    "column": 193.0,
    "lane": 242.0,
    "operands": 0.75,
    "units": 0.91,
    "cells": 4.4,
}

#: bits of a descriptor; of what a job's end must know of it, of its memo's head without the offsets, of its records, of a segment's errors
_DESCRIPTOR, _KEPT = 480, 289
_HEAD, _REPORT = 8, 8
_ERRORS = 96


def estimate(plan: FitPlan | TableFitPlan, target: Target) -> Resources:
    """Return what an engine is expected to take on `target`, the whole device where the target has its memory and link on the chip (`Target.shared`).

    Multiplier blocks and block RAMs are those that the hardware is written with, mapped as Yosys maps them; look-up tables and flip-flops are sums over its
    parts.
    """
    return _of_keys(plan, target) if isinstance(plan, FitPlan) else _of_columns(plan, target)


def memories(plan: FitPlan | TableFitPlan) -> list[tuple[int, Storage]]:
    """Return (copies, memory) of all that an engine has; over keys those with clocked reads, which may become blocks.

    There smaller queues are LUT RAM, and counted with the logic beside them, as is a lane's memory of sums, which is read and written in one cycle.
    `tests/qr/test_resources.py` holds the list against the hardware's netlist.
    """
    if isinstance(plan, FitPlan):
        return [*_clocked(plan)]
    return [*strider.memories(plan.port), *_behind_striders(plan)]


def _of_keys(config: FitPlan, target: Target) -> Resources:
    """Integer products of two 9-bit numbers take one multiplier block each, label (32 bits) times byte two of 18 or more bits, float32 times byte one or
    two; float32 units as in `numerics.latency`."""
    shape, n, adders = target.multiplier, config.n_max, -(-config.n_max // WIDEN_SHARED)
    mul, add, div = (cost(op, float32, shape) for op in ("mul", "add", "div"))
    count = entry_counts(config)[-1]
    shared_lanes = config.gram_lanes < count
    # shell, ring, requests; what cuts and joins words
    total = Cost(9200 + 40 * config.bus_bytes, 5760 + 62 * config.bus_bytes)
    total += n * Cost(160, 160, 2)  # labels times rows
    lane = Cost(60, 20, 1) if shared_lanes else Cost(68, 74, 1)
    total += min(config.gram_lanes, count) * lane
    total += config.solvers * (config.n_max * (mul + add) + div)
    converters = config.bus_bytes // ENTRY_BYTES + 2
    total += converters * convert_cost(["int8"], float32) + div  # the loader's
    if config.method is Method.GIVENS:
        total += n * GIVENS_LANE + Cost(0, 0, -1)  # the number of rows is two of the entries
    blocks = multiplier_blocks([(float32.fraction_bits + 1, 9, False)], target.family)
    times = Cost(mul.lut, mul.ff, blocks)  # float32 by byte
    total += config.row_units * n * (times + add)
    if config.incremental:
        total += adders * add  # the segment's sums
    total += config.row_units * n * Cost(120, 120)  # suffix sums
    total += Cost(0, 0, multiplier_blocks(_strays(config), target.family))
    held = memories(config)
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


def _clocked(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    bus, jobs = 8 * config.bus_bytes, config.jobs
    givens = config.method is Method.GIVENS
    queues = [
        (_DESCRIPTOR + _bits(jobs) + _bits(config.solvers), AHEAD),
        (bus, held_words(config)),
        (32 * (config.bus_bytes // ENTRY_BYTES), 2 * CONVERT),
    ]
    for width, depth in queues:
        if width * depth > DISTRIBUTED_BITS:
            yield 1, Storage(width, depth, transparent=True)
    for copies, width in _of_jobs(config):
        yield copies, Storage(width, jobs)
    yield 1, Storage(bus, jobs * held_words(config))
    yield from _rotations(config) if givens else _solver(config)


def _strays(config: FitPlan) -> Iterator[Factors]:
    """Yield the products that are no unit's: of h and a column's sum, and sizes and addresses."""
    yield (32, 32, False)
    yield (26, (2 + -(-(config.n_max - 1) // 4)).bit_length(), True)  # words of records
    yield (26, 10, True)
    depth = held_words(config)
    if depth & (depth - 1):  # a job's place in what is kept: put and got
        yield from 2 * [(_bits(config.jobs), depth.bit_length(), True)]
    each = config.bus_bytes // ENTRY_BYTES
    if each & (each - 1):  # an entry's place behind a word
        yield (_bits(-(-entry_counts(config)[-1] // each)), each.bit_length(), True)


def _bits(count: int) -> int:
    return max((count - 1).bit_length(), 1)


def _of_jobs(config: FitPlan) -> Iterator[tuple[int, int]]:
    """Yield (copies, width) of what is kept of each job until its turn has come."""
    n, offsets = config.n_max, 8 * (config.n_max - 1)
    yield 1, _KEPT
    yield 1, _HEAD + offsets
    yield 1, _REPORT
    # weights and which there are, and whether rows could be taken out
    yield config.solvers, 33 * n + (config.method is Method.GIVENS)
    if config.incremental:
        yield 1, 32 * n
        yield 1, 2 * offsets
        yield 1, _ERRORS


def _solver(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    """Yield those of a solver of sums: rows and limits, the right side's and the pivots."""
    n, solvers = config.n_max, config.solvers
    rows = config.contexts << n.bit_length()
    yield solvers * (n + 1), Storage(32, rows, apart=True)
    yield solvers * 2 * n, Storage(32, config.contexts, apart=True)


def _rotations(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    """Yield those of a solver by rotations: lanes of the factor, and of rows on their way, twice; new factors."""
    n = config.n_max
    rows = 1 << _bits(n)
    yield n, Storage(32, rows, apart=True)
    yield n, Storage(32, 2 * rows, apart=True)
    yield 1, Storage(8 * config.bus_bytes, config.jobs * memo_parts(Size(n, 0), config)["factor"])


def _behind_striders(engine: TableFitPlan) -> list[tuple[int, Storage]]:
    """Return (copies, memory) of what is behind the Striders: sums, words of the answer, the solver's rows and limits."""
    columns, places = engine.columns, 2 << (engine.solver.n_max - 1).bit_length()
    sums = [(columns.gram_lanes, Storage(_BITS, columns.slots))] if columns.slots > 1 else []
    return [
        *sums,
        (1, Storage(_BITS, engine.head)),
        (1, Storage(8 * engine.bus_bytes, ANSWERS_AHEAD)),
        (engine.solver.n_max + 1, Storage(32, places, apart=True)),
    ]


def features(engine: TableFitPlan, target: Target) -> dict[str, float]:
    """Return how many of each kind of thing there are behind the Striders: `COEFFICIENTS` has what one takes."""
    columns, shape = engine.columns, target.multiplier
    mul, add, div = (cost(op, float32, shape).lut for op in ("mul", "add", "div"))
    cells = sum(
        copies * map_storage(memory, target.family).cells
        for copies, memory in _behind_striders(engine)
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
        "units": engine.solver.n_max * (mul + add) + div + convert_cost(["int8"], float32).lut,
    }


def _flops(engine: TableFitPlan, target: Target) -> float:
    """Return the flip-flops: those of the Striders, of shell and device, of words and numbers on their way, and of the solver's units with their delays."""
    columns, shape = engine.columns, target.multiplier
    mul, add, div = (cost(op, float32, shape).ff for op in ("mul", "add", "div"))
    units = engine.solver.n_max * (mul + add) + div
    around = 880 + 600 * (target.shared is not None)
    base = strider.flops(engine.port) + around + 94 * engine.bus_bytes
    return base + 432 * (columns.factors - 1) + 150 * columns.gram_lanes + 1.66 * units


def _of_columns(engine: TableFitPlan, target: Target) -> Resources:
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
        for copies, op in ((engine.solver.n_max, "mul"), (engine.solver.n_max, "add"), (1, "div"))
    )
    # in a lane of its own, a product with the column of ones takes no multiplier
    lanes = columns.gram_lanes - (columns.factors if columns.slots == 1 else 0)
    dsp = floats + multiplier_blocks([(OPERAND, OPERAND, False)] * lanes, family)
    counts = round(lut), round(_flops(engine, target)), dsp if target.dsp else 0
    return Resources(*counts, *memory_blocks(held, target))
