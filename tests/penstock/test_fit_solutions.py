"""What users get from fits over columns: weights of exact arithmetic with default options, or a named reason."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.cli import run
from penstock.host.sources import Table
from penstock.models.qr.errors import ColumnsError
from penstock.models.strider.errors import PageError
from penstock.run import Run
from testbench.command_line import told
from testbench.rational import least_squares

TEXT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("f.psk").write_text(TEXT)


def fitted(
    columns: dict[str, np.ndarray],
    format: str | None = None,
    policy: dict[str, str] | None = None,
    **options: str,
) -> Run:
    table = Table.from_columns(columns)
    return ps.compile("f.psk", "kcu105", table, format, **(policy or {})).run(table, **options)


def best(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Bias and weights of the stored values, in rational arithmetic."""
    names = [name for name in columns if name != "y"]
    rows = np.column_stack([*(columns[name] for name in names), columns["y"]])
    bias, weights = least_squares([[Fraction(float(v)) for v in row] for row in rows])
    return np.array([float(v) for v in (bias, *weights)])


def check(made: Run, columns: dict[str, np.ndarray]) -> None:
    """The weights are as near to the exact ones as the run says."""
    said = made.details["solution"]
    exact = best(columns)
    assert made.result is not None
    assert (np.abs(made.result["weights"] - exact[1:]) <= said["weights_within"]).all()
    assert abs(made.result["bias"][0] - exact[0]) <= said["bias_within"]


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
    "tiny": (
        {"c": 1e-7 * table(5)["b"]},
        "column c is constant in fixed:3,14: its values span 1.98633e-07",
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
    made = fitted(columns, on_singular="drop")
    assert made.result is not None and made.result["weights"][2] == 0
    assert [entry["column"] for entry in made.details["solution"]["dropped"]] == ["c"]
    least = fitted(columns, on_singular="minimum-norm").result
    assert least is not None
    if name == "tiny":  # float64 would tell it from a constant
        return
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
    with pytest.raises(
        ValueError, match="on_singular must be one of 'error', 'drop', 'minimum-norm'"
    ):
        fitted(columns, on_singular="guess")
    np.savez("t.npz", **columns)
    assert "error[E844]" in told("simulate f.psk --data t.npz --backend golden", 1)


def test_a_column_that_no_format_holds() -> None:
    for values, what in (
        (
            np.arange(250) * 1e4,
            "column a, which spans 2.49e+06; the sums take spans of less than 131,072 units",
        ),
        (np.arange(250) % 9 + 3e9, "column a, which reaches 3e+09; a value has at most 31 bits"),
    ):
        with pytest.raises(
            ps.KernelError, match=f"no number format holds {what}".replace("+", r"\+")
        ):
            fitted(table(8) | {"a": values})


def test_a_column_that_is_rounded_too_coarsely() -> None:
    columns = table(9) | {"b": np.arange(250) * 500.0}
    columns["a"] = columns["a"] * 3
    columns["c"] = columns["a"] + 0.6 * table(10)["b"]
    with pytest.raises(
        ps.KernelError, match="is rounded too coarsely to tell its weight: in fixed:32,0"
    ):
        fitted(columns)


def far_away() -> dict[str, np.ndarray]:
    x = np.random.default_rng(16).standard_normal((250, 3))
    x[:, 0] += 1e9
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": (x - [1e9, 0, 0]) @ [1.0, 2.0, 3.0]}


def nearly_equal() -> dict[str, np.ndarray]:
    source = np.random.default_rng(17)
    a = source.standard_normal(250)
    return {"a": a, "b": a + 7e-5 * source.standard_normal(250), "y": a}


def few_units() -> dict[str, np.ndarray]:
    x = np.random.default_rng(18).standard_normal((40, 2))
    return {"a": 1e4 * x[:, 0], "b": 1e4 * x[:, 1], "y": x @ [0.1, 0.2]}


VAGUE = {
    "far": (far_away, "c", ", which column a sets, which reaches 1e+09;"),
    "near": (nearly_equal, "a", "; its values span "),
    "label": (few_units, "y", ", which column a sets, which spans "),
}


@pytest.mark.parametrize("name", VAGUE)
def test_weights_that_rounding_leaves_open(name: str) -> None:
    """They were a result once, beside a bound larger than themselves."""
    make, worst, why = VAGUE[name]
    columns = make()
    with pytest.raises(ps.KernelError) as caught:
        fitted(columns)
    said = caught.value.diagnostic
    assert said.code == "E845" and why in said.message
    assert said.hint.startswith("subtract a constant from column a, " if name == "far" else "scale")
    assert f"column {worst} is rounded too coarsely to tell the weights" in said.message
    made = fitted(columns, on_singular="drop")
    check(made, columns)
    found = made.details["solution"]
    assert not found["determined"] and found["not_told_from_zero"]
    np.savez("t.npz", **columns)
    line = "simulate f.psk --data t.npz --target kcu105 --backend golden --on-singular drop"
    text = " ".join(told(line).replace("│", " ").split())
    assert "the weights are not determined" in text and "not told from 0" in text


def test_weights_of_any_scale_are_determined() -> None:
    """A weight may be small, and its bound large beside it, where its column has large numbers."""
    x = np.random.default_rng(19).standard_normal((250, 2))
    columns = {"a": 2000 * x[:, 0], "b": 3 * x[:, 1], "y": x @ [3.0, 1.0]}
    made = fitted(columns)
    check(made, columns)
    assert made.details["solution"]["determined"]
    least = 1e-3 * x[:, 1] + x[:, 0]  # the weight of b is about 0, which is all there is to say
    made = fitted({"a": x[:, 0], "b": 9 * x[:, 1], "y": least - 1e-3 * x[:, 1]})
    assert made.details["solution"]["not_told_from_zero"] == ["b"]
    assert made.details["solution"]["determined"]


@pytest.mark.parametrize("far", [0, 5])
@pytest.mark.parametrize("policy", ["error", "drop", "minimum-norm"])
def test_a_label_smaller_than_the_unit(far: float, policy: str) -> None:
    """All weights were 0."""
    x = np.random.default_rng(20).standard_normal((250, 3))
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": far + 1e-12 * (x @ [1.0, 2.0, 3.0])}
    with pytest.raises(ps.KernelError) as caught:
        fitted(columns, on_singular=policy)
    said = caught.value.diagnostic
    assert said.code == "E844" and "scale the label" in said.hint
    span = float(np.ptp(columns["y"]))
    format = "fixed:18,14" if far else "fixed:3,14"
    constant = f"column y, the label, is constant in {format}: its values span {span:.6g}"
    assert constant in said.message


def test_reports_name_all_of_it() -> None:
    np.savez("t.npz", **(table(5) | DEPENDENT["sum"][0]))
    line = "simulate f.psk --data t.npz --backend golden --on-singular drop --json r.json"
    text = " ".join(told(line).replace("│", " ").split())
    assert "every value is exact in it" in text
    assert "c no weight: equal to 2 × a − 3 × b + 5 in all 250 rows" in text
    assert "3 columns independent" in text and "the nearest numbers to the exact weights" in text
    said = json.loads(Path("r.json").read_text())["details"]
    assert said["solution"]["rank"] == 2 and said["solution"]["features"] == 3
    assert said["format"]["why"] == "every value is exact in it"


def test_labels_that_are_not_numbers() -> None:
    """NaN became 0 once: 20 % of them moved each weight by a tenth."""
    columns = table(12)
    columns["y"][::5] = np.nan
    [error] = fitted(columns).errors
    assert (error.code, error.block, error.line) == (PageError.VALUE_NAN, 0, 1)
    made = fitted(columns, policy={"on_nan": "skip"})
    check(made, {name: values[~np.isnan(columns["y"])] for name, values in columns.items()})
    assert made.counters["nan_rows"] == 50
    np.savez("t.npz", **columns)
    said = told("simulate f.psk --data t.npz --backend golden", 1)
    assert "error[E842]: VALUE_NAN" in said and "t.npz, row 1, column y" in said
    assert "50 rows left out" in told("simulate f.psk --data t.npz --backend golden --on-nan skip")
    assert "error[E608]" in told("check f.psk --data t.npz --on-nan pass", 1)


def test_values_beyond_a_format_that_is_asked_for() -> None:
    columns = table(13, far=200)
    [error] = fitted(columns, "fixed:8,8").errors
    assert (error.code, error.block, error.line) == (PageError.VALUE_OVERFLOW, 0, 1)
    columns["a"][7:] -= 200
    made = fitted(columns, "fixed:8,8", {"on_overflow": "saturate"})
    assert made.counters["saturated_inputs"] == 7
    np.savez("t.npz", **columns)
    line = "simulate f.psk --data t.npz --backend golden --format fixed:8,8"
    assert "t.npz, row 1, column a" in told(line, 1)
    assert "7 values of the table beyond the format" in " ".join(
        told(f"{line} --on-overflow saturate").split()
    )


def test_a_design_meets_another_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Values too far from their offset end the run of a wide format with row and column."""
    np.savez("t.npz", **table(14, far=1e5))
    columns = table(14, far=1e5)
    columns["a"][240] += 1000
    np.savez("u.npz", **columns)
    assert run("compile f.psk --data t.npz --target kcu105 --out o -q".split()) == 0
    [error] = ps.load("o").run("u.npz").errors
    assert error.code == ColumnsError.FIT_RANGE
    name = ps.load("o").format_name
    capsys.readouterr()
    line = f"simulate f.psk --data u.npz --target kcu105 --backend golden --format {name}"
    said = told(line, 1)
    assert "error[E843]: FIT_RANGE" in said and "row 241, column a" in said


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
