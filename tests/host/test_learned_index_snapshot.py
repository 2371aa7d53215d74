"""Snapshots of the learned index: there and back, damage at every place, the old file safe."""

from __future__ import annotations

import hashlib
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from penstock.host.learned_index import LearnedIndex, SnapshotError, Trainer, snapshot
from penstock.host.learned_index.slots import Slots
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Label, Method
from testbench.learned_index import SMALL
from testbench.qr_cases import slot_plan
from testbench.workloads import amazon_keys, random_keys

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**80,
    -(2**63),
    1.5,
    float("-inf"),
    "",
    "ä\ud800",
    b"",
    b"\0x",
    7,
]


def example(**options: Any) -> LearnedIndex:
    """An index with waiting keys, tombstones and all kinds of values."""
    rng = random.Random(3)
    keys = [b"", b"\0", b"a", b"a\0", *random_keys(150, 2, 6), *amazon_keys(150, 2)]
    index = LearnedIndex({key: rng.choice(VALUES) for key in keys}, layout=SMALL, **options)
    for key in rng.sample(keys, 30):
        del index[key]
    for number in range(60):
        index[b"late%d" % number] = number
    return index


@pytest.mark.parametrize(
    "config",
    [
        FitPlan(n_max=16),
        FitPlan(n_max=16, method=Method.GIVENS),
        slot_plan(n_max=16),
    ],
    ids=["gram", "givens", "slots"],
)
def test_there_and_back(tmp_path: Path, config: FitPlan) -> None:
    index = example(trainer=Trainer(config, limit=20))
    path = tmp_path / "index"
    index.save(path)
    twin = LearnedIndex.load(path)
    assert (
        list(twin.items()) == list(index.items())
        and twin.layout == index.layout
        and twin.trainer.config == config
    )
    assert [type(value) for value in twin.values()] == [type(value) for value in index.values()]
    assert twin.trainer.full <= 4  # the root's models alone are fitted
    # both go on alike: same refits, same models
    for which in (index, twin):
        which.clear_statistics()
        for number in range(200):
            which[b"more%d" % (number * 7919)] = number
        for key in list(which)[::5]:
            del which[key]
    assert list(twin.items()) == list(index.items())
    assert twin.statistics.refits == index.statistics.refits > 10
    for a, b in zip(twin._groups, index._groups, strict=True):
        assert a.model and b.model and a.model.fit.weights.tolist() == b.model.fit.weights.tolist()
    assert sorted(os.listdir(tmp_path)) == ["index"]


def test_empty_and_another_engine(tmp_path: Path) -> None:
    LearnedIndex().save(tmp_path / "empty")
    empty = LearnedIndex.load(tmp_path / "empty")
    assert len(empty) == 0
    empty[b"a"] = 1
    assert list(empty.items()) == [(b"a", 1)]
    index = example()
    index.save(tmp_path / "index")
    other = LearnedIndex.load(
        tmp_path / "index", trainer=Trainer(FitPlan(n_max=4, method=Method.GIVENS))
    )
    assert list(other.items()) == list(index.items()) and other.trainer.full > 10
    for number in range(100):
        other[b"other%d" % number] = number
    assert other.get_many([b"other%d" % number for number in range(100)]) == list(range(100))


def test_values_of_ones_own(tmp_path: Path) -> None:
    index = LearnedIndex({b"a": [1, 2], b"b": {"x": None}})
    with pytest.raises(SnapshotError, match="a value of type list cannot be stored; give save"):
        index.save(tmp_path / "index")
    assert not list(tmp_path.iterdir())
    index.save(tmp_path / "index", encode=lambda value: json.dumps(value).encode())
    assert LearnedIndex.load(tmp_path / "index", decode=json.loads) == index
    with pytest.raises(SnapshotError, match="needs the `decode`"):
        LearnedIndex.load(tmp_path / "index")


def test_errors_of_an_encoder(tmp_path: Path) -> None:
    index = LearnedIndex({b"a": 1})
    with pytest.raises(
        SnapshotError, match="a value of type int was made str by `encode`, which must make bytes"
    ):
        index.save(tmp_path / "index", encode=str)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no len") as caught:
        index.save(tmp_path / "index", encode=lambda value: b"x" * len(value))
    assert not isinstance(caught.value, SnapshotError) and not list(tmp_path.iterdir())
    index.save(tmp_path / "index", encode=lambda value: b"x" * value)
    with pytest.raises(TypeError, match="has no len"):
        LearnedIndex.load(tmp_path / "index", decode=lambda text: len(len(text)))  # type: ignore[arg-type]
    assert LearnedIndex.load(tmp_path / "index", decode=len) == index


