"""Cells that Yosys makes of a component. Needs pyosys:  pip install pyosys"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.hdl.shell.verilog import to_verilog

__all__ = ["cells", "luts"]

_SCRIPTS = {"ecp5": "synth_ecp5 -nowidelut -top top", "generic": "synth -flatten -top top"}


def cells(component: Any, kind: str) -> Counter[str]:
    """Return the cells of a component by their type. `kind`: "ecp5" or "generic".

    Raises RuntimeError without pyosys.
    """
    if importlib.util.find_spec("pyosys") is None:
        raise RuntimeError("this needs:  pip install pyosys")
    with tempfile.TemporaryDirectory() as folder:
        text = to_verilog(component, name="top")
        Path(folder, "part.v").write_text(text)
        script = f"read_verilog part.v\n{_SCRIPTS[kind]}\ntee -q -o stat.json stat -json\n"
        Path(folder, "script.ys").write_text(script)
        code = "from pyosys import libyosys; libyosys.run_pass('tee -q script script.ys')"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
        found = json.loads(Path(folder, "stat.json").read_text())
    return Counter(found["modules"]["\\top"]["num_cells_by_type"])


def luts(found: Counter[str]) -> int:
    """Return the look-up tables of cells of an ECP5: a carry cell takes two, a cell of distributed
    memory four."""
    return found["LUT4"] + 2 * found["CCU2C"] + 4 * found["TRELLIS_DPR16X4"]
