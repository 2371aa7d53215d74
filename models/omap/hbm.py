"""How soon operations may follow one another in HBM with the timing of DRAM, and which deadlines their accesses keep.

Rows are random: places of buckets and bins are hashed or drawn, and frames are freed in an order that follows from them. Each
channel has a controller, which serves in order; both sides' ports to frames reach the same channels. Accesses come at the front's
pace, those to frames as soon as the back merges. How many frames an operation reads follows from how many items wait in a bin
(`tails.frame_statistics`).

Accesses of many operations are served; how often one waits longer than any of these did follows from their tail, which falls
by the same factor from each cycle to the next. Tails of several draws differ: deadlines are those of the worst one. That is an
estimate.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, floor, log2

import numpy as np
from numpy.typing import NDArray

from ..memory.dealt import Deal
from ..memory.dram.controller import Controller
from ..memory.dram.memory import Dram
from ..memory.dram.timing import Timing
from .back import BackSchedule
from .config import OmapConfig
from .front_schedule import FrontSchedule

#: what an operation may be late with, as log2: one in the lifetime that the failure budget has
LATE = -40
#: accesses that are served, and places that they are drawn of
_COUNT, _PLACES = 1 << 17, 1 << 20
#: shares of accesses that wait longest, between which the tail is measured
_TAIL = 2e-3, 1e-4
#: draws of tails
TAILS = 16
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
    requests = zip(writes.tolist(), arrivals.tolist(), bursts.tolist(), strict=True)
    return np.array([controller.serve(*one) for one in requests], dtype=np.int64)


@dataclass(frozen=True)
class _Accesses:
    """Accesses of an operation: how likely each of `sides` has so many reads and more, the bus words of each; how many
    writes, and theirs; bytes from place to place; over how many channels they are dealt."""

    reads: tuple[float, ...]
    read: int
    writes: int
    written: int
    size: int
    bus: int
    dealt: int
    sides: int = 1

    @property
    def accesses(self) -> float:
        """Of an operation, mean."""
        return self.sides * sum(self.reads) + self.writes


def _ports(config: OmapConfig) -> dict[str, _Accesses]:
    record, frame = config.record_beats, config.frame_beats
    paged = (
        floor(16 * (1 - config.alpha)) / 16
    )  # so that few kinds of ports are served; fewer pages, more reads
    # an item of a bin of HBM, or those that wait, geometrically: each of three events is one more, or empties the bin
    frames = tuple(paged / 3**k + (1 - paged) * (k == 1) for k in range(1, config.slots + 1))
    front, back = (
        (config.bus_bytes, config.access.dealt),
        (config.bus_bytes, config.access.frames_dealt),
    )
    return {
        "buckets": _Accesses((1.0,) * 2, config.bucket_beats, 1, 1, config.bucket_bytes, *front),
        "records": _Accesses((1.0,) * 4, record, 4, record, config.record_bytes, *front),
        "frames": _Accesses(frames, frame, 1, frame, config.frame_bytes, *back, sides=2),
    }


def waits(
    config: OmapConfig,
    port: str,
    memory: Dram,
    interval: int,
    serve: Serve,
    count: int = _COUNT,
    tail: int = 0,
) -> NDArray[np.int64]:
    """Return what accesses wait, in cycles: from the command to the last word or the answer, less their words.

    Parameters: `port`: buckets, records or frames; `interval`: from operation to operation; `count`: of accesses; `tail`:
    the number of the draw.
    """
    return _waits(_ports(config)[port], memory, interval, serve, count, tail)


def _waits(
    port: _Accesses, memory: Dram, interval: int, serve: Serve, count: int, tail: int
) -> NDArray[np.int64]:
    draw = np.random.RandomState(1 + tail)  # whose numbers stay the same from release to release
    begins = np.arange(int(count / port.accesses), dtype=np.int64) * interval
    cycles = list[NDArray[np.int64]]()
    for _ in range(port.sides):
        many = draw.random_sample(len(begins))
        for k, share in enumerate(port.reads):
            cycles.append(begins[many < share] + k * port.read)
    reads = sum(map(len, cycles))
    # those of an earlier operation, whose distance a deadline makes: any
    between = begins + draw.randint(interval)
    cycles += [between + k * port.written for k in range(port.writes)]
    cycle = np.concatenate(cycles)
    writes = np.arange(len(cycle)) >= reads
    address = draw.randint(_PLACES, size=len(cycle)).astype(np.int64) * port.size
    order = np.argsort(2 * cycle + writes, kind="stable")
    cycle, writes, address = cycle[order], writes[order], address[order]
    waits, (channels, local) = [], Deal(port.dealt).place(address)
    for channel in range(port.dealt):
        mask = channels == channel
        waits.append(_served(port, memory, cycle[mask], writes[mask], local[mask], serve))
    return np.concatenate(waits)


def _served(
    port: _Accesses,
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
def _asked(port: _Accesses, memory: Dram, interval: int, serve: Serve, tail: int) -> int:
    waits = np.sort(_waits(port, memory, interval, serve, _COUNT, tail))
    early, rare = (int(waits[-max(round(share * len(waits)), 1)]) for share in _TAIL)
    # bits of likelihood that a cycle more takes
    falls = log2(_TAIL[0] / _TAIL[1]) / max(rare - early, 1)
    beyond = (log2(_TAIL[1] * port.accesses) - LATE) / falls
    return max(rare + ceil(beyond), int(waits[-1]))


def _kept(
    port: _Accesses, deadline: int, memory: Dram, interval: int, serve: Serve, tail: int
) -> bool:
    """Whether accesses keep a deadline by the first tail, and one that is a third longer by each other one."""
    return 3 * _asked(port, memory, interval, serve, tail) <= (4 if tail else 3) * deadline


def asked(
    config: OmapConfig, memory: Dram, serve: Serve = plainly, tails: int = TAILS
) -> dict[str, int]:
    """Return the deadline of each port's accesses that an operation misses no more often than `LATE` says, at the map's
    pace: an estimate, the worst of so many tails."""
    front, back = FrontSchedule.of(config).interval, BackSchedule.of(config).apart
    return {
        name: max(
            _asked(port, memory, back if name == "frames" else front, serve, tail)
            for tail in range(tails)
        )
        for name, port in _ports(config).items()
    }


def _least(few: int, kept: Callable[[int], bool]) -> int | None:
    """Return the least interval, `few` or more, that is kept; None where none is."""
    if kept(few):
        return few
    many = 2 * few
    while not kept(many):
        few, many = many, 2 * many
        if few > _SLOWEST:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if kept(middle) else (middle, many)
    return many


def paced(
    config: OmapConfig, memory: Dram, serve: Serve = plainly, tails: int = TAILS
) -> OmapConfig:
    """Return the map with the least cycles from operation to operation, and from merge to merge, with which accesses keep
    its deadline, as `_kept` has it.

    Raises ValueError where none do.
    """
    limit = config.access.deadline

    def least(few: int, *names: str) -> int:
        ports = [_ports(config)[name] for name in names]
        pace = _least(
            few,
            lambda interval: all(
                _kept(port, limit, memory, interval, serve, tail)
                for tail in range(tails)
                for port in ports
            ),
        )
        if pace is None:
            raise ValueError(f"{memory} keeps no deadline of {limit} cycles")
        return pace

    # merges may become quicker, by wider rows, but operations no quicker than their frames are fetched
    frames = least(max(BackSchedule.of(config).fetch, config.access.frame_pace), "frames")
    front = least(max(FrontSchedule.of(config).interval, frames), "buckets", "records")
    return replace(config, access=replace(config.access, pace=front, frame_pace=frames))


def settled(config: OmapConfig, memory: Dram, serve: Serve = plainly) -> OmapConfig:
    """Return the map with a pace for all tails, and with the soonest deadlines that accesses keep at it.

    Raises as `paced`.
    """
    config = paced(config, memory, serve)
    deadlines = asked(config, memory, serve)
    front = max(deadlines["buckets"], deadlines["records"])
    kept = {"deadline": front, "frame_deadline": deadlines["frames"]}
    return replace(config, access=replace(config.access, **kept))