def test_left_over_files_are_not_in_the_way(tmp_path: Path) -> None:
    """What a save of the same process left there, or is writing in another thread, stays as it is."""
    path = tmp_path / "index"
    left = tmp_path / f".index.{os.getpid()}.new"
    left.write_bytes(b"left over")
    LearnedIndex({b"a": 1}).save(path)
    assert LearnedIndex.load(path) == {b"a": 1} and left.read_bytes() == b"left over"
    with (
        mock.patch("secrets.token_hex", lambda size: str(os.getpid())),
        pytest.raises(FileExistsError),
    ):
        LearnedIndex({b"b": 1}).save(path)
    assert LearnedIndex.load(path) == {b"a": 1} and left.read_bytes() == b"left over"


def test_every_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "index"
    LearnedIndex({b"k%d" % n: n for n in range(50)}, layout=SMALL).save(path)
    whole = path.read_bytes()
    rng = random.Random(4)
    for cut in [*range(80), *rng.sample(range(len(whole)), 150), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(SnapshotError, match="index"):
            LearnedIndex.load(path)
    for at in [
        *range(20),
        *rng.sample(range(len(whole)), 300),
        *range(len(whole) - 32, len(whole)),
    ]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(SnapshotError, match=r"damaged|no snapshot|version"):
            LearnedIndex.load(path)
    for data in (whole + b"\0", b"", b"PSTKLIDX" + bytes(100)):
        path.write_bytes(data)
        with pytest.raises(SnapshotError):
            LearnedIndex.load(path)
    path.write_bytes(whole)
    assert len(LearnedIndex.load(path)) == 50
    with pytest.raises(FileNotFoundError):
        LearnedIndex.load(tmp_path / "none")


class Forged:
    """A snapshot whose header or arrays can be changed, with the checksum right again."""

    def __init__(self, path: Path) -> None:
        self.path, self.whole = path, path.read_bytes()
        self.begin = snapshot._START.size
        length = int.from_bytes(self.whole[12 : self.begin], "little")
        self.header, self.arrays = (
            json.loads(self.whole[self.begin : self.begin + length]),
            self.whole[self.begin + length : -32],
        )

    def write(self, change: Any, arrays: bytes | None = None) -> None:
        told = json.loads(json.dumps(self.header))
        change(told)
        text = json.dumps(told).encode()
        data = (
            snapshot._START.pack(snapshot.MAGIC, snapshot.VERSION, len(text))
            + text
            + (self.arrays if arrays is None else arrays)
        )
        self.path.write_bytes(data + hashlib.sha256(data).digest())


def test_damage_under_a_right_checksum(tmp_path: Path) -> None:
    """What no accident makes: a file that is at odds with itself is refused all the same, a model that misses a key above all."""
    path = tmp_path / "index"
    LearnedIndex({b"k%d" % n: n for n in range(50)}, layout=SMALL).save(path)
    forged = Forged(path)
    forged.write(lambda told: None)
    assert len(LearnedIndex.load(path)) == 50
    for change, words in (
        (
            lambda told: told["groups"][0]["fit"].update(err_max=-1),
            "a model that does not find its keys",
        ),
        (lambda told: told["groups"].clear(), "no groups"),
        (lambda told: told["groups"].reverse(), "does not hold"),
        (lambda told: told["groups"].pop(), "arrays of nothing"),
        (lambda told: told["groups"][0].pop("dead"), "'dead'"),
        (lambda told: told["groups"][1]["fit"].update({"$kind": "Path"}), "'Path'"),
        (lambda told: told["groups"][0].update(fit=None), "a group without a fit"),
        (
            lambda told: told["groups"][0]["fit"].update(weights=10**30),
            "Fit.weights is not what it must be",
        ),
        (lambda told: told["groups"][0]["fit"]["memo"].update(epoch="x"), "Memo.epoch is not"),
        (
            lambda told: told["groups"][0]["fit"]["memo"].update(rows=99),
            "counts its rows differently",
        ),
        (
            lambda told: told["groups"][0]["fit"]["memo"].update(
                target={"$enum": "Target", "value": "slot"}
            ),
            "another engine",
        ),
        (lambda told: told["groups"][0]["keys"].update(bytes=0), "no list of uint8"),
        (lambda told: told.pop("deferred"), "'deferred'"),
        (lambda told: told.update(limit=float("inf")), "another type"),
        (lambda told: told["config"].update(jobs=True), "FitPlan.jobs"),
        (lambda told: told["layout"].update(buffer=0), "a layout"),
        (lambda told: told["layout"].update(buffer=4.0), "a whole number, not 4.0"),
        (lambda told: told["config"].update(n_max=1), "n_max"),
        (
            lambda told: told["groups"][0]["keys"]["bytes"].update({"$array": ["|u1", [10**6]]}),
            "does not hold",
        ),
    ):
        forged.write(change)
        with pytest.raises(SnapshotError, match=words):
            LearnedIndex.load(path)
    path.write_bytes(forged.whole[:8] + b"\x01" + forged.whole[9:])
    with pytest.raises(SnapshotError, match="a snapshot of version 1; this is version 3"):
        LearnedIndex.load(path)


CONFIGS = {
    "gram": FitPlan(n_max=9),
    "givens": FitPlan(n_max=9, method=Method.GIVENS),
    "slots": slot_plan(n_max=9),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_field_of_another_type(tmp_path: Path, config: FitPlan) -> None:
    """Any field gone or something else: refused with its name, or it does not matter, and the index works."""
    index = LearnedIndex(
        {b"k%02d" % n: n for n in range(15)}, trainer=Trainer(config), layout=SMALL
    )
    for number in range(10):
        index[b"k%02dz" % number] = None
    for key in list(index)[::6]:
        del index[key]
    path = tmp_path / "index"
    index.save(path)
    forged = Forged(path)
    refused, rng = 0, random.Random(6)
    for place in places(
        {name: value if name != "groups" else value[:1] for name, value in forged.header.items()}
    ):
        for value in (KeyError, *rng.sample([None, -1, "x", [], {}, 10**30, True, 2.5, [[0]]], 2)):

            def change(told: Any, place: list[Any] = place, value: Any = value) -> None:
                for step in place[:-1]:
                    told = told[step]
                if value is KeyError:
                    del told[place[-1]]
                else:
                    told[place[-1]] = value

            forged.write(change)
            try:
                twin = LearnedIndex.load(path)
            except SnapshotError:
                refused += 1
                continue
            assert twin == index
            for number in range(5):
                twin[b"k%02dq" % (3 * number)] = number
                del twin[twin.keys()[number]]
            twin.retrain(every=True)
            assert twin.get_many(list(twin)) == list(twin.values())
    assert refused > 150


def places(value: Any) -> list[list[Any]]:
    """The way to everything in JSON."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [
        way for step, part in inner for way in ([step], *([step, *rest] for rest in places(part)))
    ]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_parts_that_do_not_fit_together(tmp_path: Path, config: FitPlan) -> None:
    path = tmp_path / "index"

    def refused(words: str, change: Any) -> None:
        index = LearnedIndex(
            {b"k%02d" % n: n for n in range(60)}, trainer=Trainer(config), layout=SMALL
        )
        assert len(index._groups) > 2
        change(index)
        index.save(path)
        with pytest.raises(SnapshotError, match=words):
            LearnedIndex.load(path)

    def pivot(index: LearnedIndex) -> None:  # keys below it are the first group's own all the same
        index._groups[0].pivot = b"\xff"

    def memo(name: str, value: Any) -> Any:
        def change(index: LearnedIndex) -> None:
            model = index._groups[1].model
            assert model is not None
            old = getattr(model.fit.memo, name)
            model.fit = replace(model.fit, memo=replace(model.fit.memo, **{name: value(old)}))

        return change

    refused("pivots out of order", pivot)
    refused("keys out of order", lambda index: index._groups[1].keys.reverse())
    refused("keys in a wrong group", lambda index: index._groups[1].keys.__setitem__(-1, b"z"))
    refused("a key twice", lambda index: index._groups[1].add(index._groups[1].keys[3], 1))
    refused("a tombstone outside", lambda index: index._groups[1].dead.add(99))
    refused("of other rows", memo("live", lambda old: old - 1))
    refused("another shape", memo("offsets", lambda old: old[1:]))
    refused("rows differently", memo("sums", lambda old: old + 1))
    refused("rows that cannot be", memo("live", lambda old: old + 1))
    if config.method is Method.GIVENS:
        refused("no float32", memo("d", lambda old: old - 2**32))
    if config.target is Label.SLOT:
        for words, slots in (("out of order", Slots([5] * 99, 200)), ("beyond", Slots([], 0))):
            refused(
                words,
                lambda index, slots=slots: setattr(
                    index._groups[1].model,
                    "slots",
                    Slots(
                        (slots.of or index._groups[1].model.slots.of)[: len(index._groups[1].keys)],
                        slots.capacity,
                    ),
                ),
            )
    if config.incremental:
        for name, value in (
            ("err_min", lambda old: old + 1),
            ("err_max", lambda old: old - 1),
            ("low", lambda old: old + 1),
            ("high", lambda old: old - 1),
            ("least", lambda old: old + 1),
            ("err_min", lambda old: 0 * old + 2**31 - 1),
        ):
            refused(
                "does not hold its rows",
                memo(
                    "anchor",
                    lambda old, name=name, value=value: replace(
                        old, **{name: value(getattr(old, name))}
                    ),
                ),
            )


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "index"
    LearnedIndex({b"old": 1}).save(path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(OSError, match="no space left"):
            LearnedIndex({b"new": 2}).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["index"]
    with pytest.raises(SnapshotError, match="type object"):
        LearnedIndex({b"new": object()}).save(path)
    assert LearnedIndex.load(path) == {b"old": 1}
    LearnedIndex({b"new": 2}).save(path)
    assert (
        LearnedIndex.load(path) == {b"new": 2} and path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    )
    with pytest.raises(OSError, match="none"):
        LearnedIndex().save(tmp_path / "none" / "index")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
