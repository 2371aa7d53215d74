"""cocotb tests of a trained engine behind cocotbext-axi's memory; run by test_cocotb.py, which leaves images and golden result in a file."""

import os

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from penstock.models.errors import ErrorCode
from penstock.models.shell import Control
from testbench.cocotb.bench import Bench

#: where things lie; each port's pages have a window of their own
BOOT, RESULT, PAGES, WINDOW = 0x0100_0000, 0x0200_0000, 0x1_0000_0000, 0x1_0000_0000


async def made(dut):
    bench = Bench(dut)
    job = np.load(os.environ["PENSTOCK_JOB"])
    result = bytearray(job["result"].nbytes)
    bench.memory.map(BOOT, bytearray(job["boot"].tobytes()))
    bench.memory.map(RESULT, result)
    registers = {"boot_address": BOOT, "result_address": RESULT, "epochs": int(job["epochs"])}
    for q in range(int(job["ports"])):
        pages = job[f"pages{q}"]
        bench.memory.map(PAGES + q * WINDOW, bytearray(pages.tobytes()))
        registers |= {f"page_address{q}": PAGES + q * WINDOW, f"pages{q}": len(pages)}
    await bench.reset()
    return bench, job, registers, result


@cocotb.test()
async def trains_under_backpressure(dut):
    bench, job, registers, result = await made(dut)
    for percent in (0, 40):
        bench.stall(percent, seed=percent + 1)
        result[:] = bytes(len(result))
        await bench.start(registers)
        await bench.finish()
        assert bytes(result) == job["result"].tobytes()
        assert await bench.read("count_tuples") == int(job["tuples"])


@cocotb.test()
async def reset_in_the_middle(dut):
    bench, job, registers, result = await made(dut)
    for cycles in (60, 200, 400):
        await bench.start(registers)
        await ClockCycles(dut.clk, cycles)
        if cycles == 200:
            await bench.reset()
        else:
            await bench.write("control", Control.RESET)
            await ClockCycles(dut.clk, 300)
    assert bytes(result) == bytes(len(result))  # nothing partial was published
    await bench.start(registers)
    await bench.finish()
    assert bytes(result) == job["result"].tobytes()


@cocotb.test()
async def read_error(dut):
    bench, job, registers, result = await made(dut)
    address = registers["page_address0"] + 1024
    bench.memory.poison.add(address)
    await bench.start(registers)
    await bench.finish()
    assert await bench.read("error_code") == ErrorCode.BUS_READ
    assert bytes(result) == bytes(len(result))
    bench.memory.poison.clear()
    await bench.start(registers)
    await bench.finish()
    assert bytes(result) == job["result"].tobytes()
