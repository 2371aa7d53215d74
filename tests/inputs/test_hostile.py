"""Damaged and built files of every kind: what they hold is read rightly, or refused with one diagnostic, in bounded time and memory."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import penstock as ps
from penstock.dsl.analytics.overrides import with_overrides
from penstock.dsl.core.load import load_kernel
from penstock.engines.analytics.hot import hot_rows
from penstock.engines.pim.models.readers import reader_of
from penstock.engines.pim.models.weights import Weights, opened
from penstock.engines.pim.snapshot import packed, unpacked
from penstock.host.learned_index import LearnedIndex
from penstock.host.omap.keyfiles import read_map, write_keys
from penstock.host.omap.receipts import Receipt, read_receipt, write_receipt
from penstock.host.sources import open_table
from penstock.models.errors import Error
from penstock.models.heap.checksum import checksum
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap
from penstock.runs.failures import USER, failure
from penstock.runs.saved import read_run
from penstock.targets import target_named
from testbench.omap import config

_CHECKPOINT = Path(__file__).parents[1] / "pim/checkpoints/mamba2"
_SECONDS, _MEMORY = 10, 2 << 30
_ROWS = 300
_KERNEL = "kernel k(x: input[d], y: output, w: model[d])\n  w <- w - 0.1 * (sum(x * w) - y) * x\n  epochs 2\n"


class Late(BaseException):
    """A reader took too long."""


class Kind(NamedTuple):
    """A kind of file. `read`: what is made of it, as something that `==` compares; `exact`: a checksum
    holds all of it, so that whatever is taken is what was written."""

    name: str
    data: bytes
    read: Callable[[Path], Any]
    exact: bool = False


@contextmanager
def bounded() -> Iterator[None]:
    """End what takes more than the seconds and the memory that a reader may."""

    def late(*_: Any) -> None:
        raise Late

    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, limits = signal.signal(signal.SIGALRM, late), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages + _MEMORY, limits[1]))
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)


def _plain(value: Any) -> Any:
    """Return arrays as bytes, which `==` compares."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return (str(value.dtype), value.shape, value.tobytes()) if hasattr(value, "tobytes") else value


def _table(source: str) -> Any:
    return _plain(open_table(source).columns())


def _saved(write: Callable[[Any], Any]) -> bytes:
    memory = io.BytesIO()
    write(memory)
    return memory.getvalue()


def _columns() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(_ROWS, 3)).astype(np.float32)
    return {"id": np.arange(_ROWS, dtype=np.int32), "y": x[:, 0], "x": x}


_SCHEMA = Schema(
    "t", (Column("id", "int4"), Column("y", "float4"), Column("x", "float4[]", length=3))
)


def _heap() -> bytes:
    pages = write_heap(_SCHEMA, _columns())
    pages.view("<u2")[:, 4] = checksum(pages)
    return pages.tobytes()


_OWN = re.compile(rb'^ "sha256": "[0-9a-f]{64}"', re.MULTILINE)


def _run(folder: Path, manifest: bytes, arrays: bytes) -> Any:
    """Read a run whose digests are right, whatever is in it."""
    facts = b'"bytes": %d,\n   "sha256": "%s"' % (
        len(arrays),
        hashlib.sha256(arrays).hexdigest().encode(),
    )
    text = re.sub(rb'"bytes": \d+,\s+"sha256": "[0-9a-f]{64}"', facts, manifest)
    text = _OWN.sub(b' "sha256": "%s"' % (b"0" * 64), text)
    digest = hashlib.sha256(text).hexdigest().encode()
    (folder / "manifest.json").write_bytes(_OWN.sub(b' "sha256": "%s"' % digest, text))
    (folder / "result.npz").write_bytes(arrays)
    _, result, scoring = read_run(folder)
    return _plain([result, scoring and scoring.models])


