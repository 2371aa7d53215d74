"""Simulated hardware: whether RTL, golden model and cycle model agree, and how fast the simulation is.

`equality` runs a few designs as Verilog on tables of so many rows that a run takes seconds. `simulation` times the native harness, a bare clock loop
over the same Verilated model, and cocotb driving the same design.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
from common import Options, Section, kernel, machine, main, markdown, random_table, spread, versions

from penstock import Choices
from penstock.api import Design, Table, compile
from penstock.host.sources import open_table
from penstock.models.analytics.job import port_pages
from penstock.models.analytics.shell import images, unpack_result
from penstock.sim.native import Session

LABELS = {"svm": "signed", "linear": "regression", "ridge": "regression"}
#: example, target, format, features, other dimensions, rows, choices
DESIGNS = (
    ("logistic", "small", "float32", 54, {}, 10_000, None),
    ("logistic", "ulx3s-85f-sdram", "float32", 54, {}, 10_000, None),
    ("linear", "ulx3s-85f-sdram", "bfloat16", 280, {}, 2_000, None),
    ("svm", "small", "fixed:8,24", 384, {}, 2_000, None),
    ("ridge", "small", "float32", 520, {}, 1_000, None),
    ("mlp", "small", "bfloat16", 54, {"h": 8}, 2_000, None),
    ("lrmf", "small", "fixed:8,24", 0, {"k": 4}, 452, None),
    (
        "logistic",
        "u55c",
        "bfloat16",
        54,
        {},
        10_000,
        Choices(lanes=4, threads=2, ports=2, walkers=1),
    ),
    ("logistic", "vu9p", "bfloat16", 520, {}, 2_000, None),
)


#: where things lie under cocotb; each port's pages have a window of their own
BOOT, RESULT, PAGES, WINDOW = 0x0100_0000, 0x0200_0000, 0x1_0000_0000, 0x1_0000_0000


def table_for(name: str, features: int, rows: int) -> Table:
    if name == "lrmf":
        from common import EXAMPLES

        data = EXAMPLES / "data" / "ratings"
        return open_table(f"heap:{data}.heap,{data}.json")
    return random_table(features, rows, LABELS.get(name, "classification"))


def equality(options: Options) -> str:
    rows, unequal = [], 0
    for name, target, number, features, dims, count, choices in DESIGNS[
        : 1 if options.quick else None
    ]:
        table = table_for(name, features, 200 if options.quick else count)
        design = compile(kernel(name), target, table, number, dims=dims, epochs=2, choices=choices)
        golden, rtl = design.run(table, "golden"), design.run(table, "rtl")
        model = design.run(table, "model", epochs=golden.epochs)
        assert (
            rtl.codes is not None
            and golden.codes is not None
            and model.bound is not None
            and rtl.cycles is not None
        )
        bits = all(np.array_equal(rtl.codes[key], golden.codes[key]) for key in golden.codes)
        unequal += not bits or rtl.cycles != model.cycles
        plan = design.plan
        weights = sum(codes.size for codes in golden.codes.values())
        rows.append(
            f"{name}, {features or 'ratings'} | {target} | {number} | {plan.ports} · {plan.threads} × {plan.lanes} | "
            f"{table.rows:,} × {golden.epochs} | {weights} weights {'equal' if bits else '**differ**'} | {rtl.cycles:,} | "
            f"{model.cycles:,} | {rtl.cycles / model.bound.cycles:.3f}"
        )
    return (
        markdown(
            "example, features | target | format | ports · threads × lanes | rows × epochs | RTL and golden | cycles: RTL | model | ratio",
            rows,
        )
        + f"\n\n{len(rows) - unequal} of {len(rows)} equal in every bit and every cycle."
    )


def cocotb_run(design: Design, table: Table) -> tuple[float, int]:
    """Train one epoch under cocotb; return seconds and cycles. The result must be the golden model's."""
    from testbench.cocotb.runner import run_cocotb

    plan, library = design.plan, design.library()
    image = images(plan, design.runs(), design.models())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        windows = {"boot": BOOT}
        registers = {"boot_address": BOOT, "result_address": RESULT, "epochs": 1}
        image.boot.tofile(folder / "boot")
        for q, part in enumerate(port_pages(plan, table.pages)):
            windows[f"pages{q}"] = PAGES + q * WINDOW
            registers |= {f"page_address{q}": PAGES + q * WINDOW, f"pages{q}": len(part)}
            part.tofile(folder / f"pages{q}")
        job = {
            "windows": windows,
            "result": RESULT,
            "result_bytes": -(-image.result_bytes // 64) * 64,
            "registers": registers,
        }
        (folder / "job.json").write_text(json.dumps(job))
        run_cocotb(
            design.verilog,
            Path(__file__).with_name("cocotb_engine.py"),
            ports=library.ports,
            register_map=library.register_map,
            environment={"PENSTOCK_JOB": str(folder)},
        )
        answer = json.loads((folder / "answer.json").read_text())
        made = unpack_result(plan, np.fromfile(folder / "result", dtype=np.uint8))
    golden = design.run(table, "golden", epochs=1).codes
    assert golden is not None and all(np.array_equal(made[key], golden[key]) for key in golden), (
        "cocotb's result differs"
    )
    return answer["seconds"], answer["cycles"]


def rate(value: float) -> str:
    return f"{value / 1e3:,.1f} k" if value < 1e5 else f"{value / 1e3:,.0f} k"


def speed(options: Options) -> str:
    head, rows = machine(), []
    for target in ("small",) if options.quick else ("small", "ulx3s-85f-sdram"):
        table = random_table(54, 200 if options.quick else 10_000)
        design = compile(kernel("logistic"), target, table, epochs=1)
        library = design.library()
        harness, bare = [], []
        for _ in range(2 if options.quick else 7):  # in turn, so that both see the same machine
            run = design.run(table, "rtl")
            assert run.cycles is not None
            harness.append(run.cycles / run.seconds)
            with Session(library) as session:
                bare.append(run.cycles / session.bare_loop(run.cycles))
        ratio = statistics.median(harness) / statistics.median(bare)
        beside = random_table(54, 30 if options.quick else 1000)
        times = [cocotb_run(design, beside) for _ in range(1 if options.quick else 3)]
        slow = [cycles / seconds for seconds, cycles in times]
        rows.append(
            f"logistic 54, {target} | {run.cycles:,} | {spread(harness, rate)} | {spread(bare, rate)} | "
            f"{ratio:.2f} ({'met' if ratio >= 0.7 else '**not met**'}) | {times[0][1]:,} | {spread(slow, rate)} | "
            f"{statistics.median(harness) / statistics.median(slow):.0f} ×"
        )
    return f"{head} {versions('cocotb', 'cocotbext-axi')}.\n\n" + markdown(
        "design | cycles | native, cycles/s | bare loop, cycles/s | native ÷ bare, goal ≥ 0.7 | cycles under cocotb | cocotb, cycles/s | "
        "native ÷ cocotb",
        rows,
    )


SECTIONS = [Section("equality", False, equality), Section("simulation", True, speed)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
