"""What the host sees of a map tells nothing of keys and operations; of maps that leak it does."""

from dataclasses import replace

import pytest

from penstock.models.memory import FixedLatency
from penstock.models.omap.cycles import public, run
from penstock.models.omap.golden import Map
from penstock.models.omap.traffic import page_traffic
from testbench.obliviousness import (
    ciphertexts,
    classifier,
    independence,
    same_gaps,
    same_histogram,
    same_times,
    shape,
    trace,
    uniformity,
)
from testbench.omap import KEYS, config
from testbench.omap_leaks import LEAKS, leaky
from testbench.omap_workloads import WORKLOADS, workload

_ITEMS, _BINS, _HBM = 1024, 256, 51
_COUNT = 6000


@pytest.fixture(scope="module")
def wide():
    """A map whose loads are the published ones' half."""
    return config(
        capacity=_ITEMS, bins=_BINS, hbm_bins=_HBM, buckets=128, bucket_slots=32, frames=700
    )


@pytest.fixture(scope="module")
def steps(wide):
    """What a map does under each workload, each with pairs of its own."""
    found = {}
    for number, name in enumerate(WORKLOADS):
        first, made = workload(name, _ITEMS, _COUNT)
        box = Map(wide, replace(KEYS, pairs=KEYS.pairs + number))
        found[name] = list(box.run(made))[first:]
        # T9: no bound is near
        assert max(box.bin(n)[0] for n in range(_BINS)) <= wide.slots
        assert len(list(box.framed())) < wide.frames - 1
    return found


@pytest.fixture(scope="module")
def traces(steps):
    """What the host sees of them."""
    return {name: trace(_BINS, _HBM, done) for name, done in steps.items()}


def _all_pass(findings):
    assert [finding for finding in findings if not finding.passes] == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_shape_uniformity_and_independence(traces, name):
    seen = traces[name]
    _all_pass([*shape(seen), uniformity(seen), independence(seen)])


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "sweep"])
def test_two_workloads_cannot_be_told_apart(traces, name):
    pair = traces[name], traces["sweep"]
    _all_pass([same_histogram(*pair), same_gaps(*pair), classifier(*pair)])


def test_nothing_that_is_sealed_comes_twice(wide, steps):
    _, writes = page_traffic(wide, KEYS.page, steps["hot key"][:800])
    opened = [o for step in steps["hot key"][:800] for o in step.opened]
    sent = [(w.page, o.counter + 1, w.data) for w, o in zip(writes, opened, strict=True)]
    assert ciphertexts(sent).passes
    # the leak: a counter that stands still
    still = [(w.page, 1, w.data) for w in writes]
    assert not ciphertexts(still).passes


def test_times_are_those_of_any_other_workload(wide, steps):
    """Far apart, requests wait for nothing but their own pages."""
    waits = {}
    for name in ("sweep", "hot key", "misses"):
        told = run(wide, public(steps[name][:1500]), FixedLatency(60, 32), interval=3000)
        waits[name] = [b - a for a, b in zip(told.arrived, told.answered, strict=True)]
    _all_pass(same_times(waits["sweep"], waits["hot key"]))
    _all_pass(same_times(waits["sweep"], waits["misses"]))
    # the leak: a request waits for the one before if both have the same key
    slower = [wait + 40 for wait in waits["hot key"]]
    assert not all(finding.passes for finding in same_times(waits["sweep"], slower))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_fails_the_test_that_is_named_for_it(leak):
    name = "deletes" if leak in ("writes what changed", "a miss touches nothing") else "hot key"
    first, made = workload(name, _ITEMS, 12_000)
    bins = 200 if leak == "biased range" else _BINS
    seen = leaky(leak, bins, _HBM, made, 1, first)
    tests = {"T1": shape, "T2": lambda t: [uniformity(t)], "T3": lambda t: [independence(t)]}
    findings = tests[LEAKS[leak]](seen)
    assert not all(finding.passes for finding in findings)
    if leak == "one bin":
        assert findings[0].value > 50


def test_the_map_of_bins_without_a_leak_passes():
    first, made = workload("hot key", _ITEMS, 12_000)
    seen = leaky("", _BINS, _HBM, made, 1, first)
    _all_pass([*shape(seen), uniformity(seen), independence(seen)])