def _checkpoint(folder: Path, name: str, file: Path) -> Any:
    for each in _CHECKPOINT.iterdir():
        shutil.copyfile(each, folder / each.name)
    shutil.copyfile(file, folder / name)
    sizes, tensors = opened(folder)
    reader_of(sizes, "m")(sizes, Weights(tensors, "m", np.float32))
    if name == "tokenizer.json":
        from penstock.engines.pim.models.language import _tokenizer

        return _tokenizer(folder).encode("a word").ids
    return None


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> list[Kind]:
    folder = tmp_path_factory.mktemp("valid")
    columns = _columns()
    table = pa.table({k: list(v) if v.ndim > 1 else v for k, v in columns.items()})
    texts = "".join(f"{i},{v!r}\n" for i, v in zip(columns["id"], columns["y"], strict=True))
    (folder / "heap").write_bytes(_heap())
    (folder / "schema").write_text(json.dumps(_SCHEMA.to_json()))
    (folder / "k.psk").write_text(_KERNEL)
    graph = load_kernel(folder / "k.psk").trace({"d": 3})
    write_keys(folder / "keys", config())
    known = read_map(folder / "keys/map.json")
    write_receipt(folder / "receipt", Receipt(bytes(16), 7), known.digest)
    index = LearnedIndex((b"%d" % i, i) for i in range(50))
    index.save(folder / "index")
    rows = str(_as(folder, "t.npz", _saved(lambda f: np.savez(f, **columns))))
    ps.compile(folder / "k.psk", table=rows).run(rows).save(folder / "run")
    manifest, arrays = (
        (folder / "run" / name).read_bytes() for name in ("manifest.json", "result.npz")
    )
    profile = {"kernel": "k", "models": {"w": {"of": 3, "rows": [2, 0], "lookups": [5, 3]}}}
    session = packed({"layers.0.state": np.arange(64, dtype=np.uint8)}, {"form": 1})
    target = b'[target]\nname = "mine"\nbase = "small"\nports = 2\n[target.clock]\nmhz = 120.5\n[target.power]\nidle_w = 1.0\nmax_w = 5.0\n'
    suffixed = lambda suffix: (
        lambda at: _table(str(shutil.copyfile(at, at.with_name(f"t{suffix}"))))
    )
    tables = {
        ".npz": (_saved(lambda f: np.savez_compressed(f, **columns)), True),
        ".parquet": (
            _saved(lambda f: parquet.write_table(table, f, write_page_checksum=True)),
            False,
        ),
        ".arrow": (_saved(lambda f: feather.write_feather(table, f, compression="lz4")), False),
        ".csv": (f"id,y\n{texts}".encode(), False),
    }
    return [
        Kind("heap", _heap(), lambda at: _table(f"heap:{at},{folder / 'schema'}")),
        Kind(
            "schema",
            (folder / "schema").read_bytes(),
            lambda at: _table(f"heap:{folder / 'heap'},{at}"),
        ),
        *(Kind(suffix, data, suffixed(suffix), exact) for suffix, (data, exact) in tables.items()),
        Kind(
            "start",
            _saved(lambda f: np.save(f, np.zeros(3))),
            lambda at: with_overrides(graph, init={"w": str(at)}) and None,
        ),
        Kind(
            "kernel",
            _KERNEL.encode(),
            lambda at: load_kernel(shutil.copyfile(at, at.with_suffix(".psk"))) and None,
        ),
        Kind(
            "target",
            target,
            lambda at: target_named(shutil.copyfile(at, at.with_suffix(".toml"))) and None,
        ),
        Kind("profile", json.dumps(profile).encode(), lambda at: hot_rows(str(at), graph)),
        Kind("keys", (folder / "keys/map.json").read_bytes(), lambda at: read_map(at) and None),
        Kind(
            "receipt",
            (folder / "receipt").read_bytes(),
            lambda at: read_receipt(at, known.digest) and None,
        ),
        Kind(
            "index",
            (folder / "index").read_bytes(),
            lambda at: list(LearnedIndex.load(at).items()),
            True,
        ),
        Kind("session", session, lambda at: _plain(unpacked(at.read_bytes())), True),
        Kind("manifest", manifest, lambda at: _run(at.parent, at.read_bytes(), arrays) and None),
        Kind("result", arrays, lambda at: _run(at.parent, manifest, at.read_bytes()), True),
        *(
            Kind(
                name,
                (_CHECKPOINT / name).read_bytes(),
                lambda at, name=name: _checkpoint(at.parent, name, at),
            )
            for name in ("config.json", "model.safetensors", "tokenizer.json")
        ),
    ]


