"""The memories and multipliers that the hardware of a plan is written with, as data: what the estimate counts and tests compare with synthesis.

The hardware has its memories in `hdl.analytics.store` (buffers) and `hdl.arith.functions` (tables); its multipliers in `hdl.arith`. Those of the Striders are
`models.strider.resources.memories`, those of a device around it `models.resources.device_memories`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..mapping import Factors, Storage
from ..numerics.formats import Fixed, Float, Format
from ..numerics.functions import FUNCTIONS, pipeline
from ..numerics.latency import slices
from ..numerics.pipeline import Wire
from ..rows.units import integer_unit
from ..strider import resources as strider
from .config import AnalyticsPlan, Operand
from .shell import score_room
from .timing import REDUCE_FN

#: widest word of a function's table
_TABLE = 36


def memories(plan: AnalyticsPlan) -> Iterator[tuple[int, Storage]]:
    """Yield (copies, memory) of all that the engine's hardware has."""
    if plan.row_unit is not None:
        yield from plan.row_unit.memories()
    for _, copies, memory in buffers(plan.core):
        yield copies, memory
    for copies, memory in strider.memories(plan.port):
        yield plan.ports * copies, memory
    if not plan.learns:
        yield 1, Storage(8 * plan.bus_bytes, score_room(plan).words, 1, 1)
    for unit in arithmetic(plan):
        for table in tables(unit.fn, plan.format):
            yield unit.copies, table


def buffers(plan: AnalyticsPlan) -> Iterator[tuple[str, int, Storage]]:
    """Yield (home, copies, memory) of the plan's buffers of more than one beat.

    There is a read port for every operand, for a merge that adds to it, and for a model's way out; or a memory (`copied`).
    """
    readers = [0] * len(plan.buffers)
    for op in plan.ops:
        for operand in op.operands:
            readers[operand.buffer] += 1
        if op.merge is not None:
            readers[op.dest] += 1
    for number in plan.roles.models if plan.learns else ():
        readers[number] += 1
    for number, buffer in enumerate(plan.buffers):
        lanes, depth = buffer.width(plan.lanes), buffer.beats(plan.lanes) * buffer.slots
        if depth > 1 and readers[number]:
            copies = plan.threads if buffer.home == "thread" else 1
            width = lanes * (buffer.bits or plan.format.width)
            if copied(plan, number):
                yield buffer.home, copies * readers[number], Storage(width, depth)
            else:
                yield buffer.home, copies, Storage(width, depth, readers[number], lanes)


def copied(plan: AnalyticsPlan, number: int) -> bool:
    """Return whether each reader of a buffer has a memory of its own, whose beats are written whole: of models with rows, so that they may be UltraRAM."""
    written = [op for op in plan.ops if op.dest == number]
    return any(op.changes_rows for op in written) and not any(op.element_dest for op in written)


@dataclass(frozen=True)
class Arithmetic:
    """Equal arithmetic units in all threads or in the core."""

    home: str
    fn: str
    copies: int  #: how many there are
    live: int  #: how many keep their products: lanes that only ever hold zero have none


def arithmetic(plan: AnalyticsPlan) -> Iterator[Arithmetic]:
    """Yield the plan's arithmetic units, those of reductions and merges included."""
    for number, unit in enumerate(plan.units):
        copies = plan.threads if unit.home == "thread" else 1
        if unit.fn.startswith("merge-"):
            count = unit.lanes * plan.threads  # threads - 1 in the tree, one accumulates
            yield Arithmetic("core", REDUCE_FN[unit.fn.removeprefix("merge-")], count, count)
            continue
        users = [op for op in plan.ops if op.unit == number]
        reached = [
            max(_covered(plan, op.operands[op.to_unit[k]], unit.lanes) for op in users)
            for k in range(len(users[0].to_unit))
        ]
        yield Arithmetic(unit.home, unit.fn, copies * unit.lanes, copies * min(reached))
        longest: dict[tuple[str, bool], int] = {}
        for op in users:
            if op.reduce is not None:
                key = op.reduce, op.lane_reduce
                longest[key] = max(longest.get(key, 1), op.extents[2])
        for (reduce, lane_reduce), steps in longest.items():
            levels = (steps - 1).bit_length()
            count = copies * (_tree(unit.lanes) + levels if lane_reduce else levels * unit.lanes)
            yield Arithmetic(unit.home, REDUCE_FN[reduce], count, count)


def _covered(plan: AnalyticsPlan, operand: Operand, lanes: int) -> int:
    """Return how many of a unit's lanes an operand reaches: all where it is one code for all."""
    stored = plan.buffers[operand.buffer].width(plan.lanes)
    return lanes if operand.element or stored == 1 else min(stored, lanes)


def _tree(leaves: int) -> int:
    """Return the nodes of a balanced tree whose levels are filled up to an even number."""
    nodes = 0
    while leaves > 1:
        leaves = -(-leaves // 2)
        nodes += leaves
    return nodes


@lru_cache(maxsize=256)
def products(fn: str, fmt: Format) -> tuple[Factors, ...]:
    """Return the factors of each product that a unit is written with (constants with more than one bit set included)."""
    if (integers := integer_unit(fn)) is not None:
        return integers.products
    if fn == "mac":
        fn = "mul"
    if fn == "mul":
        bits, signed = (
            (fmt.fraction_bits + 1, False) if isinstance(fmt, Float) else (fmt.width, True)
        )
        size = -(-bits // slices(bits))
        parts = [min(size, bits - low) for low in range(0, bits, size)]
        return tuple(
            (bits, part + (signed and low < len(parts) - 1), not signed)
            for low, part in enumerate(parts)
        )
    if fn not in FUNCTIONS:
        assert isinstance(fmt, Fixed | Float)
        return ()
    return tuple(
        _factors(*wire.args)
        for wire in pipeline(fn, fmt).wires
        if wire.kind == "mul" and not any(_trivial(a) for a in wire.args)
    )


def _factors(a: Wire, b: Wire) -> Factors:
    """Of a signed and an unsigned factor the latter becomes signed."""
    signed = a.lo < 0 or b.lo < 0
    return a.width + (signed and a.lo >= 0), b.width + (signed and b.lo >= 0), not signed


def _trivial(factor: Wire) -> bool:
    """Whether a product by this factor is a shift."""
    return factor.kind == "const" and abs(factor.lo).bit_count() <= 1


@lru_cache(maxsize=256)
def tables(fn: str, fmt: Format) -> tuple[Storage, ...]:
    """Return the read-only memories of a unit's tables."""
    if fn not in FUNCTIONS:
        return ()
    return tuple(
        Storage(min(_TABLE, sum(t.widths) - low), t.depth, granules=0)
        for t in pipeline(fn, fmt).tables
        for low in range(0, sum(t.widths), _TABLE)
    )
