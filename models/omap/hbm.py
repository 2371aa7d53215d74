"""How soon operations may follow one another in HBM with the timing of DRAM, and which deadlines their accesses keep.

Rows are random: places of buckets and bins are hashed or drawn, and frames are freed in an order that follows from them. Each
channel has a controller, which serves in order. The front's accesses come at its pace. Items are written to frames when pages
are there: in the worst case those of a whole window, as soon after one another as the back merges. How many frames an
operation reads follows from how many items wait in a bin (`tails.frame_statistics`).

Accesses of many operations are served; how often one waits longer than any of these did follows from their tail, which falls
by the same factor from each cycle to the next. That is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from ..memory.dram import Controller, Dram, Timing
from .back import BackSchedule
from .config import CHUNK, OmapConfig
from .front_schedule import FrontSchedule

__all__ = ["LATE", "Serve", "late", "pace", "plainly", "settled", "waits"]

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
#: requests in flight, at most
_WINDOW = 256
#: how much sooner at least a deadline has to be for its trial
_FINER = 4

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
    """Accesses of an operation: how likely it has so many reads and more, the bus words of each; how many writes, and
    theirs; bytes from place to place. `merge`: writes may come so soon after those of another operation; 0: no sooner than
    operations begin."""

    reads: tuple[float, ...]
    read: int
    writes: int
    written: int
    size: int
    bus: int
    dealt: int
    deadline: int
    merge: int = 0

    @property
    def accesses(self) -> float:
        """Of an operation, mean."""
        return sum(self.reads) + self.writes


def _ports(config: OmapConfig) -> dict[str, _Port]:
    record, frame, paged = config.record_beats, config.frame_beats, 1 - config.alpha
    # an item of a bin of HBM, or those that wait, geometrically: each of three events is one more, or empties the bin
    frames = tuple(paged / 3**k + (1 - paged) * (k == 1) for k in range(1, config.slots + 1))
    front = config.bus_bytes, config.dealt, config.deadline
    back = config.bus_bytes, config.frames_dealt, config.frame_deadline or config.deadline
    return {
        "buckets": _Port((1.0,) * 2, config.bucket_beats, 1, 1, config.bucket_bytes, *front),
        "records": _Port((1.0,) * 4, record, 4, record, config.record_bytes, *front),
        "frames": _Port(
            frames, frame, 1, frame, config.frame_bytes, *back, BackSchedule.of(config).merge
        ),
    }


def waits(
    config: OmapConfig, port: str, memory: Dram, interval: int, serve: Serve, count: int = _COUNT
) -> NDArray[np.int64]:
    """Return what accesses wait, in cycles: from the command to the last word or the answer, less their words.

    Parameters: `port`: buckets, records or frames; `interval`: from operation to operation; `count`: of accesses.
    """
    return _waits(_ports(config)[port], memory, interval, serve, count)


def _waits(port: _Port, memory: Dram, interval: int, serve: Serve, count: int) -> NDArray[np.int64]:
    draw = np.random.RandomState(1)  # whose numbers stay the same from release to release
    numbers = np.arange(int(count / port.accesses), dtype=np.int64)
    begins, cycles = numbers * interval, list[NDArray[np.int64]]()
    many = draw.random_sample(len(numbers))
    for k, share in enumerate(port.reads):
        cycles.append(begins[many < share] + k * port.read)
    reads = sum(map(len, cycles))
    done = begins + port.deadline + _SETTLED
    if port.merge:  # of a window at once
        behind = numbers % _WINDOW
        done += (_WINDOW - 1 - behind) * interval + behind * min(port.merge, interval)
    cycles += [done + k * port.written for k in range(port.writes)]
    cycle = np.concatenate(cycles)
    writes = np.arange(len(cycle)) >= reads
    address = draw.randint(_PLACES, size=len(cycle)).astype(np.int64) * port.size
    found, dealt = [], port.dealt
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
def _late(port: _Port, memory: Dram, interval: int, serve: Serve) -> float:
    deadline = port.deadline
    found = np.sort(_waits(port, memory, interval, serve, _COUNT))
    early, rare = (int(found[-max(round(share * len(found)), 1)]) for share in _TAIL)
    if found[-1] > deadline:
        return 0.0
    falls = log2(_TAIL[0] / _TAIL[1]) / max(rare - early, 1)
    return log2(_TAIL[1] * port.accesses) - (deadline - rare) * falls


def late(config: OmapConfig, memory: Dram, interval: int, serve: Serve = plainly) -> float:
    """Return how likely an operation has an access that is late, as log2: an estimate, 0 where one was."""
    return max(_late(port, memory, interval, serve) for port in _ports(config).values())


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


def settled(config: OmapConfig, memory: Dram, serve: Serve = plainly) -> OmapConfig:
    """Return the map with the pace that its memory asks for, and with the soonest deadlines that accesses keep at it.

    Raises ValueError as `pace` does.
    """
    config = replace(config, pace=pace(config, memory, serve))
    interval = FrontSchedule.of(config).interval

    def soonest(names: tuple[str, ...]) -> int:
        """Of ports."""
        few, many = 0, config.deadline
        while many - few > _FINER:
            middle = (few + many) // 2
            ports = _ports(replace(config, deadline=middle))
            if max(_late(ports[name], memory, interval, serve) for name in names) <= LATE:
                many = middle
            else:
                few = middle
        return many

    front, frames = soonest(("buckets", "records")), soonest(("frames",))
    return replace(config, deadline=front, frame_deadline=frames)
