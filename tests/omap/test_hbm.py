"""The pace that HBM's rows ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.engines.omap.plans import _served
from penstock.models.memory import parse_memory
from penstock.models.omap.front_schedule import FrontSchedule
from penstock.models.omap.hbm import LATE, _ports, _waits, late, pace, plainly, waits
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
    config, count = replace(_plan(dealt=1), deadline=4000), 40
    found = waits(config, "records", _HBM, 4000, _served, count=8 * count)
    draw = np.random.RandomState(1)
    draw.random_sample(count)  # how many reads each operation has, all of them here
    places = draw.randint(1 << 20, size=8 * count)
    channel, told = FastChannel(_HBM), []
    accesses = sorted(
        (k % count * 4000 + (4030 if k >= 4 * count else 0) + k // count % 4, k >= 4 * count, place)
        for k, place in enumerate(places.tolist())
    )
    for cycle, write, place in accesses:
        at = place * config.record_bytes
        done = channel.write(cycle, at, 1, 32) if write else channel.read(cycle, at, 1, 32)[-1]
        told.append(done - cycle - 1)
    assert sorted(told) == sorted(found.tolist())


def test_a_plan_of_a_million_items_answers_25_million_a_second():
    config = _plan(serve=_served)
    assert _PART.clock_mhz / FrontSchedule.of(config).interval >= 25
    assert late(config, _HBM, config.pace, _served) <= LATE
    for sooner in (
        {"deadline": config.deadline - 8},
        {"frame_deadline": config.frame_deadline - 8},
    ):
        assert late(replace(config, **sooner), _HBM, config.pace, _served) > LATE
    deadlines = dict.fromkeys(("buckets", "records"), config.deadline)
    for port, deadline in {**deadlines, "frames": config.frame_deadline}.items():
        assert waits(config, port, _HBM, config.pace, _served).max() < deadline


def test_items_are_written_as_soon_after_one_another_as_they_are_merged():
    """Those of a whole window, whose pages came together: more wait than at the pace of the front."""
    port = _ports(_plan(frames=1))["frames"]
    assert port.merge == 7
    together, apart = (
        np.sort(_waits(one, _HBM, 30, _served, 1 << 16)) for one in (port, replace(port, merge=0))
    )
    assert together[-100] > apart[-100]


def test_one_channel_a_port_is_slower():
    assert 6 < _PART.clock_mhz / pace(_plan(dealt=1, frames=1), _HBM, _served) < 8


def test_a_deadline_that_nothing_keeps():
    with pytest.raises(ValueError, match="keeps no deadline of 70 cycles"):
        pace(replace(_plan(), deadline=70), _HBM, _served)
