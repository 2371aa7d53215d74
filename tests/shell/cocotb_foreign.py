"""A recorded run of a core behind cocotbext-axi's memory, again and again, with errors and resets; run by test_foreign.py."""

import os
import pickle
import random

import cocotb
from cocotb.triggers import ClockCycles

from penstock.models.shell import Control, Status
from penstock.sim.recorder import Read, Started, Written
from testbench.cocotb.bench import Bench

EVENTS = ("error", "soft", "hard")
#: of a core that is powered up for each run
ALONE = (*EVENTS, "")


async def replay(bench, job, event="", after=0):
    """Do what was recorded; return whether an event ended it. Without one, all bytes must be equal."""
    start = 0
    for step in job["steps"]:
        memory = bench.memories[getattr(step, "space", 0)]
        if isinstance(step, Written):
            memory.put(step.at, step.data)
        elif isinstance(step, Read):
            if event:
                return False
            assert memory.get(step.at, len(step.data)) == step.data
        elif isinstance(step, Started):
            await bench.start({**step.registers, "watchdog": step.watchdog})
            if event in ("soft", "hard") and start == job["start"]:
                await ClockCycles(bench.dut.clk, after)
                if event == "hard":
                    await bench.reset()
                    return True
                await bench.write("control", Control.RESET)
                for _ in range(5000):
                    if await bench.read("status") == Status.IDLE:
                        return True
                raise AssertionError("no rest after a soft reset")
            if event == "error" and start == job["start"]:
                for memory in bench.memories.values():
                    memory.fail_after = after
            await bench.finish(200_000)
            status = await bench.read("status")
            failed = bool(status & Status.ERROR)
            assert failed <= (event == "error"), (status, await bench.read("error_code"))
            for memory in bench.memories.values():
                memory.fail_after = None
            if failed:
                assert await bench.read("error_code")
                return True
            start += 1
    return False


@cocotb.test()
async def runs(dut):
    with open(os.environ["PENSTOCK_JOB"], "rb") as file:
        job = pickle.load(file)
    for name, value in job["vault"].items():
        getattr(dut, f"vault_{name}").value = value
        dut.vault_valid.value = 1
    bench = Bench(dut)
    for space, size in job["sizes"].items():
        bench.memories[space].map(0, bytearray(size))
    await bench.reset()
    hit = 0
    for seed in job["seeds"]:
        draw = random.Random(seed)
        bench.stall(draw.choice([0, 20, 50]), seed, job["calm"])
        if job["alone"]:
            event = ALONE[seed % len(ALONE)]
            hit = await replay(bench, job, event, int(10 ** draw.uniform(0.5, job["reach"])))
            with open(os.environ["PENSTOCK_JOB"] + ".hits", "a") as file:
                file.write(event if hit else "-")
            return
        event = EVENTS[seed % len(EVENTS)]
        hit += await replay(bench, job, event, int(10 ** draw.uniform(0.5, job["reach"])))
        await replay(bench, job)
    assert hit >= len(job["seeds"]) // 3, hit
