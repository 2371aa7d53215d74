"""Small designs of the engines for `u55c`, and what Yosys makes of them for UltraScale+."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import penstock as ps
from penstock import Choices
from penstock.api import Design, compile
from penstock.data.assumed import fitted
from penstock.dsl.core.load import from_text, load_kernel
from penstock.models.heap.schema import Column, Schema
from penstock.models.qr.job import Label, Method
from penstock.models.resources import Resources
from testbench.memories import emptied
from testbench.yosys import yosys

__all__ = ["DESIGNS", "LUT_RAM", "SMALL", "SYNTH", "synthesised"]

SYNTH = "synth_xilinx -family xcup -uram -noiopad"
#: look-up tables of AMD's LUT RAM
LUT_RAM = {"RAM32M16": 8, "RAM64M8": 8, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8}
#: of any cell that is none itself
_LUTS = {**LUT_RAM, "SRL16E": 1, "SRLC32E": 1}
_EXAMPLES = Path(__file__).parents[3] / "examples"
_FIT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
_KEYS = "fit f(key: key)\n  model <- least_squares(window(key, 3), target=slot(key))\n"


def _analytics(name: str, number: str, d: int, page: int = 8192, lanes: int = 1) -> Design:
    columns = (Column("x", "float4[]", length=d), Column("y", "float4"))
    schema = fitted(Schema("t", columns, page_size=page))
    forced = Choices(ports=1, threads=1, lanes=lanes, walkers=1)
    kernel = load_kernel(_EXAMPLES / f"{name}.py")
    return compile(kernel, "u55c", schema, number, dims={"d": d}, choices=forced)


def _columns(count: int, limbs: int, page: int = 8192, products: int | None = None) -> Design:
    columns = [Column(f"x{k}", "float4", not_null=True) for k in range(count)]
    table = Schema("t", (*columns, Column("y", "float4")), page_size=page)
    bindings = {"x": [column.name for column in columns]}
    made = from_text(_FIT, "f.psk")
    given = {"bind": bindings, "dims": {"d": count}}
    design = compile(made, "u55c", table, limbs=limbs, **given)
    if products is None:
        return design
    columns = replace(design.plan.columns, gram_lanes=products)
    return replace(design, plan=replace(design.plan, columns=columns, walkers=1, slots=4))


def _keys(**options: Any) -> Design:
    design = compile(from_text(_KEYS, "k.psk"), "u55c")
    sizes = {"n_max": 4, "jobs": 4, "contexts": 2, "gram_lanes": 12, "lanes": 4}
    return replace(design, plan=replace(design.plan, **{**sizes, **options}))


def _steps(number: str, rows: int, size: int = 64, banks: int = 2, **options: str) -> Design:
    sizes = {"k": size, "v": size}
    kernel = load_kernel(_EXAMPLES / "retnet.py")
    made = compile(kernel, "u55c", None, number, dims=sizes, heads=1, banks=banks, **options)
    return replace(made, device=replace(made.device, rows=rows))


def _map(capacity: int) -> Design:
    made = ps.ObliviousMap(value=ps.bytes(8), capacity=capacity, name="m")
    design = compile(made, "u55c", channels=1, cores=2, rounds=1, window=2)
    fewer = replace(design.plan.cores, responders=1, request_openers=1, generators=1)
    return replace(design, plan=replace(design.plan, cores=fewer))


DESIGNS: dict[str, Callable[[], Design]] = {
    "logistic, 4": lambda: _analytics("logistic", "fixed:8,8", 4),
    "svm, 8": lambda: _analytics("svm", "fixed:8,24", 8),
    "linear, 64": lambda: _analytics("linear", "bfloat16", 64, 32768),
    "linear, 16": lambda: _analytics("linear", "float32", 16, lanes=2),
    "2 columns": lambda: _columns(2, 1),
    "4 columns": lambda: _columns(4, 2, 32768, 16),
    "keys, sums": lambda: _keys(),
    "keys, rotations": lambda: _keys(target=Label.RANK, method=Method.GIVENS),
    "retnet, float16": lambda: _steps("float16", 256),
    "retnet, mx8": lambda: _steps("mx8", 4),
    "retnet, on chip": lambda: _steps("mx8", 4, banks=4, dram="on-chip", schedule="halves"),
    "map of 2^10": lambda: _map(1 << 10),
    "map of 2^16": lambda: _map(1 << 16),
}
#: of three engines, for tests
SMALL: dict[str, Callable[[], Design]] = {
    "linear, 64": DESIGNS["linear, 64"],
    "retnet, 32": lambda: _steps("float16", 4, 32),
    "1 column": lambda: _columns(1, 1, products=1),
}


def synthesised(
    design: Design, folder: Path, *, mapped: bool = True, apart: bool = False
) -> Resources:
    """Return what a design takes by Yosys; unless `mapped`, which takes five times as long, nothing but its blocks, with modules that repeat done once.
    `apart`: what is in the device, and in its engine, each by itself, as a map as a whole takes hours.

    Yosys takes a time that grows with the square of a memory's initial content: zeros are left out.
    """
    text = emptied(design.verilog)
    (folder / "design.v").write_text(text)
    cells = Counter[str]()
    for top, boxes, times in _apart(text) if apart else [("penstock", [], 1)]:
        steps = "-flatten" if mapped else "-run begin:map_ffram"
        script = "".join(f"blackbox {box}; " for box in boxes)
        script += f"hierarchy -top {top}; {SYNTH} -top {top} {steps}"
        yosys(f"read_verilog design.v; {script}; tee -q -o stat.json stat -json", folder)
        stat = json.loads((folder / "stat.json").read_text())
        found = stat["modules"][f"\\{top}"] if mapped else stat["design"]
        for cell, count in found["num_cells_by_type"].items():
            cells[cell] += times * count
    luts = sum(n * (_LUTS.get(c, 0) + bool(re.fullmatch(r"LUT\d", c))) for c, n in cells.items())
    halves = cells["RAMB18E2"] + 2 * cells["RAMB36E2"]
    flops = sum(n for c, n in cells.items() if c.startswith("FD"))
    dsp, uram = cells["DSP48E2"], cells["URAM288"]
    return Resources(luts if mapped else 0, flops if mapped else 0, dsp, -(-halves // 2), uram)


def _apart(text: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield modules, which of those in them are left out, and how often there is one."""
    for top in ("penstock", "penstock_engine"):
        body = re.search(rf"^module {top} \(.*?^endmodule", text, re.MULTILINE | re.DOTALL)
        assert body is not None
        inside = Counter(re.findall(r"^  (penstock\w*) \w+ \($", body[0], re.MULTILINE))
        yield top, list(inside), 1
        yield from ((name, [], n) for name, n in inside.items() if name != "penstock_engine")
