"""What users get from fits over columns: weights of exact arithmetic with default options, or a named reason."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import penstock as ps
from penstock.cli.main import run
from penstock.host.sources import Table
from penstock.models.strider.errors import PageError
from penstock.runs.run import Run
from testbench.command_line import told
from testbench.rational import least_squares

TEXT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("f.psk").write_text(TEXT)


def fitted(
    columns: dict[str, np.ndarray], compiled: dict[str, Any] | None = None, **options: str
) -> Run:
    table = Table.from_columns(columns)
    return ps.compile("f.psk", "vu9p", table, **(compiled or {})).run(table, **options)


def check(made: Run, columns: dict[str, np.ndarray]) -> None:
    """The weights are as near to those of rational arithmetic as the run says."""
    names = [name for name in columns if name != "y"]
    every = zip(*(columns[name].tolist() for name in (*names, "y")), strict=True)
    bias, weights = least_squares([[Fraction(v) for v in row] for row in every])
    assert made.result is not None and made.fit is not None
    found = [made.result["bias"][0], *made.result["weights"]]
    for own, exact, error in zip(found, (bias, *weights), made.fit.error, strict=True):
        assert abs(Fraction(float(own)) - exact) <= Fraction(float(error))


def table(seed: int, rows: int = 250, far: float = 0.0) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    a, b = np.rint(source.uniform(-1, 1, (2, rows)) * 4096) / 4096
    y = np.rint((1.5 * a - 2 * b + 0.1 * source.standard_normal(rows)) * 1024) / 1024
    return {"a": a + far, "b": b, "y": y}


DEPENDENT = {
    "constant": ({"c": np.full(250, 7.0)}, "column c is constant, 7 in all rows"),
    "sum": (
        {"c": 2 * table(5)["a"] - 3 * table(5)["b"] + 5},
        "column c is equal to 2 × a − 3 × b + 5 in all 250 rows",
    ),
    "same": ({"c": table(5)["a"]}, "column c is equal to 1 × a in all 250 rows"),
    "scaled": (
        {"c": 1e-7 * table(5)["b"]},
        "column c is equal, as far as float64 tells, to 1e-07 × b in all 250 rows",
    ),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_columns_are_named(name: str) -> None:
    more, reason = DEPENDENT[name]
    columns = table(5) | more
    with pytest.raises(ps.KernelError) as caught:
        fitted(columns)
    assert caught.value.diagnostic.code == "E844"
    assert reason in caught.value.diagnostic.message
    made = fitted(columns, {"on_singular": "drop"})
    assert made.result is not None and made.result["weights"][2] == 0
    assert made.fit is not None and [entry["column"] for entry in made.fit.dropped] == ["c"]
    least = fitted(columns, on_singular="minimum-norm").result
    assert least is not None
    rows = np.column_stack([columns[n] for n in ("a", "b", "c")])
    centred = rows - rows.mean(axis=0)
    wanted = np.linalg.lstsq(centred, columns["y"] - columns["y"].mean(), rcond=1e-9)[0]
    assert np.allclose(least["weights"], wanted, rtol=0, atol=1e-6)


def test_fewer_rows_than_weights() -> None:
    columns = {name: values[:2] for name, values in table(6).items()}
    with pytest.raises(
        ps.KernelError, match=r"2 rows do not determine 3 weights: column b is equal"
    ):
        fitted(columns)
    assert fitted(columns, on_singular="minimum-norm").result is not None
    for name, known in (
        ("on_singular", "error, drop, minimum-norm"),
        ("refine", "last, never"),
        ("on_null", "error, skip"),
    ):
        with pytest.raises(ps.KernelError, match=f"{name} must be one of {known}"):
            fitted(columns, {name: "guess"})
    with pytest.raises(ps.KernelError, match="on_singular must be one of error, drop"):
        fitted(columns, on_singular="guess")
    np.savez("t.npz", **columns)
    assert "error[E844]" in told("simulate f.psk --data t.npz --backend golden", 1)


def raw(rows: int = 120) -> dict[str, np.ndarray]:
    """A table as it is: booleans, ids, milliseconds, prices, shares."""
    source = np.random.default_rng(21)
    x = {
        "flag": source.random(rows) < 0.4,
        "id": (1 << 63) - 1 - source.permutation(rows),
        "at": 1_700_000_000_000 + source.integers(0, 10**10, rows),
        "price": np.round(source.lognormal(3, 1, rows), 2),
        "share": source.random(rows).astype(np.float32),
        "tiny": 1e-30 * source.standard_normal(rows),
        "far": 1e12 + source.standard_normal(rows),
    }
    near = [(c if c.dtype == bool else c - c.min()).astype(np.float64) for c in x.values()]
    scaled = [(v - v.mean()) / v.std() for v in near]
    return {**x, "y": 1e9 + np.sum(scaled, axis=0) + source.standard_normal(rows)}


@pytest.mark.parametrize("limbs", [None, 1, 2, 3])
def test_raw_tables(limbs: int | None) -> None:
    made = fitted(raw(), {"limbs": limbs})
    check(made, raw())
    assert made.fit is not None and made.rows_used == 120
    assert limbs is None or {unit["limbs"] for unit in made.fit.units} == {limbs}
    assert made.fit.units[1]["exact"] and made.fit.units[1]["shift"] == 0
    spreads = [float(raw()[name].astype(np.longdouble).std()) for name in list(raw())[:-1]]
    assert (made.fit.error[1:] * spreads < 1e-6).all()


def test_nearly_equal_columns() -> None:
    """Fits that were refused once: what float64 can answer is answered."""
    source = np.random.default_rng(17)
    a = source.standard_normal(250)
    for columns in (
        {"a": a, "b": a + 7e-5 * source.standard_normal(250), "y": a},
        {"a": a, "b": a + 1e-10 * source.standard_normal(250), "y": a},
        {"a": 500.0 * np.arange(250), "b": a, "y": 1e-12 * a},
    ):
        check(fitted(columns), columns)


def test_statistics_and_reports() -> None:
    columns = raw()
    np.savez("t.npz", **columns)
    made = fitted(columns)
    assert made.fit is not None and made.fit.names[:3] == ["bias", "flag", "id"]
    line = "simulate f.psk --data t.npz --target vu9p --backend golden --json r.json"
    text = " ".join(told(line).replace("│", " ").split())
    assert "refined on the rows" in text and "standard error" in text and "R² 0.8" in text
    assert "unit 2^0, offset 9,223,372,036,854,775," in text
    said = json.loads(Path("r.json").read_text())["details"]["fit"]
    assert said["coef"] == made.fit.coef.tolist() and said["p"] == made.fit.p.tolist()
    assert said["rows"] == 120 and said["rows_skipped"] == 0 and said["units"] == made.fit.units


def test_reports_name_what_is_dropped() -> None:
    np.savez("t.npz", **(table(5) | DEPENDENT["sum"][0]))
    line = "simulate f.psk --data t.npz --backend golden --on-singular drop --json r.json"
    text = " ".join(told(line).replace("│", " ").split())
    assert "the exact sums solved in exact arithmetic" in text
    assert "c no weight: equal to 2 × a − 3 × b + 5 in all 250 rows" in text
    assert "2 of 3 columns independent" in text
    said = json.loads(Path("r.json").read_text())["details"]["fit"]
    assert said["rank"] == 2 and said["std_err"][3] is None


def test_without_intercept_and_with_a_penalty() -> None:
    columns = table(7)
    x, y = np.column_stack([columns["a"], columns["b"]]), columns["y"]
    for options, penalty in (("intercept=False", 0), ("ridge=3, intercept=False", 3)):
        Path("f.psk").write_text(TEXT.replace("target=y", f"target=y, {options}"))
        made = fitted(columns)
        wanted = np.linalg.solve(x.T @ x + penalty * np.eye(2), x.T @ y)
        assert made.result is not None and np.allclose(made.result["weights"], wanted, rtol=1e-12)
        assert made.result["bias"] == 0 and made.fit is not None and made.fit.names == ["a", "b"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_labels_that_are_not_numbers(value: float) -> None:
    """NaN became 0 once: 20 % of them moved each weight by a tenth."""
    columns = table(12)
    columns["y"][::5] = value
    [error] = fitted(columns).errors
    assert (error.code, error.block, error.line) == (PageError.VALUE_NAN, 0, 1)
    made = fitted(columns, {"on_nan": "skip"})
    check(made, {name: values[np.isfinite(columns["y"])] for name, values in columns.items()})
    assert made.counters["nan_rows"] == 50 and (made.rows_used, made.rows_skipped) == (200, 50)
    np.savez("t.npz", **columns)
    said = told("simulate f.psk --data t.npz --backend golden", 1)
    assert "error[E842]: VALUE_NAN" in said and "t.npz, row 1, column y" in said
    assert "50 rows left out" in told("simulate f.psk --data t.npz --backend golden --on-nan skip")
    assert "error[E608]" in told("check f.psk --data t.npz --on-nan pass", 1)


def test_a_design_meets_another_table() -> None:
    """Units are those of the table of a run."""
    np.savez("t.npz", **table(14))
    assert (
        run("compile f.psk --data t.npz --target kcu105 --on-singular drop --out o -q".split()) == 0
    )
    design, columns = ps.load("o"), table(14, far=1e9)
    columns["b"] *= 1e6
    check(design.run(columns), columns)
    columns["b"][:] = 3
    made = design.run(columns)
    assert made.fit is not None and made.fit.dropped[0]["column"] == "b"


def test_policies_are_part_of_a_design() -> None:
    columns = table(15)
    np.savez("t.npz", **columns)
    assert run("compile f.psk --data t.npz --on-nan skip --out o -q".split()) == 0
    again = ps.load("o")
    columns["b"][3] = np.nan
    assert again.plan.walk.policy.skips
    assert again.run(columns).counters["nan_rows"] == 1


def test_refits_default_to_as_many_as_there_are_rows_for() -> None:
    for rows, refits in ((3, 0), (52, 0), (53, 1), (230, 4), (1000, 4)):
        assert fitted(table(1, rows)).counters["refits"] == refits


def test_frames_with_names_and_values_of_all_kinds() -> None:
    """Columns that are named by numbers are found; what no column holds, and what has to be named in Python, is said."""
    columns = table(16)
    named = pd.DataFrame({0: columns["a"], 1: columns["b"], "y": columns["y"]})
    made = ps.compile("f.psk", "vu9p", named, bind={"x": [0, 1], "y": "y"}).run(named)
    check(made, columns)
    assert made.fit is not None and made.fit.names == ["bias", "0", "1"]
    frame = pd.DataFrame(columns)
    frame["a"] = pd.Series([1 << 70] * len(frame), dtype=object)
    with pytest.raises(ps.SourceError, match=r"this DataFrame cannot be packed: .*int too"):
        ps.compile("f.psk", "vu9p", frame)
    frame["a"] = pd.date_range("2026-01-01", periods=len(frame))
    with pytest.raises(ps.KernelError, match=r'in Python ps.open_table\(…, features=\["a"\]\)'):
        ps.compile("f.psk", "vu9p", frame, bind={"x": ["a", "b"]})


def test_weights_that_float64_does_not_hold() -> None:
    columns = table(18)
    columns["a"] *= 1e-320
    with pytest.raises(ps.KernelError) as caught:
        fitted(columns)
    assert caught.value.diagnostic.code == "E847"
    assert "the weight of column a is beyond what float64 holds" in caught.value.diagnostic.message
