"""Estimates beside synthesis: random plans for the ECP5 boards, each synthesised whole and packed, and every resource compared.

What is counted is what `penstock build` builds: link, memory, shell and engine, by `nextpnr-ecp5 --pack-only`. `--seeds 0:20` names the plans; results are
kept in `--keep`, so that a changed formula is compared without another synthesis (the key is the hardware's digest).

`--fit` synthesises each plan's parts apart (a memory port, a thread, the core without its threads, all the rest), and prints for each part the
coefficients of `models.analytics.resources.COEFFICIENTS` that come nearest, none below zero, and how near.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
from common import kernel, markdown

from penstock import Choices
from penstock.api import Design, SourceError, compile
from penstock.boards.build import elaborate
from penstock.boards.catalogue import boards
from penstock.boards.flow import synthesise
from penstock.boards.tools import run_tool, tool_versions
from penstock.boards.top import clock_setting
from penstock.dsl.core.diagnostics import KernelError
from penstock.hdl.analytics.engine import AnalyticsEngine
from penstock.hdl.modules import ModuleLibrary
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.resources import estimate, features
from penstock.models.heap.schema import Column, Schema
from penstock.models.resources import Resources
from penstock.models.target import Target

#: kernels with the dimensions that are drawn for them
KERNELS = {
    "linear": {"d": (1, 16)},
    "logistic": {"d": (1, 16)},
    "svm": {"d": (1, 16)},
    "ridge": {"d": (1, 12)},
    "lrmf": {"m": (2, 6), "n": (2, 6), "k": (1, 3)},
    "mlp": {"d": (2, 6), "h": (2, 4)},
}
FORMATS = (
    "float32",
    "float32",
    "bfloat16",
    "bfloat16",
    "float16",
    "fixed:8,8",
    "fixed:8,8",
    "fixed:4,6",
    "fixed:4,12",
    "fixed:6,14",
    "fixed:8,16",
    "fixed:8,24",
)
TYPES = ("bool", "int2", "int4", "int8", "float4", "float8")


@dataclass(frozen=True)
class Case:
    """A random plan: `words` say what was drawn."""

    seed: int
    board: Target
    design: Design
    words: tuple[str, ...]

    @property
    def estimate(self) -> Resources:
        return estimate(self.design.plan, self.board)


def draw(seed: int) -> Case:
    """Return the plan of a seed: board, kernel, dimensions, format, columns, page size, threads, lanes and Striders."""
    rng = random.Random(seed)
    open_boards = [
        b
        for b in boards().values()
        if b.shared is not None and b.family == "ecp5" and b.memory.kind == "block RAM"
    ]
    while True:
        board, name = rng.choice(open_boards), rng.choice([*KERNELS, "linear", "logistic", "svm"])
        dims = {dim: rng.randint(*limits) for dim, limits in KERNELS[name].items()}
        number = rng.choice(FORMATS)
        table, columns = _table(rng, name, dims)
        choices = Choices(
            lanes=rng.choice((None, None, 1, 2, 4)),
            threads=rng.choice((None, 1, 1, 2, 4)),
            walkers=rng.choice((None, 1, 1, 2)),
            visibility=rng.choice(("hints", "all")),
            on_null=rng.choice(("error", "error", "skip")),
        )
        try:
            bindings = (
                {"x": [c.name for c in table.columns if c.name.startswith("x")]}
                if "x0" in {c.name for c in table.columns}
                else None
            )
            design = compile(
                kernel(name),
                board,
                table,
                number,
                dims=dims,
                bindings=bindings,
                choices=choices,
            )
        except (KernelError, SourceError):
            continue
        design = replace(
            design,
            plan=replace(
                design.plan, lean=board.lean, memory_bytes=board.memory.bytes if board.lean else 0
            ),
        )
        plan = design.plan
        return Case(
            seed,
            board,
            design,
            (
                board.name,
                f"{name} {', '.join(f'{k} = {v}' for k, v in dims.items())}",
                number,
                columns,
                f"{plan.threads} × {plan.lanes}",
                str(plan.walkers),
                str(plan.page_size),
            ),
        )


def _table(rng: random.Random, name: str, dims: dict[str, int]) -> tuple[Schema, str]:
    from penstock.assumed import fitted

    size = rng.choice((1024, 2048, 8192))
    if name == "lrmf":
        columns, words = (
            [Column("u", "int4"), Column("i", "int2"), Column("r", "float4")],
            "ratings",
        )
    elif rng.random() < 0.5 or dims["d"] > 8:
        kind, label = rng.choice(("float4[]", "float4[]", "float8[]")), rng.choice(TYPES)
        columns, words = (
            [Column("x", kind, length=dims["d"]), Column("y", label)],
            f"{kind}, {label}",
        )
    else:
        kind, label, fixed = (
            rng.choice(("float4", "float4", *TYPES)),
            rng.choice(TYPES),
            rng.random() < 0.5,
        )
        columns = [Column(f"x{k}", kind, not_null=fixed) for k in range(dims["d"])] + [
            Column("y", label, not_null=fixed)
        ]
        words = f"{kind} columns, {label}{' NOT NULL' if fixed else ''}"
    if rng.random() < 0.3:
        columns.insert(0, Column("id", "int8"))
    return fitted(Schema(f"random_{name}", tuple(columns), page_size=size)), words


def hardware(plan: AnalyticsPlan) -> tuple[AnalyticsEngine, ModuleLibrary]:
    """Return a plan's engine, not elaborated yet, and the library of its modules."""
    library = ModuleLibrary()
    return AnalyticsEngine(plan, plan.port, library, design=1), library


