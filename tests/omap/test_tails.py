"""The failure budget against published figures and simulation."""

import random
from itertools import combinations, pairwise, product
from math import log2

import numpy as np
import pytest

from penstock.models.memory import FixedLatency
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.golden import Map, buckets_of
from penstock.models.omap.messages import Operation, Request
from penstock.models.omap.planner import plan
from penstock.models.omap.tails import (
    BUDGET,
    failures,
    full_tail,
    pair_of_bins,
    pair_of_buckets,
    shares,
    total,
    two_choice_tail,
)
from testbench.omap import KEYS, config

#: log2 of the probability that both choices of an access hold C items, as computed for the published system: mean load, then C and its value
_TABLE = {
    4: {7: -16, 8: -34, 9: -70, 10: -142, 11: -287},
    8: {12: -27, 13: -56, 14: -113, 15: -228, 16: -459},
    16: {20: -23, 21: -47, 22: -96, 23: -192, 24: -385},
    32: {36: -21, 37: -42, 38: -85, 39: -171, 40: -343},
}


@pytest.mark.parametrize("load", _TABLE)
def test_tails_of_two_choices(load):
    for slots, expected in _TABLE[load].items():
        assert two_choice_tail(load, slots) == pytest.approx(expected, abs=0.6)


def test_shares_are_those_of_the_process():
    """Items that leave and come to the less loaded of two bins, as often as the tail says."""
    draw, bins, load = random.Random(4), 1 << 12, 8
    loads, places = [load] * bins, [n % bins for n in range(bins * load)]
    count = [0] * 20
    rounds = 400_000
    for turn in range(rounds):
        item = draw.randrange(len(places))
        loads[places[item]] -= 1
        one, two = draw.randrange(bins), draw.randrange(bins)
        best = two if loads[two] < loads[one] else one
        if turn > rounds // 4:
            count[loads[best]] += 1
        loads[best] += 1
        places[item] = best
    total = sum(count)
    logs = shares(load, 12)
    for least in (8, 9, 10):
        seen = sum(count[least:]) / total
        assert seen == pytest.approx(2 ** (2 * logs[least]), rel=0.08)


@pytest.mark.parametrize("buckets", [2, 4, 64])
def test_the_buckets_of_a_key_are_two_and_lie_in_both_halves(buckets):
    shape = config(buckets=buckets)
    pairs = [buckets_of(shape, KEYS.hash, key) for key in range(4000)]
    assert all(0 <= one < buckets // 2 <= two < buckets for one, two in pairs)
    cells = np.zeros((buckets // 2, buckets // 2))
    for one, two in pairs:
        cells[one, two - buckets // 2] += 1
    expected, freedom = len(pairs) / cells.size, cells.size - 1
    statistic = ((cells - expected) ** 2 / expected).sum()
    assert abs(statistic - freedom) <= 4 * (2 * freedom) ** 0.5
    with pytest.raises(ValueError):
        config(buckets=1)


def _churned(capacity, bins, halves, rounds, copies, seed):
    """Return how often, by load, both choices of an operation held so many items or more. Maps in number `copies`
    that are full, whose items leave in uniform order; `halves`: the choices lie in both halves."""
    draw, row = np.random.default_rng(seed), np.arange(copies)
    places = np.tile(np.arange(capacity) % bins, (copies, 1))
    loads = np.stack([np.bincount(each, minlength=bins) for each in places])
    count, warm = np.zeros(100, dtype=np.int64), 10 * capacity
    for turn in range(warm + rounds):
        item = draw.integers(0, capacity, copies)
        loads[row, places[row, item]] -= 1
        one = draw.integers(0, bins // 2 if halves else bins, copies)
        if halves:
            two = draw.integers(bins // 2, bins, copies)
        else:
            two = draw.integers(0, bins - 1, copies)
            two += two >= one
        best = np.where(loads[row, two] < loads[row, one], two, one)
        least = loads[row, best]
        if turn >= warm:
            count += np.bincount(least, minlength=len(count))
        loads[row, best] += 1
        places[row, item] = best
    return count[::-1].cumsum()[::-1]


@pytest.mark.parametrize(
    "capacity, bins, halves, rounds, close",
    [
        (32, 4, True, 4_000, 3.0),
        (64, 8, True, 4_000, 3.0),
        (128, 16, True, 4_000, 3.0),
        (24, 16, False, 4_000, 3.0),
        (64, 32, False, 4_000, 2.0),
        pytest.param(1024, 128, True, 60_000, 2.0, marks=pytest.mark.long),
        pytest.param(1024, 128, False, 60_000, 2.0, marks=pytest.mark.long),
        pytest.param(128, 16, True, 200_000, 4.0, marks=pytest.mark.long),
    ],
)
def test_two_full_bins_are_as_rare_as_their_tail_says(capacity, bins, halves, rounds, close):
    """Simulations exceed the tail at no load, and come near it (`close`, in bits for each load above the mean),
    where the mean field of bins without number says far too little."""
    copies = 500
    seen = _churned(capacity, bins, halves, rounds, copies, seed=capacity)
    pair = pair_of_buckets(bins) if halves else pair_of_bins(bins)
    operations, loads = rounds * copies, range(capacity // bins + 1, 40)
    checked = 0
    for slots in loads:
        if 2 * slots >= capacity:
            assert seen[slots] == 0
            continue
        expected = operations * 2 ** full_tail(capacity, bins, pair, slots)
        # one map's operations that see it come in runs, of as many operations as an item stays
        deviation = (expected * capacity) ** 0.5
        assert seen[slots] <= expected + 5 * deviation, slots
        if seen[slots] >= 100:
            checked += 1
            gap = log2(expected / seen[slots])
            assert gap < close * (slots - capacity // bins), (slots, gap)
    assert checked >= 2
    if operations >= 10**8:  # loads so high are rare
        high = max(slots for slots in loads if seen[slots] >= 30)
        assert seen[high] > 5 * operations * 2 ** two_choice_tail(capacity / bins, high)


@pytest.mark.parametrize("count", [2, 4, 10, 64])
def test_pairs_are_drawn_alike(count):
    """Two bins that differ; a bucket of each half."""
    assert pair_of_bins(count) == 1 / len([*combinations(range(count), 2)])
    halves = range(count // 2), range(count // 2, count)
    assert pair_of_buckets(count) == 1 / len([*product(*halves)])


@pytest.mark.parametrize("capacity", [*range(1, 40), 64, 100, 128, 256, 1000, 1 << 14, 1 << 20])
def test_small_maps_are_planned_within_the_budget(capacity):
    shape = plan(capacity, 8, memory=FixedLatency(60, 32), load=1.0)
    assert total(shape) <= BUDGET and shape.bucket_slots <= 16
    tight = {**shape.to_json(), "bucket_slots": 2, "slots": 1}
    if capacity > 5:
        assert total(OmapConfig.from_json(tight)) > BUDGET
    if 2 * shape.bucket_slots >= capacity:
        assert failures(shape)[1].lifetime < -1000


@pytest.mark.parametrize("seed", range(3))
def test_a_small_map_in_churn_fills_no_bucket(seed):
    """A full map whose keys come and go, none twice."""
    shape = plan(24, 8, memory=FixedLatency(60, 32))
    box, draw, live = Map(shape, KEYS), random.Random(seed), []
    for _ in range(4000):
        if len(live) == 24:
            box.step(Request(Operation.DELETE, live.pop(draw.randrange(24)), bytes(8)))
        live.append(draw.getrandbits(64))
        box.step(Request(Operation.PUT, live[-1], bytes(8)))
    assert len(box) == 24


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
