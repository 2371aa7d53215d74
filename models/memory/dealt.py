"""One memory port over several ones, each of which has a channel with addresses of its own: what lies where, and the twin of `hdl.memory.Dealt`
and `hdl.memory.Joined`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from .bursts import Reader
from .timing import Memory, Ports, Reads, Writes

#: bits of an address in a chunk, which no burst leaves
CHUNK_BITS = 12
#: the widest word of an AXI4 port, in bytes
MOST_BUS_BYTES = 128
#: rows at random of which `at_random` is the mean, and how many are under way
_DRAWN, _UNDER_WAY = 512, 32


@dataclass(frozen=True)
class Deal:
    """How the bytes of one memory port are spread over several: chunks of 4 KiB go to the `channels` in turn, and each word of a chunk is cut into `joined`
    parts, one for each port of the channel. Both numbers are powers of two. Port c × joined + j has part j of channel c, from its own address 0 on."""

    channels: int = 1
    joined: int = 1

    @property
    def ports(self) -> int:
        return self.channels * self.joined

    def place(self, address: Any) -> tuple[Any, Any]:
        """Return the channel of an address, or of an array of them, and the address in each of its ports."""
        chunk = address >> CHUNK_BITS
        inside = address & (1 << CHUNK_BITS) - 1
        return chunk % self.channels, (chunk // self.channels << CHUNK_BITS | inside) // self.joined

    def parts(self, content: np.ndarray, bus_bytes: int) -> list[np.ndarray]:
        """Return what each port holds of `content`, which begins at address 0 and fills whole chunks of all channels; `bus_bytes`: of a port's word."""
        return [
            part.ravel()
            for part in self._cut(content, bus_bytes)
            .transpose(1, 3, 0, 2, 4)
            .reshape(self.ports, -1)
        ]

    def whole(self, parts: Sequence[np.ndarray], bus_bytes: int) -> np.ndarray:
        """Return the content whose `parts` the ports hold."""
        content = np.empty(sum(map(len, parts)), np.uint8)
        cut = self._cut(content, bus_bytes).transpose(1, 3, 0, 2, 4)
        cut[...] = np.stack(parts).reshape(cut.shape)
        return content

    def _cut(self, content: np.ndarray, bus_bytes: int) -> np.ndarray:
        """Return bytes by round of chunks, channel, word, part of it, and byte."""
        words = (1 << CHUNK_BITS) // (self.joined * bus_bytes)
        return content.reshape(-1, self.channels, words, self.joined, bus_bytes)


class DealtPorts:
    """Fresh channels of memory as one port; `models.memory.timing.Ports`. A command lies in one chunk."""

    def __init__(self, memory: Memory, deal: Deal) -> None:
        self.deal = deal
        self.channels: list[list[Ports]] = [
            [memory.channel() for _ in range(deal.joined)] for _ in range(deal.channels)
        ]

    def port(self, bus_bytes: int) -> _Reads:
        narrow = bus_bytes // self.deal.joined
        return _Reads(self.deal, [[port.port(narrow) for port in c] for c in self.channels])

    def write_port(self, bus_bytes: int) -> _Writes:
        narrow = bus_bytes // self.deal.joined
        return _Writes(self.deal, [[port.write_port(narrow) for port in c] for c in self.channels])


class _Reads:
    """Beats in the order of their commands."""

    shift_invariant = False

    def __init__(self, deal: Deal, ports: Sequence[Sequence[Reads]]) -> None:
        self.deal, self.ports, self._last = deal, ports, -1
        self._order: deque[list[int]] = deque()  # channel, and beats left, of each command

    @property
    def idle_from(self) -> int:
        return self._last + 1

    def delay(self, cycles: int) -> None:
        raise ValueError("channels are not the same at any other time")

    def address(self, ar: int, beats: int, address: int = 0) -> None:
        channel, at = self.deal.place(address)
        for port in self.ports[channel]:
            port.address(ar, beats, at)
        self._order.append([channel, beats])

    def offer(self) -> int:
        ports = self.ports[self._order[0][0]]
        return max(self._last + 1, *(port.offer() for port in ports))

    def accept(self, ready: int) -> int:
        return self.drain(1, ready)[1]

    def drain(self, beats: int, ready: int) -> tuple[int, int]:
        head, ready = self._order[0], max(ready, self._last + 1)
        # all ports of a channel are asked alike, so that they answer alike
        cycles, *_ = [port.drain(beats, ready) for port in self.ports[head[0]]]
        head[1] -= beats
        if not head[1]:
            self._order.popleft()
        self._last = cycles[1]
        return cycles

    def read(self, ar: int, beats: int, address: int = 0) -> tuple[int, int]:
        self.address(ar, beats, address)
        return self.drain(beats, 0)


class _Writes:
    """Answers in the order of the bursts."""

    def __init__(self, deal: Deal, ports: Sequence[Sequence[Writes]]) -> None:
        self.deal, self.ports = deal, ports
        self._beat = self._answer = -1
        self._order: deque[int] = deque()  # channels of bursts whose answers were not asked for

    def data(self, valid: int, address: int = 0) -> int:
        channel, at = self.deal.place(address)
        valid = max(valid, self._beat + 1)
        self._beat, *_ = [port.data(valid, at) for port in self.ports[channel]]
        return self._beat

    def sent(self, aw: int, last: int, address: int = 0, beats: int = 1) -> None:
        channel, at = self.deal.place(address)
        for port in self.ports[channel]:
            port.sent(aw, last, at, beats)
        self._order.append(channel)

    def answer(self) -> int:
        answers = [port.answer() for port in self.ports[self._order.popleft()]]
        self._answer = max(answers[0], self._answer + 1)
        return self._answer

    def answered(self) -> int:
        while self._order:
            self.answer()
        return self._answer


def at_random(memory: Memory, row_bytes: int, bus_bytes: int) -> float:
    """Return the cycles of a row at random of one channel, of many that wait and are read in order, with a port of `bus_bytes`."""
    reader, random = Reader(memory.channel(), bus_bytes, _UNDER_WAY), Random(1)
    words, now, first = row_bytes // bus_bytes, 0, 0
    for k in range(_DRAWN + _UNDER_WAY):
        if k >= _UNDER_WAY:
            now = reader.drain(now)[1]
            first = first or now
        if k < _DRAWN:
            reader.command(now, random.getrandbits(22) * row_bytes, words)
    return (now - first) / (_DRAWN - 1)
