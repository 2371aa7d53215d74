"""Estimates for `u55c` beside synthesis: small designs of the engines, each by `synth_xilinx -family xcup -uram` of the Yosys that is installed.

Look-up tables are LUT1 to LUT6 as Yosys makes them, and those of LUT RAM and shift registers; a map's are those of its parts. Seconds are of the
processor. `--only` names designs. Two at once take 15 minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from common import markdown

from testbench.ultrascale import DESIGNS, synthesised


def row(name: str) -> str:
    design = DESIGNS[name]()
    need, begin = design.resources, sum(os.times()[2:4])
    with tempfile.TemporaryDirectory() as folder:
        found = synthesised(design, Path(folder), apart=name.startswith("map"))
    pairs = ((getattr(need, x), getattr(found, x)) for x in ("lut", "dsp", "bram", "uram"))
    words = " | ".join(f"{a:,} / {b:,}" for a, b in pairs)
    seconds = sum(os.times()[2:4]) - begin
    made = f"{name} | {words} | {need.lut / found.lut - 1:+.1%} | {seconds:.0f}"
    print(made, file=sys.stderr, flush=True)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, max_tasks_per_child=1) as pool:
        found = list(pool.map(row, given.only))
    print(markdown("design | LUT | DSP | BRAM | URAM | LUT, error | s", found))
