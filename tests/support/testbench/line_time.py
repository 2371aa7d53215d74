"""A device in simulation at the end of a line whose bytes take their time: host, line and device in one time, the device's cycles."""

from __future__ import annotations

import heapq
from types import SimpleNamespace

from penstock.host.device.session import Session
from penstock.models.link.kinds import KINDS
from penstock.sim.board import Datagrams

from .rings import Pushes

__all__ = ["OnLine", "wire"]

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
            cycles = round((comes - self.now) * self.clock_hz)
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


def wire(line: OnLine) -> Pushes:
    """A transport over a line."""
    quiet = SimpleNamespace(random=lambda: 1.0)
    return Pushes(SimpleNamespace(network=line, random=quiet), 1, float("inf"))
