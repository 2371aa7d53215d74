"""The order in which a batch's tuples go on, of plans whose changes of rows wait for others of their rows.

The next tuple is the first of the `AnalyticsPlan.reorder` oldest of its batch whose rows none of the last `reach` tuples of the batch changes, and none of
those that it overtakes; the oldest where there is none. So changes of a row keep their order, and as all reads of a batch see the models as the batch
before left them, results are the same.

Nothing goes on before all from which it is chosen are there, or the epoch's end. A tuple that came in cycle t goes on in t + 1 at the earliest, one a
cycle, and where there is no room one comes in the cycle in which one goes. The hardware: `hdl.analytics.reorder.Reorder`.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from ..numerics.formats import Codes
from ..numerics.latency import Cost
from .config import AnalyticsPlan
from .loader import TupleSource
from .waits import gap, in_unit

#: tuples from which the next one is chosen; with 8, `lrmf` gains 1 % more
WINDOW = 4
#: pairs of places that are compared, at most, for each pair of tuples
_PAIRS = 4
#: tuples behind which a row is free, at most
_REACH = 8


def window(plan: AnalyticsPlan) -> int:
    """Return from how many tuples the next one is to be chosen; 0 where that changes results, gains nothing, or is large beside the part."""
    if not in_unit(plan) or plan.merge_count < WINDOW or plan.threads > 1 or plan.striders.lean:
        return 0
    alone = not any(op.merge or (op.region != "group" and not op.changes_rows) for op in plan.ops)
    if not alone or plan.layout.beats > 1 or plan.rows.dedupe or plan.watches:
        return 0
    groups = places(plan)
    few = sum(len(group) ** 2 for group in groups) <= _PAIRS
    return WINDOW if groups and few else 0


def places(plan: AnalyticsPlan) -> list[tuple[tuple[int, int], ...]]:
    """Return by which codes of a tuple rows of the same models are changed, and what is added to each; [] where others say which rows."""
    by: dict[int, set[str]] = {}
    for op in plan.ops:
        if op.changes_rows:
            by.setdefault(op.dest, set()).add(plan.index_of(op.operands[1].buffer))
    named = {index.name: index for index in plan.rows.indices}
    groups = dict[tuple[tuple[int, int], ...], None]()
    for names in by.values():
        group = list[tuple[int, int]]()
        for name in sorted(names):
            index = named.get(name)
            if index is None or len(index.columns) < index.places:
                return []
            at = plan.layout.field(name).position
            group += [(at + k, begin) for k, (_, begin, _) in enumerate(index.columns)]
        groups[tuple(group)] = None
    return [g for g in groups if not any({*g} < {*other} for other in groups)]


def codes(plan: AnalyticsPlan) -> list[int]:
    """Return which codes of a tuple of one beat belong to a field."""
    fields = plan.layout.fields
    return sorted(
        f.position + r * f.stride + c for f in fields for r in range(f.rows) for c in range(f.cols)
    )


def row_bits(plan: AnalyticsPlan) -> int:
    return max(1, max(index.counts - 1 for index in plan.rows.indices).bit_length())


def reach(plan: AnalyticsPlan) -> int:
    """Return behind how many tuples a change waits no more for one of its row."""
    step, distance = plan.schedule.change, 1
    for later, first in in_unit(plan):
        one, two = plan.ops[first], plan.ops[later]
        age = two.start - one.start - (one.extents[0] - 1) * one.extents[1]
        distance = max(distance, (gap(plan, one) - 1 - age) // step)
    return min(distance, _REACH)


def in_turn(plan: AnalyticsPlan, tuples: Codes) -> Codes:
    """Return an epoch's tuples, which have the places of indices behind their codes, in the order in which they go on."""
    if not plan.rows.reorder:
        return tuples
    rows = _rows(plan, tuples)
    most, order = reach(plan), list[int]()
    for begin in range(0, len(rows), plan.merge_count):
        end = min(begin + plan.merge_count, len(rows))
        waiting, latest = deque[int](), deque[tuple[int, ...]](maxlen=most)
        for n in range(begin, end + plan.rows.reorder):
            if n < end:
                waiting.append(n)
            if waiting and (n + 1 >= begin + plan.rows.reorder):
                chosen = _next(waiting, rows, latest)
                latest.append(rows[chosen])
                waiting.remove(chosen)
                order.append(chosen)
    return tuples[np.array(order, np.int64)]


