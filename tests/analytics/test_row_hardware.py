"""Rows of models by an index in hardware: golden results and cycles to the bit, with rows that are asked for again at once."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module

import penstock as ps
from penstock.dsl.core.load import from_text
from penstock.engines.base import Given
from penstock.hdl.analytics.store import Store
from penstock.hdl.rows.same_place import Pending
from penstock.host.sources import Table
from penstock.models.analytics.shell import blocks
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.values import array_body, varlena
from penstock.models.heap.writer import write_heap
from penstock.models.numerics.formats import parse_format
from penstock.targets import target_named
from testbench.kernels.by_index import (
    FIELDS,
    LRMF,
    arrays,
    bags,
    batched,
    columns,
    computed,
    fields,
    one_tuple,
    ratings,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TWO = replace(target_named("small"), ports=2)


def _equal(
    text: str,
    table: dict[str, np.ndarray],
    dims: dict[str, int],
    format: str,
    folder: Path,
    backend: str = "rtl",
    lanes: int | None = None,
    bind: dict[str, list[str]] | None = None,
) -> ps.Design:
    """Demand the golden result and the model's cycles; where sums of rows leave the format, of a design that saturates, after the other's error."""
    (folder / "k.psk").write_text(text)
    more = {"dims": dims, "format": format, "choices": ps.Choices(lanes=lanes), "bind": bind}
    design = ps.compile(folder / "k.psk", table=table, **more)
    assert design.compiled.refused is None
    if stopped := design.run(table, backend="golden").errors:
        assert design.run(table, backend=backend).errors == stopped
        assert stopped[0].code.name == "ROW_OVERFLOW"
        design = ps.compile(folder / "k.psk", table=table, on_overflow="saturate", **more)
    golden, model = (design.run(table, backend=b) for b in ("golden", "model"))
    run = design.run(table, backend=backend)
    assert run.cycles == model.cycles
    assert model.bound_machine.cycles <= model.bound.cycles <= model.cycles
    for name, codes in golden.codes.items():  # of NaN, which no value equals, as well
        assert np.array_equal(run.codes[name], codes), name
    return design


def test_factors_of_ratings(tmp_path: Path) -> None:
    """Users and items that come again at once, rows of two beats; then a user that there is not."""
    rng = np.random.default_rng(1)
    table = ratings(rng, 120, 3, 2)
    design = _equal(LRMF, table, {"m": 3, "n": 2, "k": 3}, "fixed:8,8", tmp_path, lanes=2)
    table["u"][57] = 3
    run = design.run(table, backend="rtl")
    golden = design.run(table, backend="golden")
    assert run.errors == golden.errors and run.errors[0].code.name == "VALUE_INDEX"
    said = golden.workload.failure(golden.errors[0]).text
    assert "3 is not one of 0 to 2" in said and "row 58" in said and "u" in said


@pytest.mark.parametrize("place", ["chip", "memory"])
def test_a_sum_that_leaves_the_format(place: str, tmp_path: Path) -> None:
    """It is an error behind the run's last cycle, wherever its row lies; what lies behind a row's end is none, nor is an end that is just reached."""
    text = "kernel k(a: index[n], x: input, E: model[n, 3], s: model[n])\n  E[a] += x\n  s[a] -= 0.5 * x\n  batch 2\n"
    (tmp_path / "k.psk").write_text(text)
    table = {"a": np.array([0, 1, 1, 2, 1, 1], np.int32), "x": np.array([3, -3, -3, 7, 0, -2])}
    more = {"dims": {"n": 3}, "choices": ps.Choices(lanes=2, place=dict.fromkeys("Es", place))}
    for policy, left in (("error", True), ("saturate", True), ("error", False)):
        table["x"][5] = -2 - left
        policies = {"on_overflow": policy, "format": "fixed:4,4"}
        design = ps.compile(tmp_path / "k.psk", TWO, table, **policies, **more)
        golden, model, run = (design.run(table, backend=b) for b in ("golden", "model", "pysim"))
        assert run.cycles == model.cycles and run.errors == golden.errors
        assert bool(run.errors) == (left and policy == "error")
        if run.errors:
            said = golden.workload.failure(run.errors[0]).text
            assert "row 1 of E, column 1, by line pointer 6 of block 0" in said and "E841" in said
            continue
        assert golden.counters["left_range"] == 3 * left
        assert all(np.array_equal(run.codes[name], v) for name, v in golden.codes.items())


def test_batches(tmp_path: Path) -> None:
    """Rows that come again within a batch, rows of several beats changed twice by a tuple, a number a row, and a batch that ends short."""
    text = """kernel k(u: index[m], i: index[n], x: input, P: model[m, k], Q: model[n, k], s: model[m])
  P[u] += x * Q[i]
  P[i] -= 0.25 * P[u]
  Q[i] max= P[u]
  s[u] += x
  init P = uniform(-1, 1, seed=1)
  init Q = uniform(-1, 1, seed=2)
  batch 5
  epochs 2
