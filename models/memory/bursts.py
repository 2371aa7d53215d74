"""How commands become AXI bursts, and when: the twins of `hdl.memory.reader` and `hdl.memory.writer`.

A command reads or writes `beats` bus words from a bus-aligned address on. It is split at multiples of the *window*, min(256
beats, 4 KiB), so that no burst is longer than AXI4 allows or crosses a 4 KiB boundary.
"""

from collections import deque
from collections.abc import Callable

from ..timeline import Credits
from .burst_split import burst_count, split
from .timing import Ports, Reads, Writes

#: how many commands a BurstReader keeps in flight unless told otherwise
COMMANDS = 8


class Reader:
    """When a BurstReader on a port of `memory` accepts commands and delivers beats.

    A command accepted in cycle t has its first AR in cycle t + 1, one AR a cycle follows. The next command is accepted in the
    cycle of the last AR at the earliest, and only while fewer than `commands` are in flight (one ends in the cycle of its last
    beat). Beats pass through without delay: within a command the ARs always keep ahead of the data, so that a command acts as
    one burst with its AR in cycle t + 1.

    Commands and beats may be interleaved in any order that the hardware could show; `command` must be called after the last beat
    of the command `commands` places before it was taken.
    """

    def __init__(self, memory: Ports, bus_bytes: int, commands: int = COMMANDS) -> None:
        self.bus_bytes = bus_bytes
        self.commands = commands
        self.port: Reads = memory.port(bus_bytes)
        self.free = 0  # the first cycle that can accept the next command
        self._left: deque[int] = deque()  # beats left of each command in flight
        self._flight = Credits(commands)

    def command(self, valid: int, address: int, beats: int) -> int:
        """Give a command, valid from cycle `valid` on; return the cycle in which it is accepted."""
        cycle = max(valid, self.free, self._flight[len(self._left)])
        self.free = cycle + burst_count(address, beats, self.bus_bytes)
        self.port.address(cycle + 1, beats, address)
        self._left.append(beats)
        return cycle

    def offer(self) -> int:
        """The first cycle in which the next beat is offered on `o`."""
        return self.port.offer()

    def accept(self, ready: int) -> int:
        """Take the next beat with a consumer that is ready from cycle `ready` on; return the cycle of the transfer."""
        cycle = self.port.accept(ready)
        self._left[0] -= 1
        if not self._left[0]:
            self._left.popleft()
            self._flight.give(cycle + 1)
        return cycle

    def drain(self, ready: int = 0) -> tuple[int, int]:
        """Take all beats of the oldest command in flight with a consumer ready from `ready` on; return its first and last."""
        cycles = self.port.drain(self._left.popleft(), ready)
        self._flight.give(cycles[1] + 1)
        return cycles


class Writer:
    """When a BurstWriter on a port of `memory` accepts commands and data, and when it is idle again.

    A command accepted in cycle t has its first AW in cycle t + 1; its beats can pass from cycle t + 2 on. The next command is
    accepted in the cycle of the last AW at the earliest. AWs run ahead of the data by at most `AHEAD` bursts, which never delays
    data.
    """

    AHEAD = 4

    def __init__(self, memory: Ports, bus_bytes: int) -> None:
        self.bus_bytes = bus_bytes
        self.port: Writes = memory.write_port(bus_bytes)
        self._issue = 0
        self._beat = -1  # the latest W transfer
        self._ahead = Credits(self.AHEAD)

    def write(
        self, valid: int, address: int, beats: int, source: Callable[[int], int]
    ) -> tuple[int, list[int], int]:
        """Give a command, valid from cycle `valid` on.

        `source(previous)` says from which cycle on the next beat is valid, when its predecessor (of any command) was transferred
        in cycle `previous`, -1 if none; it is called once a beat, in order.

        Returns the cycle in which the command is accepted, the cycles of the beats' transfers, and the first cycle in which
        `idle` is high again if no other command follows. A later command may overlap: its data still come after this one's.
        On a port that reads as well, nothing may be read before that: else `send`, and `idle` at the end.
        """
        cycle, taken = self.send(valid, address, beats, source)
        return cycle, taken, self.idle()

    def idle(self) -> int:
        """The first cycle in which `idle` is high again, after all reads that come to the memory before it were given."""
        return self.port.answered() + 1

    def send(
        self, valid: int, address: int, beats: int, source: Callable[[int], int]
    ) -> tuple[int, list[int]]:
        """As `write`, without the answers."""
        cycle = max(valid, self._issue)
        aw = cycle
        taken: list[int] = []
        for at, length in split(address, beats, self.bus_bytes):
            aw = max(aw + 1, self._ahead.free)
            for _ in range(length):
                self._beat = self.port.data(max(source(self._beat), aw + 1), at)
                taken.append(self._beat)
            self._ahead.give(self._beat + 1)
            self.port.sent(aw, self._beat, at, length)
        self._issue = aw
        return cycle, taken