def measure(case: Case, keep: Path) -> dict:
    """Return what synthesis and packing make of a case: resources, cells by type, seconds, and the plan."""
    return packed(
        lambda: hardware(case.design.plan),
        case.board,
        keep,
        {"plan": case.design.plan.to_json(), "words": case.words},
    )


def packed(hardware: Callable[[], tuple], board: Target, keep: Path, said: dict) -> dict:
    """Return what synthesis and packing make of an engine on an ECP5 board: resources, cells by type, seconds, and what is `said` of it."""
    sources = elaborate(hardware, board, setting=clock_setting(board, 40.0))
    key = hashlib.sha256(
        f"{sources.rtlil}{board.device.tool}{tool_versions(('yosys', 'nextpnr-ecp5'))}".encode()
    ).hexdigest()[:32]
    kept = keep / f"{key}.json"
    if kept.is_file():
        return json.loads(kept.read_text())
    begin = perf_counter()
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary:
        folder = Path(temporary)
        cells = synthesise(board, sources, folder)
        run_tool(
            "nextpnr-ecp5",
            [
                board.device.tool.replace("12k", "25k"),
                "--package",
                board.pins.package,
                "--speed",
                board.pins.speed,
                "--lpf",
                "penstock.lpf",
                "--json",
                "penstock.json",
                "--pack-only",
                "--report",
                "report.json",
                "--quiet",
            ],
            folder,
        )
        used = json.loads((folder / "report.json").read_text())["utilization"]
    found = {
        "lut": used["TRELLIS_COMB"]["used"],
        "ff": used["TRELLIS_FF"]["used"],
        "dsp": used["MULT18X18D"]["used"],
        "bram": used["DP16KD"]["used"],
        "cells": cells,
        "seconds": perf_counter() - begin,
        "board": board.name,
        **said,
    }
    keep.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


CORE = "penstock.soc.shell.engine.run.core"
#: part -> (module, what is left out of it)
PARTS = {
    "port": ("penstock_port", ()),
    "thread": ("penstock_thread", ()),
    "core": (CORE, ("penstock_thread",)),
    "rest": ("penstock", ("penstock_port", CORE)),
}


def measure_parts(case: Case, keep: Path) -> dict[str, int]:
    """Return the look-up tables of each part of a case, as nextpnr counts them."""
    sources = elaborate(
        lambda: hardware(case.design.plan), case.board, setting=clock_setting(case.board, 40.0)
    )
    key = hashlib.sha256(f"parts{sources.rtlil}{tool_versions(('yosys',))}".encode()).hexdigest()[
        :32
    ]
    kept = keep / f"{key}.json"
    if kept.is_file():
        return json.loads(kept.read_text())
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary:
        folder = Path(temporary)
        (folder / "all.il").write_text(sources.rtlil)
        script = ["read_rtlil all.il", "design -save all"]
        for part, (top, boxes) in PARTS.items():
            script += [
                "design -load all",
                *(f"blackbox \\{box}" for box in boxes),
                f"synth_ecp5 -top {top} -json {part}.json",
            ]
        run_tool("yosys", ["-q", "-p", "; ".join(script)], folder)
        found = {part: _luts(json.loads((folder / f"{part}.json").read_text())) for part in PARTS}
    keep.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


