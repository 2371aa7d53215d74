"""Rows of models by an index in hardware: golden results and cycles to the bit, with rows that are asked for again at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps

LRMF = """kernel lrmf(u: index[m], i: index[n], r: output, P: model[m, k], Q: model[n, k], rate: meta = 0.25)
  error = sum(P[u] * Q[i]) - r
  P[u] += -rate * error * Q[i]
  Q[i] += -rate * error * P[u]
  init P = uniform(-1, 1, seed=1)
  init Q = uniform(-1, 1, seed=2)
  epochs 2
"""


def _kernel(rng: np.random.Generator) -> str:
    """A kernel that reads rows of one or two tables and changes some, one of them twice, beside a table of single numbers."""
    value = rng.choice(["x * E[a]", "E[a] - F[b]", "sum(E[a] * F[b]) * F[b]", "x * F[b] + s[a]"])
    return _changed(rng, f"  v = {value}", 1)


def _changed(rng: np.random.Generator, lines: str, batch: int) -> str:
    changes = [
        f"E[a] {rng.choice(['+=', '-=', 'max=', 'min=', '<-'])} v",
        f"F[b] {rng.choice(['+=', '-='])} 0.25 * v",
        f"s[a] {rng.choice(['+=', 'max=', 'min='])} x",
        f"E[b] {rng.choice(['+=', '-='])} x * E[b]",
    ]
    rng.shuffle(changes)
    lines = "\n".join([lines, *(f"  {line}" for line in changes)])
    return f"""kernel drawn(a: index[n], b: index[n], x: input, E: model[n, k], F: model[n, k], s: model[n])
{lines}
  init E = uniform(-1, 1, seed=1)
  init F = uniform(-1, 1, seed=2)
  batch {batch}
"""


def _batched(rng: np.random.Generator) -> str:
    """The same, of several tuples a batch: some models are only changed, some only read, some values are inputs or fixed for a run."""
    value = rng.choice(["x * E[a]", "E[a] - F[b]", "sum(E[a] * F[b]) * F[b]", "x + F[a] * 0.5"])
    return _changed(rng, f"  v = {value}", int(rng.integers(2, 20)))


def _equal(
    text: str,
    table: dict[str, np.ndarray],
    dims: dict[str, int],
    format: str,
    folder: Path,
    backend: str = "rtl",
    lanes: int | None = None,
) -> ps.Design:
    (folder / "k.psk").write_text(text)
    choices = ps.Choices(lanes=lanes)
    design = ps.compile(folder / "k.psk", table=table, dims=dims, format=format, choices=choices)
    assert design.compiled.refused is None
    golden, model = (design.run(table, backend=b) for b in ("golden", "model"))
    run = design.run(table, backend=backend)
    assert run.cycles == model.cycles
    for name, codes in golden.codes.items():  # of NaN, which no value equals, as well
        assert np.array_equal(run.codes[name], codes), name
    return design


def _ratings(rng: np.random.Generator, rows: int, users: int, items: int) -> dict[str, np.ndarray]:
    return {
        "u": rng.integers(0, users, rows).astype(np.int32),
        "i": rng.integers(0, items, rows).astype(np.int16),
        "r": rng.uniform(-1, 1, rows).astype(np.float32),
    }


def test_factors_of_ratings(tmp_path: Path) -> None:
    """Users and items that come again at once, rows of two beats; then a user that there is not."""
    rng = np.random.default_rng(1)
    table = _ratings(rng, 120, 3, 2)
    design = _equal(LRMF, table, {"m": 3, "n": 2, "k": 3}, "fixed:8,8", tmp_path, lanes=2)
    table["u"][57] = 3
    run = design.run(table, backend="rtl")
    golden = design.run(table, backend="golden")
    assert run.errors == golden.errors and run.errors[0].code.name == "VALUE_INDEX"
    said = golden.workload.failure(golden.errors[0]).text
    assert "3 is not one of 0 to 2" in said and "row 58" in said and "u" in said


@pytest.mark.parametrize("format", ["fixed:8,8", "bfloat16"])
def test_batches(format: str, tmp_path: Path) -> None:
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
    table = _ratings(np.random.default_rng(3), 23, 3, 2)
    table["x"] = table.pop("r")
    design = _equal(text, table, {"m": 3, "n": 2, "k": 3}, format, tmp_path, "pysim", 2)
    assert design.compiled.plan.merge_count == 5 and design.compiled.plan.schedule.change > 0


@pytest.mark.long
@pytest.mark.parametrize("number", range(48))
def test_drawn(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(number)
    rows, n, k = int(rng.integers(1, 150)), int(rng.integers(1, 6)), int(rng.integers(1, 11))
    table = {name: rng.integers(0, n, rows).astype(np.int32) for name in "ab"}
    table["x"] = rng.uniform(-2, 2, rows).astype(np.float32)
    format = ["fixed:8,16", "float32", "fixed:4,8", "bfloat16"][number % 4]
    backend = "pysim" if number % 6 == 5 else "rtl"
    kernel, lanes = (_kernel, _batched)[number // 24](rng), [None, 1][number // 4 % 2]
    _equal(kernel, table, {"n": n, "k": k}, format, tmp_path, backend, lanes)


@pytest.mark.long
def test_a_row_that_is_read_before_its_change(tmp_path: Path) -> None:
    """A batch that starts a cycle early gives another result: the distance is no longer than it must be."""
    table = _ratings(np.random.default_rng(2), 60, 1, 1)
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


@pytest.mark.long
def test_a_change_that_comes_before_another_is_written(tmp_path: Path) -> None:
    """So it is of two tuples of a batch, and of a batch's last one and the next one's reading."""
    table = _ratings(np.random.default_rng(2), 32, 1, 1)
    design = _equal(
        f"{LRMF}  batch 4\n", table, {"m": 1, "n": 1, "k": 4}, "fixed:8,8", tmp_path, "pysim"
    )
    schedule = design.compiled.plan.schedule
    _wrong(design, table, change=schedule.change - 1)
    _wrong(design, table, batch=schedule.batch - 1)


def test_dates_are_integers(tmp_path: Path) -> None:
    """Golden results of a plan with hardware and of one without are the same, and so are errors."""
    days = np.array(["2000-01-03", "2000-01-01", "2000-01-03", "2000-01-02"], "datetime64[D]")
    table = {"d": days, "x": np.arange(4, dtype=np.float32)}
    (tmp_path / "k.psk").write_text("kernel k(d: index[n], x: input, s: model[n])\n  s[d] += x\n")
    design = ps.compile(tmp_path / "k.psk", table=table)
    assert design.compiled.refused is None
    assert design.run(table, backend="golden").result["s"].tolist() == [1, 3, 2]
