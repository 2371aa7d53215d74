"""Changes of rows that wait for an earlier change of their own row, of plans whose `Schedule.by_row` says so: which there may be, and how long they take.

A batch's changes go beat by beat to their rows, each operation's in the cycles that the schedule says. A beat waits while one that changes the same
place of the same row is in its unit, and all others wait with it; nothing else waits. The beat behind one that was taken in cycle t is taken in
t + 1 + latency at the earliest. The hardware: `hdl.rows.same_place.Pending`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from ..numerics.formats import Codes
from .config import AnalyticsPlan, Buffer, Op
from .golden import rows_asked
from .row_values import UNITS
from .timing import latency


def by_integers(ops: Sequence[Op], buffers: Sequence[Buffer]) -> bool:
    """Return whether integers of the table alone say which rows change."""
    known = {
        n for n, b in enumerate(buffers) if b.kind == "index" or (b.integer and b.kind == "run")
    }
    for op in ops:
        if op.fn in (*UNITS, "pass") and all(o.buffer in known for o in op.operands):
            known.add(op.dest)
    changes = [op for op in ops if op.changes_rows]
    return bool(changes) and all(op.operands[1].buffer in known for op in changes)


def gap(plan: AnalyticsPlan, op: Op) -> int:
    """Return how many cycles behind a change the next one of its row is taken."""
    return 1 + latency(op.unit_fn, plan.format)


def _spans(plan: AnalyticsPlan, op: Op) -> list[range]:
    """Return which rows each place may name."""
    name = plan.index_of(op.operands[1].buffer)
    columns = next((i.columns for i in plan.rows.indices if i.name == name), ())
    spans = [range(begin, begin + counts) for _, begin, counts in columns]
    spans = spans or [range(op.detail[0])]
    return [spans[min(k, len(spans) - 1)] for k in range(op.extents[0])]


def in_unit(plan: AnalyticsPlan) -> dict[tuple[int, int], int]:
    """Return by (later, first), two operations of a plan or one twice, how old a beat of the first one may be at least that the later one's waits for."""
    ages: dict[tuple[int, int], int] = {}
    changes = [n for n, op in enumerate(plan.ops) if op.changes_rows]
    step, most = plan.schedule.change, plan.merge_count - 1
    for later, first in product(changes if plan.schedule.by_row else [], changes):
        one, two = plan.ops[first], plan.ops[later]
        pairs = product(enumerate(_spans(plan, one)), enumerate(_spans(plan, two)))
        for (m, rows), (n, others) in pairs if one.dest == two.dest else ():
            age = two.start - one.start + (n - m) * one.extents[1]  # in a tuple
            turns = max(-((age - 1) // step), 0)
            age += turns * step
            meet = rows.start < others.stop and others.start < rows.stop
            if meet and turns <= most and age < gap(plan, one):
                ages[later, first] = min(age, ages.get((later, first), age))
    return ages


@dataclass
class Waits:
    """How long changes of an epoch's batches wait, in cycles."""

    total: list[int]  #: how long each batch waits
    chain: int = 0  #: cycles of the changes of one place, one behind the other, at most
    last: int = 0  #: cycles of one such change
    #: by batch: from which beat on how long, behind its close, as they were if nothing waited
    steps: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def alike(self, batches: int) -> Waits:
        """Return those of so many batches, each of which waits as long as these do on average. Models lie on the chip."""
        count = len(self.total)
        each = -(-sum(self.total) // count)
        return Waits([each] * batches, self.chain * (batches // count), self.last)

    def taken(self, batch: int, cycle: int) -> int:
        """Return which beat is taken so many cycles behind a batch's close: when it were taken if nothing waited; −1 for none."""
        late = 0
        for begin, more in self.steps.get(batch, ()):
            if begin + more > cycle:
                return cycle - late if cycle - late < begin else -1
            late = more
        return cycle - late


def waits(plan: AnalyticsPlan, tuples: Codes) -> Waits:
    """Return how long changes wait in an epoch of tuples, which have the integers of their indices behind their codes (`indices.walk_port`).

    Each beat of a change has a key (model, row, beat in the row) and the cycle in which it is taken if nothing waits, counted from its batch's close.
    Where two beats of a batch with one key lie less than `gap` apart, the later one waits, and all after it: `_follow` goes through such pairs.
    """
    size, count = plan.merge_count, len(tuples)
    waits = Waits([0] * -(-count // max(size, 1)))
    if not in_unit(plan):
        return waits
    changes = [(op, rows) for op, rows in rows_asked(plan, tuples) if op.changes_rows]
    # rows of the largest table and beats of the widest row: they make a key one number
    most, wide = (
        max(of(op) for op, _ in changes)
        for of in (lambda op: op.detail[0], lambda op: op.extents[1])
    )
    parts: list[tuple[np.ndarray, ...]] = []
    number = np.arange(count)[:, None]
    for op, rows in changes:
        beats = op.extents[1]
        at = np.arange(op.extents[0] * beats)
        place, beat = at // beats, at % beats
        when = number % size * plan.schedule.change + 1 + op.start + at
        key = ((op.dest * most + rows[:, place]) * wide + beat).astype(np.int64)
        batch, apart = (np.broadcast_to(v, key.shape) for v in (number // size, gap(plan, op)))
        parts.append(tuple(v[rows[:, place] >= 0] for v in (batch, key, when, apart)))
    batch, key = (np.concatenate([part[n] for part in parts]) for n in (0, 1))
    when, apart = (np.concatenate([part[n] for part in parts]) for n in (2, 3))
    waits.chain = int(np.bincount(np.unique(key, return_inverse=True)[1], apart).max(initial=0))
    waits.last = int(apart.max(initial=0))
    order = np.lexsort((when, key, batch))
    first, then = order[:-1], order[1:]
    near = (batch[first] == batch[then]) & (key[first] == key[then])
    near &= when[then] - when[first] < apart[first]
    first, then = first[near], then[near]
    order = np.lexsort((when[then], batch[then]))
    first, then = first[order], then[order]
    _follow(waits, *(v.tolist() for v in (batch[then], when[first], when[then], apart[first])))
    return waits


def _follow(
    waits: Waits, batches: list[int], firsts: list[int], thens: list[int], gaps: list[int]
) -> None:
    """Go through pairs of changes that lie near, in the order of the later ones."""
    for batch, first, then, gap in zip(batches, firsts, thens, gaps, strict=True):
        steps = waits.steps.setdefault(batch, [])
        before = next((late for begin, late in reversed(steps) if begin <= first), 0)
        late = first + before + gap - then
        if late > waits.total[batch]:
            waits.total[batch] = late
            if steps and steps[-1][0] == then:
                steps.pop()
            steps.append((then, late))
