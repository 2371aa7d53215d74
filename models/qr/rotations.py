"""Cycles of the solver of method `givens`: rotations, both solves and the new factor of several jobs, interleaved.

The triangular array of rotations is folded onto `vectors` vector units: unit k mod `vectors` has column k of all contexts. A row visits the columns in order;
at each it waits in one of `PLACES` places until the column's row of u may be rotated again. Each cycle one operation is issued: a row of the factor
that comes in, else of the oldest context that may the one in its lowest column. Behind its last row follows the right side,
which is rotated by nothing but takes u's rows with it: that is the forward solve, and the factor's way out. See docs/qr.md.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from .config import FitPlan
from .contexts import Context, State
from .factor_writer import FactorWriter
from .folding import Folding
from .schedule import STEP, VECTORING

__all__ = ["ARRIVE", "BACK", "PLACES", "RING", "Rotations", "alone"]

#: places for rows before each column of a context
PLACES = 3
#: new rows that a context holds before its first column
RING = 64
#: from an operation's issue to its first results; from a rotation's to that of its column's next one `STEP`
RESULT = VECTORING + STEP
#: from a rotation's issue to that of its row's next one, whose first element goes straight from lane to vectoring unit
ARRIVE = RESULT - 2
#: from a step of back substitution to the next one: its lanes may lie a cycle apart
BACK = STEP + 1
#: from an operation's issue to its first lane's operands from memory
_READ = VECTORING + 1


class Rotations:
    """One solver, cycle by cycle: the twin of `hdl.qr.givens.Givens`.

    In each cycle that is not passed over `look`, then `step` with what its streams offer. What is ready depends on what was before, and is there after `look`.

    Parameters
    ----------
    config
        `vectors`, `lanes`, `contexts`, `bus_bytes`.
    wake
        Told of cycles to come in which something happens by itself; others in which nothing is offered may be passed over.
    """

    def __init__(self, config: FitPlan, wake: Callable[[int], None]) -> None:
        self.config, self.wake = config, wake
        self.contexts: list[Context] = []  # by age
        self.places = list(range(config.contexts))
        self.units = [0] * config.vectors  # first free cycles
        self.of_unit = [
            sum(1 << k for k in range(v, config.n_max, config.vectors))
            for v in range(config.vectors)
        ]
        self.loads = self.takes = 0  # first cycles in which a row may come in, and one may go out
        self.events: dict[int, list[Callable[[], None]]] = {}
        self.to_fill: deque[Context] = deque()
        self.to_side: deque[Context] = deque()
        self.writer = FactorWriter(config)
        self.ended: list[int] = []  # jobs whose weights are there in this cycle
        self.rotated = 0  # the cycle in which the last rotation's results are written

    def look(self, time: int) -> None:
        """Begin a cycle."""
        self.ended.clear()
        for action in self.events.pop(time, ()):
            action()

    @property
    def start_ready(self) -> bool:
        return bool(self.places) and not self.loading

    @property
    def loading(self) -> bool:
        """Whether rows of a factor are to come."""
        return bool(self.contexts) and self.contexts[-1].loaded < self.contexts[-1].work.columns

    def row_ready(self, end: bool) -> bool:
        """Whether a row, or the end of a job's, is taken."""
        return bool(self.to_fill) and (end or self.to_fill[0].held < RING)

    def load_taken(self, time: int) -> bool:
        """Whether the last lanes of a factor's row are taken in this cycle; known after `step`."""
        return time == self.loads - 1

    def step(
        self,
        time: int,
        start: tuple[int, Folding] | None,
        load: bool,
        row: bool | None,
        side: bool | None,
    ) -> bool:
        """One cycle. `start`: a job is taken; `load`: a row of a factor is offered; `row`: a new row is taken, or (True) the end of a job's; `side`: a column
        of the right side is taken, True: its last one. Return whether anything has moved.
        """
        moved = start is not None or self.writer.busy
        gone = self.writer.step()
        if gone is not None:
            self._at(time + 1, lambda: self._gone(*gone))
        if row is not None:
            self._fill(time, row)
        if side:
            self._at(time + 1, partial(setattr, self.to_side.popleft(), "side", True))
        moved |= (load and self._load(time)) or self._issue(time)
        for context in [c for c in self.contexts if c.weights and c.gone]:
            self.contexts.remove(context)
            heapq.heappush(self.places, context.place)
            moved = True
        if start is not None:
            self._start(*start)
        return moved

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self.events.setdefault(time, []).append(action)
        self.wake(time)

    def _start(self, job: int, work: Folding) -> None:
        n = work.columns
        context = Context(
            job,
            work,
            heapq.heappop(self.places),
            n if work.fresh else 0,
            (1 << n) - 1 if work.fresh else 0,
            room=(2 << n) - 1,
            rows=[deque() for _ in range(n + 1)],
            taken=[0] * (n + 1),
            tail=[0] * (n + 1),
        )
        self.contexts.append(context)
        self.to_fill.append(context)
        self.to_side.append(context)

    def _fill(self, time: int, end: bool) -> None:
        context = self.to_fill[0]
        if end:
            self.to_fill.popleft()
            self._at(time + 1, lambda: setattr(context, "ended", True))
        else:
            context.held += 1
            self._at(time + 1, lambda: setattr(context, "ring", context.ring + 1))

    def _slots(self, context: Context, column: int) -> int:
        return -(-(context.work.columns - 1 - column) // self.config.lanes)

    def _unit(self, column: int) -> int:
        return column % self.config.vectors

    def _busy(self, unit: int, until: int) -> None:
        self.units[unit] = until
        self.wake(until)

    def _use(self, context: Context, column: int, time: int, slots: int) -> None:
        """A column's operation: its unit is busy, and the column for `STEP` cycles."""
        if slots:
            self._busy(self._unit(column), time + slots)
        context.free &= ~(1 << column)
        self._at(time + STEP, lambda: setattr(context, "free", context.free | 1 << column))

    def _load(self, time: int) -> bool:
        if not self.loading or self.loads > time:
            return False
        context = self.contexts[-1]
        column = context.loaded
        slots = self._slots(context, column)
        if slots and self.units[self._unit(column)] > time:
            return False
        self._use(context, column, time, slots)
        self.loads = time + max(1, slots)
        self.wake(self.loads - 1)
        self.wake(self.loads)
        context.loaded += 1
        return True

    def _issue(self, time: int) -> bool:
        free_units = 0
        for busy, columns in zip(self.units, self.of_unit, strict=True):
            if busy <= time:
                free_units |= columns
        for context in self.contexts:
            if self._token(context, time, free_units):
                return True
            last = 1 << context.work.columns - 1
            waiting = context.waiting | (context.ring > 0)
            ready = waiting & context.free & (free_units | last) & (context.room >> 1 | last)
            if ready:
                self._row(context, (ready & -ready).bit_length() - 1, time)
                return True
        return False

    def _row(self, context: Context, column: int, time: int) -> None:
        """Rotate the row that has waited longest before this column."""
        if column == 0:
            # its place in the ring is free when its last lanes have been read
            end = context.work.met[context.entered]
            context.ring -= 1
            context.entered += 1
            self._at(
                time + _READ + self._slots(context, 0),
                lambda: setattr(context, "held", context.held - 1),
            )
        else:
            place, end = context.rows[column].popleft()
            self._leave(context, column, place)
        slots = self._slots(context, column)
        self._use(context, column, time, slots)
        self.rotated = max(self.rotated, time + RESULT + max(slots, 1) - 1)
        if column + 1 < context.work.columns:
            self._fly(context, column + 1, end, time)

    def _leave(self, context: Context, column: int, place: int) -> None:
        context.taken[column] &= ~(1 << place)
        self._mark(context, column)

    def _mark(self, context: Context, column: int) -> None:
        bit = 1 << column
        context.waiting = context.waiting | bit if context.rows[column] else context.waiting & ~bit
        full = context.taken[column] >> context.tail[column] & 1
        context.room = context.room & ~bit if full else context.room | bit

    def _fly(self, context: Context, column: int, end: int, time: int) -> None:
        """A row on its way to a column, unless it ends before it."""
        place = context.tail[column]
        context.taken[column] |= 1 << place
        context.tail[column] = (place + 1) % PLACES
        self._mark(context, column)

        def arrive() -> None:
            if end > column:
                context.rows[column].append((place, end))
                self._mark(context, column)
            else:
                self._leave(context, column, place)

        self._at(time + ARRIVE, arrive)

    def _token(self, context: Context, time: int, free_units: int) -> bool:
        """The right side's next operation, if it may go."""
        state = context.state
        if state in (State.FLIES, State.LEAVES, State.ENDS):
            return False
        if state is State.BACK:
            return self._back(context, time)
        column = context.keeps if state is State.KEEPS else context.column
        if not context.free & free_units & 1 << column:
            return False
        if state is State.DROPS:
            if not context.room >> column + 1 & 1:
                return False
            self._use(context, column, time, self._slots(context, column))
            again = context.work.again[column]
            assert again is not None
            self._fly(context, column + 1, column + 1 + again, time)
            context.state, context.again = State.SIDE, True
            return True
        if (
            self.takes > time
            or (context.taken[column] if column else not context.ended or context.ring)
            or not context.side
        ):
            return False
        slots = max(1, self._slots(context, column))
        self._use(context, column, time, slots)
        self.takes = time + slots
        self.wake(self.takes)
        if state is State.SIDE:
            context.state = State.FLIES
            self._at(time + ARRIVE, lambda: self._arrived(context))
        elif column + 1 < context.work.columns:
            context.keeps += 1
        else:
            context.state = State.LEAVES
            self._at(time + ARRIVE, lambda: self.writer.give(context, State.DROPS))
        return True

    def _arrived(self, context: Context) -> None:
        if context.work.again[context.column] and not context.again:
            context.state, context.keeps = (
                (State.DROPS, 0) if context.gone else (State.KEEPS, context.column + 1)
            )
        elif context.column + 1 < context.work.columns:
            context.state, context.column, context.again = State.SIDE, context.column + 1, False
        else:
            context.state, context.back = State.BACK, context.work.columns - 1
            if not context.gone:
                self.writer.give(context, None)

    def _gone(self, context: Context, then: State | None) -> None:
        context.gone = True
        if then is not None:
            context.state = then

    def _back(self, context: Context, time: int) -> bool:
        unit = self.config.vectors - 1
        if self.units[unit] > time:
            return False
        step = context.back
        slots = -(-(step or context.work.columns) // self.config.lanes)
        self._busy(unit, time + slots)
        if step:
            context.back -= 1
            context.state = State.FLIES
            self._at(time + BACK, lambda: setattr(context, "state", State.BACK))
            return True
        context.state = State.ENDS
        end = time + RESULT + slots
        self._at(end, lambda: self._end(context))
        return True

    def _end(self, context: Context) -> None:
        context.weights = True
        self.ended.append(context.job)


def alone(config: FitPlan, works: Sequence[Folding], *, rotated: bool = False) -> int:
    """Return the cycles of one solver from the first job's start to the last weights (`rotated`: to the last rotation), everything there from the start."""
    solver, waiting = Rotations(config, lambda time: None), deque(enumerate(works))
    rows, sides = (
        deque[int](),
        deque[int](),
    )  # of each job: rows and columns of its right side that are still to come
    time = end = 0
    while True:
        solver.look(time)
        if solver.ended:
            end = time
        start = waiting.popleft() if waiting and solver.start_ready else None
        row = _next(rows) if rows and solver.row_ready(not rows[0]) else None
        side = None
        if sides:
            sides[0] -= 1
            side = not sides[0]
            if side:
                sides.popleft()
        solver.step(time, start, True, row, side)
        if start is not None:
            rows.append(len(start[1].met))
            sides.append(start[1].columns)
        if not (solver.contexts or waiting):
            return solver.rotated if rotated else end
        time += 1


def _next(rows: deque[int]) -> bool:
    """Take the next row; return whether it is the end of its job's rows."""
    rows[0] -= 1
    if rows[0] >= 0:
        return False
    rows.popleft()
    return True
