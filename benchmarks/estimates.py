"""Estimates beside synthesis: random plans for ECP5 boards, each synthesised whole and packed, and every resource compared.

What is counted is what `penstock build` builds: link, memory, shell and engine, by `nextpnr-ecp5 --pack-only`. `--of` says whether trainings are drawn or
fits over columns, `--seeds 0:20` which; results are kept in `--keep`, so that a changed formula is compared without another synthesis (the key is the
hardware's digest).

`--fit` synthesises each training's parts apart (a memory port, a thread, the core without its threads, all the rest), and prints for each part the
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
from typing import Any

import numpy as np
from common import kernel, markdown

from penstock import Choices
from penstock.api import SourceError, compile
from penstock.boards.build import elaborate
from penstock.boards.catalogue import boards
from penstock.boards.flow import synthesise
from penstock.boards.tools import run_tool, tool_versions
from penstock.boards.top import clock_setting
from penstock.data.assumed import fitted
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.hdl.analytics.engine import AnalyticsEngine
from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.qr.table_engine import TableFitEngine
from penstock.models.analytics.resources import estimate, features
from penstock.models.heap.schema import Column, Schema
from penstock.models.qr.resources import estimate as fit_estimate
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
    *("float32", "float32", "bfloat16", "bfloat16", "float16", "fixed:8,8", "fixed:8,8"),
    *("fixed:4,6", "fixed:4,12", "fixed:6,14", "fixed:8,16", "fixed:8,24"),
)
TYPES = ("bool", "int2", "int4", "int8", "float4", "float8")
FIT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"


@dataclass(frozen=True)
class Case:
    """A random plan for a board, what is expected of it, and its `words`: what was drawn."""

    board: Target
    plan: Any
    words: str

    @property
    def estimate(self) -> Resources:
        of = estimate if hasattr(self.plan, "threads") else fit_estimate
        return of(self.plan, self.board)

    def hardware(self) -> tuple[Any, ModuleLibrary]:
        """Return the engine, not elaborated yet, and the library of its modules."""
        library = ModuleLibrary()
        if hasattr(self.plan, "threads"):
            return AnalyticsEngine(self.plan, self.plan.port, library, design=1), library
        return TableFitEngine(self.plan, library, design=1), library


def training(seed: int) -> Case:
    """Return the training of a seed: board, kernel, dimensions, format, columns, page size, threads, lanes and Striders."""
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
        apart = [c.name for c in table.columns if c.name.startswith("x") and c.name != "x"]
        more = {"dims": dims, "bind": {"x": apart} if apart else None, "choices": choices}
        try:
            plan = compile(kernel(name), board, table, number, **more).plan
        except (KernelError, SourceError):
            continue
        memory_bytes = board.memory.bytes if board.lean else 0
        striders = replace(plan.striders, lean=board.lean, memory_bytes=memory_bytes)
        plan = replace(plan, striders=striders)
        sizes = ", ".join(f"{k} = {v}" for k, v in dims.items())
        words = f"{board.name} | {name} {sizes} | {number} | {columns} | {plan.threads} × {plan.lanes} | {plan.striders.walkers} | {plan.page_size}"
        return Case(board, plan, words)


def _table(rng: random.Random, name: str, dims: dict[str, int]) -> tuple[Schema, str]:
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
        kind, label = rng.choice(("float4", "float4", *TYPES)), rng.choice(TYPES)
        fixed = rng.random() < 0.5
        columns = [Column(f"x{k}", kind, not_null=fixed) for k in range(dims["d"])]
        columns.append(Column("y", label, not_null=fixed))
        words = f"{kind} columns, {label}{' NOT NULL' if fixed else ''}"
    if rng.random() < 0.3:
        columns.insert(0, Column("id", "int8"))
    return fitted(Schema(f"random_{name}", tuple(columns), page_size=size)), words


def fit_of_columns(seed: int) -> Case:
    """Return the fit of a seed: columns, their types and limbs, products, Striders, bus and page size."""
    rng = random.Random(seed)
    kinds = ("float4",), ("float8",), ("int2", "int4"), ("float4", "int8", "float8")
    count, types = rng.randint(1, 11), rng.choice(kinds)
    columns = [
        Column(f"x{k}", rng.choice(types), not_null=rng.random() < 0.5) for k in range(count)
    ]
    columns.append(Column("y", rng.choice(types)))
    table = Schema("random", tuple(columns), page_size=rng.choice((1024, 2048, 8192)))
    given = {"bind": {"x": [f"x{k}" for k in range(count)]}, "dims": {"d": count}}
    board, limbs = boards()["ulx3s-85f"], rng.choice((1, 1, 2))
    planned = compile(from_text(FIT), board, table, limbs=limbs, **given).plan
    products = planned.columns.products
    lanes, walkers = min(rng.choice((1, 2, 4, products)), products), rng.choice((1, 1, 2))
    chosen = replace(
        planned,
        columns=replace(planned.columns, gram_lanes=lanes),
        walkers=walkers,
        bus_bytes=rng.choice((8, 16, 32)),
        slots=4 if walkers == 1 else rng.choice((8, 64)),
    )
    words = f"{count} | {max(planned.columns.limbs)} | {', '.join(types)} | {lanes} | {walkers} | {chosen.bus_bytes} | {table.page_size}"
    return Case(board, chosen, words)


def _kept(keep: Path, name: str, make: Callable[[Path], dict[str, int]]) -> dict[str, int]:
    """Return what is kept of that name, or else is made in a folder."""
    key = hashlib.sha256(f"{name}{tool_versions(('yosys', 'nextpnr-ecp5'))}".encode()).hexdigest()
    kept = keep / f"{key[:32]}.json"
    if not kept.is_file():
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            found = make(Path(folder))
        keep.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return json.loads(kept.read_text())


def measure(case: Case, keep: Path) -> dict[str, int]:
    """Return what synthesis and packing make of a case."""
    board = case.board
    sources = elaborate(case.hardware, board, setting=clock_setting(board, 40.0))

    def packed(folder: Path) -> dict[str, int]:
        synthesise(board, sources, folder)
        line = f"--package {board.pins.package} --speed {board.pins.speed} --lpf penstock.lpf --json penstock.json"
        line += " --pack-only --report report.json --quiet"
        part = board.device.tool.replace("12k", "25k")
        run_tool("nextpnr-ecp5", [part, *line.split()], folder)
        used = json.loads((folder / "report.json").read_text())["utilization"]
        cells = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "dsp": "MULT18X18D", "bram": "DP16KD"}
        return {what: used[cell]["used"] for what, cell in cells.items()}

    return _kept(keep, f"{sources.rtlil}{board.device.tool}", packed)


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
    setting = clock_setting(case.board, 40.0)
    sources = elaborate(case.hardware, case.board, setting=setting)

    def synthesised(folder: Path) -> dict[str, int]:
        (folder / "all.il").write_text(sources.rtlil)
        script = ["read_rtlil all.il", "design -save all"]
        for part, (top, boxes) in PARTS.items():
            script += ["design -load all", *(f"blackbox \\{box}" for box in boxes)]
            script.append(f"synth_ecp5 -top {top} -json {part}.json")
        run_tool("yosys", ["-q", "-p", "; ".join(script)], folder)
        return {part: _luts(json.loads((folder / f"{part}.json").read_text())) for part in PARTS}

    return _kept(keep, f"parts{sources.rtlil}", synthesised)


def _luts(netlist: dict) -> int:
    """Count look-up tables as packing does: two for a carry cell, four for a LUT RAM, four where a carry chain begins or leaves for the fabric."""
    is_top = lambda module: int(str(module.get("attributes", {}).get("top", "0")), 2)
    cells = next(filter(is_top, netlist["modules"].values()))["cells"].values()
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
    plain = types.count("LUT4") + 2 * len(carries) + 4 * types.count("TRELLIS_DPR16X4")
    return plain + 4 * (begins + len(leaves & chained))


def fit(cases: list[Case], keep: Path) -> str:
    """Return the coefficients that come nearest to the parts of these cases."""
    from scipy.optimize import nnls

    measured = [measure_parts(case, keep) for case in cases]
    lines = [f"rest (shell and device): {[found['rest'] for found in measured]}"]
    for part in ("port", "core", "thread"):
        counts = [features(case.plan, case.board)[part] for case in cases]
        names = sorted(set().union(*counts))
        y = np.array([found[part] for found in measured], dtype=float)
        a = np.array([[count.get(name, 0.0) for name in names] for count in counts]) / y[:, None]
        x, _ = nnls(a, np.ones(len(y)))  # relative errors
        found = {name: round(float(v), 2) for name, v in zip(names, x, strict=True)}
        lines.append(f"{part}: {found}, worst {abs(a @ x - 1).max():.1%}")
    return "\n".join(lines)


#: what is drawn, and the words of a case
DRAWN = {
    "trainings": (
        training,
        "board | kernel | format | columns | threads × lanes | Striders | page",
    ),
    "fits": (fit_of_columns, "features | limbs | columns | products | Striders | bus | page"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", choices=DRAWN, default="trainings")
    parser.add_argument("--seeds", default="0:20", help="first and end of the plans' seeds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("estimates"), help="folder of results")
    parser.add_argument(
        "--fit", action="store_true", help="coefficients of parts synthesised apart"
    )
    options = parser.parse_args()
    draw, words = DRAWN[options.of]
    cases = [draw(seed) for seed in range(*map(int, options.seeds.split(":")))]
    if options.fit:
        print(fit(cases, options.keep))
        return 0

    def one(case: Case) -> tuple[str, float, bool]:
        found, need = measure(case, options.keep), case.estimate
        pairs = {what: f"{getattr(need, what):,} / {found[what]:,}" for what in found}
        error = need.lut / found["lut"] - 1
        row = f"{case.words} | {pairs['lut']} | {error:+.1%} | {pairs['ff']} | {pairs['dsp']} | {pairs['bram']}"
        print(row, file=sys.stderr, flush=True)
        return row, abs(error), (need.dsp, need.bram) == (found["dsp"], found["bram"])

    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        rows, errors, exact = zip(*pool.map(one, cases), strict=True)
    print(
        f"look-up tables: {max(errors):.1%} off at most, {sum(errors) / len(errors):.1%} on average; multiplier blocks and block RAMs exact in "
        f"{sum(exact)} of {len(cases)}\n"
    )
    print(markdown(f"{words} | LUT, estimated / packed | error | FF | DSP | BRAM", rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
