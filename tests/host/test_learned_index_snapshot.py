"""Snapshots of the learned index: there and back, damage at every place, the old file safe."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.host.learned_index import LearnedIndex, SnapshotError, Trainer, snapshot
from penstock.models.qr.config import FitPlan
from penstock.models.qr.job import Method
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
    for which in (index, twin):
        for number in range(200):
            which[b"more%d" % (number * 7919)] = number
        for key in list(which)[::5]:
            del which[key]
    assert list(twin.items()) == list(index.items())
    assert twin.get_many(list(index)) == list(index.values())
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
        with pytest.raises(SnapshotError, match=r"damaged|not a snapshot|version"):
            LearnedIndex.load(path)
    for data in (whole + b"\0", b"", b"PSTKLIDX" + bytes(100)):
        path.write_bytes(data)
        with pytest.raises(SnapshotError):
            LearnedIndex.load(path)
    path.write_bytes(whole)
    assert len(LearnedIndex.load(path)) == 50
    with pytest.raises(SnapshotError, match="there is no file"):
        LearnedIndex.load(tmp_path / "none")


def forge(path: Path, change: Any, texts: Any = lambda data: data) -> None:
    """Change a snapshot's header, or what lies behind it, with the checksum right again."""
    whole, begin = path.read_bytes(), snapshot._START.size
    length = int.from_bytes(whole[12:begin], "little")
    told = json.loads(whole[begin : begin + length])
    change(told)
    text = json.dumps(told).encode()
    start = snapshot._START.pack(snapshot.MAGIC, snapshot.VERSION, len(text))
    data = start + text + texts(whole[begin + length : -32])
    path.write_bytes(data + hashlib.sha256(data).digest())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda told: told.pop("deferred"), "'deferred'"),
        (lambda told: told.pop("items"), "'items'"),
        (lambda told: told.update(items=51), "of other lengths|number of items"),
        (lambda told: told.update(items=-1), "another number"),
        (lambda told: told.update(items=True), "another number"),
        (lambda told: told.update(limit=float("inf")), "another type"),
        (lambda told: told["layout"].update(buffer=0), "a layout"),
        (lambda told: told["layout"].update(buffer=4.0), "a whole number, not 4.0"),
        (lambda told: told["config"].update(n_max=1), "n_max"),
        (lambda told: told["config"].update(method="x"), "'x' is not"),
        (lambda told: told.update(config=None), "is not a snapshot of a learned index"),
    ],
)
def test_damage_under_a_right_checksum(tmp_path: Path, change: Any, words: str) -> None:
    """What no accident makes: a file that is at odds with itself is refused all the same."""
    path = tmp_path / "index"
    LearnedIndex({b"k%d" % n: n for n in range(50)}, layout=SMALL).save(path)
    forge(path, lambda told: None)
    assert len(LearnedIndex.load(path)) == 50
    forge(path, change)
    with pytest.raises(SnapshotError, match=words):
        LearnedIndex.load(path)


def test_texts_under_a_right_checksum(tmp_path: Path) -> None:
    path = tmp_path / "index"
    for change, words in (
        (lambda data: data[:-1], "of other lengths"),
        (lambda data: data[:-1] + b"x", "is not a snapshot of a learned index"),
        (lambda data: data.replace(b"k1k2", b"k2k1"), "out of order"),
        (lambda data: b"\xff" * 8 + data[8:], "of other lengths"),
    ):
        LearnedIndex({b"k1": 1.5, b"k2": True, b"k3": None}).save(path)
        forge(path, lambda told: None, change)
        with pytest.raises(SnapshotError, match=words):
            LearnedIndex.load(path)


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
