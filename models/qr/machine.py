"""The cycles of the hardware engine (method `gram`, target `slot`), one for one: the twin of `hdl.qr.engine`."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ..memory.bursts import COMMANDS, Writer, burst_count
from ..memory.timing import Fixed
from .blocks import END, AllRows, Delta, Loader, Merge, Records, Rows, Solver
from .config import Config
from .job import Bounds
from .layout import (
    DESCRIPTOR_BYTES,
    HEAD_BYTES,
    Places,
    Size,
    anchor_words,
    change_words,
    head_words,
    memo_words,
    pass_requests,
    result_words,
    row_stride,
    sums_words,
    words,
)
from .schedule import STEP, dot_latency, widen_latency
from .work import Fails, Work

__all__ = ["AHEAD", "Times", "run"]

#: descriptors on their way, or waiting for their job to begin; jobs whose words are on their way
AHEAD = 4

_DESCRIPTOR, _HEAD, _ANCHOR, _CHANGES, _SUMS, _BITS, _ROWS, _PASS_BITS, _PASS_ROWS = range(9)


@dataclass(frozen=True)
class Request:
    """Bus words to read: what they are, of which job; `final`: the last ones of its body."""

    route: int
    job: int
    address: int
    beats: int
    final: bool = False


@dataclass
class Times:
    """Cycle of the run's end, and of the last word of each job's result and memo; words read and written; busy cycles of sums, solvers' slots, dot unit."""

    total: int
    ended: list[int]
    words_read: int = 0
    words_written: int = 0
    sums: int = 0
    slots: int = 0
    held: int = 0


class _Port:
    """`BurstReader` and the memory behind it."""

    def __init__(self, memory: Fixed, bus_bytes: int) -> None:
        self.bus_bytes, self.port = bus_bytes, memory.port(bus_bytes)
        self.flight: deque[Request] = deque()
        self.left = 0                                       # words of the oldest one that have not come
        self.free = 0                                       # the first cycle that can take the next request

    def ready(self, now: int) -> bool:
        return now >= self.free and len(self.flight) < COMMANDS

    def ask(self, now: int, request: Request) -> int:
        """Take a request; return when its first word can come at the earliest."""
        self.free = now + burst_count(request.address, request.beats, self.bus_bytes)
        self.port.address(now + 1, request.beats)
        self.left = self.left or request.beats
        self.flight.append(request)
        return self.port.offer()

    def word(self, now: int) -> Request | None:
        """What the word is of that is offered."""
        return self.flight[0] if self.flight and self.port.offer() <= now else None

    def take(self, now: int) -> bool:
        """Take that word; return whether it is the last one of its request."""
        self.port.accept(now)
        self.left -= 1
        return not self.left

    def pop(self) -> None:
        """The oldest request's words have come."""
        self.flight.popleft()
        self.left = self.flight[0].beats if self.flight else 0


class _Run:
    def __init__(self, config: Config, works: Sequence[Work], memory: Fixed, places: Sequence[Places], ring: int) -> None:
        self.config, self.works, self.places, self.ring = config, works, places, ring
        self.alarms: list[int] = []
        self.now = 0
        self.times = Times(0, [0] * len(works))
        self.port, self.writer = _Port(memory, config.bus_bytes), Writer(memory, config.bus_bytes)
        self.over: set[int] = set()                         # jobs that have been solved, or never will be
        self.overs: dict[int, list[int]] = {}
        self.fetch, self.intake, self.core, self.bounds = _Fetch(self), _Intake(self), _Core(self), _Bounds(self)

    def wake(self, cycle: int) -> None:
        if cycle > self.now:
            heapq.heappush(self.alarms, cycle)

    def set_over(self, job: int, cycle: int) -> None:
        self.overs.setdefault(cycle, []).append(job)
        self.wake(cycle)

    def go(self) -> Times:
        if not self.works:
            return Times(1, [])
        count, now = len(self.works), 1
        while self.bounds.retired_all is None:
            self.now = now
            self.over.update(self.overs.pop(now, ()))
            moved = self._cycle(now)
            if moved:
                now += 1
                continue
            while self.alarms and self.alarms[0] <= now:
                heapq.heappop(self.alarms)
            now = heapq.heappop(self.alarms)
        assert len(self.times.ended) == count
        self.times.total = self.bounds.retired_all
        return self.times

    def _cycle(self, now: int) -> bool:
        fetch, intake, core, bounds, port = self.fetch, self.intake, self.core, self.bounds, self.port
        core.look(now)
        bounds.look(now)
        request = port.word(now)
        taken = request is not None and intake.takes(request)
        last = False
        if request is not None:
            if taken:
                last = port.take(now)
                self.times.words_read += 1
            else:
                self.times.held += 1
        route = request.route if taken and request is not None else -1
        fed = route if route >= 0 and not (route in (_CHANGES, _SUMS, _BITS, _ROWS) and intake.bad) else -1
        moved = taken
        retired = bounds.retired(now)
        asks = bounds.asks
        given = intake.pending and core.ready(self.works[intake.job])
        pops = intake.pops(request if taken else None, last, given)
        moved |= fetch.step(now, retired, route == _DESCRIPTOR and last, bounds.job if asks else None, pops)
        job = intake.job
        moved |= bounds.step(now, fed)
        moved |= core.step(now, fed, job if given else None)
        moved |= intake.step(now, request if taken else None, last, given)
        if last:
            port.pop()
        if port.flight:
            self.wake(port.port.offer())
        return moved


