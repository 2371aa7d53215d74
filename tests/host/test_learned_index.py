"""The learned index against SortedDict: random operations, bulk loads, and errors."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sortedcontainers import SortedDict

from penstock.host.learned_index import Layout, LearnedIndex, Trainer, TrainingError, golden
from penstock.host.learned_index.root import Root
from penstock.host.learned_index.views import OrderedSet
from penstock.models.errors import HardwareError
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Fit, Job, Method
from penstock.models.qr.shell import FitError
from testbench.learned_index import CONFIGS, SMALL, found, same, small
from testbench.qr_cases import slot_plan
from testbench.workloads import amazon_keys, random_keys, url_keys

# long runs

#: engines of long runs: all rows each time, or what is kept and widened
LONG = {
    "passes": FitPlan(n_max=33),
    "slots": slot_plan(n_max=33),
    "givens": slot_plan(n_max=33, method=Method.GIVENS),
}


def long_run(
    operations: int, present: int, layout: Layout, seed: int, kind: str = "passes"
) -> LearnedIndex:
    """Random puts, deletes and lookups over a changing set of keys beside a dict; every lookup must be right. Returns the index at the end."""
    rng = random.Random(seed)
    pool = [
        *random_keys(present // 3, seed, 8),
        *amazon_keys(present // 3, seed),
        *url_keys(present // 6, seed, 60),
        *(b"user%d" % rng.randrange(10**9) for _ in range(present // 6)),
        *(bytes(n % 7) + b"a" * (n % 5) for n in range(35)),
    ]
    model: dict[bytes, int] = dict.fromkeys(pool[::2], 0)
    index = LearnedIndex(model, trainer=Trainer(LONG[kind]), layout=layout)
    size = len(pool)
    misses = 0
    for number in range(operations):
        key = pool[int(rng.random() * size)]
        kind = rng.random()
        if kind < 0.5:
            misses += index.get(key) != model.get(key)
        elif kind < 0.75:
            index[key] = model[key] = number
        else:
            misses += index.pop(key, None) != model.pop(key, None)
        if number % 1000 == 999:  # keys drift, so that windows shift
            at = rng.randrange(size - 50)
            pool[at : at + 50] = [
                pool[at][: rng.randrange(1, 9)] + rng.randbytes(rng.randrange(6)) for _ in range(50)
            ]
    assert misses == 0
    assert index.get_many(model) == list(model.values())
    assert list(index) == sorted(model)
    return index


def test_random_operations() -> None:
    index = long_run(
        200_000,
        6000,
        Layout(smallest=50, forward=60, backward=10, largest=400, buffer=32, crumbs=20, span=96),
        1,
    )
    found(index)
    counts = index.statistics
    assert (
        counts.refits > 300
        and counts.builds > 10
        and counts.splits > 3
        and index.trainer.incremental > index.trainer.full / 4
    )


@pytest.mark.parametrize("kind", ["slots", "givens"])
def test_random_operations_with_what_is_kept(kind: str) -> None:
    index = long_run(
        15_000,
        3000,
        Layout(smallest=50, forward=60, backward=10, largest=400, buffer=32, crumbs=20, span=96),
        3,
        kind,
    )
    found(index)
    assert index.trainer.incremental > 10


@pytest.mark.long
@pytest.mark.parametrize(("kind", "millions"), [("slots", 4), ("passes", 4), ("givens", 2)])
def test_ten_million_operations(kind: str, millions: int) -> None:
    found(long_run(millions * 1_000_000, 60_000, Layout(), 2, kind))


@pytest.mark.parametrize(
    "keys",
    [
        random_keys(20_000, 3),
        amazon_keys(20_000, 3),
        url_keys(4000, 3),
        [b"k" * n for n in range(1500)],
        [bytes(n) for n in range(700)],
        [b"same prefix %09d" % n for n in range(20_000)],
        [b"x" * 3000 + b"%d" % n for n in range(900)],
    ],
    ids=["random", "amazon", "url", "k", "zero", "ordered", "long"],
)
def test_bulk_load(keys: Sequence[bytes]) -> None:
    keys = list(dict.fromkeys(keys))
    index = LearnedIndex((key, number) for number, key in enumerate(keys))
    found(index)
    assert list(index) == sorted(keys)
    assert index.get_many(keys) == list(range(len(keys)))
    others, model = (
        [key + b"\0" for key in keys[::7]] + [key[:-1] for key in keys[::5]],
        {key: number for number, key in enumerate(keys)},
    )
    assert (
        index.get_many(others)
        == [model.get(key) for key in others]
        == [index.get(key) for key in others]
    )


@pytest.mark.parametrize("deferred", [False, True])
def test_a_group_that_loses_all_its_keys(deferred: bool) -> None:
    """Widened bounds stay wide when the rows go; the groups that are fitted together with an empty one are fitted all the same."""
    trainer = Trainer(slot_plan(n_max=9))
    keys = [b"%d" % n**3 for n in range(64)]
    index = LearnedIndex(
        dict.fromkeys(keys, 0), trainer=trainer, layout=Layout(span=16), deferred=deferred
    )
    for key in keys:
        del index[key]
    index.retrain(every=True)
    assert (
        list(index) == []
        and index.due == 0
        and index._groups[0].model
        and index._groups[0].model.span == 0
    )
    index.update(dict.fromkeys(keys, 1))
    found(index)

    index = LearnedIndex(
        {b"%06d" % n**3: n for n in range(90)}, trainer=trainer, layout=SMALL, deferred=deferred
    )
    group = index._groups[1]
    model = SortedDict(index)
    for key in group.live().copy():
        del index[key], model[key]
    for number in range(0, 900_000, 9000):
        index[b"%06d" % number] = model[b"%06d" % number] = number
    index.retrain(every=True)
    assert not any(group.waiting or group.dead for group in index._groups) and index.due == 0
    same(index, model)
    found(index)


@pytest.mark.parametrize("kind", CONFIGS)
def test_keys_come_in_descending_order(kind: str, tmp_path: Path) -> None:
    """Keys below the first pivot are the first group's, also when it is split; the snapshot of such an index can be loaded."""
    index = small(kind, {b"0299": 299})
    for number in reversed(range(300)):
        index[b"%04d" % number] = number
    found(index)
    assert list(index.values()) == list(range(300)) and index.statistics.splits > 5
    index.save(tmp_path / "index")
    assert LearnedIndex.load(tmp_path / "index") == index
    for number in range(290):
        del index[b"%04d" % number]
    found(index)


