"""Workloads: published constants, distributions, mixes, keys; Twitter's shapes."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import islice
from operator import add

import numpy as np
import pytest

from testbench.workloads import (
    CLUSTERS,
    CORE,
    KEY_SETS,
    Kind,
    Mix,
    Twitter,
    Ycsb,
    amazon_keys,
    key_names,
    random_keys,
    url_keys,
)
from testbench.workloads.distributions import (
    SCRAMBLED_ZETA,
    THETA,
    Hotspot,
    Latest,
    ScrambledZipfian,
    Zipfian,
    fnv64,
    zeta,
)


def fnv_by_hand(value: int) -> int:
    """FNV-1a over eight little-endian octets, then the absolute value as a signed number."""
    state = 0xCBF29CE484222325
    for octet in value.to_bytes(8, "little", signed=True):
        state = (state ^ octet) * 1099511628211 % 2**64
    return abs(state - 2**64 if state >= 2**63 else state)


def test_fnv() -> None:
    values = [0, 1, 2, 255, 256, 65_537, 10**9, 2**40 + 3, 2**62, -1]
    assert fnv64(np.array(values)).tolist() == [fnv_by_hand(value) for value in values]
    # the first keys that any YCSB run loads
    assert key_names(np.arange(2)) == [b"user6284781860667377211", b"user8517097267634966620"]
    assert int(fnv64(0)) == 6284781860667377211


def test_zeta() -> None:
    assert zeta(10**6) == pytest.approx(15.392, abs=5e-4)
    assert zeta(10**7) == pytest.approx(18.066, abs=5e-4)
    # the same powers, for processors differ in their last place, and one addition after the other, which `sum` does not promise
    assert zeta(5) == reduce(add, (np.arange(1.0, 6.0) ** -THETA).tolist())
    assert zeta(1000, THETA, 400, zeta(400)) == pytest.approx(zeta(1000), rel=1e-14)

    # Euler and Maclaurin from 10^6 on: what YCSB states for 10^16 items is the value for 10^10
    def far(items: float) -> float:
        return (
            zeta(10**6)
            + (items ** (1 - THETA) - 1e6 ** (1 - THETA)) / (1 - THETA)
            + (items**-THETA - 1e6**-THETA) / 2
        )

    assert far(1e10) == pytest.approx(SCRAMBLED_ZETA, abs=1e-8)
    assert far(1e16) == pytest.approx(45.12, abs=5e-3)


def test_zipfian_is_zipfian() -> None:
    items, n = 1000, 400_000
    counts = np.bincount(
        Zipfian(items, np.random.default_rng(3)).draw(np.full(n, items)), minlength=items
    )
    assert len(counts) == items
    shares = counts / n
    exact = np.arange(1, items + 1) ** -THETA / zeta(items)
    # the first two are drawn exactly, the rest by the inverse of an integral
    assert np.abs(shares[:2] - exact[:2]).max() < 4 * (exact[0] / n) ** 0.5
    assert np.abs(np.cumsum(shares) - np.cumsum(exact)).max() < 0.02


@pytest.mark.parametrize("items", [1, 2, 3])
def test_zipfian_of_few(items: int) -> None:
    found = Zipfian(items, np.random.default_rng(1)).draw(np.full(1000, items))
    assert set(found.tolist()) <= set(range(max(items, 2)))
    with pytest.raises(ValueError, match="at least one item"):
        Zipfian(0, np.random.default_rng(1))


def test_scrambled_zipfian_redraws_what_is_not_there() -> None:
    last = np.full(50_000, 599)
    found = ScrambledZipfian(1001, np.random.default_rng(4)).draw(last)
    assert found.min() >= 0 and found.max() <= 599
    # the hottest item of all is item 0 of the Zipfian behind it
    hottest = next(rank for rank in range(100) if fnv_by_hand(rank) % 1001 <= 599)
    assert Counter(found.tolist()).most_common(1)[0][0] == fnv_by_hand(hottest) % 1001


def test_latest_and_hotspot() -> None:
    last = np.arange(999, 999 + 40_000)
    found = Latest(999, np.random.default_rng(6)).draw(last)
    assert (found <= last).all() and found.min() >= 0
    assert np.mean(found == last) == pytest.approx(1 / zeta(20_000), rel=0.1)
    hot = Hotspot(0, 1000, np.random.default_rng(7)).draw(np.full(100_000, 999))
    assert np.mean(hot < 200) == pytest.approx(0.8, abs=0.01)
    assert hot.max() == 999 and np.bincount(hot[hot < 200]).min() > 250
    assert Hotspot(0, 3, np.random.default_rng(7), keys=0.0).draw(np.zeros(9)).max() <= 2
    with pytest.raises(ValueError, match="between 0 and 1"):
        Hotspot(0, 3, np.random.default_rng(7), keys=1.5)


@pytest.mark.parametrize("letter", CORE)
def test_ycsb_mix(letter: str) -> None:
    n = 60_000
    run = Ycsb(letter, 5000, n, seed=2)
    operations = list(run)
    assert len(operations) == n and operations == list(run)
    assert operations[:20] != list(islice(Ycsb(letter, 5000, n, seed=3), 20))
    counts, mix = Counter(operation.kind for operation in operations), CORE[letter]
    for kind, share in zip(
        (Kind.READ, Kind.UPDATE, Kind.INSERT, Kind.SCAN, Kind.MODIFY), mix.shares, strict=True
    ):
        assert counts[kind] / n == pytest.approx(
            share, abs=5 * (share * (1 - share) / n) ** 0.5 + 1e-9
        )
    # keys are there when they are asked for, and inserts go on in order
    present, number = set(run.load()), 5000
    assert len(present) == 5000
    for kind, key, length, size in operations:
        assert size == 1000 and (1 <= length <= 100) == (kind is Kind.SCAN)
        if kind is Kind.INSERT:
            assert key == key_names(np.array([number]))[0]
            number += 1
            present.add(key)
        else:
            assert key in present


def test_ycsb_scan_lengths_are_uniform() -> None:
    lengths = [
        operation.length for operation in Ycsb("E", 1000, 50_000) if operation.kind is Kind.SCAN
    ]
    assert np.bincount(lengths, minlength=101)[1:].min() > 350
    short = [
        operation.length
        for operation in Ycsb(Mix(scan=1, scan_length="zipfian", max_scan=10), 1000, 20_000)
    ]
    assert (
        np.mean(np.array(short) == 1) == pytest.approx(1 / zeta(10), abs=0.02) and max(short) == 10
    )


def test_ycsb_options() -> None:
    ordered = Ycsb(Mix(read=1, request="uniform", hashed=False, padding=12), 10, 100)
    assert list(ordered.load())[:2] == [b"user000000000000", b"user000000000001"]
    assert {operation.key for operation in ordered} == set(ordered.load())
    assert len(list(Ycsb(Mix(read=1, request="hotspot"), 10, 100))) == 100
    # YCSB counts both ends of the range and twice the expected inserts
    assert Ycsb("E", 1000, 10_000)._chooser(np.random.default_rng(1)).items == 1000 + 1000 + 1  # type: ignore[attr-defined]
    for wrong in (
        lambda: Ycsb("G", 10, 10),
        lambda: Ycsb("A", 1, 10),
        lambda: Mix(),
        lambda: Mix(read=1, request="x"),
        lambda: Mix(scan=1, max_scan=0),
    ):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("number", CLUSTERS)
def test_twitter_shapes(number: int) -> None:
    cluster, n = CLUSTERS[number], 120_000
    operations = list(Twitter(number, n, seed=4))
    assert len(operations) == n and operations == list(Twitter(number, n, seed=4))
    assert np.mean([operation.kind is Kind.PUT for operation in operations]) == pytest.approx(
        cluster.sets, abs=0.01
    )
    assert {len(operation.key) for operation in operations} == {cluster.key} and operations[
        0
    ].size == cluster.value
    requests = Counter(operation.key for operation in operations)
    assert n / len(requests) == pytest.approx(cluster.frequency, abs=0.05)
    assert np.mean([count == 1 for count in requests.values()]) == pytest.approx(
        cluster.one_hit, abs=0.015
    )
    assert len({key[:2] for key in requests}) <= 4


def test_twitter_expiry() -> None:
    present: set[bytes] = set()
    deletes = 0
    for kind, key, _, _ in Twitter(37, 30_000, lifetime=5000):
        if kind is Kind.PUT:
            present.add(key)
        if kind is Kind.DELETE:
            present.discard(key)
            deletes += 1
    assert deletes > 5000 and len(present) < 8000
    with pytest.raises(ValueError, match="no figures"):
        Twitter(54, 10)
    with pytest.raises(ValueError, match="positive"):
        Twitter(12, 10, lifetime=0)


@pytest.mark.parametrize(("name", "length"), [("random", 32), ("amazon", 12), ("url", 128)])
def test_key_sets(name: str, length: int) -> None:
    keys = list(KEY_SETS[name](20_000, 5))
    assert len(keys) == 20_000 and {len(key) for key in keys} == {length}
    assert keys == list(KEY_SETS[name](20_000, 5)) and keys != list(KEY_SETS[name](20_000, 6))
    assert len(set(keys)) > 19_900


def test_key_sets_look_like_their_models() -> None:
    assert np.bincount(np.frombuffer(b"".join(random_keys(10_000)), np.uint8)).min() > 1000
    assert Counter(key[:1] in (b"1", b"2", b"3") for key in amazon_keys(10_000))[
        True
    ] == pytest.approx(9083, abs=150)
    urls = list(url_keys(20_000, domains=1000))
    assert all(key.startswith(b"http://") for key in urls)
    hosts = Counter(key.split(b"/")[2] for key in urls)
    assert len(hosts) > 900 and hosts.most_common(1)[0][1] > 500
