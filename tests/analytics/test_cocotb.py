"""The engine under cocotb, with cocotbext-axi as the protocol partner that we did not write."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from penstock.api import compile
from penstock.dsl.analytics.plan import Choices
from penstock.host.sources import Table
from penstock.models.analytics.job import port_pages
from penstock.models.analytics.shell import images
from testbench.cocotb.runner import run_cocotb

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"


def test_engine(tmp_path: Path) -> None:
    choices = Choices(lanes=2, threads=4, ports=2, walkers=1)
    x = np.random.default_rng(2).normal(size=(60, 5)).astype(np.float32)
    data = Table.from_columns(
        {"id": np.arange(60, dtype=np.int32), "y": x[:, 0], "x": x}, page_size=1024
    )
    design = compile(EXAMPLES / "linear.py", "u55c", data, "fixed:8,8", epochs=2, choices=choices)
    golden = design.run(data, "golden")
    assert golden.codes is not None
    plan = design.plan
    made = images(plan, design.runs(), design.models())
    codes = (
        np.concatenate([golden.codes[plan.buffers[n].name].ravel() for n in plan.roles.models])
        .astype(f"<u{plan.format.container}")
        .view(np.uint8)
    )
    expected = np.zeros(made.result_bytes, np.uint8)
    expected[: len(codes)] = codes
    job = tmp_path / "job.npz"
    np.savez(
        job,
        boot=made.boot,
        result=expected,
        epochs=2,
        ports=plan.ports,
        tuples=golden.counters["tuples"],
        **{f"pages{q}": pages for q, pages in enumerate(port_pages(plan, data.pages))},
    )
    assert (
        run_cocotb(
            design.verilog,
            HERE / "cocotb_engine.py",
            ports=design.bus_ports,
            register_map=design.registers,
            environment={"PENSTOCK_JOB": str(job)},
        )
        == 3
    )