def test_refits_use_the_memo() -> None:
    keys = sorted(random_keys(4000, 4))
    index = LearnedIndex(dict.fromkeys(keys[::2], 1))
    full = index.trainer.full
    for key in keys[1:1500:2]:
        index[key] = 2
    assert (
        index.trainer.incremental > 5 and index.trainer.full <= full + 2 * index.statistics.splits
    )
    assert (
        index.statistics.refits == index.trainer.incremental
        and 0 < index.statistics.fitting < index.statistics.seconds
    )


def test_deferred_hands_over_many_jobs_at_once() -> None:
    batches: list[int] = []
    config = CONFIGS["gram"]

    def counting(jobs: Sequence[Job]) -> Sequence[Fit | HardwareError]:
        batches.append(len(jobs))
        return golden(config)(jobs)

    keys = list(amazon_keys(2000, 6))
    index = LearnedIndex(
        dict.fromkeys(keys[:1000]), trainer=Trainer(config, counting), layout=SMALL, deferred=True
    )
    batches.clear()
    for key in keys[1000:]:
        index[key] = 1
    assert not batches and index.due > 20 and index.get_many(keys, 7) == [None] * 1000 + [1] * 1000
    due = index.due
    assert index.retrain() == due and batches[0] == due and index.due == 0
    found(index)