class _Fetch:
    """`hdl.qr.fetch`."""

    def __init__(self, run: _Run) -> None:
        self.run = run
        self.asked = self.begun = self.came = 0
        self.state = "LOOK"
        self.bodies: deque[int] = deque()
        self.pops = 0
        self.next: deque[Request] = deque()                 # of the job that begins
        self.passes: deque[Request] = deque()
        self.held: Request | None = None

    def _body(self, job: int) -> deque[Request]:
        run, config = self.run, self.run.config
        size, at, bus = run.works[job].size, run.places[job], run.config.bus_bytes
        head = head_words(size, config)
        first = Request(_HEAD, job, at.memo, head, size.full and not size.places)
        if size.full:
            return deque([first, *self._pass(job, _BITS, _ROWS)])
        sums, found = sum(sums_words(size, config)), [first]
        if config.bounds is Bounds.WIDENED:
            found.append(Request(_ANCHOR, job, at.memo + (head + sums) * bus, anchor_words(size, config)))
        if size.records:
            found.append(Request(_CHANGES, job, at.changes, change_words(size, config)))
        return deque([*found, Request(_SUMS, job, at.memo + head * bus, sums, True)])

    def _pass(self, job: int, bits: int, rows: int) -> list[Request]:
        run = self.run
        size, bus = run.works[job].size, run.config.bus_bytes
        asked = pass_requests(size.places, size.columns - 1, bus)
        return [Request(bits if of_bits else rows, job, run.places[job].rows + first * bus, beats, number == len(asked) - 1 and rows == _ROWS)
                for number, (first, beats, of_bits) in enumerate(asked)]

    def step(self, now: int, retired: int, came: bool, asks: int | None, pops: bool) -> bool:
        run, config, moved = self.run, self.run.config, False
        taken = self.held is not None and run.port.ready(now)
        if self.held is not None and not taken:
            run.wake(max(run.port.free, now + 1))
        free = self.held is None or taken
        if taken:
            assert self.held is not None
            run.wake(run.port.ask(now, self.held))
            self.held, moved = None, True
        wants = self.state == "REQUEST"
        granted = False
        if free:
            if self.passes:
                self.held = self.passes.popleft()
            elif self.asked < len(run.works) and self.asked - self.begun < AHEAD:
                bus = config.bus_bytes
                beats = words(DESCRIPTOR_BYTES, bus)
                self.held = Request(_DESCRIPTOR, self.asked, run.ring + self.asked * beats * bus, beats)
                self.asked += 1
            elif wants:
                self.held, granted = self.next[0], True
            moved |= self.held is not None
        if asks is not None:
            self.passes.extend(self._pass(asks, _PASS_BITS, _PASS_ROWS))
            moved = True
        arrived, self.came = self.came, self.came + came
        bodies = len(self.bodies)
        if pops:
            self.bodies.popleft()
            moved = True
        if self.state == "LOOK":
            if arrived > self.begun and self.begun - retired < config.jobs and bodies < AHEAD:
                self.state, moved = "KEEP", True
        elif self.state == "KEEP":
            moved = True
            if run.works[self.begun].fails is Fails.DESCRIPTOR:
                run.set_over(self.begun, now + 1)
                self.state, self.begun = "LOOK", self.begun + 1
            else:
                self.bodies.append(self.begun)
                self.next, self.state = self._body(self.begun), "REQUEST"
        elif self.state == "REQUEST" and granted:
            done = self.next.popleft()
            self.state = "LOOK" if not self.next else "PAUSE" if self._pauses(done) else "REQUEST"
            self.begun += not self.next
        elif self.state == "PAUSE":
            self.state, moved = "REQUEST", True
        return moved | came

    def _pauses(self, done: Request) -> bool:
        """A cycle without a request: where there are no changes, and before a full job's rows."""
        work = self.run.works[done.job]
        return (done.route == _HEAD and work.size.full) or (self.next[0].route == _SUMS and not work.size.records)


