"""Tables of any size: a ring of page slots in front of a port's page reader, which a host fills while the engine reads.

Page n of a port, counted over all epochs, lies in slot n mod `slots`. The host raises the register `pages_ready` (pages that are there), the engine
counts `pages_done` (pages that were read, whose slots are free again). Page n is read only when `pages_ready` is above n, and the host writes it only
when `pages_done` is above n − `slots`: nothing is read early, nothing that is needed is overwritten.

An engine has rings where its page reader has them (`hdl.strider.sequencer`), and `Ring.register` and `Ring.counter` of each port in its register map.
"""

from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Protocol

from .shell import Counter, EngineRegister, Legal, RegisterMap

#: the cycle of what does not come
NEVER = 1 << 62


@dataclass(frozen=True)
class Ring:
    """The names of a port's ring in a register map."""

    port: int

    @property
    def ready(self) -> str:
        """The register that the host raises."""
        return f"pages_ready{self.port}"

    @property
    def done(self) -> str:
        """The counter that the engine raises; as a register it is `count_` and this."""
        return f"pages_done{self.port}"

    @property
    def register(self) -> EngineRegister:
        what = f"pages that are in port {self.port}'s ring, over all epochs, modulo 2^32"
        return EngineRegister(self.ready, 32, what, live=True, legal=Legal())

    @property
    def counter(self) -> Counter:
        return Counter(self.done, f"pages that port {self.port} has read from its ring", bits=32)


def places(known: RegisterMap) -> tuple[tuple[int, int], ...]:
    """Return the addresses of both registers of each port's ring: what is ready, and what is done. An engine without rings has none."""
    offsets = {register.name: register.offset for register in known.registers}
    rings = takewhile(lambda ring: ring.ready in offsets, map(Ring, count()))
    return tuple((offsets[ring.ready], offsets[f"count_{ring.done}"]) for ring in rings)


class Arrivals(Protocol):
    """When a port's pages come, in cycles of the run. `ready` is asked for pages in their order, each after `done` was told of those before it."""

    def ready(self, page: int) -> int:
        """Return the first cycle in which `pages_ready` is above `page`; NEVER for one that does not come."""

    def done(self, page: int, cycle: int) -> None:
        """The last word of a page was read in this cycle."""


@dataclass
class Line:
    """Arrivals over a line that brings one page after the other, and waits while the ring is full.

    As a host keeps no such time, cycles of a line are an estimate of a board's; a simulation keeps it (`sim.machine.Feed`).
    """

    slots: int
    total: int  #: pages over all epochs
    interval: int  #: cycles from page to page
    way: int = 4  #: cycles from when a slot is free to when the line begins with its page
    #: pages come in cycles that are `phase` modulo `turn`, so that lines of several ports do not
    #: raise their registers at once
    phase: int = 0
    turn: int = 4
    begins: int = 0  #: the cycle of the first one
    #: when those came that were asked for
    times: list[int] = field(default_factory=list, init=False)
    #: cycles in which the engine had read all that had come
    waited: int = field(default=0, init=False)
    _read: int = field(default=0, init=False)
    _free: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if min(self.slots, self.turn) < 1 or self.interval < 8 or self.way < 4:
            raise ValueError("a ring has a slot, a page takes eight cycles, the way at least four")

    def ready(self, page: int) -> int:
        if page >= self.total:
            return NEVER
        while len(self.times) <= page:
            free = self._free.pop(len(self.times) - self.slots, 0)
            due = max(self.times[-1] if self.times else self.begins, free) + self.interval
            self.times.append(due + (self.phase - due) % self.turn)
        return self.times[page]

    def done(self, page: int, cycle: int) -> None:
        self.waited += max(0, self.ready(page) - self._read)
        self._read = cycle
        self._free[page] = cycle + self.way
