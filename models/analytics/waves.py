"""Batches that may be computed together, though one comes after the other: rows that one changes are not read by the other.

Where integers of the table alone say which rows are read and changed, batches have levels. A batch that reads a row is of a higher level
than all before it that change the row; one that changes it is of no lower level than those before it that read or change it. Levels are computed one
after the other, each in the order of tuples. So every read sees what it would see, and the changes of a row keep their order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ..numerics.formats import Codes
from .batch import Batch
from .config import AnalyticsPlan, Op

#: tuples that are computed side by side, about
_TUPLES = 1 << 14


#: an operation and the rows that it reads or changes, (tuples, places)
Rows = Sequence[tuple[Op, np.ndarray]]


def together(
    plan: AnalyticsPlan, stream: Iterable[Batch], asked: Callable[[Codes], Rows]
) -> Iterator[Batch]:
    """Yield the batches of an epoch, several as one where that makes no difference. `asked`: the rows that tuples name by integers alone."""
    batches = [batch for batch in stream if len(batch.tuples)]
    touching = [op for op in plan.ops if op.touches_rows]
    changed = {op.dest for op in touching if op.changes_rows}
    full_reads = {o.buffer for op in plan.ops for o in op.operands[op.touches_rows :]} & changed
    rows = asked(np.concatenate([b.tuples for b in batches])) if batches else []
    fixed = len(rows) == len(touching) and not full_reads and plan.roles.until is None
    if not fixed or any(
        op.merge or (op.region != "group" and not op.changes_rows) for op in plan.ops
    ):
        yield from batches
        return
    levels = np.array(_levels(plan, batches, rows), np.int64)
    order, counts = np.argsort(levels, kind="stable").tolist(), np.bincount(levels)
    ends = [0, *np.cumsum(counts).tolist()]
    for level in range(len(counts)):
        yield from _pieces([batches[n] for n in order[ends[level] : ends[level + 1]]])


def _pieces(batches: Sequence[Batch]) -> Iterator[Batch]:
    waiting, size = list[Batch](), 0
    for batch in batches:
        waiting.append(batch)
        size += len(batch.tuples)
        if size >= _TUPLES:
            yield _as_one(waiting)
            waiting, size = [], 0
    if waiting:
        yield _as_one(waiting)


def _levels(
    plan: AnalyticsPlan, batches: Sequence[Batch], rows: Sequence[tuple[Op, np.ndarray]]
) -> list[int]:
    tables = {n: k for k, n in enumerate(plan.roles.models)}
    keys: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for op, of_op in rows:
        table = op.operands[0].buffer
        row_keys = np.where(of_op < 0, -1, of_op * len(tables) + tables[table])
        keys[op.changes_rows].append(row_keys)
    ends = np.cumsum([len(b.tuples) for b in batches]).tolist()
    parts = [_of_batches(kind, ends) for kind in keys]
    read: dict[int, int] = {}
    changed: dict[int, int] = {}
    levels = []
    for reads, changes in zip(*parts, strict=True):
        level = max((changed[r] + 1 for r in reads if r in changed), default=0)
        for r in changes:
            level = max(level, read.get(r, 0), changed.get(r, 0))
        for r in reads:
            read[r] = max(read.get(r, 0), level)
        for r in changes:
            changed[r] = level
        levels.append(level)
    return levels


def _of_batches(keys: Sequence[np.ndarray], ends: Sequence[int]) -> list[set[int]]:
    """Return the rows of each batch, given those of each tuple."""
    if not keys:
        return [set() for _ in ends]
    joined = np.concatenate(keys, axis=1).tolist()
    begins = [0, *ends[:-1]]
    return [
        {key for row in joined[first:end] for key in row if key >= 0}
        for first, end in zip(begins, ends, strict=True)
    ]


def _as_one(parts: Sequence[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    return Batch(
        np.concatenate([batch.tuples for batch in parts]),
        np.concatenate([batch.group for batch in parts]),
        np.concatenate([batch.thread for batch in parts]),
        np.concatenate([batch.source for batch in parts]),
        len(parts),
    )
