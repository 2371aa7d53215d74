"""Seconds from the file of the logistic example to Verilog, in a fresh process with an empty cache: with imports and without."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from time import perf_counter

from common import EXAMPLES, Options, Section, machine, main, markdown, spread

GOAL = 5.0

CHILD = """
import sys
from time import perf_counter
import penstock.api, penstock.engines.analytics.design, penstock.hdl.analytics.engine, penstock.hdl.shell.verilog, penstock.designs.cache
from penstock.host.sources import open_table
begin = perf_counter()
kernel, target, table = sys.argv[1:]
text = penstock.api.compile(kernel, target, open_table(table)).verilog
print(perf_counter() - begin, text.count(chr(10)))
"""


def once(target: str) -> tuple[float, float, int]:
    """Return the seconds of the whole process, those after the imports, and the lines of Verilog."""
    data = EXAMPLES / "data" / "cancer"
    with tempfile.TemporaryDirectory() as folder:
        begin = perf_counter()
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-c",
                CHILD,
                EXAMPLES / "logistic.py",
                target,
                f"heap:{data}.heap,{data}.json",
            ],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PENSTOCK_CACHE": folder},
            cwd=folder,
        )
        whole = perf_counter() - begin
    inside, lines = done.stdout.split()
    return whole, float(inside), int(lines)


def make(options: Options) -> str:
    head, rows = machine(), []
    for target in ("small",) if options.quick else ("small", "ulx3s-85f-sdram", "vu9p", "u55c"):
        runs = [once(target) for _ in range(1 if options.quick else 3)]
        whole, inside = [run[0] for run in runs], [run[1] for run in runs]
        form = "{:.2f}".format
        met = statistics.median(whole) <= GOAL
        rows.append(
            f"{target} | {runs[0][2]:,} | {spread(whole, form)} | {spread(inside, form)} | {'met' if met else '**not met**'}"
        )
    return f"{head}\n\n" + markdown(
        f"target | lines of Verilog | whole process, s | without imports, s | goal ≤ {GOAL:g} s, whole process",
        rows,
    )


SECTIONS = [Section("verilog-time", True, make)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