def _as(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


# what is done to them

_HUGE = (
    "1" * 30,
    "-1",
    "0",
    "1e999",
    "NaN",
    "9" * 5000,
    "true",
    '"false"',
    "null",
    "{}",
    "0.5",
    "1000000000",
)


def _flip(data: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.choice((1, 1, 2, 8))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _cut(data: bytearray, draw: random.Random) -> bytes:
    return bytes(data[: draw.randrange(len(data))])


def _swap(data: bytearray, draw: random.Random) -> bytes:
    a, b, c = sorted(draw.randrange(len(data)) for _ in range(3))
    return bytes(data[:a] + data[b:c] + data[a:b] + data[c:])


def _double(data: bytearray, draw: random.Random) -> bytes:
    a, b = sorted(draw.randrange(len(data)) for _ in range(2))
    return bytes(data[:b] + data[a:])


def _number(data: bytearray, draw: random.Random) -> bytes:
    """Another number, or another kind of value, in a text; four bytes of ones in what is none."""
    places = list(re.finditer(rb"-?\d[\d.e+]*|true|false|null", data))
    if not places or b"\0" in data:
        at = draw.randrange(len(data))
        return bytes(data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :])
    place = draw.choice(places)
    return bytes(data[: place.start()] + draw.choice(_HUGE).encode() + data[place.end() :])


def _nest(data: bytearray, draw: random.Random) -> bytes:
    places = [m.start() for m in re.finditer(rb"[\[{(=:]", data)]
    at = 1 + draw.choice(places) if places else 0
    depth, pair = draw.choice((90, 2_000, 100_000)), draw.choice((b"[]", b"()", b"{}"))
    return bytes(data[:at] + pair[:1] * depth + pair[1:] * depth + data[at:])


_CHANGES = (_flip, _flip, _cut, _swap, _double, _number, _number, _nest)


def _check(kind: Kind, data: bytes, right: Any, folder: Path) -> None:
    """Read one file: rightly, or with one diagnostic."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    place = _as(folder, "file", data)
    try:
        with bounded():
            value = kind.read(place)
    except Error as problem:
        shown = failure(problem)
        assert shown.exit_code == USER, shown.text
        assert problem.code and len(shown.text) < 20_000
        return
    assert not kind.exact or value == right, kind.name


@pytest.mark.parametrize(
    "count", [140, pytest.param(2_400, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_changed_files(kinds: list[Kind], count: int, tmp_path: Path) -> None:
    draw = random.Random(count)
    right, faults = {}, []
    for kind in kinds:
        place = _as(tmp_path, "file", kind.data)
        right[kind.name] = kind.read(place)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        change = draw.choice(_CHANGES)
        data = change(bytearray(kind.data), draw)
        try:
            _check(kind, data, right[kind.name], tmp_path / "f")
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            faults.append(f"number {number}: {kind.name}, {change.__name__}: {problem!r:.300}")
    assert faults == []


def test_weights_of_runs_are_numbers(kinds: list[Kind], tmp_path: Path) -> None:
    [manifest] = (kind for kind in kinds if kind.name == "manifest")
    [result] = (kind for kind in kinds if kind.name == "result")
    with np.load(io.BytesIO(result.data)) as held:
        arrays = dict(held)
    name = next(name for name in arrays if name.startswith("result."))
    for odd in (arrays[name] * 1j, np.zeros(3, "M8[s]")):
        data = _saved(lambda f, odd=odd: np.savez(f, **{**arrays, name: odd}))
        with pytest.raises(Error, match=f"{name} holds ") as refused:
            _run(tmp_path, manifest.data, data)
        assert refused.value.code == "E806"
