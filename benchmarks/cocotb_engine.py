"""One training run under cocotb with cocotbext-axi's partners; started by simulation.py."""

import json
import os
from pathlib import Path
from time import perf_counter

import cocotb
from cocotb.triggers import RisingEdge

from penstock.models.shell import Status
from testbench.cocotb.bench import Bench


@cocotb.test()
async def train(dut):
    folder = Path(os.environ["PENSTOCK_JOB"])
    job = json.loads((folder / "job.json").read_text())
    bench = Bench(dut)
    for name, base in job["windows"].items():
        bench.memory.map(base, bytearray((folder / name).read_bytes()))
    result = bytearray(job["result_bytes"])
    bench.memory.map(job["result"], result)
    await bench.reset()
    begin = perf_counter()
    await bench.start(job["registers"])
    if not int(dut.irq.value):
        await RisingEdge(dut.irq)
    seconds = perf_counter() - begin
    assert await bench.read("status") & Status.DONE
    (folder / "result").write_bytes(result)
    (folder / "answer.json").write_text(
        json.dumps({"seconds": seconds, "cycles": await bench.read("cycles")})
    )
