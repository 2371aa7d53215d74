"""The benchmarks run, and the page has a place for what they make. Their numbers are not looked at here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"


def run(script: str, *arguments: str) -> str:
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"
    }  # they import each other
    done = subprocess.run(
        [sys.executable, FOLDER / script, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [
        *("pim_core", "pim_golden", "verilog_time", "postgres_read"),
        *(
            pytest.param(script, marks=pytest.mark.long)
            for script in ("reproduce", "omap", "loads")
        ),
    ],
)
def test_runs(script: str) -> None:
    assert "| --- |" in run(f"{script}.py", "--quick")


def test_runs_beside_scikit_learn() -> None:
    pytest.importorskip("sklearn")
    assert "| --- |" in run("accuracy.py", "--quick")


@pytest.mark.long
@pytest.mark.parametrize("script", ["model_speed", "simulation", "fit_ratios"])
def test_simulates(script: str) -> None:
    pytest.importorskip("cocotbext.axi")
    assert "| --- |" in run(f"{script}.py", "--quick")


def test_page_has_all_parts() -> None:
    code = (
        "import importlib, everything, page; "
        "made = [s.name for m in everything.MODULES for s in importlib.import_module(m).SECTIONS]; assert sorted(made) == sorted(page.names()), made"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
        cwd=FOLDER,
        timeout=120,
    )


def test_quick_numbers_are_not_written() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, FOLDER / "pim_golden.py", "--quick", "--write"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 1 and "--quick" in done.stderr


def test_lines_that_differ_from_the_page() -> None:
    code = (
        "import page; name = page.names()[0]; text = page.PAGE.read_text();"
        "part = text.partition(f'<!-- begin {name} -->')[2].partition('<!-- end')[0];"
        "assert page.differences(name, part) == [];"
        "first = part.strip().splitlines()[0];"
        "assert page.differences(name, part.replace(first, 'other', 1)) == [f'-{first}', '+other']"
    )
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, cwd=FOLDER, timeout=120
    )
