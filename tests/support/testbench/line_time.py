"""A device in simulation at the end of a line whose bytes take their time: host, line and device in one time, the device's cycles."""

from __future__ import annotations

import heapq
from math import ceil
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.hdl.soc.soc import Soc
from penstock.host.device.udp_session import Session
from penstock.models.link.envelope import LONGEST
from penstock.models.link.kinds import KINDS
from penstock.models.memory.blockram import block_ram
from penstock.sim.board import Datagrams

from .recorded_pages import Recorded
from .rings import Pushes

__all__ = ["BadLine", "OnLine", "OrdinaryLine", "Telling", "for_arrivals", "wire"]

#: bytes on Ethernet around a datagram: of IP and UDP; preamble, header, FCS and gap
_AROUND = 28 + 38


class Telling(wiring.Component):
    """A device of datagrams that says when pages of its first port are ready: pins `start`, high in cycle 0 of a run, and `ready`."""

    def __init__(self, soc: Soc) -> None:
        self.soc, self.library = soc, soc.library
        super().__init__({**soc.signature.members, "start": Out(1), "ready": Out(32)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.soc = soc = self.soc
        engine = soc.shell.engine
        m.d.comb += [self.start.eq(engine.start), self.ready.eq(engine.registers.pages_ready0)]
        for name, member in soc.signature.members.items():
            outer, inner = getattr(self, name), getattr(soc, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return m


class OnLine:
    """A network of one host, which thinks in no time. `way`: seconds on the way, in which nothing is bound."""

    def __init__(self, board: Datagrams, clock_hz: int, way: float = 0.0) -> None:
        self.board, self.clock_hz, self.way = board, clock_hz, way
        self.rate = float(KINDS["udp"]().rate)
        self.free = [0.0, 0.0]  # when each direction is
        self.flying: list[tuple[float, int, bool, bytes]] = []
        self.count = 0

    @property
    def now(self) -> float:
        return self.board.cycle / self.clock_hz

    def put(self, datagram: bytes, back: bool = False) -> None:
        starts = max(self.now, self.free[back])
        self.free[back] = starts + (len(datagram) + _AROUND) / self.rate
        self.count += 1
        heapq.heappush(self.flying, (self.free[back] + self.way, self.count, back, datagram))

    def until(self, due: float) -> list[bytes]:
        """Let time pass to the next datagram for the host, or until `due`."""
        while True:
            comes = min(self.flying[0][0] if self.flying else due, due)
            cycles = ceil((comes - self.now) * self.clock_hz)  # a part of one passes, too
            if cycles > 0:
                if answer := self.board.run(cycles):
                    self.put(answer, True)
                continue
            if not self.flying or self.flying[0][0] > due:
                return []
            _, _, back, datagram = heapq.heappop(self.flying)
            if back:
                return [datagram]
            self.board.send(datagram)

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end - 1 / self.clock_hz:
            self.until(end)

    def transfer(self, session: Session, dies: float) -> bool:
        while True:
            for datagram in session.send(self.now):
                self.put(datagram)
            if session.done:
                session.finish()
                return True
            for datagram in self.until(session.due):
                session.take(datagram, self.now)


class BadLine(OnLine):
    """A network that loses, copies, spoils and overtakes datagrams both ways, by a seed."""

    def __init__(self, board: Datagrams, clock_hz: int, seed: int) -> None:
        super().__init__(board, clock_hz)
        self.random = Random(seed)
        self.share = self.random.choice([0.01, 0.05, 0.2])
        self.late = self.random.choice([2, 32, 200]) * (1024 + _AROUND) / self.rate

    def put(self, datagram: bytes, back: bool = False) -> None:
        draw = self.random
        for _ in range((draw.random() >= self.share) + (draw.random() < self.share)):
            sent = bytearray(datagram)
            if draw.random() < self.share:
                sent[draw.randrange(len(sent))] ^= 1 << draw.randrange(8)
            self.way = draw.random() * self.late * (draw.random() < self.share)
            super().put(bytes(sent), back)


class OrdinaryLine(OnLine):
    """One that loses 1 % of the datagrams each way, brings 1 % twice, and 1 % late by up to 32 places, by a seed; None: a sound one.

    `sent`: datagrams with a whole piece of a page, or of memory, that were put on it."""

    def __init__(self, board: Datagrams, clock_hz: int, seed: int | None) -> None:
        super().__init__(board, clock_hz)
        self.random, self.sent = None if seed is None else Random(seed), 0

    def put(self, datagram: bytes, back: bool = False) -> None:
        draw, share = self.random, 0.01
        self.sent += len(datagram) > LONGEST
        if draw is None:
            super().put(datagram, back)
            return
        for _ in range((draw.random() >= share) + (draw.random() < share)):
            late = draw.randint(1, 32) if draw.random() < share else 0
            self.way = late * (LONGEST + _AROUND) / self.rate
            super().put(datagram, back)


def for_arrivals(work: Any, board: Datagrams, pages: int) -> int:
    """Return the cycles that the model says of a run on a `Telling` device, for the cycles in which its pages became ready."""
    plan = work.design.plan
    known = Recorded(board.ready(pages), plan.striders.ring)
    with patch("penstock.engines.analytics.workload._lines", lambda *_: [known]):
        return int(work.model(block_ram(plan.bus_bytes)).total)


def wire(line: OnLine) -> Pushes:
    """A transport over a line."""
    quiet = SimpleNamespace(random=lambda: 1.0)
    return Pushes(SimpleNamespace(network=line, random=quiet), 1, float("inf"))
