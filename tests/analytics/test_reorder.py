"""Tuples of a batch that go on in another order: results stay, cycles are the model's, and fewer changes wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engines.base import Given
from penstock.models.analytics import job
from penstock.models.analytics.reorder import Reordered, in_turn
from penstock.models.analytics.resources import parts
from penstock.targets import target_named
from testbench.kernels.by_index import LRMF, ratings

TWO = replace(target_named("small"), ports=2)
BOTH = (
    "kernel k(a: index[n], b: index[n], x: input, E: model[n, k], s: model[n])\n"
    "  E[a] += x\n  s[b] += x\n  E[b] -= 0.5 * x\n"
)


def _design(
    text: str,
    table: dict[str, np.ndarray],
    dims: dict[str, int],
    place: str,
    folder: Path,
    memory: str = "latency=5",
) -> ps.Design:
    (folder / "k.psk").write_text(text)
    names = {name: place for name in "PQEs" if f"{name}:" in text}
    more = {"dims": dims, "choices": ps.Choices(place=names, lanes=4), "memory": memory}
    return ps.compile(folder / "k.psk", TWO, table, "float32", **more)


def _opened(design: ps.Design, table: dict[str, np.ndarray]) -> Any:
    made = design.compiled
    return made.workload(made.opened(Given(table, table))).table


def _table(text: str, rng: np.random.Generator, count: int, rows: int) -> dict[str, np.ndarray]:
    if "P:" in text:
        return ratings(rng, count, rows, rows)
    table = {name: rng.integers(0, rows, count).astype(np.int32) for name in "ab"}
    return table | {"x": rng.uniform(-1, 1, count).astype(np.float32)}


def _dims(text: str, rows: int) -> dict[str, int]:
    return {"n": rows, "k": 3} | ({"m": rows} if "P:" in text else {})


@pytest.mark.parametrize("text", [LRMF, BOTH], ids=["two models", "one model by two indices"])
@pytest.mark.parametrize("batch", [4, 7, 64])
def test_rows_keep_their_order(text: str, batch: int, tmp_path: Path) -> None:
    """No tuple leaves its batch or passes one with a row of the same model; judged from the table's own columns."""
    rng = np.random.default_rng(batch)
    for rows in (1, 3, 20):
        table = _table(text, rng, 150, rows)
        design = _design(f"{text}  batch {batch}\n", table, _dims(text, rows), "chip", tmp_path)
        plan = design.compiled.plan
        [tuples], _ = job.walk(plan, _opened(design, table).pages)
        numbered = np.concatenate([tuples, np.arange(len(tuples))[:, None]], axis=1)
        order = in_turn(plan, numbered)[:, -1]
        names = ("u", "i") if "P:" in text else ("a", "b")
        one, two = (table[name] for name in names)
        assert sorted(order) == [*range(150)] and plan.rows.reorder == 4
        assert np.array_equal(order // batch, np.arange(150) // batch)
        assert (rows == 1) == np.array_equal(order, np.arange(150))
        for k, later in enumerate(order):
            for first in (n for n in order[:k] if n > later):  # it was overtaken
                met = {(0, one[first]), ("P:" in text, two[first])}
                assert met.isdisjoint({(0, one[later]), ("P:" in text, two[later])})


@pytest.mark.parametrize(
    ("text", "place", "memory", "backend"),
    [
        (LRMF, "chip", "latency=5", "pysim"),
        (LRMF, "memory", "latency=5,bytes=3", "rtl"),
        (BOTH, "chip", "sdr-166", "rtl"),
        (BOTH, "memory", "latency=5", "pysim"),
        pytest.param(LRMF, "memory", "hbm2", "rtl", marks=pytest.mark.long),
        pytest.param(BOTH, "memory", "ddr4-2400", "rtl", marks=pytest.mark.long),
    ],
)
def test_hardware(text: str, place: str, memory: str, backend: str, tmp_path: Path) -> None:
    """Golden's bits and the model's cycles, over epochs whose last batch is short; fewer changes wait than in the table's order."""
    batch, count, rows = {"chip": (7, 68, 12), "memory": (16, 75, 12)}[place]
    table, dims = _table(text, np.random.default_rng(3), count, rows), _dims(text, rows)
    said = f"{text.replace('  epochs 2', '')}  batch {batch}\n  epochs 2\n"
    design = _design(said, table, dims, place, tmp_path, memory)
    golden, model, run = (design.run(table, backend=b) for b in ("golden", "model", backend))
    assert run.cycles == model.cycles
    assert all(np.array_equal(run.codes[name], v) for name, v in golden.codes.items())
    plan = design.compiled.plan
    plain = replace(design.compiled, plan=replace(plan, rows=replace(plan.rows, reorder=0)))
    waits = [of.run(table, backend="model").counters["row_waits.changes"] for of in (design, plain)]
    assert waits[0] < waits[1]
    assert "reorder" in parts(plan, TWO)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (LRMF + "  batch 2\n", {}),  # fewer than are chosen from
        (
            LRMF + "  batch 8\n",
            {"format": "fixed:8,8"},
        ),  # which sum leaves the format first is told
        (LRMF + "  batch 8\n", {"choices": ps.Choices(lanes=2)}),  # a tuple takes two beats
        (
            "kernel k(c: index[n, 2], x: input, E: model[n])\n  E[c] += x\n  batch 8\n",
            {"choices": ps.Choices(lanes=4)},
        ),
    ],
    ids=["batch", "overflow", "beats", "arrays"],
)
def test_what_stays_in_order(text: str, options: dict[str, object], tmp_path: Path) -> None:
    table = ratings(np.random.default_rng(1), 20, 3, 3)
    if "c:" in text:
        table = {"c": np.ones((20, 2), np.int32), "x": table["r"]}
    (tmp_path / "k.psk").write_text(text)
    more = {"format": "float32", "dims": {"n": 3} | ({} if "c:" in text else {"m": 3, "k": 3})}
    plan = ps.compile(tmp_path / "k.psk", TWO, table, **(more | options)).compiled.plan
    assert plan.rows.reorder == 0 and plan.units


def test_runs_that_repeat_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages alike are leapt over, where batches wait alike, in as many cycles as when each tuple is followed."""
    (tmp_path / "k.psk").write_text(f"{LRMF}  batch 7\n")
    dims = {"m": 60, "n": 50, "k": 4}
    made = ps.compile(tmp_path / "k.psk", "u55c", dims=dims, format="float32").compiled
    assert made.plan.rows.reorder
    followed, found = Counter[bool](), {}
    choose = Reordered._choose

    def counted(source: Reordered, earliest: int) -> bool:
        followed[leaps] += 1
        return choose(source, earliest)

    monkeypatch.setattr(Reordered, "_choose", counted)
    for leaps in (True, False):
        if not leaps:
            monkeypatch.setattr(Reordered, "alike", 0)
        given = Given(rows=300_000, options={"epochs": 1})
        found[leaps] = made.workload(given).model(made.memory).total
    assert found[True] == found[False] and followed[True] < followed[False] / 4
