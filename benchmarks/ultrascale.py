"""Estimates for `u55c` beside synthesis: small designs of the engines, each by `synth_xilinx -family xcup -uram` of the Yosys that is installed.

Look-up tables are LUT1 to LUT6 as Yosys makes them, and those of LUT RAM and shift registers. `--only` names designs. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from common import markdown

from testbench.ultrascale import DESIGNS, synthesised


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=DESIGNS, default=list(DESIGNS))
    rows = []
    for name in parser.parse_args().only:
        design = DESIGNS[name]()
        need, begin = design.resources, sum(os.times()[2:4])
        with tempfile.TemporaryDirectory() as folder:
            found = synthesised(design, Path(folder))
        pairs = ((getattr(need, x), getattr(found, x)) for x in ("lut", "dsp", "bram", "uram"))
        words = (f"{a:,} / {b:,}" for a, b in pairs)
        seconds = f"{sum(os.times()[2:4]) - begin:.0f}"
        rows.append((name, *words, f"{need.lut / found.lut - 1:+.1%}", seconds))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown("design | LUT | DSP | BRAM | URAM | LUT, error | s", rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