def _rows(plan: AnalyticsPlan, tuples: Codes) -> list[tuple[int, ...]]:
    """Return the rows that each tuple changes, numbered over all models."""
    column, at = dict[int, int](), plan.layout.beats * plan.lanes
    for index in plan.rows.indices:
        first = plan.layout.field(index.name).position
        column |= {first + k: at + k for k in range(index.places)}
        at += index.places
    most = max(index.counts for index in plan.rows.indices)
    columns = [
        tuples[:, column[position]] + number * most
        for number, group in enumerate(places(plan))
        for position, _ in group
    ]
    return list(zip(*(rows.tolist() for rows in columns), strict=True))


def _next(
    waiting: Sequence[int], rows: Sequence[tuple[int, ...]], latest: Sequence[tuple[int, ...]]
) -> int:
    held = {row for each in latest for row in each}
    for n in waiting:
        if held.isdisjoint(rows[n]):
            return n
        held.update(rows[n])
    return waiting[0]


class Reordered(TupleSource):
    """Tuples of a source behind the choice, a tuple a group; which ones they are, `in_turn` says."""

    def __init__(self, plan: AnalyticsPlan, source: TupleSource) -> None:
        self.source, self.window, self.batch = source, plan.rows.reorder, plan.merge_count
        self.left = self.batch  # tuples of the batch that have not gone on
        self.came: deque[tuple[int, bool]] = deque()  # those that are there: when, an epoch's end
        self.gone: deque[int] = deque([-1] * self.window, self.window)  # when the latest went on

    @property
    def page(self) -> int:
        return self.source.page

    @property
    def alike(self) -> int:
        return self.source.alike

    @property
    def shift_invariant(self) -> bool:
        return self.source.shift_invariant

    def ask_ahead(self, stop: int) -> None:
        self.source.ask_ahead(stop)

    def take(self, ready: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], int, bool]:
        cycles: list[int] = []
        for earliest in ready:
            over = self._choose(earliest)
            cycles.append(self.gone[-1])
            if over:
                return cycles, 0, True
        return cycles, 1, False

    def _choose(self, earliest: int) -> bool:
        """Let a tuple or an epoch's end go on, from cycle `earliest` on; return whether it was an end."""
        arrival = -1
        for n in range(min(self.window, self.left)):
            if n == len(self.came):
                free = self.gone[n]  # the one in whose place it comes
                [cycle], _, end = self.source.take([free], [1])
                self.came.append((cycle, end))
            arrival, end = self.came[n]
            if end:
                break
        over = self.came[0][1]
        self.gone.append(max(arrival, self.gone[-1], earliest - 1) + 1)
        self.left = self.batch if over or self.left == 1 else self.left - 1
        self.came.popleft()
        return over

    def state(self, base: int) -> tuple[int, ...]:
        times = [t - base for t in (*self.gone, *(t for t, _ in self.came))]
        return (self.left, *(end for _, end in self.came), *times, *self.source.state(base))

    def delay(self, cycles: int) -> None:
        self._later(cycles)
        self.source.delay(cycles)

    def leap(self, pages: int, cycles: int) -> None:
        self._later(cycles)
        self.source.leap(pages, cycles)

    def _later(self, cycles: int) -> None:
        self.gone = deque([t + cycles for t in self.gone], self.window)
        self.came = deque([(t + cycles, end) for t, end in self.came])


def cost(plan: AnalyticsPlan) -> Cost:
    """Return about what the hardware takes, as synthesised alone for an ECP5: four shapes are within 6 %."""
    kept, most = 1 + plan.format.width * len(codes(plan)), reach(plan)
    groups = places(plan)
    rows, pairs = (row_bits(plan) * sum(len(g) ** n for g in groups) for n in (1, 2))
    luts = 150 + 1.6 * plan.rows.reorder * kept + 0.67 * pairs * (plan.rows.reorder + most)
    return Cost(round(luts), 40 + plan.rows.reorder * kept + most * rows)
