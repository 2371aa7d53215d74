"""DRAM behind AXI ports: what the engine sees of a `Controller`, in engine cycles.

Each port has a pseudo-channel (a channel where there are none) and a controller of its own; DRAM and
controller start with the run, whose cycle 0 is DRAM cycle 0. DRAM cycle n is engine cycle ⌈n·p/q⌉,
where p/q is engine clock over DRAM clock. The rules, which `sim/memory/dram.hpp` follows:

* ARREADY, AWREADY and WREADY are always high; the controller's queues are unbounded.
* A read burst whose address is taken in engine cycle t, and a write burst whose last word is, come to
  the controller at the first DRAM cycle that is an engine cycle after t. Reads come before writes of
  the same cycle. A burst is served as requests for all DRAM bursts that it touches, in order.
* A read beat is offered in the engine cycle at which all its data have passed the DRAM's pins, plus
  `transit`, and not before the cycle after its predecessor was accepted. Data wait without end.
* A write burst is answered in the engine cycle at which its last data have passed the pins, plus
  `transit`, and not before the cycle after its predecessor's answer was accepted.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from ..burst_split import split
from ..timing import ANSWERS, Memory, Ports, Reads, Writes
from .controller import Controller
from .timing import Timing

_NEVER = -(1 << 60)


class Channel(Protocol):
    """A controller as bursts see it. They are given in the order in which they come to it."""

    def read(self, ar: int, address: int, beats: int, bus_bytes: int) -> Sequence[int]:
        """Return from which cycle on each beat of a burst is there whose AR was in cycle `ar`."""

    def write(self, last: int, address: int, beats: int, bus_bytes: int) -> int:
        """Return the cycle of the answer to a burst whose last word was taken in cycle `last`."""

    def commands(self) -> dict[str, int]:
        """Return how many commands went to the DRAM so far, by name."""


class PlainChannel:
    """The specification, in plain Python."""

    def __init__(self, memory: Dram) -> None:
        self.memory, self.controller = memory, Controller(memory.timing)

    def _arrival(self, cycle: int) -> int:
        """Return the first DRAM cycle that is an engine cycle after `cycle`."""
        ratio = self.memory.ratio
        return cycle * ratio.denominator // ratio.numerator + 1

    def _engine(self, cycle: int) -> int:
        """Return the engine cycle in which DRAM cycle `cycle` is, and what it takes to get there."""
        ratio = self.memory.ratio
        return -(-cycle * ratio.numerator // ratio.denominator) + self.memory.transit

    def read(self, ar: int, address: int, beats: int, bus_bytes: int) -> list[int]:
        timing, arrival = self.memory.timing, self._arrival(ar)
        size, ready, served = timing.burst_bytes, [], -1
        cycle = 0
        for at in range(address, address + beats * bus_bytes, bus_bytes):
            last = (at + bus_bytes - 1) // size
            for burst in range(max(at // size, served + 1), last + 1):
                done = self.controller.serve(False, arrival, burst) + timing.read_latency
                cycle, served = self._engine(done), burst
            ready.append(cycle)
        return ready

    def write(self, last: int, address: int, beats: int, bus_bytes: int) -> int:
        timing, arrival, done = self.memory.timing, self._arrival(last), 0
        size = timing.burst_bytes
        for burst in range(address // size, (address + beats * bus_bytes - 1) // size + 1):
            done = self.controller.serve(True, arrival, burst) + timing.write_latency
        return self._engine(done)

    def commands(self) -> dict[str, int]:
        return {name: count for name, count in self.controller.checker.count.items() if count}


class _Shared:
    """A channel, and what is known to come to it, in the order of cycles; reads before writes."""

    def __init__(self, channel: Channel, bus_bytes: int) -> None:
        self.channel, self.bus_bytes = channel, bus_bytes
        # bursts that have not come to the channel yet: cycle, address, beats
        self._reads: deque[tuple[int, int, int]] = deque()
        self._writes: deque[tuple[int, int, int]] = deque()
        self._beats: deque[int] = deque()  # from which cycle on each beat is there
        self._answered = 0
        self._answers: deque[int] = deque(maxlen=ANSWERS)

    def read(self, ar: int, address: int, beats: int) -> None:
        self._reads.append((ar, address, beats))

    def write(self, last: int, address: int, beats: int) -> None:
        self._writes.append((last, address, beats))

    def beats(self) -> deque[int]:
        """Return from which cycle on the beats that are next are there, at least one. Everything
        that comes to the channel before its address must be known."""
        while not self._beats:
            self._next()
        return self._beats

    def all_answered(self) -> int:
        """Return the cycle of the last answer, where nothing comes that is not known."""
        while self._writes:
            self._next()
        return self._answered

    def answer(self) -> int:
        """Return the cycle of the next answer that was not asked for."""
        while not self._answers:
            self._next()
        return self._answers.popleft()

    def _next(self) -> None:
        reads, writes = self._reads, self._writes
        if writes and not (reads and reads[0][0] <= writes[0][0]):
            done = self.channel.write(*writes.popleft(), self.bus_bytes)
            self._answered = max(self._answered + 1, done)
            self._answers.append(self._answered)
        else:
            self._beats.extend(self.channel.read(*reads.popleft(), self.bus_bytes))


class DramReads:
    """A read port; `models.memory.timing.Reads`. Commands are split into bursts as
    `BurstReader` does, with an AR a cycle."""

    shift_invariant = False

    def __init__(self, shared: _Shared) -> None:
        self._shared, self._free = shared, _NEVER

    @property
    def idle_from(self) -> int:
        return self._free

    def delay(self, cycles: int) -> None:
        raise ValueError("DRAM is not the same at any other time")

    def address(self, ar: int, beats: int, address: int = 0) -> None:
        """Note a command of `beats` ≥ 1 whose first AR is in cycle `ar`."""
        for k, (at, length) in enumerate(split(address, beats, self._shared.bus_bytes)):
            self._shared.read(ar + k, at, length)

    def offer(self) -> int:
        return max(self._shared.beats()[0], self._free)

    def accept(self, ready: int) -> int:
        cycle = max(self.offer(), ready)
        self._shared.beats().popleft()
        self._free = cycle + 1
        return cycle

    def read(self, ar: int, beats: int, address: int = 0) -> tuple[int, int]:
        self.address(ar, beats, address)
        return self.drain(beats, 0)

    def drain(self, beats: int, ready: int) -> tuple[int, int]:
        first, left = self.accept(ready), beats - 1
        free = first + 1
        while left:
            held = self._shared.beats()
            count = min(left, len(held))
            for _ in range(count):
                cycle = held.popleft()
                free = (cycle if cycle > free else free) + 1
            left -= count
        self._free = free
        return first, free - 1


class DramWrites:
    """A write port; `models.memory.timing.Writes`."""

    def __init__(self, shared: _Shared) -> None:
        self._shared, self._free = shared, _NEVER

    def data(self, valid: int, address: int = 0) -> int:
        cycle = max(valid, self._free)
        self._free = cycle + 1
        return cycle

    def sent(self, aw: int, last: int, address: int = 0, beats: int = 1) -> None:
        self._shared.write(max(aw, last), address, beats)

    def answered(self) -> int:
        return self._shared.all_answered()

    def answer(self) -> int:
        return self._shared.answer()


class _Ports:
    """One channel; both its ports have its one controller."""

    def __init__(self, memory: Dram) -> None:
        self._memory = memory
        self._shared: _Shared | None = None

    def _of(self, bus_bytes: int) -> _Shared:
        if self._shared is None:
            self._shared = _Shared(self._memory.make(self._memory), bus_bytes)
        return self._shared

    def port(self, bus_bytes: int) -> DramReads:
        return DramReads(self._of(bus_bytes))

    def write_port(self, bus_bytes: int) -> DramWrites:
        return DramWrites(self._of(bus_bytes))


@dataclass(frozen=True)
class Dram:
    """DRAM behind every port."""

    timing: Timing
    ratio: Fraction = Fraction(1)  #: engine clock over DRAM clock, p/q
    transit: int = 0  #: engine cycles from the DRAM's pins to the port, both ways together
    #: what makes a channel: the specification, or what equals it
    make: Callable[[Dram], Channel] = field(default=PlainChannel, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (0 < self.ratio and max(self.ratio.numerator, self.ratio.denominator) < 1 << 20):
            raise ValueError(f"the ratio of clocks is two whole numbers, not {self.ratio}")
        if not 0 <= self.transit <= 1_000_000:
            raise ValueError(f"transit must be from 0 to 1000000 cycles, not {self.transit}")

    #: what happens depends on when it happens: refresh
    shift_invariant = False

    @property
    def latency(self) -> int:
        """Engine cycles from AR to the first beat of a closed bank that nothing holds up, at most."""
        dram = self.timing["nRCDRD"] + self.timing.read_latency + 1
        return -(-dram * self.ratio.numerator // self.ratio.denominator) + self.transit + 1

    @property
    def quickest(self) -> int:
        """Engine cycles from AR to the first beat of an open row, at least."""
        return math.floor(self.timing.read_latency * self.ratio) + 1 + self.transit

    @property
    def peak(self) -> Fraction:
        """Bytes an engine cycle of the pins."""
        return Fraction(self.timing.burst_bytes, self.timing["nBL"]) / self.ratio

    @property
    def sustained(self) -> Fraction:
        """Bytes an engine cycle of a long stream of full DRAM bursts, refreshes taken off."""
        timing = self.timing
        share = 1 - Fraction(self._lost, timing["nREFI"])
        return Fraction(timing.burst_bytes, self._gap) / self.ratio * share

    def least(self, read: int, written: int, bus_bytes: int) -> int:
        """The least engine cycles in which a port of `bus_bytes` moves so many words.

        The port moves one a cycle in each direction. The DRAM's pins carry both: full bursts every
        nCCDS (nCCDL in one bank group), and none from a precharge for a refresh until a row is open
        again. A stream's other rows are opened while data pass.
        """
        timing = self.timing
        bursts = -(-(read + written) * bus_bytes // timing.burst_bytes)
        busy = bursts * self._gap
        # a run of T cycles has T // nREFI refreshes, each of which takes `lost` from the data
        share = 1 - Fraction(self._lost, timing["nREFI"])
        dram = max(busy, math.floor((busy - self._lost) / share))
        return max(read, written, math.floor(dram * self.ratio))

    @property
    def _gap(self) -> int:
        """Cycles from burst to burst at best."""
        timing = self.timing
        return max(
            timing["nBL"], timing["nCCDS"] if timing.organisation.groups > 1 else timing["nCCDL"]
        )

    @property
    def _lost(self) -> int:
        """Cycles that a refresh takes from the data, at least."""
        return self.timing["nRFC"] + self.timing["nRP"] + self.timing["nRCDWR"]

    @property
    def bytes_per_cycle(self) -> float:
        return float(self.sustained)

    def interval(self, bus_bytes: int) -> int:
        """Engine cycles from beat to beat at best, whole ones."""
        return max(1, -(-bus_bytes // self.peak))

    def rate(self, bus_bytes: int) -> float:
        return min(float(bus_bytes), float(self.sustained))

    def channel(self) -> Ports:
        """One channel, fresh, whose `port` and `write_port` share its controller."""
        return _Ports(self)

    def port(self, bus_bytes: int) -> Reads:
        return self.channel().port(bus_bytes)

    def write_port(self, bus_bytes: int) -> Writes:
        return self.channel().write_port(bus_bytes)

    def __str__(self) -> str:
        ratio = f"{self.ratio.numerator}/{self.ratio.denominator}"
        transit = f",transit={self.transit}" if self.transit else ""
        return f"{self.timing.name},ratio={ratio}{transit}"


def counted(memory: Memory) -> tuple[Memory, Callable[[], dict[str, int]]]:
    """Return memory of the same timing, and what tells how many commands all its channels have had
    so far, by name; none where it is no DRAM. Refreshes are counted up to the last request."""
    channels: list[Channel] = []
    if not isinstance(memory, Dram):
        return memory, dict

    def make(of: Dram) -> Channel:
        channels.append(memory.make(of))
        return channels[-1]

    def commands() -> dict[str, int]:
        return dict(sum((Counter(channel.commands()) for channel in channels), Counter()))

    return replace(memory, make=make), commands
