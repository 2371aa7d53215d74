"""Estimates for `u55c` beside synthesis: small designs of the engines, each by `synth_xilinx -family xcup -uram` of the Yosys that is installed.

Look-up tables are LUT1 to LUT6 as Yosys makes them, and those of LUT RAM and shift registers. `--only` names designs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from common import kernel, markdown

import penstock as ps
from penstock import Choices
from penstock.api import Design, compile
from penstock.assumed import fitted
from penstock.boards.tools import run_tool
from penstock.dsl.core.load import from_text
from penstock.models.heap.schema import Column, Schema

_FLOW = "synth_xilinx -family xcup -uram -noiopad -flatten -top penstock"
#: look-up tables of a cell that is none itself
_LUTS = {"RAM32M16": 8, "RAM64M8": 8, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8}
_LUTS |= {"SRL16E": 1, "SRLC32E": 1}
_FIT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
_KEYS = "fit f(key: key)\n  model <- least_squares(window(key, 5), target=slot(key))\n"


def _analytics(name: str, number: str, d: int, page: int = 8192, **choices: int) -> Design:
    columns = (Column("x", "float4[]", length=d), Column("y", "float4"))
    schema = fitted(Schema("t", columns, page_size=page))
    forced = Choices(ports=1, **choices)
    return compile(kernel(name), "u55c", schema, number, dims={"d": d}, choices=forced)


def _columns(count: int, number: str) -> Design:
    columns = [Column(f"x{k}", "float4", not_null=True) for k in range(count)]
    table = Schema("t", (*columns, Column("y", "float4")), page_size=8192)
    bindings = {"x": [column.name for column in columns]}
    made = from_text(_FIT, "f.psk")
    return compile(made, "u55c", table, number, bindings=bindings, dims={"d": count})


def _map(capacity: int, **options: int) -> Design:
    made = ps.ObliviousMap(value=ps.bytes(8), capacity=capacity, name="m")
    return compile(made, "u55c", channels=1, cores=2, rounds=1, **options)


DESIGNS: dict[str, Callable[[], Design]] = {
    "logistic, 4": lambda: _analytics("logistic", "fixed:8,8", 4, threads=1, lanes=1, walkers=1),
    "linear, 16": lambda: _analytics("linear", "float32", 16, threads=2, lanes=2, walkers=1),
    "linear, 64": lambda: _analytics("linear", "bfloat16", 64, 32768, threads=2, lanes=4),
    "2 columns": lambda: _columns(2, "fixed:8,8"),
    "6 columns": lambda: _columns(6, "fixed:5,12"),
    "keys of 5 bytes": lambda: compile(from_text(_KEYS, "k.psk"), "u55c"),
    "map of 1,024": lambda: _map(1 << 10, window=2),
    "map of 2^16": lambda: _map(1 << 16, window=4),
}


def synthesised(design: Design) -> tuple[int, int, int, int]:
    """Return look-up tables, multiplier blocks, block RAMs and UltraRAMs of a design as Yosys maps it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "design.v").write_text(design.verilog)
        script = f"read_verilog design.v; {_FLOW}; tee -q -o stat.json stat -json"
        run_tool("yosys", ["-q", "-p", script], folder)
        stat = json.loads((folder / "stat.json").read_text())
    cells = stat["modules"]["\\penstock"]["num_cells_by_type"]
    luts = sum(n * (_LUTS.get(c, 0) + bool(re.fullmatch(r"LUT\d", c))) for c, n in cells.items())
    halves = cells.get("RAMB18E2", 0) + 2 * cells.get("RAMB36E2", 0)
    return luts, cells.get("DSP48E2", 0), -(-halves // 2), cells.get("URAM288", 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=DESIGNS, default=list(DESIGNS))
    rows = []
    for name in parser.parse_args().only:
        design, begin = DESIGNS[name](), perf_counter()
        need, found = design.resources, synthesised(design)
        expected = need.lut, need.dsp, need.bram, need.uram
        pairs = (f"{a:,} / {b:,}" for a, b in zip(expected, found, strict=True))
        seconds = f"{perf_counter() - begin:.0f}"
        rows.append((name, *pairs, f"{need.lut / found[0] - 1:+.1%}", seconds))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    print(markdown(("design", "LUT", "DSP", "BRAM", "URAM", "LUT, error", "s"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
