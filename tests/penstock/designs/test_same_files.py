"""A design is the same in every process: files of `compile` do not depend on the order of sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def compiled(folder: Path, seed: str) -> dict[str, bytes]:
    """Return the files of a design that a process of its own made, with an empty cache."""
    command = [sys.executable, "-m", "penstock", "compile", str(ROOT / "examples" / "logistic.py")]
    command += ["--dim", "d=3", "--format", "fixed:8,8", "--target", "small", "--out", "out"]
    folder.mkdir()
    environment = {"PYTHONHASHSEED": seed, "PENSTOCK_CACHE": str(folder / "cache")}
    subprocess.run(
        [*command, "--quiet"],
        cwd=folder,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


def test_two_processes(tmp_path: Path) -> None:
    one, other = (compiled(tmp_path / seed, seed) for seed in ("1", "2"))
    assert one.keys() == other.keys() and "manifest.json" in one
    assert [name for name in one if one[name] != other[name]] == []
