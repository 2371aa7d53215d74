"""When the core of method `givens` takes and gives: the twin of `hdl.qr.givens_core`, with the sums of `hdl.qr.totals`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .blocks import END, FullScan, Gearbox, Records
from .config import FitPlan
from .layout import held_words, row_stride
from .requests import Route
from .rotations import Rotations
from .schedule import CONVERT, DIV, FLOOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from .running import Running
    from .work import Work

__all__ = ["GivensCoreStage"]

#: jobs in each queue behind the command
_QUEUED = 2
#: columns of right sides between the sums and the solver
_SIDES = 2 * CONVERT + 8


class Totals:
    """`hdl.qr.totals.Totals`."""

    def __init__(self, wake: Callable[[int], None]) -> None:
        self.wake = wake
        self.full = False
        self.settles: int | None = None

    def look(self, now: int) -> None:
        if self.settles == now:
            self.full, self.settles = True, None

    def ready(self, end: bool) -> bool:
        return self.settles is None and not (end and self.full)

    def end(self, now: int) -> None:
        self.settles = now + 3
        self.wake(now + 3)


class Refresh:
    """`hdl.qr.totals.Refresh`: one sum after the other, then columns of right sides."""

    def __init__(self, config: FitPlan, wake: Callable[[int], None]) -> None:
        self.scans, self.wake = not config.incremental, wake
        self.cutter = Gearbox(config.bus_bytes // 8, 1)
        self.active = self.fresh = False
        self.columns = self.part = self.column = self.asked = 0
        self.known: int | None = None  # when h is
        self.under_way = 0
        self.sides: deque[tuple[int, bool]] = (
            deque()
        )  # when columns are there, whether they are their job's last
        self.ends: int | None = None  # when the last word is taken

    def begin(self, columns: int, fresh: bool) -> None:
        self.active, self.fresh, self.columns, self.known = True, fresh, columns, None
        self.part = self.column = 0
        self.asked = int(self.scans)

    def side(self, now: int) -> bool | None:
        """The column that is offered: whether it is its job's last."""
        return self.sides[0][1] if self.sides and self.sides[0][0] <= now else None

    def step(self, now: int, put: bool, side: bool) -> bool:
        """A word of the memo's sums comes; a column goes."""
        cutter = self.cutter
        none = self.fresh or (self.scans and not self.part)
        offers = cutter.offers and cutter.left > 0
        waits = self.part == 2 and (
            self.known is None or self.known > now or self.under_way == _SIDES
        )
        take = self.active and (none or offers) and not waits
        ends = cutter.active and cutter.left == 0
        commands = self.active and not self.fresh and self.asked != 2 and not cutter.active
        cutter.step(put, ends or (take and not none))
        if commands:
            count = self.columns << self.asked
            cutter.begin(1, 0, count, count)
            self.asked += 1
        if side:
            self.sides.popleft()
            self.under_way -= 1
        if take:
            self._take(now)
        return put or side or take or ends or commands

    def _take(self, now: int) -> None:
        last = self.column == self.columns - 1
        if self.part == 1 and not self.column:
            self.known = now + 2 + CONVERT + DIV + FLOOR
            self.wake(self.known)
        if self.part == 2:
            self.under_way += 1
            self.sides.append((now + 4 + CONVERT, last))
            self.wake(now + 4 + CONVERT)
        self.column += 1
        if last:
            self.column, self.part = 0, self.part + 1
        if self.part == 3:
            self.active, self.ends = False, now + 1
            self.wake(now + 1)


