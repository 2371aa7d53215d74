"""A folder with a kernel and some data, good and bad, for tests of commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.cli.main import run as command
from penstock.engines.base import Design, Workload
from penstock.runs.run import Run, golden, model

__all__ = ["KERNEL", "differs", "done", "fill", "reported", "told"]

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
"""


def fill(folder: Path) -> None:
    """Write the files into a folder."""
    (folder / "k.py").write_text(KERNEL)
    (folder / "folder").mkdir()
    (folder / "table.csv").write_text("y,a,b\n1,2,3\n0,3,4\n1,5,6\n")
    (folder / "nulls.csv").write_text("y,a,b\n1,2,3\n0,3,4\n,5,6\n")
    (folder / "empty.csv").write_text("")
    (folder / "utf16.csv").write_text("y,a\n1,2\n", encoding="utf-16")
    (folder / "junk.npz").write_bytes(bytes(range(256)))
    (folder / "junk.heap").write_bytes(bytes(range(256)))
    (folder / "schema.json").write_text(json.dumps({"columns": [{"name": "y", "type": "float4"}]}))


def done(line: str | Sequence[object], code: int = 0) -> None:
    """Run a command in this process; assert how it ends."""
    words = line.split() if isinstance(line, str) else [*map(str, line)]
    assert command(words) == code


def reported(line: str | Sequence[object], code: int = 0) -> Any:
    """Run a command with `--json`; return the report."""
    words = line.split() if isinstance(line, str) else line
    done([*words, "--json", "r.json"], code)
    return json.loads(Path("r.json").read_text())


def told(line: str | Sequence[object], code: int = 0) -> str:
    """Run a command; return what it wrote, on both streams."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        done(line, code)
    return out.getvalue() + err.getvalue()


def differs(change: str, design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hardware be golden with one thing changed: the codes of that name, `cycles`, or nothing."""

    def hardware(backend: str, workload: Workload, *_: object, **__: object) -> Run:
        run, cycles = golden(workload), model(workload, design.memory).cycles
        assert run.codes is not None and cycles is not None
        codes = {
            name: each ^ (np.arange(each.size).reshape(each.shape) == 1) if name == change else each
            for name, each in run.codes.items()
        }
        facts = {"seconds": 1.0, "bytes_read": 0, "bytes_written": 0}
        cycles += change == "cycles"
        return replace(run, backend=backend, codes=codes, cycles=cycles, **facts)

    monkeypatch.setattr(Design, "verilog", "")
    monkeypatch.setattr(Design, "machine", lambda *_, **__: nullcontext())
    monkeypatch.setattr("penstock.runs.run.hardware", hardware)
