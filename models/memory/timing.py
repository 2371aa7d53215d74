"""How long memory takes: exact timing of an AXI port, shared by the cycle models and the simulation harness.

Cycles are counted by rising clock edges; "in cycle t" means that valid and ready are both high at the edge that ends cycle t.
The rules of `FixedLatency`, which `sim/native/harness.cpp` follows to the letter:

* ARREADY and AWREADY are always high; the memory's queues are unbounded.
* Read: a burst accepted on AR in cycle t offers its first beat (RVALID) in cycle t + latency at the earliest (latency >= 1).
* Beats leave in the order of their bursts. A beat is offered no earlier than `interval` cycles after its predecessor *was
  accepted*, across bursts as well: offered(k) = max(AR + latency, accepted(k - 1) + interval); it stays until accepted.
* Write: WREADY is low for `interval - 1` cycles after each accepted beat, else high, whether the beat's AW was accepted or not. A burst's
  response (BVALID) is offered `latency` cycles after the later of its AW and its last W beat, and not before the cycle after its predecessor was accepted.
* `interval` = ceil(bus bytes / bytes per cycle). Reads and writes do not share it: both directions run at full rate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

#: an unbounded past: no beat has been accepted yet
_NEVER = -(1 << 60)
#: B transfers that are noted, at most
ANSWERS = 4096


class Reads(Protocol):
    """A read port, from the reset on. Commands are given in the order of their AR handshakes; the first AR of each is in the
    cycle that is given, one AR a cycle follows."""

    @property
    def shift_invariant(self) -> bool:
        """As of `Memory`."""

    @property
    def idle_from(self) -> int:
        """The first cycle that may offer the next beat."""

    def delay(self, cycles: int) -> None:
        """Go on as if everything so far had happened `cycles` later; only where the memory is shift-invariant."""

    def read(self, ar: int, beats: int, address: int = 0) -> tuple[int, int]:
        """Read `beats` ≥ 1 for a consumer that is always ready; return the cycles of the first and last beat."""

    def address(self, ar: int, beats: int, address: int = 0) -> None:
        """Note a command of `beats` ≥ 1, for `offer` and `accept`."""

    def offer(self) -> int:
        """The first cycle in which the next beat is offered. Raises IndexError when no command is outstanding."""

    def accept(self, ready: int) -> int:
        """Take the next beat with a consumer that is ready from cycle `ready` on; return the cycle of the transfer."""

    def drain(self, beats: int, ready: int) -> tuple[int, int]:
        """Take the next beats, of one `address` at most, with a consumer that is ready from cycle `ready` on; return the first's and the last's."""


class Writes(Protocol):
    """A write port, from the reset on. Bursts are given in order; BREADY is always high."""

    def data(self, valid: int, address: int = 0) -> int:
        """Send the next W beat, valid from cycle `valid` on, of the burst at an address; return the cycle of the transfer."""

    def sent(self, aw: int, last: int, address: int = 0, beats: int = 1) -> None:
        """Note a burst whose AW and last W beat were accepted in these cycles."""

    def answered(self) -> int:
        """The cycle of the last B transfer so far; nothing may be read before it any more."""

    def answer(self) -> int:
        """The cycle of the next B transfer that was not asked for, of the latest `ANSWERS`; nothing may be read before it any more."""


class Ports(Protocol):
    """One channel of memory, whose two ports may disturb each other."""

    def port(self, bus_bytes: int) -> Reads: ...

    def write_port(self, bus_bytes: int) -> Writes: ...


class Memory(Ports, Protocol):
    """The timing of memory ports, each of which has a channel of its own. `port` and `write_port` are those of fresh channels.

    `shift_invariant`: what happens is as much later as its causes are, so that a model may leap over periods. `latency`: from
    AR to the first beat where nothing holds it up, at most; `bytes_per_cycle`: what a port can carry in the long run, each bus
    aside.
    """

    @property
    def shift_invariant(self) -> bool: ...

    @property
    def latency(self) -> int: ...

    @property
    def quickest(self) -> int:
        """From AR to the first beat, at least."""

    @property
    def bytes_per_cycle(self) -> Any: ...

    def channel(self) -> Ports:
        """A fresh channel."""

    def interval(self, bus_bytes: int) -> int:
        """Whole cycles from beat to beat at best."""

    def rate(self, bus_bytes: int) -> float:
        """Bytes a cycle that a port of `bus_bytes` reaches in the long run."""

    def least(self, read: int, written: int, bus_bytes: int) -> int:
        """The least cycles in which a port of `bus_bytes` moves so many words."""


class ReadPort:
    """One read port under the rules above; `Reads`."""

    shift_invariant = True

    def __init__(self, latency: int, interval: int) -> None:
        self.latency = latency
        self.interval = interval
        self._free = _NEVER  # the first cycle that may offer the next beat
        self._bursts: deque[list[int]] = deque()  # [earliest first beat, beats left]

    @property
    def idle_from(self) -> int:
        return self._free

    def delay(self, cycles: int) -> None:
        self._free += cycles

    def read(self, ar: int, beats: int, address: int = 0) -> tuple[int, int]:
        first = max(ar + self.latency, self._free)
        last = first + (beats - 1) * self.interval
        self._free = last + self.interval
        return first, last

    def address(self, ar: int, beats: int, address: int = 0) -> None:
        self._bursts.append([ar + self.latency, beats])

    def offer(self) -> int:
        return max(self._bursts[0][0], self._free)

    def accept(self, ready: int) -> int:
        cycle = max(self.offer(), ready)
        self._free = cycle + self.interval
        burst = self._bursts[0]
        burst[1] -= 1
        if not burst[1]:
            self._bursts.popleft()
        return cycle

    def drain(self, beats: int, ready: int) -> tuple[int, int]:
        burst = self._bursts[0]
        first = max(burst[0], self._free, ready)
        last = first + (beats - 1) * self.interval
        self._free = last + self.interval
        burst[1] -= beats
        if not burst[1]:
            self._bursts.popleft()
        return first, last


class WritePort:
    """One write port under the rules above; `Writes`."""

    def __init__(self, latency: int, interval: int) -> None:
        self.latency = latency
        self.interval = interval
        self._free = _NEVER
        self._response = _NEVER
        self._answers: deque[int] = deque(maxlen=ANSWERS)

    def data(self, valid: int, address: int = 0) -> int:
        cycle = max(valid, self._free)
        self._free = cycle + self.interval
        return cycle

    def sent(self, aw: int, last: int, address: int = 0, beats: int = 1) -> None:
        self._response = max(max(aw, last) + self.latency, self._response + 1)
        self._answers.append(self._response)

    def answer(self) -> int:
        return self._answers.popleft()

    def answered(self) -> int:
        return self._response


@dataclass(frozen=True)
class FixedLatency:
    """Memory of a fixed latency and a fixed rate on each port."""

    #: cycles from the AR handshake to the first beat's offer, and from the last W beat to the
    #: response; ≥ 1
    latency: int = 20
    #: bytes that one port can carry a cycle in each direction; ≥ 1. A rate above the bus's width
    #: counts as the bus's width.
    bytes_per_cycle: int = 8

    def __post_init__(self) -> None:
        for name, low, high in (("latency", 1, 1_000_000), ("bytes_per_cycle", 1, 4096)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(
                    f"memory {name} must be an integer from {low} to {high}, not {value!r}"
                )

    @property
    def quickest(self) -> int:
        return self.latency

    def interval(self, bus_bytes: int) -> int:
        return -(-bus_bytes // self.bytes_per_cycle)

    def rate(self, bus_bytes: int) -> float:
        return bus_bytes / self.interval(bus_bytes)

    def least(self, read: int, written: int, bus_bytes: int) -> int:
        """The least cycles in which a port of `bus_bytes` moves so many words: those of the busier direction."""
        return self.interval(bus_bytes) * max(read, written)

    #: what happens does not depend on when it happens
    shift_invariant = True

    def channel(self) -> FixedLatency:
        """What both ports of a channel are made from: reads and writes do not meet here."""
        return self

    def port(self, bus_bytes: int) -> ReadPort:
        return ReadPort(self.latency, self.interval(bus_bytes))

    def write_port(self, bus_bytes: int) -> WritePort:
        return WritePort(self.latency, self.interval(bus_bytes))

    def __str__(self) -> str:
        return f"latency={self.latency},bytes={self.bytes_per_cycle}"
