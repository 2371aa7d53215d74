"""How soon operations may follow one another in HBM with the timing of DRAM, so that none of their accesses is late.

Rows are random: places of buckets and bins are hashed or drawn, and frames are freed in an order that follows from them. Each
channel has a controller, which serves in order. Accesses of many operations are served; how often one waits longer than any
of these did follows from their tail, which falls by the same factor from each cycle to the next. That is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from ..memory.dram import Controller, Dram, Timing
from .config import CHUNK, OmapConfig
from .front_schedule import FrontSchedule

__all__ = ["LATE", "Serve", "late", "pace", "plainly", "waits"]

#: what an operation may be late with, as log2: one in the lifetime that the failure budget has
LATE = -40
#: accesses that are served, and places that they are drawn of
_COUNT, _PLACES = 1 << 17, 1 << 20
#: shares of accesses that wait longest, between which the tail is measured
_TAIL = 2e-3, 1e-4
#: from an operation's last read to its writes, beside the deadline
_SETTLED = 30
#: cycles from operation to operation, at most
_SLOWEST = 1 << 12

#: cycles of column commands: of a timing, which requests write, when they arrive, and their bursts
Serve = Callable[
    [Timing, NDArray[np.bool_], NDArray[np.int64], NDArray[np.uint64]], NDArray[np.int64]
]


def plainly(
    timing: Timing,
    writes: NDArray[np.bool_],
    arrivals: NDArray[np.int64],
    bursts: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """The specification of `Serve`, in plain Python."""
    controller = Controller(timing)
    given = zip(writes.tolist(), arrivals.tolist(), bursts.tolist(), strict=True)
    return np.array([controller.serve(*one) for one in given], dtype=np.int64)


@dataclass(frozen=True)
class _Port:
    """Accesses of an operation: how many reads and writes, the bus words of each, and bytes from place to place."""

    reads: int
    read: int
    writes: int
    written: int
    size: int
    bus: int


def _ports(config: OmapConfig) -> dict[str, _Port]:
    bus, record, frame = config.bus_bytes, config.record_beats, config.frame_beats
    return {
        "buckets": _Port(2, config.bucket_beats, 1, 1, config.bucket_bytes, bus),
        "records": _Port(4, record, 4, record, config.record_bytes, bus),
        "frames": _Port(config.slots, frame, 1, frame, config.frame_bytes, bus),
    }


def waits(
    config: OmapConfig, port: str, memory: Dram, interval: int, serve: Serve, count: int = _COUNT
) -> NDArray[np.int64]:
    """Return what accesses wait, in cycles: from the command to the last word or the answer, less their words.

    Parameters: `port`: buckets, records or frames; `interval`: from operation to operation; `count`: of accesses.
    """
    return _waits(
        _ports(config)[port], config.dealt, config.deadline, memory, interval, serve, count
    )


def _waits(
    port: _Port, dealt: int, deadline: int, memory: Dram, interval: int, serve: Serve, count: int
) -> NDArray[np.int64]:
    draw = np.random.RandomState(1)  # whose numbers stay the same from release to release
    begins = np.arange(count // (port.reads + port.writes), dtype=np.int64) * interval
    cycles, written = list[NDArray[np.int64]](), list[bool]()
    for k in range(port.reads):
        cycles.append(begins + k * port.read)
        written.append(False)
    for k in range(port.writes):
        cycles.append(begins + deadline + _SETTLED + k * port.written)
        written.append(True)
    cycle = np.concatenate(cycles)
    writes = np.repeat(np.array(written), len(begins))
    address = draw.randint(_PLACES, size=len(cycle)).astype(np.int64) * port.size
    found = []
    for channel in range(dealt):
        own = np.flatnonzero(address // CHUNK % dealt == channel)
        own = own[np.lexsort((writes[own], cycle[own]))]
        local = address[own] // CHUNK // dealt * CHUNK + address[own] % CHUNK
        found.append(_served(port, memory, cycle[own], writes[own], local, serve))
    return np.concatenate(found)


def _served(
    port: _Port,
    memory: Dram,
    cycle: NDArray[np.int64],
    writes: NDArray[np.bool_],
    address: NDArray[np.int64],
    serve: Serve,
) -> NDArray[np.int64]:
    """The same of the accesses of one channel, in their order."""
    timing, ratio = memory.timing, memory.ratio
    words = np.where(writes, port.written, port.read)
    bursts = np.maximum(words * port.bus // timing.burst_bytes, 1)
    first = np.repeat(address // timing.burst_bytes, bursts)
    ends = np.cumsum(bursts)
    burst = first + np.arange(ends[-1]) - np.repeat(ends - bursts, bursts)
    arrival = cycle * ratio.denominator // ratio.numerator + 1
    columns = serve(
        timing, np.repeat(writes, bursts), np.repeat(arrival, bursts), burst.astype(np.uint64)
    )
    done = columns[ends - 1] + np.where(writes, timing.write_latency, timing.read_latency)
    return -(-done * ratio.numerator // ratio.denominator) + memory.transit - cycle - words


@lru_cache(maxsize=4096)
def _late(
    port: _Port, dealt: int, deadline: int, memory: Dram, interval: int, serve: Serve
) -> float:
    found = np.sort(_waits(port, dealt, deadline, memory, interval, serve, _COUNT))
    early, rare = (int(found[-max(round(share * len(found)), 1)]) for share in _TAIL)
    if found[-1] > deadline:
        return 0.0
    falls = log2(_TAIL[0] / _TAIL[1]) / max(rare - early, 1)
    accesses = port.reads + port.writes
    return log2(_TAIL[1] * accesses) - (deadline - rare) * falls


def late(config: OmapConfig, memory: Dram, interval: int, serve: Serve = plainly) -> float:
    """Return how likely an operation has an access that is late, as log2: an estimate, 0 where one was."""
    ports = [
        _late(p, config.dealt, config.deadline, memory, interval, serve)
        for p in _ports(config).values()
    ]
    return max(ports)


def pace(config: OmapConfig, memory: Dram, serve: Serve = plainly) -> int:
    """Return the least cycles from operation to operation in which accesses are late no more often than `LATE`.

    Raises ValueError where none is enough.
    """
    few = FrontSchedule.of(config).interval
    if late(config, memory, few, serve) <= LATE:
        return few
    many = 2 * few
    while late(config, memory, many, serve) > LATE:
        few, many = many, 2 * many
        if few > _SLOWEST:
            raise ValueError(f"{memory} keeps no deadline of {config.deadline} cycles")
    while many - few > 1:
        middle = (few + many) // 2
        if late(config, memory, middle, serve) <= LATE:
            many = middle
        else:
            few = middle
    return many
