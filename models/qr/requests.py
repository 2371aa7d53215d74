"""What the qr engine reads, and when, as the cycle model sees it: requests for words, in the order in which they come; and where the words go."""

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .layout import DESCRIPTOR_BYTES, change_words, memo_reads, pass_requests, words
from .stages import INTAKE, Phased, fetch
from .work import Fails

#: descriptors on their way, or waiting for their job to begin; jobs whose words are on their way
AHEAD = 4


class Route(IntEnum):
    """What words are; as in `hdl.qr.fetch`."""

    DESCRIPTOR = 0
    HEAD = 1
    ANCHOR = 2
    CHANGES = 3
    SUMS = 4
    BITS = 5
    ROWS = 6
    PASS_BITS = 7
    PASS_ROWS = 8
    FACTOR = 9


@dataclass(frozen=True)
class Request:
    """Bus words to read: what they are, of which job; `final`: the last ones of its body."""

    route: int
    job: int
    address: int
    beats: int
    final: bool = False


class FetchStage(Phased):
    """`hdl.qr.fetch`."""

    def __init__(self, run: Any, port: Any) -> None:
        super().__init__(run.wake, fetch(run.config))
        self.run, self.port = run, port
        self.asked_for = self.begun = self.came = 0
        self.bodies: deque[int] = deque()
        self.body: dict[str, Request] = {}  # of the job that begins, by phase
        self.rows: deque[Request] = deque()
        self.passes: deque[Request] = deque()
        self.held: Request | None = None
        self.conditions: dict[str, bool] = {}  # of phases

    def _begin(self, job: int) -> None:
        """What the job's body is."""
        run, config = self.run, self.run.config
        work, at, bus = run.works[job], run.places[job], run.config.bus_bytes
        size = work.size
        empty = size.full and not size.places
        wrong, places = work.fails is Fails.DESCRIPTOR, size.places > 0
        self.conditions = {"wrong": wrong, "full": size.full, "places": places, "empty": empty}
        reads = memo_reads(size, config)
        parts = {name: (at.memo + before * bus, beats) for name, (before, beats) in reads.items()}
        parts["CHANGES"] = at.changes, change_words(size, config)
        last = "HEAD" if empty else "SUMS"
        self.body = {
            name: Request(Route[name], job, address, beats, name == last)
            for name, (address, beats) in parts.items()
            if name != "CHANGES" or size.records
        }
        self.rows = deque(self._pass(job, Route.BITS, Route.ROWS))

    def _pass(self, job: int, bits: int, rows: int) -> list[Request]:
        size, at = self.run.works[job].size, self.run.places[job].rows
        bus = self.run.config.bus_bytes
        asked = pass_requests(size.places, size.columns - 1, bus)
        last = len(asked) - 1 if rows == Route.ROWS and size.full else -1
        return [
            Request(bits if of_bits else rows, job, at + first * bus, beats, number == last)
            for number, (first, beats, of_bits) in enumerate(asked)
        ]

    def _request(self, now: int) -> tuple[bool, bool]:
        """Hold the next request, a pass's first, then a descriptor's, then the body's. Return whether any moves, and whether the phase has asked."""
        run, moved = self.run, False
        wanted = self.rows[0] if self.phase == "ROWS" else self.body.get(self.phase)
        asked = wanted is None
        if self.held is not None:
            if not self.port.ready(now):
                run.wake(max(self.port.free, now + 1))
                return False, asked
            run.wake(self.port.ask(now, self.held))
            self.held, moved = None, True
        if self.passes:
            self.held = self.passes.popleft()
        elif self.asked_for < len(run.works) and self.asked_for - self.begun < AHEAD:
            bus = run.config.bus_bytes
            beats = words(DESCRIPTOR_BYTES, bus)
            at = run.ring + self.asked_for * beats * bus
            self.held = Request(Route.DESCRIPTOR, self.asked_for, at, beats)
            self.asked_for += 1
        elif wanted is not None:
            self.held, asked = wanted, True
        return moved or self.held is not None, asked

    def step(self, now: int, retired: int, came: bool, asks: int | None, pops: bool) -> bool:
        """Take a step, and return whether anything moves. `retired`: jobs that are done; `came`: a descriptor has come; `asks`: the job whose rows are read
        once more, or None; `pops`: the oldest body has come."""
        run = self.run
        moved, asked = self._request(now)
        moved |= came or pops
        if asks is not None:
            self.passes.extend(self._pass(asks, Route.PASS_BITS, Route.PASS_ROWS))
            moved = True
        room = self.begun - retired < run.config.jobs and len(self.bodies) < AHEAD
        begins = self.came > self.begun and room
        self.came += came
        if pops:
            self.bodies.popleft()
        before = self.phase
        if before == "KEEP":
            self._begin(self.begun)
        last = asked and len(self.rows) == 1
        self.conditions.update(begins=begins, asked=asked, last=last)
        turned = self.turn(now, self.conditions)
        if before == "ROWS" and asked:
            self.rows.popleft()
        elif before == "KEEP" and self.conditions["wrong"]:
            run.set_over(self.begun, now + 1)
        elif before == "KEEP":
            self.bodies.append(self.begun)
        self.begun += turned and self.phase == "LOOK"
        return moved or turned


class IntakeStage(Phased):
    """`hdl.qr.intake`."""

    def __init__(self, run: Any, core: Any, bounds: Any) -> None:
        super().__init__(run.wake, INTAKE)
        self.run, self.core, self.bounds = run, core, bounds
        self.pending = self.bad = self.final = False
        self.job = 0

    def takes(self, request: Request) -> bool:
        route = request.route
        if route == Route.DESCRIPTOR:
            return True
        if route == Route.HEAD:
            return self.phase == "HEAD"
        if route == Route.ANCHOR:
            return self.phase == "BODY"
        if route in (Route.PASS_BITS, Route.PASS_ROWS):
            return bool(self.bounds.takes[route == Route.PASS_ROWS])
        return self.phase == "BODY" and (self.bad or self.core.takes(route))

    def step(self, now: int, request: Request | None, last: bool, gives: bool) -> tuple[bool, bool]:
        """A word comes; the job is given on. Return whether anything moves, and whether the job's words have all come."""
        run, before = self.run, self.phase
        conditions = {
            "head_ends": request is not None and request.route == Route.HEAD and last,
            "body_ends": request is not None and request.final and last,
            "held": self.pending and not gives,
            "given": not self.pending,
            "final": self.final,
        }
        turned = self.turn(now, conditions)
        self.pending &= not gives
        if request is not None and before == "HEAD" and turned:
            self.job, self.final = request.job, request.final
        elif before == "VERDICT":
            work = run.works[self.job]
            self.bad = work.fails is Fails.HEAD
            if self.bad:
                run.set_over(self.job, now + 1)
            self.pending = not self.bad and (work.size.full or not run.config.incremental)
        elif before == "BODY" and request is not None and request.route == Route.ANCHOR:
            self.pending |= last and not self.bad
        return turned or gives, turned and self.phase == "HEAD"
