"""How far apart the operations of a lowered program must start, and what a kernel takes whatever its plan."""

from collections import Counter
from typing import Any

import numpy as np

from ...models.analytics.config import FETCH
from ...models.analytics.timing import (
    REDUCE_FN,
    latency,
    merge_latency,
    read_times,
    result_delay,
    write_times,
)
from ...models.numerics.formats import Format
from ..core.graph import Graph
from .lower import Program, lower

#: the first reading of a beat that is not read
NEVER = np.iinfo(np.int64).max
#: levels of the deepest merge tree that a plan has
_LEVELS = 8


class Times:
    """When the operations of a program read and write each beat, in cycles from their starts.

    `writes`: by operation, first and last writing; `reads`: by operation and buffer, first and last reading; `writer`: the operation that
    fills a buffer, but for models.
    """

    def __init__(self, program: Program, fmt: Format, threads: int):
        self.program, self.fmt = program, fmt
        self._behind: dict[tuple[int, int, int], int | None] = {}
        if not program.known:
            program.known.update(_known(program, fmt))
        self.reads: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = program.known["reads"]
        self.writer: dict[int, int] = program.known["writer"]
        self.writes: dict[int, tuple[np.ndarray, np.ndarray]] = dict(program.known["writes"])
        for number, op in enumerate(program.ops):
            if op.merge is not None:
                late = merge_latency(op.merge, fmt, threads)
                first, last = self.writes[number]
                self.writes[number] = first + late, last + late

    def behind(self, source: int, reader: int, buffer: int) -> int | None:
        """Return how many cycles behind `source` an operation that reads what it wrote may start; None where it reads none of it."""
        key = source, reader, buffer
        if key not in self._behind:
            first = self.reads[reader, buffer][0]
            used = first != NEVER
            written = self.writes[source][1]
            distance = int((written[used] + 1 - first[used]).max()) if used.any() else None
            self._behind[key] = distance
        return self._behind[key]

    def turn(self, source: int, reader: int, apart: bool = False) -> int:
        """Return how many cycles behind a change of rows another one of the same model may start: beat by beat as the first one leaves; `apart`: where
        it waits by itself for changes of its row.

        Places of a bag change rows of their own: each follows the same place.
        """
        ops, fmt = self.program.ops, self.fmt
        first, then = ops[source], ops[reader]
        if apart:  # in order, and written so
            late, soon = latency(first.unit_fn, fmt), latency(then.unit_fn, fmt)
            return first.beats + max(0, late - soon)
        alike = first.extents == then.extents and (
            first.extents[0] == 1 or first.operands[1].buffer == then.operands[1].buffer
        )
        if not alike:
            return self.behind(source, reader, first.dest) or 0
        late, soon = latency(first.unit_fn, fmt), latency(then.unit_fn, fmt)
        # read as it is written, or a cycle before (`hdl.analytics.row_access`); written behind it
        return max(first.fetch - FETCH + late, first.beats + max(0, late - soon))


def _known(program: Program, fmt: Format) -> dict[str, dict]:
    """Return what does not depend on the threads; writings as for one."""
    reads: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    for number, op in enumerate(program.ops):
        for operand in op.operands:
            first, last = read_times(op, operand, program.buffers, program.lanes)
            key = (number, operand.buffer)
            if key in reads:
                first = np.minimum(first, reads[key][0])
                last = np.maximum(last, reads[key][1])
            reads[key] = (first, last)
    return {
        "reads": reads,
        "writes": {
            number: write_times(op, program.buffers, fmt, program.lanes, 1)
            for number, op in enumerate(program.ops)
        },
        "writer": {
            op.dest: number
            for number, op in enumerate(program.ops)
            if program.buffers[op.dest].kind != "model"
        },
    }


def least_interval(program: Program, fmt: Format) -> int:
    """Return the least distance of two groups: an accumulator must be written before it is read again."""
    return max(
        [1, *(latency(REDUCE_FN[op.merge], fmt) + 2 for op in program.ops if op.merge is not None)]
    )


def facts(graph: Graph, fmt: Format) -> dict[str, Any]:
    """Return what `models.analytics.bound.machine_bound` asks of a kernel, whatever its plan.

    `ways`: from a model to the next one, by the levels of the tree over the threads, with units and lanes without number; `interval`: the least distance of
    two groups; no plan's `Schedule.batch` and `Schedule.interval` are less. `products`: operations with multipliers and how often a tuple takes them.
    """
    columns = max([1, *((1, *node.shape)[-1] for node in graph.nodes)])
    program = lower(graph, columns, serial_limit=1)
    ways = [
        max(_least_way(program, fmt, 1 << level, model) for model in program.models)
        if program.score is None
        else 0
        for level in range(_LEVELS + 1)
    ]
    return {
        "ways": ways,
        "interval": least_interval(program, fmt),
        "products": sorted(_products(graph).items()),
    }


def _products(graph: Graph) -> dict[str, int]:
    products: Counter[str] = Counter()
    for op in lower(graph, 1, serial_limit=1).ops:
        if op.region == "group" and op.home == "thread":
            products[op.unit_fn] += op.beats
    return dict(products)


def _least_way(program: Program, fmt: Format, threads: int, model: int) -> int:
    """Return the longest way from the end of a reading of the model to its next writing, for any lanes.

    An operation ends, at the earliest, its delay after it read what is written last of an operand; all its beats after it read a single
    number. Its tree over lanes and over time has the levels of one over the whole row at least.
    """
    ops = program.ops
    delays = [
        result_delay(op, fmt, min(program.lanes, op.columns or program.lanes), threads)
        for op in ops
    ]
    writer = {op.dest: n for n, op in enumerate(ops)}
    if model not in writer:  # it stays as it is
        return 1
    last, longest = writer[model], 1
    ahead = {last: 0}
    for n in reversed(range(len(ops))):
        if n not in ahead:
            continue
        for buffer in {operand.buffer for operand in ops[n].operands}:
            step = ahead[n] + delays[n] + 1
            if buffer == model and ops[n].region != "epoch":
                # a row is read later; a change has what is just being written
                sooner = FETCH + 1 if ops[n].changes_rows else ops[n].fetch - FETCH
                longest = max(longest, step - sooner)
            source, held = writer.get(buffer, n), program.buffers[buffer]
            if source < n and held.kind != "model":
                step += (ops[n].beats - 1) * (held.rows * held.cols == 1)
                ahead[source] = max(ahead.get(source, 0), step)
    return longest