class _Intake:
    """`hdl.qr.intake`."""

    def __init__(self, run: _Run) -> None:
        self.run, self.state = run, "HEAD"
        self.pending = self.bad = self.final = False
        self.job = 0

    def takes(self, request: Request) -> bool:
        route, run = request.route, self.run
        if route == _DESCRIPTOR:
            return True
        if route == _HEAD:
            return self.state == "HEAD"
        if route == _ANCHOR:
            return self.state == "BODY"
        if route == _PASS_BITS:
            return run.bounds.takes[0]
        if route == _PASS_ROWS:
            return run.bounds.takes[1]
        return self.state == "BODY" and (self.bad or run.core.takes(route))

    def pops(self, request: Request | None, last: bool, given: bool) -> bool:
        """Whether a job's words have all come, and it has been given on."""
        if self.state == "LAST":
            return not self.pending
        return self.state == "BODY" and request is not None and request.final and last and not (self.pending and not given)

    def step(self, now: int, request: Request | None, last: bool, given: bool) -> bool:
        run, config, state = self.run, self.run.config, self.state
        if given:
            self.pending = False
        if state == "HEAD":
            if request is not None and request.route == _HEAD and last:
                self.job, self.final, self.state = request.job, request.final, "CHECK"
        elif state == "CHECK":
            self.state = "VERDICT"
            return True
        elif state == "VERDICT":
            work = run.works[self.job]
            self.bad = work.fails is Fails.HEAD
            if self.bad:
                run.set_over(self.job, now + 1)
            self.pending = not self.bad and (work.size.full or config.bounds is Bounds.RESCAN)
            self.state = "LAST" if self.final else "BODY"
            return True
        elif state == "BODY" and request is not None:
            if request.route == _ANCHOR and last and not self.bad:
                self.pending = True
            if request.final and last:
                self.state = "LAST" if self.pending else "HEAD"
        elif state == "LAST" and not (self.pending or given):
            self.state = "HEAD"
            return True
        return given


class _Core:
    """`hdl.qr.core`."""

    def __init__(self, run: _Run) -> None:
        self.run, config = run, run.config
        self.records, self.all_rows, self.delta, self.merge = Records(config), AllRows(config), Delta(config, run.wake), Merge()
        self.loader = Loader(config, run.wake)
        self.solvers = [Solver(config, run.wake) for _ in range(config.solvers)]
        self.busy = self.full = self.merging = False
        self.waiting: deque[int] = deque()
        self.loaded = 0                                     # the job that the loader has
        self.bits = self.put = False
        self.held, self.room = 0, sum(sums_words(Size(config.n_max, 0), config))         # words of sums in their queue

    def look(self, now: int) -> None:
        self.delta.look(now)
        self.bits, self.put = self.all_rows.rows.look()
        self.rows_taken = [solver.look(now) for solver in self.solvers]

    def ready(self, work: Work) -> bool:
        free = self.all_rows.ready if work.size.full else not self.records.cutter.active
        return not self.busy and free and len(self.waiting) < 2

    def takes(self, route: int) -> bool:
        if route == _CHANGES:
            return self.records.cutter.ready
        if route == _SUMS:
            return self.held < self.room
        return self.bits if route == _BITS else self.put

    def step(self, now: int, fed: int, given: int | None) -> bool:
        run, moved = self.run, False
        # sums
        item = self.all_rows.item if self.full else self.records.out.item
        taken = item is not None and self.delta.takes(item)
        done, working = self.delta.done, item is not None and self.delta.open
        run.times.sums += working
        # rows to a solver
        solver = self.solvers[self.loaded % len(self.solvers)]
        row = self.loader.offers(now) and self.rows_taken[self.loaded % len(self.solvers)]
        if row:
            side = not self.loader.rows.left
            solver.load(now, self.loaded, self.loader.columns, side)
        for each in self.solvers:
            if each.waiting is not None:
                moved = True
                run.times.slots += 1
                job = each.step(now)
                if job is not None:
                    run.set_over(job, now + STEP)
        # words
        begin = done and not self.merging and not self.merge.active and self.loader.idle
        room = self.loader.ready
        word = self.merge.out if room else None
        given_on = self.held > 0 and self.merge.ready(room)
        self.held += (fed == _SUMS) - given_on
        moved |= self.merge.step(given_on, room)
        moved |= self.loader.step(now, word, row)
        freed = word == 2
        if freed:
            self.merging = False
        if begin:
            self.loaded = self.waiting.popleft()
            size = run.works[self.loaded].size
            self.merge.begin(*sums_words(size, run.config), size.full)
            self.loader.begin(size.columns)
            self.merging = moved = True
        self.delta.step(now, item, freed)
        if self.full:
            moved |= self.all_rows.step(fed == _BITS, fed == _ROWS, taken)
        else:
            moved |= self.records.step(fed == _CHANGES, taken)
        if taken and item == END:
            self.busy = False
        if given is not None:
            work, moved = run.works[given], True
            size, self.busy, self.full = work.size, True, work.size.full
            self.waiting.append(given)
            self.delta.slots = self.delta.slots_of[size.columns]
            if size.full:
                self.all_rows.begin(row_stride(size.columns - 1), work.live_places(), size.places)
            else:
                self.records.begin(size.columns - 1, size.inserted, size.buried, size.removed, size.moved)
        return moved or working


