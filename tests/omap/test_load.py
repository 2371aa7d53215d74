"""Bulk loads: what is loaded is there, and the host sees the number of records alone."""

import random
from itertools import pairwise
from math import log2

import numpy as np
import pytest

from penstock.models.memory import FixedLatency
from penstock.models.omap.cycles import public, run
from penstock.models.omap.device import Device, Stopped
from penstock.models.omap.errors import MapError
from penstock.models.omap.golden import Item, Map, Overflow
from penstock.models.omap.load import batches, load, load_requests, shown, sweeps
from penstock.models.omap.messages import Operation, Request, Status
from penstock.models.omap.planner import plan
from penstock.models.omap.tails import BUDGET, gauss_distance, two_choice_tail
from penstock.models.omap.traffic import page_traffic
from testbench.omap import KEYS, config


def _items(count, seed, size=8):
    draw = random.Random(seed)
    return [Item(key, draw.randbytes(size)) for key in draw.sample(range(1 << 20), count)]


@pytest.mark.parametrize("bins, hbm_bins", [(16, 4), (17, 4), (9, 0), (8, 7)])
def test_what_is_loaded_is_there(bins, hbm_bins):
    shape = config(bins=bins, hbm_bins=hbm_bins)
    items = _items(40, bins)
    box = Map(shape, KEYS)
    steps = list(load(box, load_requests(shape, items), len(items)))
    assert [step.response.status for step in steps[:40]] == [Status.MISSING] * 40
    assert dict(box.items()) == dict(items)
    # every page is written, and nothing waits
    swept = [o.page for step in steps[40:] for o in step.opened]
    assert swept[: shape.host_bins] == list(range(shape.host_bins))
    held = {key for page in range(shape.host_bins) for key, _ in box.page(page)[1]}
    assert held | {item.key for item in box.framed()} == {item.key for item in items}
    for item in items:
        assert box.step(Request(Operation.GET, item.key, bytes(8))).response.value == item.value


def test_the_host_sees_the_number_of_records_alone():
    shape = config()
    told = []
    for seed in range(3):
        box = Map(shape, KEYS)
        steps = list(load(box, load_requests(shape, _items(35, seed)), 35))
        reads, writes = page_traffic(shape, KEYS.page, steps)
        times = run(shape, public(steps), FixedLatency(30, 32))
        places = [[(s.operation, s.page, len(s.data)) for s in side] for side in (reads, writes)]
        told.append((places, times))
    assert told[0] == told[1] == told[2]


def test_a_sweep_opens_every_page_once():
    for bins in range(2, 12):
        for hbm_bins in range(bins):
            shape = config(bins=bins, hbm_bins=hbm_bins)
            pairs = [shown(shape, 3, k) for k in range(3, 3 + sweeps(shape))]
            assert all(one != two for one, two in pairs)
            assert {b for pair in pairs for b in pair} >= set(range(hbm_bins, bins))
            assert 2 * len(pairs) <= shape.host_bins + 1


def test_keys_that_are_there_end_a_load():
    shape = config()
    items = _items(5, 1)
    with pytest.raises(Overflow) as caught:
        list(load(Map(shape, KEYS), load_requests(shape, [*items, items[2]]), 6))
    assert caught.value.code is MapError.DUPLICATE
    device = Device(shape, KEYS)
    device.load(items)
    with pytest.raises(OverflowError):
        device.load(_items(36, 2))
    assert len(device.map) == 5
    with pytest.raises(Stopped) as stopped:
        device.load(items[:1])
    assert stopped.value.code is MapError.DUPLICATE


def test_loads_of_more_records_than_frames_come_in_batches():
    memory = FixedLatency(60, 32)
    shape = plan(3000, 8, memory=memory)
    sizes = batches(shape, 3000)
    assert sum(sizes) == 3000 and len(sizes) > 1 and sizes[0] == shape.frames - 1
    device = Device(shape, KEYS)
    items = _items(3000, 4)
    device.load(items)
    assert dict(device.map.items()) == dict(items)
    # 2,000 items by two choices each, in 200 maps: so many stay in HBM's bins, but for the budget
    draw, loads, copies = np.random.default_rng(5), np.zeros((200, shape.bins), int), np.arange(200)
    for _ in range(2000):
        one, two = draw.integers(shape.bins, size=(2, 200))
        loads[copies, np.where(loads[copies, two] < loads[copies, one], two, one)] += 1
    held = loads[:, : shape.hbm_bins].sum(axis=1)
    kept = shape.frames - 1 - batches(shape, 3000, 2000)[0]
    assert kept > held.mean() + gauss_distance(BUDGET) * held.std()
    with pytest.raises(ValueError):
        batches(config(frames=3, hbm_bins=15), 40, 20)


#: steps of the integration below, for each item of the mean load
_STEPS = 200


def _insertion_tail(mean, slots):
    """Return log2 of the probability that both choices of an insertion hold `slots` items, when a map
    without departures comes to a mean load of `mean`.

    The mean field ds[i]/dt = s[i-1]^2 - s[i]^2 from empty bins on (Mitzenmacher, IEEE TPDS 12, 2001).
    """
    shares = [1.0] + [0.0] * slots
    steps = max(int(mean * _STEPS), 1)
    width = mean / steps
    for _ in range(steps):
        slopes = [a * a - b * b for a, b in pairwise(shares)]
        middle = [
            1.0,
            *(s + width / 2 * d for s, d in zip(shares[1:], slopes, strict=True)),
        ]
        slopes = [a * a - b * b for a, b in pairwise(middle)]
        shares = [1.0, *(s + width * d for s, d in zip(shares[1:], slopes, strict=True))]
    return 2 * log2(shares[slots]) if shares[slots] > 0 else -2_000.0


def test_insertions_load_bins_no_more_than_a_map_in_use():
    """Loads after insertions alone, against the tail that a map is planned for, and against a
    process."""
    for mean, slots in ((1.5, 6), (4.0, 9), (8.0, 14)):
        assert _insertion_tail(mean, slots) < two_choice_tail(mean, slots)
    draw, bins, count = random.Random(2), 1 << 12, [0] * 30
    loads = [0] * bins
    for _ in range(8 * bins):
        one, two = draw.randrange(bins), draw.randrange(bins)
        best = two if loads[two] < loads[one] else one
        count[loads[best]] += 1
        loads[best] += 1
    high = sum(load_ >= 9 for load_ in loads) / bins
    assert high == pytest.approx(2 ** (_insertion_tail(8.0, 9) / 2), rel=0.15)