"""
    table = ratings(np.random.default_rng(3), 13, 3, 2)
    table["x"] = table.pop("r")
    design = _equal(text, table, {"m": 3, "n": 2, "k": 3}, "bfloat16", tmp_path, "pysim", 2)
    assert design.compiled.plan.merge_count == 5 and design.compiled.plan.schedule.change > 0


def test_fields(tmp_path: Path) -> None:
    """Columns with rows of their own: read and changed as rows and as single numbers; one that counts too far is an error alike."""
    rng = np.random.default_rng(6)
    table, text = columns(rng, 11), fields(np.random.default_rng(8))
    design = _equal(text, table, {"k": 3}, "fixed:8,8", tmp_path, "pysim", 2, FIELDS)
    table["c1"][7] = 3
    golden, run = (design.run(table, backend=name) for name in ("golden", "pysim"))
    assert run.errors == golden.errors
    for one in (golden, run):
        said = one.workload.failure(one.errors[0]).text
        assert "3 is not one of 0 to 2" in said and "row 8" in said and "c1" in said


def test_arrays(tmp_path: Path) -> None:
    """A bag that names one row twice changes it twice, in order; an array of another length is an error alike."""
    rng = np.random.default_rng(12)
    table, text = arrays(rng, 9, 3), fields(np.random.default_rng(1))
    design = _equal(text, table, {"n": 3, "k": 3}, "fixed:8,8", tmp_path, "pysim", 2)
    short = table | {"c": [row[: 2 + (n != 5)] for n, row in enumerate(table["c"])]}
    golden = design.run(short, backend="golden")
    assert design.run(short, backend="pysim").errors == golden.errors
    said = golden.workload.failure(golden.errors[0]).text
    assert golden.errors[0].code.name == "ARRAY_SHAPE" and "row 6" in said and "column c" in said


def _spoilt(rng: np.random.Generator, table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same table with some integers that name no row, and some NULLs."""
    spoilt: dict[str, np.ndarray] = {name: np.ma.array(values) for name, values in table.items()}
    for _ in range(rng.integers(1, 4)):
        name, row = rng.choice(["u", "i"]), rng.integers(0, len(table["r"]))
        bits = 8 * table[name].itemsize
        bad = [-1, 5, 6, -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits // 2) + 1]
        if rng.random() < 0.2:
            spoilt[name][row] = np.ma.masked
        else:
            spoilt[name][row] = rng.choice(bad)
    return spoilt


@pytest.mark.parametrize(
    ("cases", "backend"), [(2, "pysim"), pytest.param(100, "rtl", marks=pytest.mark.long)]
)
def test_bad_input(cases: int, backend: str, tmp_path: Path) -> None:
    """The same error, at the same place, of tables with integers far beyond the rows, negative ones and NULLs."""
    rng = np.random.default_rng(9)
    table = ratings(rng, 40, 5, 5)
    table["u"] = table["u"].astype(np.int64)
    (tmp_path / "k.psk").write_text(LRMF)
    dims, clean = {"m": 5, "n": 5, "k": 1}, {n: np.ma.array(v) for n, v in table.items()}
    design = ps.compile(tmp_path / "k.psk", table=clean, dims=dims, format="fixed:8,8")
    for _ in range(cases):
        spoilt = _spoilt(rng, table)
        golden, run = (design.run(spoilt, backend=b) for b in ("golden", backend))
        assert golden.errors and run.errors == golden.errors
        assert run.errors[0].code.name in ("VALUE_INDEX", "TUPLE_NULL")


def _without(table: dict[str, np.ndarray], bad: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[~bad] for name, values in table.items()}


@pytest.mark.parametrize(
    ("cases", "backend"), [(1, "pysim"), pytest.param(30, "rtl", marks=pytest.mark.long)]
)
def test_rows_that_are_left_out(cases: int, backend: str, tmp_path: Path) -> None:
    """With `skip` a run is that of the table without them, cycles of the model; of a value that is an error and an index that is none, the error
    stands."""
    rng = np.random.default_rng(10)
    (tmp_path / "k.psk").write_text(LRMF)
    dims, choices = {"m": 5, "n": 5, "k": 1}, ps.Choices(on_index="skip")
    for _ in range(cases):
        table = ratings(rng, 40, 5, 5)
        bad = rng.random(40) < 0.2
        table["u"][bad] = rng.choice([-1, 5, 261, -(1 << 31)], bad.sum())
        table["i"][rng.random(40) < 0.1] = 5
        bad |= table["i"] == 5
        design = ps.compile(
            tmp_path / "k.psk", "small", table, "fixed:8,8", dims=dims, choices=choices
        )
        golden, model, run = (design.run(table, backend=b) for b in ("golden", "model", backend))
        assert golden.counters["index_rows"] == golden.counters["rows_skipped"] == bad.sum() > 0
        assert run.cycles == model.cycles
        clean = design.run(_without(table, bad), backend="golden")
        for name, codes in clean.codes.items():
            assert np.array_equal(run.codes[name], codes) and np.array_equal(
                golden.codes[name], codes
            )
        table["r"][np.flatnonzero(bad)[-1]] = 200.0
        ended = design.run(table, backend="golden")
        assert ended.errors[0].code.name == "VALUE_OVERFLOW"
        assert design.run(table, backend=backend).errors == ended.errors


@pytest.mark.parametrize("policy", ["skip", "last"])
def test_categories_that_are_not_known(policy: str, tmp_path: Path) -> None:
    """Texts that the design has not seen: their rows are left out, or are those of the model's last row."""
    rng = np.random.default_rng(11)
    table = ratings(rng, 30, 4, 4) | {"u": rng.choice(list("abcd"), 30)}
    (tmp_path / "k.psk").write_text(LRMF)
    dims, choices = {"m": 5, "n": 4, "k": 1}, ps.Choices(on_unseen=policy)
    design = ps.compile(tmp_path / "k.psk", "small", table, "fixed:8,8", dims=dims, choices=choices)
    other, numbers = dict(table), np.unique(table["u"], return_inverse=True)[1]
    new = rng.random(30) < 0.2
    other["u"] = np.where(new, "z", table["u"])
    golden, model, run = (design.run(other, backend=b) for b in ("golden", "model", "pysim"))
    assert run.cycles == model.cycles
    assert golden.counters["unseen_rows" if policy == "skip" else "unseen_last"] == new.sum() > 0
    numbered = table | {"u": np.where(new, 4, numbers)}
    plain = ps.compile(tmp_path / "k.psk", "small", numbered, "fixed:8,8", dims=dims)
    exact = plain.run(_without(numbered, new) if policy == "skip" else numbered, backend="golden")
    for name, codes in exact.codes.items():
        assert np.array_equal(run.codes[name], codes) and np.array_equal(golden.codes[name], codes)


@pytest.mark.long
@pytest.mark.parametrize("number", range(72))
def test_drawn_fields(number: int, tmp_path: Path) -> None:
    """First with columns, then with arrays, and at last with integers made of these."""
    rng = np.random.default_rng(number)
    rows, n = int(rng.integers(1, 60)), int(rng.integers(1, 6))
    table, bind = (columns(rng, rows), FIELDS) if number < 24 else (arrays(rng, rows, n), None)
    format = ["fixed:8,16", "float32", "fixed:4,8", "bfloat16"][number % 4]
    dims = {"k": int(rng.integers(1, 6))} | ({} if bind else {"n": n})
    lanes = [None, 1][number // 4 % 2]
    kernel = fields if number < 48 else bags
    _equal(kernel(rng), table, dims, format, tmp_path, "rtl", lanes, bind)


def test_a_sum_is_no_difference(tmp_path: Path) -> None:
    """Units of integers that take and give as many bits are modules of their own in Verilog."""
    text = """kernel k(a: index[n], b: index[n], s: model[n], t: model[n])
  s[(a + b) % len(s)] += 1
  t[(a - b) % len(t)] += 1
"""
    table = {name: np.arange(16) // (4 if name == "a" else 1) % 4 for name in "ab"}
    (tmp_path / "k.psk").write_text(text)
    names = re.findall(
        r"^module (penstock_integer_\w+)",
        ps.compile(tmp_path / "k.psk", table=table, format="fixed:8,8").verilog,
        re.M,
    )
    assert {name.split("_")[2] for name in names} == {"plus", "minus", "remainder"}


SKETCH = """kernel sketch(i: index[n], j: index[n], c: index[n, 3], x: input, E: model[n, 3], s: model[5], t: model[40], u: model[16])
  E[(i + 2 * j) % len(E)] += x
  s[hash(i - j, 3) % len(s)] += x
  t[i * 3 - j + 10] += x - sum(E[j // 2] * E[j])
  u[hash(i) % len(u)] max= x
  u[(c + 2 * i) % len(u)] += number(j - count(c)) * (i < 4)
  s[hash(c) % 5] -= sum(where(c == j, number(c), 0.5))
  batch 3
"""


@pytest.mark.parametrize(
    ("format", "lanes"),
    [pytest.param("fixed:8,16", 16, marks=pytest.mark.long), ("fixed:4,4", 4)],
)
def test_models_go_beat_by_beat(
    format: str, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beats of several bus words, several beats in a word, and the last word of a model that is not full, with a memory that keeps the writer waiting; a
    beat that does not wait for its word is lost."""
    text = "kernel k(a: index[n], x: input, E: model[n, 10], s: model[n], w: model[10])\n"
    text += "  E[a] += x * w\n  s[a] += sum(E[a])\n  w <- 0.5 * w\n"
    text += "  init E = uniform(-1, 1, seed=1)\n  init s = uniform(-1, 1, seed=2)\n  init w = uniform(-1, 1, seed=3)\n"
    (tmp_path / "k.psk").write_text(text)
    rng = np.random.default_rng(6)
    table = {"a": rng.integers(0, 11, 9).astype(np.int32), "x": np.ones(9, np.float32)}
    more = {"dims": {"n": 11}, "memory": "latency=9,bytes=1", "format": format}
    design = ps.compile(tmp_path / "k.psk", table=table, choices=ps.Choices(lanes=lanes), **more)
    each, bus = lanes * design.compiled.plan.format.container, design.compiled.plan.bus_bytes
    whole, number = (max(bus // each, 1), max(each // bus, 1)), (bus * lanes // each, 1)
    placed = [(block.together, block.words) for block in blocks(design.compiled.plan)]
    assert placed == [whole, number, whole]
    golden, model, run = (design.run(table, backend=b) for b in ("golden", "model", "pysim"))
    assert run.cycles == model.cycles
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda store, address, hold=None: read(store, address))
    wrong = design.run(table, backend="pysim")
    assert not np.array_equal(wrong.codes["E"], golden.codes["E"])


@pytest.mark.parametrize("format", ["bfloat16", "fixed:8,4"])
def test_models_that_come_together(format: str, tmp_path: Path) -> None:
    """Those of as many beats whose beats a bus word has, in their order: s, t and F; E and u."""
    text = "kernel k(a: index[n], b: index[j], x: input, s: model[n], t: model[n], E: model[n, 3], F: model[j, 2], u: model[j])\n"
    text += "  s[a] += x\n  t[a] max= x\n  E[a] += x\n  F[b] -= x\n  u[b] += 1\n"
    text += "".join(f"  init {name} = uniform(-1, 1, seed={k})\n" for k, name in enumerate("stEFu"))
    (tmp_path / "k.psk").write_text(text)
    rng = np.random.default_rng(5)
    table = {name: rng.integers(0, 5, 37).astype(np.int32) for name in "ab"}
    table["x"] = rng.uniform(-1, 1, 37).astype(np.float32)
    more = {"format": format, "on_overflow": "saturate", "dims": {"n": 5, "j": 5}}
    design = ps.compile(tmp_path / "k.psk", TWO, table, choices=ps.Choices(lanes=4), **more)
    placed = blocks(design.compiled.plan)
    assert [[part.first for part in block.parts] for block in placed] == [[0, 1, 2], [0, 3]]
    golden, model, run = (design.run(table, backend=b) for b in ("golden", "model", "pysim"))
    assert run.cycles == model.cycles
    assert all(np.array_equal(run.codes[name], codes) for name, codes in golden.codes.items())


def test_computed_rows(tmp_path: Path) -> None:
    """Sums, products, quotients, remainders and hashes of indices, and of bags, say which row; integers and what is true of them are values."""
    rng = np.random.default_rng(4)
    table = {name: rng.integers(0, 7, 11).astype(np.int64) for name in "ij"}
    table["j"][0] = 6
    table["c"] = rng.integers(0, 7, (11, 3)).astype(np.int32)
    table["x"] = rng.uniform(-2, 2, 11).astype(np.float32)
    design = _equal(SKETCH, table, {"n": 7}, "fixed:8,8", tmp_path, "pysim", 2)
    assert "penstock_integer" in design.verilog and "penstock_hash" in design.verilog


def test_counts_of_full_bags(tmp_path: Path) -> None:
    """They are constants, in values and in rows, alone and among others."""
    text = """kernel k(u: index[3], c: index[3, 2], x: input, E: model[3], F: model[3])
  E[u] += count(c) * 2
  F[u] <- count(c) + count(c)
  E[(u + count(c)) % len(E)] -= x * exp(-count(c))
"""
    table = {"u": np.arange(4) % 3, "c": np.arange(8).reshape(4, 2) % 3, "x": np.ones(4)}
    _equal(text, table, {}, "fixed:8,8", tmp_path, "pysim")


def test_places_are_integers(tmp_path: Path) -> None:
    """What is made of them says which row, and is hashed."""
    text = """kernel k(i: index[n], x: input[4], E: model[n], F: model[8])
  E[(2 * argmin(x) + 1 + i) % len(E)] += F[hash(argmax(x), 1) % len(F)]
  F[argmin(x) // 2] -= number(argmin(x) * i)
  F[7 - argmax(x)] <- 0.5
"""
    rng = np.random.default_rng(3)
    table = {"i": np.arange(9) % 5, "x": rng.uniform(-1, 1, (9, 4)).astype(np.float32)}
    _equal(text, table, {"n": 5}, "fixed:8,8", tmp_path, "pysim")


def test_the_nearest_row(tmp_path: Path) -> None:
    """Models that are read whole and by row; the row depends on values."""
    x = np.random.default_rng(5).normal(size=(9, 2)).astype(np.float32)
    text = (EXAMPLES / "kmeans.psk").read_text()
    _equal(text, {"x": x}, {"k": 4}, "bfloat16", tmp_path, "pysim")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("s[i + j] += x", "a row of s that is computed may be one that there is not"),
        ("s[i % (j + 1)] += x", "it divides integers by what is no positive constant"),
        ("s[i * i * i * i * i % 7] += x", "its integers may have more than 63 bits"),
        ("s[argmin(w)] += x", "which row it is does not depend on the tuple"),
        ("s[count(c)] += x", "which row it is does not depend on the tuple"),
        ("s[i] += number(hash(j))", "float32 does not have each integer that it takes for a value"),
        (
            "s[i * i] += x * (i // (j + 20) > 0)",
            "it divides integers by what is no positive constant",
        ),
    ],
)
def test_what_stays_golden(line: str, reason: str) -> None:
    text = (
        "kernel k(i: index[n], j: index[n], c: index[n, 2], x: input, s: model[n], w: model[n])\n"
    )
    text += f"  {line}\n  w <- w\n"
    table = {"i": np.arange(9) * 100_000, "j": np.arange(9), "x": np.ones(9)}
    table["c"] = np.ones((9, 2), np.int64)
    kernel = from_text(text)
    design = ps.compile(kernel, table=table, dims={"n": 900_001})
    assert [reason in w.message for w in kernel.warnings if w.code == "W496"] == [True]
    assert design.compiled.refused is not None


@pytest.mark.long
@pytest.mark.parametrize("number", range(176))
def test_drawn(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(number)
    rows, n, k = int(rng.integers(1, 150)), int(rng.integers(1, 6)), int(rng.integers(1, 11))
    table = {name: rng.integers(0, n, rows).astype(np.int32) for name in "ab"}
    table["x"] = rng.uniform(-2, 2, rows).astype(np.float32)
    format = ["fixed:8,16", "float32", "fixed:4,8", "bfloat16"][number % 4]
    backend = "pysim" if number % 6 == 5 else "rtl"
    kernel = (one_tuple, batched, computed)[number // 24 % 3](rng)
    lanes = [None, 1][number // 4 % 2]
    _equal(kernel, table, {"n": n, "k": k}, format, tmp_path, backend, lanes)


@pytest.mark.long
def test_a_row_that_is_read_before_its_change(tmp_path: Path) -> None:
    """A batch that starts a cycle early gives another result: the distance is no longer than it must be."""
    table = ratings(np.random.default_rng(2), 60, 1, 1)
    dims = {"m": 1, "n": 1, "k": 4}
    design = _equal(LRMF, table, dims, "fixed:8,8", tmp_path)
    schedule = design.compiled.plan.schedule
    for early in (1, 2):
        _wrong(design, table, batch=schedule.batch - early)


def _wrong(design: ps.Design, table: dict[str, np.ndarray], **times: int) -> None:
    """Demand another result where the schedule says another time."""
    plan = design.compiled.plan
    plan = replace(plan, schedule=replace(plan.schedule, **times))
    wrong = replace(design.compiled, plan=plan).run(table, backend="pysim")
    right = design.run(table, backend="golden")
    assert not all(np.array_equal(wrong.result[m], v) for m, v in right.result.items())


class _Hasty(Pending):
    """Holds no change back."""

    def elaborate(self, platform: object) -> Module:
        return Module()


def test_a_change_waits_for_its_own_row_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of other rows go on beat by beat, those of one row wait, in a bag, from tuple to tuple and from line to line; one that does not is wrong."""
    text = "kernel k(c: index[n, 2], a: index[n], x: input, E: model[n])\n"
    text += "  E[c] += x\n  E[a] -= x\n  batch 4\n"
    apart = np.arange(24).reshape(8, 3) % 12
    near = np.array([[0, 0, 0], [0, 1, 2], [3, 2, 4], [5, 5, 2]] * 2)
    values = {"x": np.arange(8, dtype=np.float32) / 3}
    found = []
    for rows in (apart, near):
        table = {"c": rows[:, :2], "a": rows[:, 2], **values}
        design = _equal(text, table, {"n": 12}, "float32", tmp_path, "pysim")
        assert design.compiled.plan.schedule.change == 3
        model = design.run(table, backend="model")
        found.append((model.counters["row_waits.changes"], model.cycles))
    # of a batch's 12 changes, a cycle apart, the last one is taken in cycle 35: five wait
    (none, apart_cycles), (waits, near_cycles) = found
    assert none == 0 and waits == 2 * (35 - 11)
    assert 0 < near_cycles - apart_cycles <= waits  # the next batch's tuples come meanwhile
    monkeypatch.setattr("penstock.hdl.analytics.core.Pending", _Hasty)
    wrong, right = (design.run(table, backend=b) for b in ("pysim", "golden"))
    assert not np.array_equal(wrong.codes["E"], right.codes["E"])


@pytest.mark.long
def test_a_batch_that_comes_before_a_change_is_written(tmp_path: Path) -> None:
    table = ratings(np.random.default_rng(2), 32, 1, 1)
    design = _equal(
        f"{LRMF}  batch 4\n", table, {"m": 1, "n": 1, "k": 4}, "fixed:8,8", tmp_path, "pysim"
    )
    _wrong(design, table, batch=design.compiled.plan.schedule.batch - 1)


def test_waits_of_many_drawn_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first ones, on average: what all of them take is near, and no less than the bound."""
    (tmp_path / "k.psk").write_text(LRMF + "  batch 16\n")
    design = ps.compile(tmp_path / "k.psk", "u55c", dims={"m": 50, "n": 40, "k": 4})
    assert design.compiled.plan.schedule.by_row
    found = []
    for most in (1 << 20, 1000):
        monkeypatch.setattr("penstock.engines.analytics.workload.DRAWN", most)
        run = design.compiled.workload(Given(rows=5000)).model(design.compiled.memory)
        assert run.counters["row_waits.changes"] > 0 and run.bound.cycles <= run.total
        found.append(run.total)
    assert abs(found[1] / found[0] - 1) < 0.03  # a cycle a batch, and what is drawn


def test_dates_are_integers(tmp_path: Path) -> None:
    """Golden results of a plan with hardware and of one without are the same, and so are errors."""
    days = np.array(["2000-01-03", "2000-01-01", "2000-01-03", "2000-01-02"], "datetime64[D]")
    table = {"d": days, "x": np.arange(4, dtype=np.float32)}
    (tmp_path / "k.psk").write_text("kernel k(d: index[n], x: input, s: model[n])\n  s[d] += x\n")
    design = ps.compile(tmp_path / "k.psk", table=table)
    assert design.compiled.refused is None
    assert design.run(table, backend="golden").result["s"].tolist() == [1, 3, 2]


@pytest.mark.parametrize(
    ("made", "format", "wide"),
    [
        ("(c * [70000, -3, 5]) % 7", "float32", False),
        ("(c * [70000, -3, 5]) % 7", "bfloat16", True),
        ("(c + [255, 0, 9]) % 7", "fixed:4,4", False),
        ("(c + [256, 0, 9]) % 7", "fixed:4,4", True),
        ("(c + [-129, 0, 9]) % 7", "fixed:4,4", True),
        ("(c - [4294967296, 0, 9]) % 7", "float32", True),
        ("hash(c + [4294967295, 0, 9], 4) % 7", "float32", False),
    ],
)
def test_lists_of_whole_numbers(made: str, format: str, wide: bool) -> None:
    """They are kept as numbers of the format are: those with more bits have golden results alone."""
    text = f"kernel k(c: index[40, 3], x: input, a: model[7])\n  a[{made}] += x\n  a[c % 7] += sum(c < {made[made.index('[') : made.index(']')]}]) * x\n"
    c = np.random.default_rng(2).integers(0, 40, (18, 3)).astype(np.int32)
    table = {"c": c, "x": np.zeros(18)}
    table["x"][:3] = 0.25
    design = ps.compile(from_text(text), "small", table, format)
    if wide:
        width = f"{parse_format(format).width} bits of {format}"
        assert f"do not fit in the {width}" in design.compiled.refused.message
        return
    golden, model, run = (design.run(table, name) for name in ("golden", "model", "pysim"))
    assert np.array_equal(run.codes["a"], golden.codes["a"]) and run.cycles == model.cycles


PLACES = 3
SUMS = """kernel k(c: index[5, 3], x: input, E: model[5], s: model[5], many: model[5])
  E[c] += x
  s[c] += sum(E[c])
  many[c] += 1
  batch 2
"""
#: what a row may hold in place of an array of three integers, as `array_body` takes it
NO_BAGS: dict[str, Any] = {
    "shorter": [4, 4],
    "one": [2],
    "empty": [],
    "longer": [1, 2, 3, 4],
    "NULL": None,
    "NULL element": [0, None, 1],
    "two dimensions": [[0, 1, 2]],
    "beyond": [0, 5, 0],
}


def _bags(rng: np.random.Generator, kinds: list[str], element: str) -> tuple[Table, list[Any]]:
    """A table some of whose rows, the second among them, are no array of three integers, where there are such kinds; and its arrays."""
    rows = int(rng.integers(2, 20))
    cells: list[Any] = rng.integers(0, 5, (rows, PLACES)).tolist()
    for row in range(1, rows if kinds else 0):
        if row == 1 or rng.random() < 0.3:
            cells[row] = NO_BAGS[str(rng.choice(kinds[:3] if row == 1 else kinds))]
    stored = [None if cell is None else varlena(array_body(cell, element)) for cell in cells]
    schema = Schema("t", (Column("c", f"{element}[]"), Column("x", "float4", not_null=True)))
    values = {"c": stored, "x": np.arange(rows, dtype=np.float32) / 4}
    return Table(schema, write_heap(schema, values)), cells


def _summed(cells: list[Any]) -> dict[str, np.ndarray]:
    """What the kernel comes to with the rows of `cells` that are left, (number, array) each."""
    E, s, many = np.zeros((3, 5))
    for first in range(0, len(cells), 2):
        pair = cells[first : first + 2]
        sums = [E[c].sum() for _, c in pair]
        for (row, c), total in zip(pair, sums, strict=True):
            for model, value in ((E, row / 4), (s, total), (many, 1)):
                np.add.at(model, np.array(c, int), value)
    return {"E": E, "s": s, "many": many}


def _left(cells: list[Any], told: set[str], skipped: set[str]) -> tuple[list[Any], int | None]:
    """The rows before the first that is an error, without those that are left out, and that row; `told`: what is no error in itself."""
    kinds = [next((k for k, v in NO_BAGS.items() if v == cell), "") for cell in cells]
    wrong = [n for n, kind in enumerate(kinds) if kind and kind not in told | skipped]
    kept = [(n, c) for n, c in enumerate(cells) if kinds[n] not in skipped]
    return kept, wrong[0] if wrong else None


@pytest.mark.parametrize(
    ("cases", "backend"), [(3, "pysim"), pytest.param(60, "rtl", marks=pytest.mark.long)]
)
def test_arrays_that_are_no_bag_of_three(cases: int, backend: str) -> None:
    """Where arrays are shorter a kernel trains on golden alone. A design whose arrays all had their places stops at the first that has not, on golden
    and hardware alike, and leaves out what its policies do."""
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        element = str(rng.choice(["int4", "int8"]))
        policies = {name: str(rng.choice(["error", "skip"])) for name in ("on_null", "on_index")}
        of = {"NULL": "on_null", "beyond": "on_index"}
        skipped = {kind for kind, policy in of.items() if policies[policy] == "skip"}
        compiled = partial(ps.compile, from_text(SUMS), "small", format="fixed:24,8", **policies)
        table, cells = _bags(rng, ["shorter", "one", "empty", *of], element)
        design = compiled(table)
        assert "nor arrays that have all places" in design.compiled.refused.message
        _judged(design, table, _left(cells, {"shorter", "one", "empty"}, skipped), ["golden"])
        kinds = list(NO_BAGS) if rng.random() < 0.5 else [*skipped, "NULL"]
        table, cells = _bags(rng, kinds, element)
        design = compiled(_bags(rng, [], element)[0])
        _judged(design, table, _left(cells, set(), skipped), ["golden", "model", backend])


def _judged(
    design: Any, table: Table, left: tuple[list[Any], int | None], backends: list[str]
) -> None:
    kept, wrong = left
    runs = [design.run(table, backend) for backend in backends]
    for run in runs:
        if wrong is not None:
            assert run.errors == runs[0].errors and run.errors[0].line == wrong + 1
        elif run.result is None:
            assert run.cycles == runs[-1].cycles
        else:
            for name, model in _summed(kept).items():
                assert np.array_equal(run.result[name], model), name