def test_a_failing_backend_changes_nothing() -> None:
    working = True
    config = CONFIGS["gram"]

    def backend(jobs: Sequence[Job]) -> Sequence[Fit | HardwareError]:
        return (
            golden(config)(jobs)
            if working
            else [HardwareError(FitError.QR_MEMO, number) for number, _ in enumerate(jobs)]
        )

    index = LearnedIndex(
        {b"%03d" % n: n for n in range(100)}, trainer=Trainer(config, backend), layout=SMALL
    )
    working = False
    with pytest.raises(TrainingError, match="the model was not fitted: QR_MEMO") as caught:
        for n in range(100, 200):
            index[b"%03d" % n] = n
    assert caught.value.error.code is FitError.QR_MEMO
    count = len(index)
    assert count > 100 and dict(index.items()) == {b"%03d" % n: n for n in range(count)}
    found(index)
    working = True
    index.retrain()
    for n in range(count, 300):
        index[b"%03d" % n] = n
    assert index.get_many([b"%03d" % n for n in range(300)]) == list(range(300))
    found(index)


def test_wrong_uses() -> None:
    index = LearnedIndex({b"a": 1})
    with pytest.raises(TypeError, match="bytes, not str"):
        index["a"] = 1  # type: ignore[index]
    with pytest.raises(TypeError, match="bytes, not int"):
        LearnedIndex({1: 1})  # type: ignore[dict-item]
    with pytest.raises(KeyError):
        index["a"]  # type: ignore[index]
    with pytest.raises(KeyError):
        del index["a"]  # type: ignore[arg-type]
    assert "a" not in index and index.get("a") is None  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="empty"):
        LearnedIndex().popitem()
    with pytest.raises(TypeError, match="unhashable"):
        hash(index)
    for wrong in ({"smallest": 0}, {"largest": 500}, {"buffer": 0}, {"tombstones": 0.0}):
        with pytest.raises(ValueError, match="a layout"):
            Layout(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limit is at least 0"):
        Trainer(limit=-1)
    with pytest.raises(TypeError, match="limit is an integer"):
        Trainer(limit="a")  # type: ignore[arg-type]
    assert type(Trainer(limit=np.int32(3)).limit) is int  # type: ignore[arg-type]


EDGES = """d[[]] | d.get([]) | d.get("a", 3) | [] in d | "a" in d | None in d | d.pop([], 5) | d.pop("a", 5) | d.pop([])
d.__delitem__([]) | d.__delitem__("a")
d.__setitem__([], 1) | d.setdefault([]) | d[b"004":b"008"] | d.index("a") | d.index(None) | d.index("a", 5, 2) | d.index(b"004", -1) | d.index(b"004", 0, 3)
d.keys().index("a") | d.keys().index([]) | d.keys().count([]) | d.keys().count(3) | d.keys().index(b"004", 1, 9) | d.items().index((b"004", 4)) | d.bisect(1)
d.irange(1, 2) | d.irange("a", "b") | d.irange(b"000", 1) | d.irange(b"010", b"004") | d.irange(b"004", b"010", (1, 0)) | d.islice("a") | d.peekitem("a")
d.peekitem(True) | d.popitem(50) | d.keys()["a"] | d.keys().__delitem__(0) | d.keys().__delitem__(99) | d.values().__delitem__(slice(0, 4))
d.items().__delitem__("a")
d.keys() - {b"004"} | d.keys().__rsub__({b"a", b"004"}) | d.keys().__or__({b"z", b"a"}) | d.keys().__or__({3}) | d.keys().__xor__([b"000", b"1"])
d.items() & {(b"004", 4)} | d.items().__or__({(b"004", 5)}) | d.keys() & [[]] | ([], 1) in d.items() | 3 in d.items() | d.keys() == set(d) | d.keys() <= {b"a"}
d.__or__({b"a": 1}) | d.__ror__({b"a": 1, b"004": 9}) | d.__or__(3) | d.__ior__([(b"a", 1)]) | d.update(3) | d.update({"a": 1}) | d.fromkeys([b"b", b"a"], 1)"""


@pytest.mark.parametrize(
    "call", [call for line in EDGES.splitlines() for call in line.split(" | ")]
)
def test_edges_of_calls(call: str) -> None:
    items = {b"%03d" % n: n for n in range(0, 40, 2)}
    results: list[Any] = []
    for which in (LearnedIndex(items), SortedDict(items)):
        try:
            made = eval(call, {"d": which})
            results.append(
                list(made.items())
                if isinstance(made, Mapping)
                else list(made)
                if isinstance(made, Set | Iterator)
                else made
            )
        except Exception as problem:
            results.append(type(problem))
    assert results[0] == results[1]


def test_what_differs_from_sorteddict() -> None:
    """docs/reference/learned_index.md names these, and no others."""
    index, empty = LearnedIndex({b"a": 1, b"b": 2}), LearnedIndex()
    for call in (
        lambda: empty.__setitem__("a", 1),
        lambda: empty.irange("a"),
        lambda: index.irange(b"z", 1),
        lambda: empty.bisect(1),  # type: ignore
        lambda: empty.peekitem("a"),
        lambda: empty.islice("a"),
        lambda: LearnedIndex.fromkeys(["a"]),
        lambda: index.update(a=1),  # type: ignore
        lambda: index.update({b"c": 1, "a": 1}),
    ):  # type: ignore
        with pytest.raises(TypeError):
            call()
    assert list(index) == [b"a", b"b"] and list(empty) == []
    assert index.get(b"c", default=3) == 3
    found = index.keys() - {b"a"}
    assert (
        isinstance(found, OrderedSet)
        and not hasattr(found, "add")
        and hash(found) == hash(frozenset({b"b"}))
    )
    both = index.keys() | {b"\0"}
    assert (
        repr(both) == "OrderedSet([b'\\x00', b'a', b'b'])"
        and both[-1] == b"b"
        and next(reversed(both)) == b"b"
        and both & {b"a"} == {b"a"}
    )
    assert list(both - {b"a"}) == [b"\0", b"b"]


def test_pickles_and_copies() -> None:
    index = small("slots", {b"k%d" % n: n for n in range(60)})
    for number in range(30):
        index[b"late%d" % number] = number
        del index[b"k%d" % number]
    for twin in (pickle.loads(pickle.dumps(index)), deepcopy(index)):
        assert (
            twin == index
            and twin.layout == index.layout
            and twin.trainer.config == index.trainer.config
        )
        twin[b"z"] = 1
        twin.retrain(every=True)
        found(twin)
        assert b"z" not in index


def test_maps_together_keep_how_they_are_made() -> None:
    index = small("givens", {b"b": 1}, deferred=True)
    for made in ({b"a": 0, b"b": 0} | index, index | {b"a": 0}, index.copy()):
        assert (
            made.trainer is index.trainer
            and made.layout is index.layout
            and made.deferred
            and made[b"b"] == 1
        )


def test_small_things() -> None:
    index = LearnedIndex.fromkeys([b"b", b"a"], 3)
    assert (
        repr(index) == "LearnedIndex({b'a': 3, b'b': 3})"
        and index == {b"a": 3, b"b": 3}
        and index != {b"a": 3}
        and index != 5
    )
    twin = index.copy()
    twin[b"c"] = 4
    assert b"c" not in index and {b"z": 1} | twin == {b"a": 3, b"b": 3, b"c": 4, b"z": 1}
    twin |= {b"d": 5}
    assert list(twin.keys()) == [b"a", b"b", b"c", b"d"] and list(reversed(twin.keys())) == [
        b"d",
        b"c",
        b"b",
        b"a",
    ]
    assert list(reversed(twin.values())) == [5, 4, 3, 3] and next(reversed(twin.items())) == (
        b"d",
        5,
    )
    with pytest.raises(TypeError):
        index | 5  # type: ignore[operator]


class _Counted(bytes):
    """A key that counts with how many others a search compares it."""

    compared = 0

    def __lt__(self, other: bytes) -> bool:
        _Counted.compared += 1
        return super().__lt__(other)


def test_models_of_the_root_narrow_its_search() -> None:
    """All four of them: a search of all pivots takes twelve comparisons."""
    steps = np.repeat([1, 50, 3, 200], 1024)
    pivots = [int(at).to_bytes(3) for at in np.cumsum(steps)]
    root = Root(pivots, Trainer(CONFIGS["gram"]))
    assert [root.find(_Counted(key)) for key in pivots] == [*range(4096)]
    assert _Counted.compared < 7 * 4096
