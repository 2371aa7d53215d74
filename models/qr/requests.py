"""What the qr engine reads, and when, as the cycle model sees it: requests for words, in the order in which they come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

from .layout import (
    DESCRIPTOR_BYTES,
    anchor_words,
    change_words,
    factor_words,
    head_words,
    pass_requests,
    read_sums,
    sums_words,
    words,
)
from .running import Running
from .work import Fails

__all__ = ["AHEAD", "FetchStage", "Request", "Route"]

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


class FetchStage:
    """`hdl.qr.fetch`."""

    def __init__(self, run: Running) -> None:
        self.run = run
        self.asked = self.begun = self.came = 0
        self.state, self.pauses = "LOOK", 0
        self.bodies: deque[int] = deque()
        self.pops = 0
        self.next: deque[Request] = deque()  # of the job that begins
        self.passes: deque[Request] = deque()
        self.held: Request | None = None

    def _body(self, job: int) -> deque[Request]:
        run, config = self.run, self.run.config
        size, at, bus = run.works[job].size, run.places[job], run.config.bus_bytes
        head = head_words(size, config)
        first = Request(Route.HEAD, job, at.memo, head, size.full and not size.places)
        if size.full:
            return deque([first, *self._pass(job, Route.BITS, Route.ROWS)])
        sums, found = read_sums(size, config), [first]
        of_factor = factor_words(size, config)
        of_c = sum(sums_words(size, config)) - sums
        if config.incremental:
            found.append(
                Request(
                    Route.ANCHOR,
                    job,
                    at.memo + (head + of_c + sums + of_factor) * bus,
                    anchor_words(size, config),
                )
            )
        if of_factor:
            found.append(
                Request(Route.FACTOR, job, at.memo + (head + of_c + sums) * bus, of_factor)
            )
        if size.records:
            found.append(Request(Route.CHANGES, job, at.changes, change_words(size, config)))
        if not config.incremental:
            found += self._pass(job, Route.BITS, Route.ROWS)
        return deque([*found, Request(Route.SUMS, job, at.memo + (head + of_c) * bus, sums, True)])

    def _pass(self, job: int, bits: int, rows: int) -> list[Request]:
        run = self.run
        size, bus = run.works[job].size, run.config.bus_bytes
        asked = pass_requests(size.places, size.columns - 1, bus)
        last = len(asked) - 1 if rows == Route.ROWS and size.full else -1
        return [
            Request(
                bits if of_bits else rows,
                job,
                run.places[job].rows + first * bus,
                beats,
                number == last,
            )
            for number, (first, beats, of_bits) in enumerate(asked)
        ]

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
                self.held = Request(
                    Route.DESCRIPTOR, self.asked, run.ring + self.asked * beats * bus, beats
                )
                self.asked += 1
            elif wants:
                self.held, granted = self.next[0], True
            moved |= self.held is not None
        if asks is not None:
            self.passes.extend(self._pass(asks, Route.PASS_BITS, Route.PASS_ROWS))
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
            self.pauses = self._pauses(done, self.next[0]) if self.next else 0
            self.state = "LOOK" if not self.next else "PAUSE" if self.pauses else "REQUEST"
            self.begun += not self.next
        elif self.state == "PAUSE":
            self.pauses, moved = self.pauses - 1, True
            self.state = "PAUSE" if self.pauses else "REQUEST"
        return moved | came

    def _pauses(self, done: Request, following: Request) -> int:
        """Cycles without a request: where there are no changes, and before rows."""
        none = (
            done.route in (Route.HEAD, Route.ANCHOR, Route.FACTOR)
            and following.route in (Route.BITS, Route.SUMS)
            and not self.run.works[done.job].size.full
        )
        return none + (following.route == Route.BITS and done.route != Route.ROWS)