def _luts(netlist: dict) -> int:
    """Count look-up tables as packing does: two for a carry cell, four for a LUT RAM, four where a carry chain begins or leaves for the fabric."""
    cells = next(
        m
        for m in netlist["modules"].values()
        if int(str(m.get("attributes", {}).get("top", "0")), 2)
    )["cells"].values()
    carries = [c["connections"] for c in cells if c["type"] == "CCU2C"]
    chained = {c["COUT"][0] for c in carries if c.get("COUT")}
    begins = sum(c["CIN"][0] not in chained for c in carries)
    leaves = {
        bit
        for c in cells
        for port, bits in c["connections"].items()
        if c["port_directions"][port] == "input" and port != "CIN"
        for bit in bits
    }
    types = [c["type"] for c in cells]
    return (
        types.count("LUT4")
        + 2 * len(carries)
        + 4 * types.count("TRELLIS_DPR16X4")
        + 4 * (begins + len(leaves & chained))
    )


def fit(cases: list[Case], keep: Path) -> str:
    """Return the coefficients that come nearest to the parts of these cases."""
    measured = [measure_parts(case, keep) for case in cases]
    lines = [f"rest (shell and device): {[found['rest'] for found in measured]}"]
    for part in ("port", "core", "thread"):
        counts = [features(case.design.plan, case.board)[part] for case in cases]
        names = sorted(set().union(*counts))
        y = np.array([found[part] for found in measured], dtype=float)
        a = np.array([[count.get(name, 0.0) for name in names] for count in counts]) / y[:, None]
        x = np.zeros(len(names))
        h, g = a.T @ a, a.T @ np.ones(len(y))
        for _ in range(20_000):  # coordinate descent on relative errors
            for j in np.flatnonzero(np.diag(h)):
                x[j] = max(0.0, x[j] + (g[j] - h[j] @ x) / h[j, j])
        lines.append(
            f"{part}: { ({name: round(float(v), 2) for name, v in zip(names, x, strict=True)}) }, worst {abs(a @ x - 1).max():.1%}"
        )
    return "\n".join(lines)


HEADS = (
    "board",
    "kernel",
    "format",
    "columns",
    "threads × lanes",
    "Striders",
    "page",
    "LUT, estimated / packed",
    "error",
    "DSP",
    "BRAM",
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0:20", help="first and end of the plans' seeds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("estimates"), help="folder of results")
    parser.add_argument(
        "--fit", action="store_true", help="coefficients from parts synthesised apart"
    )
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    cases = [draw(seed) for seed in range(first, end)]
    if options.fit:
        print(fit(cases, options.keep))
        return 0

    def one(case: Case) -> dict:
        found = measure(case, options.keep)
        expected = case.estimate
        compared = ", ".join(
            f"{what} {getattr(expected, what):,}/{found[what]:,}"
            for what in ("lut", "ff", "dsp", "bram")
        )
        print(f"{case.seed}: {' | '.join(case.words)}: {compared}", file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        found = list(pool.map(one, cases))
    rows = []
    for case, placed in zip(cases, found, strict=True):
        expected = case.estimate
        rows.append(
            (
                *case.words,
                f"{expected.lut:,} / {placed['lut']:,}",
                f"{expected.lut / placed['lut'] - 1:+.1%}",
                *(f"{getattr(expected, what)} / {placed[what]}" for what in ("dsp", "bram")),
            )
        )
    errors = [
        abs(case.estimate.lut / placed["lut"] - 1)
        for case, placed in zip(cases, found, strict=True)
    ]
    exact = sum(
        (case.estimate.dsp, case.estimate.bram) == (placed["dsp"], placed["bram"])
        for case, placed in zip(cases, found, strict=True)
    )
    print(
        f"look-up tables: {max(errors):.1%} off at most, {sum(errors) / len(errors):.1%} on average; multiplier blocks and block RAMs exact in "
        f"{exact} of {len(cases)}\n"
    )
    print(markdown(HEADS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
