"""The pace that HBM's rows ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.engines.omap.plans import _served
from penstock.models.memory import parse_memory
from penstock.models.omap.front_schedule import FrontSchedule
from penstock.models.omap.hbm import TAILS, _ports, _waits, asked, paced, plainly, settled, waits
from penstock.models.omap.planner import plan
from penstock.sim.memory.dram import FastChannel
from penstock.targets import target_named

_PART = target_named("u55c")
_HBM = parse_memory(_PART.dram, _PART.clock_mhz)


def _plan(dealt=8, frames=4, bucket=8, **given):
    channels = {"dealt": dealt, "frames_dealt": frames}
    return plan(1 << 20, 8, memory=_HBM, rounds=2, bucket=bucket, **channels, **given)


@pytest.mark.parametrize("port", ["buckets", "records", "frames"])
def test_quick_and_plain_dram_are_one(port):
    config = _plan()
    quick, plain = (waits(config, port, _HBM, 14, serve, count=300) for serve in (_served, plainly))
    assert (quick == plain).all() and quick.max() > quick.min()


def test_waits_are_those_of_channels():
    """Reads of an operation alone, one after another: what a channel of its own says of each."""
    config, count = _plan(dealt=1), 40
    config = replace(config, access=replace(config.access, deadline=4000))
    found = waits(config, "records", _HBM, 4000, _served, count=8 * count)
    draw = np.random.RandomState(1)
    draw.random_sample(count)  # how many reads each operation has, all of them here
    behind = draw.randint(4000)
    places = draw.randint(1 << 20, size=8 * count)
    channel, told = FastChannel(_HBM), []
    accesses = sorted(
        (
            k % count * 4000 + (behind if k >= 4 * count else 0) + k // count % 4,
            k >= 4 * count,
            place,
        )
        for k, place in enumerate(places.tolist())
    )
    for cycle, write, place in accesses:
        at = place * config.record_bytes
        done = channel.write(cycle, at, 1, 32) if write else channel.read(cycle, at, 1, 32)[-1]
        told.append(done - cycle - 1)
    assert sorted(told) == sorted(found.tolist())


def test_a_plan_of_a_million_items_answers_25_million_a_second():
    """With deadlines that the worst of sixteen tails asks for, and that none of their accesses misses."""
    config = settled(_plan(serve=_served), _HBM, _served)
    assert _PART.clock_mhz / FrontSchedule.of(config).interval >= 25
    tails = [asked(config, _HBM, _served, n) for n in (1, TAILS)]
    assert max(tails[1]["buckets"], tails[1]["records"]) == config.access.deadline
    assert tails[1]["frames"] == config.access.frame_deadline
    assert all(tails[0][port] < tails[1][port] for port in tails[0])
    deadlines = dict.fromkeys(("buckets", "records"), config.access.deadline)
    for port, deadline in {**deadlines, "frames": config.access.frame_deadline}.items():
        for tail in range(TAILS):
            pace = config.access.frame_pace if port == "frames" else config.access.pace
            assert waits(config, port, _HBM, pace, _served, tail=tail).max() <= deadline


def test_both_sides_read_frames_of_the_same_channels():
    port = _ports(_plan(frames=1))["frames"]
    assert port.sides == 2
    both, one = (
        np.sort(_waits(p, _HBM, 30, _served, 1 << 16, 0)) for p in (port, replace(port, sides=1))
    )
    assert both[-100] > one[-100]


def test_one_channel_a_port_is_slower():
    config = paced(_plan(dealt=1, frames=1), _HBM, _served)
    assert 4 < _PART.clock_mhz / config.access.pace < 8


def test_a_deadline_that_nothing_keeps():
    config = _plan()
    config = replace(config, access=replace(config.access, deadline=70))
    with pytest.raises(ValueError, match="keeps no deadline of 70 cycles"):
        paced(config, _HBM, _served)
