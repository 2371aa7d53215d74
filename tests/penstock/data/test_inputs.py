"""What users are told of values that a number format does not hold: messages, tables, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import run

KERNEL = """kernel f(x: input[2], y: output, w: model[2])
  w <- w - 0.125 * (sum(w * x) - y) * x
"""
CSV = "y,a,b\n1,2,3\n0,3,nan\n1,200,6\n0,1,1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("f.psk").write_text(KERNEL)
    Path("t.csv").write_text(CSV)


def simulate(*options: str) -> int:
    command = ["simulate", "f.psk", "--data", "t.csv", "--backend", "golden"]
    return run([*command, "--format", "fixed:8,8", *options])


@pytest.mark.parametrize(
    ("options", "code", "name", "row", "column", "meaning"),
    [
        ((), "E842", "VALUE_NAN", 2, "b", "a value is not a finite number"),
        (
            ("--on-nan", "skip"),
            "E841",
            "VALUE_OVERFLOW",
            3,
            "a",
            "a value lies beyond the range of the number format",
        ),
    ],
)
def test_an_error_names_the_value(
    options: tuple[str, ...],
    code: str,
    name: str,
    row: int,
    column: str,
    meaning: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert simulate(*options, "--json", "r.json") == 1
    shown = capsys.readouterr().err
    assert (
        f"error[{code}]: {name}: {meaning}\n --> t.csv, row {row}, column {column}\nhint: --on-"
        in shown
    )
    [entry] = json.loads(Path("r.json").read_text())["errors"]
    assert (entry["code"], entry["line"], entry["column"]) == (name, row, column)


def test_what_happened_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--on-nan", "skip", "--on-overflow", "saturate")
    assert simulate(*options, "--json", "r.json") == 0
    shown = capsys.readouterr().out
    assert "1 row left out" in shown
    assert "1 value of the table beyond the format, taken as its end" in shown
    report = json.loads(Path("r.json").read_text())
    assert {name: report["counters"][name] for name in ("nan_rows", "saturated_inputs")} == {
        "nan_rows": 1,
        "saturated_inputs": 1,
    }
    left = report["counters"]["left_range"]
    assert left > 0 and f"{left} results of the arithmetic" in shown
    config = report["design"]["config"]
    assert (config["on_overflow"], config["on_nan"]) == ("saturate", "skip")


def test_no_nan_passes_in_a_fixed_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--on-nan", "pass") == 1
    assert capsys.readouterr().err == (
        "error[E608]: on_nan is pass, but fixed:8,8 has no NaN that could pass\n"
        " --> --on-nan\nhint: skip leaves such rows out\n"
    )