class _Bounds:
    """`hdl.qr.bounds` and `hdl.qr.writeback`."""

    def __init__(self, run: _Run) -> None:
        self.run, self.state, self.job = run, "WAIT", 0
        self.rows, self.takes = Rows(run.config, run.config.row_units), (False, False)
        self.until = self.left = 0
        self.asks = False
        self.active_until = 0                               # the last job's last word
        self.ends: list[int] = []
        self.gone = 0
        self.retired_all: int | None = None

    def retired(self, now: int) -> int:
        """Jobs whose last word was transferred in an earlier cycle."""
        while self.gone < len(self.ends) and self.ends[self.gone] < now:
            self.gone += 1
        return self.gone

    def look(self, now: int) -> None:
        self.takes = self.rows.look()
        self.asks = self.state == "ASK"

    def step(self, now: int, fed: int) -> bool:
        run, config = self.run, self.run.config
        taken = self.rows.out.item is not None
        if taken:
            self.left -= self.rows.out.item or 0
        moved = self.rows.step(fed == _PASS_BITS, fed == _PASS_ROWS, taken)
        work = run.works[self.job] if self.job < len(run.works) else None
        state = self.state
        if work is None:
            return moved
        size = work.size
        if state == "WAIT":
            if self.job in run.over:
                self.state = "BEGIN"
            return moved or self.state == "BEGIN"
        if state == "BEGIN":
            if work.fails not in (Fails.NOT, Fails.PASS):
                self.state = "OFFER"
            elif config.bounds is Bounds.WIDENED and not size.full:
                self.state = "JUDGE"
                self._sleep(now + widen_latency(config.n_max))
            else:
                self.state = "ASK" if size.places else "OFFER"
            return True
        if state == "JUDGE" and now == self.until:
            self.state = "ASK" if work.rescanned and size.places else "OFFER"
            return True
        if state == "ASK":
            self.rows.begin(row_stride(size.columns - 1), size.places)
            self.left, self.state = size.places, "READ"
            return True
        if state == "READ" and taken and not self.left:
            self.state = "SETTLE"
            self._sleep(now + dot_latency(config.n_max))
            return True
        if state == "SETTLE" and now == self.until - 1:
            self.state = "OFFER"
            return True
        if state == "OFFER":
            if now <= self.active_until:
                run.wake(self.active_until + 1)
                return moved
            self._write(now, work)
            self.job, self.state = self.job + 1, "WAIT"
            return True
        return moved

    def _sleep(self, until: int) -> None:
        self.until = until
        self.run.wake(until - 1)
        self.run.wake(until)

    def _write(self, now: int, work: Work) -> None:
        run, config, size = self.run, self.run.config, work.size
        failed = work.fails is not Fails.NOT
        beats = words(HEAD_BYTES, config.bus_bytes) if failed else result_words(size, config) + memo_words(size, config)
        first = True

        def source(previous: int) -> int:
            nonlocal first
            cycle = now + 2 if first else previous + 1
            first = False
            return cycle
        _, taken, idle = run.writer.write(now + 1, run.places[self.job].result, beats, source)
        run.times.words_written += beats
        self.active_until = taken[-1]
        self.ends.append(taken[-1])
        run.times.ended[self.job] = taken[-1]
        run.wake(taken[-1] + 1)
        if len(self.ends) == len(run.works):
            self.retired_all = max(taken[-1] + 1, idle)


def run(config: Config, works: Sequence[Work], memory: Fixed, places: Sequence[Places], ring: int) -> Times:
    """Return the cycles of a run of jobs that lie in memory where `places` and `ring` say."""
    return _Run(config, works, memory, places, ring).go()
