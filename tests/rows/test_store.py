"""The policy of the store, the layout of rows, and what no store does better."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from penstock.models.rows.bound import best_fixed, busiest, fewest_fetched
from penstock.models.rows.config import row_bytes
from penstock.models.rows.store import next_random
from testbench.row_store import LONG, WAYS, Policy, StoreConfig


def zipf(count: int, rows: int, exponent: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shares = np.cumsum(np.arange(1, rows + 1) ** -exponent)
    return rng.permutation(rows)[np.searchsorted(shares, rng.random(count) * shares[-1])]


def test_hit_rates_under_zipf() -> None:
    """Near those of the best fixed set, and above least recently used."""
    trace = zipf(80_000, 20_000, 0.99, 1)
    policy, warm, lines = Policy(StoreConfig(1024)), 40_000, 1024
    for row in trace[:warm]:
        policy.access(int(row))
    before, recent, hits = policy.counts.hits, dict.fromkeys(range(-lines, 0)), 0
    for n, row in enumerate(trace.tolist()):
        hits += row in recent and n >= warm
        recent.pop(row if row in recent else next(iter(recent)))
        recent[row] = None
        if n >= warm:
            policy.access(row)
    rate = (policy.counts.hits - before) / (len(trace) - warm)
    assert rate >= 0.9 * best_fixed(trace[warm:], lines)
    assert rate > 1.03 * hits / (len(trace) - warm)


def test_policy_is_the_papers() -> None:
    """Re-reference prediction written down anew: by set, ages one by one, a list of rows."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        sets, state = int(rng.choice([1, 2, 4])), 0xACE1
        store = StoreConfig(WAYS * sets)
        policy = Policy(store)
        lines: list[list[list[int]]] = [[] for _ in range(sets)]  # row, prediction, changed
        for row, change in zip(rng.zipf(1.3, 400) % 60, rng.random(400) < 0.4, strict=True):
            access, own = policy.access(int(row), bool(change)), lines[store.place(int(row))]
            hit = next((line for line in own if line[0] == row), None)
            assert access.hit == (hit is not None)
            if hit is not None:
                hit[1:] = [0, hit[2] | change]
                continue
            state = state >> 1 ^ (0xB400 if state % 2 else 0)
            new = [int(row), 3 if state & 0x4889 else 2, bool(change)]
            if len(own) < WAYS:
                own.append(new)
                assert access.evicted is None
                continue
            while all(line[1] < 3 for line in own):
                for line in own:
                    line[1] += 1
            old = next(line for line in own if line[1] == 3)
            assert (access.evicted, access.written) == (old[0], old[2])
            own[own.index(old)] = new
        held = [row for row in policy.lines if row >= 0]
        assert sorted(held) == sorted(line[0] for own in lines for line in own)


def test_one_in_32_is_long() -> None:
    state, states = 1, Counter[int]()
    for _ in range(65_535):
        states[state] += 1
        state = next_random(state)
    assert len(states) == 65_535 and state == 1
    policy = Policy(StoreConfig(8))
    long = 0
    for row in range(6400):
        line = policy.access(row).line
        long += policy.soon[line] == LONG
    assert 150 < long < 250


def test_pinned_rows_stay() -> None:
    policy = Policy(StoreConfig(16, pinned=(5, 7, 5)))
    for row in range(200):
        policy.access(row)
    assert policy.access(5).hit and policy.access(7).hit
    full = Policy(StoreConfig(8, pinned=tuple(range(8))))
    assert full.access(9).line is None and full.access(3).hit
    assert Policy(StoreConfig(8, pinned=tuple(range(20)))).counts.fetched == 8


def best_of_all(trace: list[int], lines: int) -> int:
    """The fewest fetches, by trying all choices."""
    states = {frozenset[int](): 0}
    for row in trace:
        after: dict[frozenset[int], int] = {}
        for held, fetched in states.items():
            kept = [held]
            if row not in held and lines:
                left = itertools.combinations(held, min(len(held), lines - 1))
                kept += [frozenset(rows) | {row} for rows in left]
            for new in kept:
                cost = fetched + (row not in held)
                after[new] = min(after.get(new, cost), cost)
        states = after
    return min(states.values())


def test_no_store_fetches_fewer() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        trace, lines = rng.integers(0, 6, rng.integers(1, 14)), int(rng.integers(0, 5))
        assert fewest_fetched(trace, lines) == best_of_all(trace.tolist(), lines), seed
    trace = zipf(20_000, 2_000, 0.99, 2)
    policy = Policy(StoreConfig(128))
    for row in trace:
        policy.access(int(row))
    assert len(np.unique(trace)) < fewest_fetched(trace, 128) < policy.counts.fetched
    assert busiest(np.array([3, 1, 3, 2, 1])) == (1, 2)


def test_sets_share_evenly() -> None:
    store = StoreConfig(WAYS * 64, banks=4)
    for stride in (1, 4, 64, 1024):
        shares = Counter(store.place(row) for row in range(0, 64 * stride, stride))
        assert max(shares.values()) <= 2, stride
        assert all(store.bank(row) == store.place(row) % 4 for row in range(64))


def test_sizes() -> None:
    assert [row_bytes(c, b) for c, b in (((10,), 4), ((10, 1), 4), ((1,), 2), ((17,), 4))] == [
        64,
        64,
        2,
        128,
    ]


@pytest.mark.parametrize(("lines", "banks"), [(12, 1), (24, 1), (8, 2), (8, 3), (16, 0)])
def test_stores_that_cannot_be(lines: int, banks: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        StoreConfig(lines, banks)
