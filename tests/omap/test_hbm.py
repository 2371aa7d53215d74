"""The pace that HBM's rows ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.engines.omap.plans import _served
from penstock.models.memory import parse_memory
from penstock.models.omap.front_schedule import FrontSchedule
from penstock.models.omap.hbm import LATE, late, pace, plainly, waits
from penstock.models.omap.planner import plan
from penstock.sim.memory.dram import FastChannel
from penstock.targets import target_named

_PART = target_named("u55c")
_HBM = parse_memory(_PART.dram, _PART.clock_mhz)


def _plan(dealt=4, bucket=8, **given):
    return plan(1 << 20, 8, memory=_HBM, rounds=2, dealt=dealt, bucket=bucket, **given)


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


def test_a_plan_of_a_million_items_answers_20_million_a_second():
    config = _plan(serve=_served)
    assert _PART.clock_mhz / FrontSchedule.of(config).interval >= 20
    assert late(config, _HBM, config.pace, _served) <= LATE
    assert late(config, _HBM, config.pace - 3, _served) > LATE
    assert (
        max(
            waits(config, p, _HBM, config.pace, _served).max()
            for p in ("buckets", "records", "frames")
        )
        < config.deadline
    )


def test_one_channel_a_port_is_slower():
    assert 6 < _PART.clock_mhz / pace(_plan(dealt=1), _HBM, _served) < 8


def test_a_deadline_that_nothing_keeps():
    with pytest.raises(ValueError, match="keeps no deadline of 70 cycles"):
        pace(replace(_plan(), deadline=70), _HBM, _served)