class GivensCoreStage:
    """`hdl.qr.givens_core`."""

    def __init__(self, run: Running) -> None:
        self.run, self.config = run, run.config
        config = run.config
        self.records = Records(config)
        self.full_scan = FullScan(config)
        self.totals = Totals(run.wake)
        self.refresh = Refresh(config, run.wake)
        self.solver = Rotations(config, run.wake)
        self.cutter = Gearbox(config.bus_bytes // 4, config.n_max)
        self.busy = self.places = self.merging = False
        self.scans = not config.incremental
        self.waiting: deque[int] = deque()  # jobs whose sums are to come, whose start, whose factor
        self.starts: deque[int] = deque()
        self.factors: deque[int] = deque()
        self.bits = self.put = False
        self.held, self.room = 0, held_words(config)  # words of sums in their queue
        self.half: set[int] = set()  # jobs whose weights are there, or whose new factor is

    def look(self, now: int) -> None:
        self.totals.look(now)
        self.solver.look(now)
        self.bits, self.put = self.full_scan.rows.look()

    def ready(self, work: Work) -> bool:
        free = (self.full_scan.ready or not (work.size.full or self.scans)) and (
            work.size.full or not self.records.cutter.active
        )
        return (
            not self.busy
            and free
            and max(len(self.waiting), len(self.starts), len(self.factors)) < _QUEUED
        )

    def takes(self, route: int) -> bool:
        ways = {
            Route.CHANGES: self.records.cutter.ready,
            Route.SUMS: self.held < self.room,
            Route.FACTOR: self.cutter.ready,
            Route.BITS: self.bits,
            Route.ROWS: self.put,
        }
        return ways[Route(route)]

    def step(self, now: int, fed: int, given: int | None) -> bool:
        item = self.full_scan.item if self.places else self.records.out.item
        passed = self.scans and not self.places and item == END
        # changes wait while bounds have the dot unit
        holds = self.run.bounds.uses and not self.places and item is not None and not passed
        if passed or holds:
            item = None
        folded = item is not None and item != 0
        taken = (
            item is not None
            and self.totals.ready(item == END)
            and (not folded or self.solver.row_ready(item == END))
        )
        self.run.times.sums += taken and item != END
        begins = not self.refresh.active and self.totals.full and not self.merging
        moved = self._solve(now, fed == Route.FACTOR, item == END if taken and folded else None)

        # sums
        last = self.refresh.ends == now
        if begins:
            size = self.run.works[self.waiting.popleft()].size
            self.refresh.begin(size.columns, size.full)
            self.merging = moved = True
        if last:
            self.merging = self.totals.full = False
            self.refresh.ends, moved = None, True
        if taken and item == END:
            self.totals.end(now)
            self.busy = False

        # records, rows
        if self.places or self.scans:
            moved |= self.full_scan.step(
                fed == Route.BITS, fed == Route.ROWS, taken and self.places
            )
        if not self.places:
            moved |= self.records.step(fed == Route.CHANGES, taken or passed)
        self.places |= passed
        self.held += fed == Route.SUMS
        if given is not None:
            self._begin(given)
        return moved or taken or holds or given is not None

    def _solve(self, now: int, put: bool, row: bool | None) -> bool:
        """The solver's cycle, and that of the streams to it."""
        solver, cutter, works = self.solver, self.cutter, self.run.works
        for job in solver.ended:
            self._half(job, now + 1)
        start = (
            (self.starts[0], works[self.starts[0]].folding())
            if self.starts and solver.start_ready
            else None
        )
        side = self.refresh.side(now) if solver.to_side else None
        word = self.held > 0 and self.refresh.cutter.ready
        offers, ends = cutter.offers and cutter.left > 0, cutter.active and cutter.left == 0
        commands = bool(self.factors) and not cutter.active
        moved = solver.step(now, start, offers, row, side)
        if solver.writer.whole is not None:
            self._half(solver.writer.whole, now + 1)
        loaded = offers and solver.load_taken(now)
        cutter.step(put, ends or loaded)
        if commands:
            n = works[self.factors.popleft()].size.columns
            cutter.begin(n, -1, n, n * (n + 1) // 2)
        if start is not None:
            self.starts.popleft()
        moved |= self.refresh.step(now, word, side is not None)
        self.held -= word
        return moved or put or ends or loaded or commands

    def _half(self, job: int, cycle: int) -> None:
        """One of weights and new factor is there; a job is over when both are."""
        if job in self.half:
            self.half.remove(job)
            self.run.set_over(job, cycle)
        else:
            self.half.add(job)

    def _begin(self, job: int) -> None:
        work = self.run.works[job]
        size, self.busy, self.places = work.size, True, work.size.full
        self.waiting.append(job)
        self.starts.append(job)
        if size.full or self.scans:
            self.full_scan.begin(row_stride(size.columns - 1), work.live_places(), size.places)
        if not size.full:
            self.factors.append(job)
            self.records.begin(
                size.columns - 1, size.inserted, size.buried, size.removed, size.moved
            )
