"""Engines know nothing of each other: without the packages of one, all else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbench.outside import commands
from testbench.removed import ROOT, packages, without

PACKAGES = packages()
LINEAR = "kernel linear(x: input[2], y: output, w: model[2])\n  w <- w - (sum(w * x) - y) * x\n"
KERNELS = ROOT / "tests" / "proofs" / "kernels"
#: by engine a small kernel, the options of a prediction, and those of a run
SMALL = {
    "analytics": ("linear.psk", ("--rows", "8"), ("--data", "random:rows=8", "--backend", "pysim")),
    "omap": (KERNELS / "sessions.py", (), ("--ops", "8", "--backend", "golden")),
    "pim": (
        KERNELS / "gla.psk",
        ("--dim", "k=32", "--dim", "v=32"),
        ("--dim", "k=32", "--dim", "v=32", "--tokens", "2", "--backend", "pysim"),
    ),
    "qr": (
        KERNELS / "columns.psk",
        ("--data", "random:rows=8"),
        ("--data", "random:rows=8", "--backend", "pysim"),
    ),
}
EVERY_MODULE = """
import importlib, pkgutil, penstock
for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_packages_are_there_and_belong_to_one_engine() -> None:
    every = [name for names in PACKAGES.values() for name in names]
    assert len(set(every)) == len(every) and PACKAGES.keys() == SMALL.keys()
    for name in every:
        folder = name.replace(".", "/")
        assert any((ROOT / place / folder).is_dir() for place in ("", "src/penstock"))


@pytest.mark.parametrize("engine", PACKAGES)
def test_kernels_of_others_are_checked(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("linear.psk").write_text(LINEAR)
    with commands(without(PACKAGES[engine], tmp_path / "site")) as run:
        for other, (kernel, _, _) in SMALL.items():
            code, said, problem = run("check", str(kernel))
            if other == engine:
                assert code == 1 and problem.startswith("error[E"), (other, said, problem)
            else:
                assert code == 0 and "is fine" in said, (other, problem)


@pytest.mark.long
@pytest.mark.parametrize("engine", PACKAGES)
def test_all_else_works(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("linear.psk").write_text(LINEAR)
    variables = without(PACKAGES[engine], tmp_path / "site")
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERY_MODULE],
        env=os.environ | variables,
        check=True,
    )
    with commands(variables) as run:
        for other in SMALL.keys() - {engine}:
            kernel, predicted, simulated = SMALL[other]
            for arguments in (("model", kernel, *predicted), ("simulate", kernel, *simulated)):
                code, _, problem = run(*map(str, arguments))
                assert code == 0, (arguments, problem)
    folders = ["tests/dsl/core"]
    for other in SMALL.keys() - {engine}:
        folders += [f"tests/{other}", f"tests/dsl/{other}"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "auto",
            "-m",
            "not long",
            "-p",
            "no:cacheprovider",
        ]
        + [folder for folder in folders if (ROOT / folder).is_dir()],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
