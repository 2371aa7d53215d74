"""A device in simulation at the end of a line whose bytes take their time: host, line and device in one time, the device's cycles."""

from __future__ import annotations

import heapq
from math import ceil
from random import Random
from types import SimpleNamespace

from penstock.host.device.session import Session
from penstock.models.link.kinds import KINDS
from penstock.sim.board import Datagrams

from .rings import Pushes

__all__ = ["BadLine", "OnLine", "wire"]

#: bytes on Ethernet around a datagram: of IP and UDP; preamble, header, FCS and gap
_AROUND = 28 + 38


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


def wire(line: OnLine) -> Pushes:
    """A transport over a line."""
    quiet = SimpleNamespace(random=lambda: 1.0)
    return Pushes(SimpleNamespace(network=line, random=quiet), 1, float("inf"))
