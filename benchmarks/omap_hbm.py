"""What HBM with the timing of DRAM does with the accesses of an oblivious map of 2^20 items: how many operations a second each port
sustains within the deadline, and what of the deadline makes the latency. Controllers serve in order, a port has one, rows are random.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil

from common import Options, Section, main, markdown
from omap import _plan

from penstock.engines.omap.bolt import served
from penstock.models.memory import parse_memory
from penstock.models.memory.dram import Dram
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.front_schedule import FrontSchedule
from penstock.models.omap.planner import MARGIN, plan
from penstock.sim.memory.dram import FastChannel
from penstock.targets import target_named

_PART = target_named("u55c")
_MHZ = _PART.clock_mhz
_ONE = parse_memory(_PART.dram, _MHZ)
#: cycle, whether it writes, address, words
Access = tuple[int, bool, int, int]


def _joined(count: int) -> Dram:
    """Channels in lockstep, whose words are as many times as wide."""
    wide = replace(_ONE.timing.organisation, width=count * _ONE.timing.organisation.width)
    return replace(_ONE, timing=replace(_ONE.timing, organisation=wide))


def _shape(config: OmapConfig, port: str) -> tuple[int, int, int, int, int, int]:
    """Return an operation's reads, their words, its writes, theirs, how many places there are, and their bytes."""
    if port == "buckets":
        return 2, config.bucket_beats, 1, 1, config.buckets, config.bucket_bytes
    if port == "records":
        words = config.record_beats
        return 4, words, 4, words, config.bins, config.record_bytes
    return (
        config.slots,
        config.frame_beats,
        1,
        config.frame_beats,
        config.frames,
        config.frame_bytes,
    )


def _accesses(config: OmapConfig, port: str, interval: int, count: int) -> Iterator[Access]:
    """Of operations that follow each other in so many cycles: first reads, and behind the deadline writes."""
    draw, made = random.Random(1), list[Access]()
    reads, read, writes, written, places, size = _shape(config, port)
    for begin in range(0, count * interval, interval):
        for write, many, words in ((False, reads, read), (True, writes, written)):
            later = begin + write * (config.deadline + 30)
            for k in range(many):
                made.append((later + k * words, write, size * draw.randrange(places), words))
    return iter(sorted(made))


def _longest(accesses: Iterator[Access], memory: Dram, bus: int, size: int, channels: int) -> int:
    """Return the cycles of the slowest access. `channels`: over which places of this size are dealt in turn."""
    own, longest = [FastChannel(memory) for _ in range(channels)], 0
    for cycle, write, address, words in accesses:
        number = address // size
        channel, at = own[number % channels], number // channels * size
        if write:
            done = channel.write(cycle, at, words, bus)
        else:
            done = channel.read(cycle, at, words, bus)[-1]
        longest = max(longest, done - cycle - words)
    return longest


def _sustained(config: OmapConfig, port: str, memory: Dram, channels: int, count: int) -> int:
    """Return the least cycles from operation to operation in which every access keeps the deadline."""
    few, many = 1, 128
    while few < many:
        interval = (few + many) // 2
        accesses, size = _accesses(config, port, interval, count), _shape(config, port)[-1]
        if _longest(accesses, memory, config.bus_bytes, size, channels) <= config.deadline:
            many = interval
        else:
            few = interval + 1
    return few


def _ports(options: Options) -> str:
    count, rows = 200 if options.quick else 4000, []
    for joined, dealt in ((1, 1), (2, 1), (4, 1), (1, 2), (1, 4), (1, 8), (2, 4)):
        memory = _joined(joined)
        config = plan(1 << 20, 8, memory=memory, bus_bytes=joined * _PART.bus_bytes, rounds=2)
        front = FrontSchedule.of(config).interval
        cells = [f"{joined}", f"{dealt}", f"{_MHZ / front:.1f}"]
        for port in ("buckets", "records", "frames"):
            cells.append(f"{_MHZ / _sustained(config, port, memory, dealt, count):.1f}")
        rows.append(cells)
    head = "joined in lockstep | dealt in turn | front, million operations/s | buckets | records | frames of a side"
    return markdown(head, rows)


def _latencies(options: Options) -> str:
    design, timing, rows = _plan(1 << 20, memory="dram"), _ONE.timing, []
    cycles = lambda clocks: ceil(clocks * _ONE.ratio)
    parts = [_ONE.latency + MARGIN, cycles(timing.nRFC + timing.nRP), cycles(8 * timing.nRC)]
    names = ("a closed bank", "and a refresh", "and eight conflicts of a bank")
    for name, deadline in zip(names, accumulate(parts), strict=True):
        made = replace(design, plan=replace(design.plan, deadline=deadline))
        half = served(made, 100 if options.quick else 1000).half
        rows.append((name, f"{deadline}", f"{half * 1e6:.2f}"))
    return markdown("the deadline has time for | cycles | latency at half load, µs", rows)


def ports(options: Options) -> str:
    """Both tables."""
    parts: Sequence[str] = (_ports(options), _latencies(options))
    return "\n\n".join(parts)


SECTIONS = [Section("omap-hbm", False, ports)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
