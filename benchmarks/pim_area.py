"""Area of two banks' units from synthesis: for each format, ECP5 cells and Yosys' generic cells, beside the paper's.

A *pair* is what serves two banks: units, registers, result path, random bits; the banks themselves are left out, as
in the paper. Needs pyosys:  pip install pyosys
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from amaranth.back import verilog
from common import Options, Section, main, markdown, versions

from penstock.hdl.pim.pair import Pair
from penstock.models.pim.config import Design, PimConfig

#: devices, and the paper's area of two banks' units in percent of a bank's (figure 6), where it has them
DEVICES: Mapping[str, tuple[PimConfig, str]] = {
    "MX8, pimba": (PimConfig(), "–"),
    "MX8 stochastic, pimba": (PimConfig(stochastic=True), "–"),
    "float16, pimba": (PimConfig("float16"), "–"),
    "MX8, per-bank": (PimConfig(design=Design.PER_BANK), "19.91"),
    "MX8 stochastic, per-bank": (PimConfig(design=Design.PER_BANK, stochastic=True), "21.00"),
    "float16, per-bank": (PimConfig("float16", design=Design.PER_BANK), "32.44"),
}
#: as `synth` has it, but that memories stay cells and nothing is shared
_GENERIC = (
    "hierarchy -top top; proc; flatten; opt_expr; opt_clean; opt -nodffe -nosdff; wreduce; peepopt; "
    "opt_clean; alumacc; opt; memory -nomap; opt_clean; opt -fast -full; techmap; opt -fast; "
    "abc; opt_clean"
)
SCRIPTS = {"ecp5": "synth_ecp5 -top top", "generic": _GENERIC}


def cells(config: PimConfig, kind: str) -> dict[str, int]:
    """Return the cells that Yosys makes of a pair, by their type."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "part.v").write_text(
            verilog.convert(Pair(config), name="top", emit_src=False, strip_internal_attrs=True)
        )
        script = f"read_verilog part.v\n{SCRIPTS[kind]}\ntee -q -o stat.json stat -json\n"
        Path(folder, "script.ys").write_text(script.replace("; ", "\n"))
        code = "from pyosys import libyosys; libyosys.run_pass('tee -q script script.ys')"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
        found = json.loads(Path(folder, "stat.json").read_text())
    counts: dict[str, int] = found["modules"]["\\top"]["num_cells_by_type"]
    return {name: number for name, number in counts.items() if not name.startswith("$mem")}


def area(options: Options) -> str:
    if importlib.util.find_spec("pyosys") is None:
        raise RuntimeError("this needs:  pip install pyosys")
    rows, base = [], 0
    for name, (config, theirs) in DEVICES.items():
        ecp5, generic = cells(config, "ecp5"), cells(config, "generic")
        lut = ecp5.get("LUT4", 0) + 2 * ecp5.get("CCU2C", 0)
        flops = sum(n for cell, n in ecp5.items() if cell.startswith("TRELLIS_FF"))
        stored = sum(n for cell, n in generic.items() if re.search("DFF|DLATCH", cell))
        total = sum(generic.values())
        base = base or total
        rows.append(
            (
                name,
                f"{lut:,}",
                f"{flops:,}",
                ecp5.get("MULT18X18D", 0),
                f"{total:,}",
                f"{stored:,}",
                f"{total / base:.2f}",
                theirs,
                f"{float(theirs) / 19.91:.2f}" if theirs != "–" else "–",
            )
        )
        print(rows[-1], file=sys.stderr, flush=True)
        if options.quick:
            break
    header = (
        "format and units",
        "LUT4",
        "FF",
        "DSP",
        "generic cells",
        "of them FF",
        "÷ MX8, per-bank",
        "paper, % of a bank",
        "÷ MX8",
    )
    return f"{markdown(header, rows)}\n\nWith {versions('pyosys', 'amaranth')}."


SECTIONS = [Section("pim-area", False, area)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
