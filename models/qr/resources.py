"""Resources of an engine for fits over keys, estimated from its units; and the memories that it is written with."""

from __future__ import annotations

from collections.abc import Iterator

from ..mapping import (
    DISTRIBUTED_BITS,
    Factors,
    Storage,
    map_storage,
    memory_blocks,
    multiplier_blocks,
)
from ..numerics.formats import float32
from ..numerics.latency import Cost, convert_cost, cost
from ..resources import DEVICE as DEVICE_LUT
from ..resources import Resources, device_memories
from ..target import Target
from .config import FitPlan
from .job import Method
from .layout import ENTRY_BYTES, Size, entry_counts, factor_words, held_words
from .requests import AHEAD
from .schedule import CONVERT, WIDEN_SHARED

__all__ = ["estimate", "memories"]

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

#: bits of a descriptor; of what a job's end must know of it, of its memo's head without the offsets, of its records, of a segment's errors
_DESCRIPTOR, _KEPT = 480, 289
_HEAD, _REPORT = 8, 8
_ERRORS = 96


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
    total += Cost(0, 0, multiplier_blocks(_strays(config), target.family))
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


def memories(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    """Yield (copies, memory): those with clocked reads, which may become blocks.

    Smaller queues are LUT RAM, and counted with the logic beside them, as is a lane's memory of sums, which is read and written in one cycle.
    `tests/qr/test_resources.py` holds the list against the hardware's netlist.
    """
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
    yield 1, Storage(8 * config.bus_bytes, config.jobs * factor_words(Size(n, 0), config))
