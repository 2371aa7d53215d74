"""Snapshots of the learned index: there and back, damage at every place, the old file safe."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.host.learned_index import Layout, LearnedIndex, SnapshotError, Trainer, snapshot
from penstock.host.workloads import amazon_keys, random_keys
from penstock.models.qr.config import Config
from penstock.models.qr.job import Bounds, Method, Sums, Target

SMALL = Layout(smallest=8, forward=12, backward=4, window=3, largest=32, buffer=4, tombstones=0.25, span=12, crumbs=3)
VALUES: list[Any] = [None, True, False, 0, -1, 2**80, -(2**63), 1.5, float("-inf"), "", "ä\ud800", b"", b"\0x", 7]


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


@pytest.mark.parametrize("config", [Config(n_max=16, sums=Sums.INCREMENTAL), Config(n_max=16, method=Method.GIVENS),
                                    Config(n_max=16, bounds=Bounds.WIDENED, segments=4),
                                    Config(n_max=16, target=Target.SLOT, sums=Sums.INCREMENTAL, bounds=Bounds.WIDENED),
                                    Config(n_max=16, sums=Sums.INCREMENTAL, bounds=Bounds.WIDENED, blocks=16)],
                         ids=["gram", "givens", "widened", "slots", "blocks"])
def test_there_and_back(tmp_path: Path, config: Config) -> None:
    index = example(trainer=Trainer(config, ghosts=0.4, limit=20))
    path = tmp_path / "index"
    index.save(path)
    twin = LearnedIndex.load(path)
    assert list(twin.items()) == list(index.items()) and twin.layout == index.layout and twin.trainer.config == config
    assert [type(value) for value in twin.values()] == [type(value) for value in index.values()]
    assert twin.trainer.full <= 4                       # the root's models alone are fitted
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
    other = LearnedIndex.load(tmp_path / "index", trainer=Trainer(Config(n_max=4, method=Method.GIVENS)))
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


def test_every_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "index"
    LearnedIndex({b"k%d" % n: n for n in range(50)}, layout=SMALL).save(path)
    whole = path.read_bytes()
    rng = random.Random(4)
    for cut in [*range(80), *rng.sample(range(len(whole)), 150), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(SnapshotError, match="index"):
            LearnedIndex.load(path)
    for at in [*range(20), *rng.sample(range(len(whole)), 300), *range(len(whole) - 32, len(whole))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:])
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


def test_damage_under_a_right_checksum(tmp_path: Path) -> None:
    """What no accident makes: a file that is at odds with itself is refused all the same, a model that misses a key above all."""
    path = tmp_path / "index"
    LearnedIndex({b"k%d" % n: n for n in range(50)}, layout=SMALL).save(path)
    whole = path.read_bytes()
    begin = snapshot._START.size
    length = int.from_bytes(whole[12:begin], "little")
    header = json.loads(whole[begin:begin + length])

    def written(change: Any) -> None:
        told = json.loads(json.dumps(header))
        change(told)
        text = json.dumps(told).encode()
        data = snapshot._START.pack(snapshot.MAGIC, snapshot.VERSION, len(text)) + text + whole[begin + length:-32]
        path.write_bytes(data + hashlib.sha256(data).digest())

    written(lambda told: None)
    assert len(LearnedIndex.load(path)) == 50
    for change, words in (
            (lambda told: told["groups"][0]["fit"].update(err_max=-1), "a model that does not find its keys"),
            (lambda told: told["groups"].clear(), "no groups"),
            (lambda told: told["groups"].reverse(), "does not hold"),
            (lambda told: told["groups"][0].pop("dead"), "'dead'"),
            (lambda told: told["groups"][1]["fit"].update({"$kind": "Path"}), "'Path'"),
            (lambda told: told["layout"].update(buffer=0), "a layout"),
            (lambda told: told["config"].update(n_max=1), "n_max"),
            (lambda told: told["groups"][0]["keys"]["bytes"].update({"$array": ["|u1", [10**6]]}), "does not hold")):
        written(change)
        with pytest.raises(SnapshotError, match=words):
            LearnedIndex.load(path)
    path.write_bytes(whole[:8] + b"\x01" + whole[9:])
    with pytest.raises(SnapshotError, match="a snapshot of version 1; this is version 2"):
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
    assert LearnedIndex.load(path) == {b"new": 2} and path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with pytest.raises(OSError, match="none"):
        LearnedIndex().save(tmp_path / "none" / "index")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
