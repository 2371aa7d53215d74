"""One memory port in front of several channels: the twin of `hdl.memory.Dealt`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .timing import Ports, Reads, Writes

__all__ = ["CHUNK_BITS", "ROW_BITS", "DealtPorts", "channel_of"]

#: bits of an address in a chunk, which no burst leaves, and the first that names rows of a DRAM
CHUNK_BITS, ROW_BITS = 12, 17

_Place = Callable[[int], tuple[int, int]]


def channel_of(address: Any, channels: int) -> Any:
    """Return the channel, of a power of two of them, of an address: by its chunk of 4 KiB and by bits that name rows of a DRAM, so that each channel
    has banks of all kinds."""
    return (address >> CHUNK_BITS ^ address >> ROW_BITS) & channels - 1


class DealtPorts:
    """Channels behind one port; `models.memory.timing.Ports`. A command lies in one chunk. `whole`: each channel has all
    addresses, else its own chunks lie one behind another."""

    def __init__(self, channels: Sequence[Ports], whole: bool = True) -> None:
        self.channels, self.whole = channels, whole

    def _place(self, address: int) -> tuple[int, int]:
        """A channel, and the address there."""
        count = len(self.channels)
        if self.whole:
            return channel_of(address, count), address
        chunk, rest = divmod(address, 1 << CHUNK_BITS)
        return chunk % count, (chunk // count << CHUNK_BITS) + rest

    def port(self, bus_bytes: int) -> _Reads:
        return _Reads([channel.port(bus_bytes) for channel in self.channels], self._place)

    def write_port(self, bus_bytes: int) -> _Writes:
        return _Writes([channel.write_port(bus_bytes) for channel in self.channels], self._place)


class _Reads:
    """Beats in the order of their commands."""

    shift_invariant = False

    def __init__(self, ports: Sequence[Reads], place: _Place) -> None:
        self.ports, self._place, self._last = ports, place, -1
        self._order: deque[list[int]] = deque()  # channel, and beats left, of each command

    @property
    def idle_from(self) -> int:
        return self._last + 1

    def delay(self, cycles: int) -> None:
        raise ValueError("channels are not the same at any other time")

    def address(self, ar: int, beats: int, address: int = 0) -> None:
        channel, local = self._place(address)
        self.ports[channel].address(ar, beats, local)
        self._order.append([channel, beats])

    def offer(self) -> int:
        return max(self.ports[self._order[0][0]].offer(), self._last + 1)

    def accept(self, ready: int) -> int:
        return self.drain(1, ready)[1]

    def drain(self, beats: int, ready: int) -> tuple[int, int]:
        head = self._order[0]
        found = self.ports[head[0]].drain(beats, max(ready, self._last + 1))
        head[1] -= beats
        if not head[1]:
            self._order.popleft()
        self._last = found[1]
        return found

    def read(self, ar: int, beats: int, address: int = 0) -> tuple[int, int]:
        self.address(ar, beats, address)
        return self.drain(beats, 0)


class _Writes:
    """Answers in the order of the bursts."""

    def __init__(self, ports: Sequence[Writes], place: _Place) -> None:
        self.ports, self._place = ports, place
        self._beat = self._answer = -1
        self._order: deque[int] = deque()  # channels of bursts whose answers were not asked for

    def data(self, valid: int, address: int = 0) -> int:
        channel, local = self._place(address)
        self._beat = self.ports[channel].data(max(valid, self._beat + 1), local)
        return self._beat

    def sent(self, aw: int, last: int, address: int = 0, beats: int = 1) -> None:
        channel, local = self._place(address)
        self.ports[channel].sent(aw, last, local, beats)
        self._order.append(channel)

    def answer(self) -> int:
        self._answer = max(self.ports[self._order.popleft()].answer(), self._answer + 1)
        return self._answer

    def answered(self) -> int:
        while self._order:
            self.answer()
        return self._answer
