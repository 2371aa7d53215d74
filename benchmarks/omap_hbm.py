"""What HBM with the timing of DRAM allows an oblivious map of 2^20 items: how many operations a second each port sustains, and what of the
deadline makes the latency. Controllers serve in order, each channel has one, rows are random (`models.omap.hbm`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from math import ceil

from common import Options, Section, main, markdown
from omap import _plan

from penstock.engines.omap.bolt import served
from penstock.engines.omap.design import joined
from penstock.engines.omap.plans import _served
from penstock.models.memory import parse_memory
from penstock.models.memory.dram.memory import Dram
from penstock.models.omap import hbm
from penstock.models.omap.front_schedule import FrontSchedule
from penstock.models.omap.planner import MARGIN, plan
from penstock.targets import target_named

_PART = target_named("u55c")
_MHZ = _PART.clock_mhz
_ONE = parse_memory(_PART.dram, _MHZ)


def _sustained(port: hbm._Accesses, deadline: int, memory: Dram) -> int:
    """Return the least cycles from operation to operation in which accesses of this port keep the deadline, as plans do."""
    few, many = 1, 256
    while few < many:
        interval = (few + many) // 2
        given = (port, deadline, memory, interval, _served)
        if all(hbm._kept(*given, tail) for tail in range(hbm.TAILS)):
            many = interval
        else:
            few = interval + 1
    return few


def _ports(options: Options) -> str:
    shapes = ((1, 1, 1, 16), (1, 2, 2, 16), (2, 2, 2, 16), (1, 4, 4, 16), (1, 8, 4, 8))
    rows = []
    for wide, dealt, frames, bucket in shapes[-1:] if options.quick else shapes:
        memory = joined(_ONE, wide)
        assert isinstance(memory, Dram)
        bus = wide * _PART.bus_bytes
        config = plan(
            *(1 << 20, 8),
            memory=memory,
            bus_bytes=bus,
            rounds=2,
            dealt=dealt,
            frames_dealt=frames,
            bucket=bucket,
        )
        rates = [FrontSchedule.of(config).interval]
        for port in hbm._ports(config).values():
            rates.append(_sustained(port, config.access.deadline, memory))
        cells = [
            wide,
            dealt,
            frames,
            wide * (2 * dealt + frames) + 1,
            config.bucket_slots,
            config.hbm_bytes >> 20,
        ]
        rows.append([*map(str, cells), *(f"{_MHZ / n:.1f}" for n in (*rates, max(rates)))])
    head = "joined | dealt over | frames over | "
    head += "channels in all | slots of a bucket | HBM, MiB | front, million operations/s | buckets | records | frames | map"
    return markdown(head, rows)


def _latencies(options: Options) -> str:
    design, timing, rows = _plan(1 << 20), _ONE.timing, []
    cycles = lambda clocks: ceil(clocks * _ONE.ratio)
    conflicts = [cycles(8 * timing["nRC"])] * 2
    parts = [_ONE.latency + MARGIN, cycles(timing["nRFC"] + timing["nRP"]), *conflicts]
    names = "a closed bank", "and a refresh", "and eight conflicts of a bank", "and eight more"
    for name, deadline in zip(names, accumulate(parts), strict=True):
        access = replace(design.plan.access, deadline=deadline, frame_deadline=0)
        made = replace(design, plan=replace(design.plan, access=access))
        half = served(made, 100 if options.quick else 1000).half
        try:
            plan = replace(made.plan, access=replace(access, pace=0, frame_pace=0))
            pace = hbm.paced(plan, _ONE, _served).access.pace
        except ValueError:
            pace = None
        rate = "none" if pace is None else f"{_MHZ / pace:.1f}"
        rows.append((name, f"{deadline}", rate, f"{half * 1e6:.2f}"))
    head = "the deadline has time for | cycles | million operations/s | latency at half load, µs"
    return markdown(head, rows)


def ports(options: Options) -> str:
    """Both tables."""
    return "\n\n".join((_ports(options), _latencies(options)))


SECTIONS = [Section("omap-hbm", False, ports)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
