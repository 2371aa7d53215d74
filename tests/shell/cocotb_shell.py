"""cocotb tests on the toy engine's top; run by test_cocotb.py."""

import random

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from penstock.models.errors import ErrorCode
from penstock.models.shell import IDENTITY, Control, Status
from testbench.cocotb.bench import Bench

SOURCE, TARGET, SIZE = 0x10_0000, 0x2_0000_0000, 1 << 14


async def made(dut):
    bench = Bench(dut)
    source = bytearray(random.Random(1).randbytes(SIZE))
    target = bytearray(SIZE)
    bench.memory.map(SOURCE, source)
    bench.memory.map(TARGET, target)
    await bench.reset()
    return bench, source, target


def copied(source, start, count, key=0xA5):
    return bytes(byte ^ key for byte in source[start : start + count])


@cocotb.test()
async def registers(dut):
    bench, _, _ = await made(dut)
    for percent in (0, 50):
        bench.stall(percent)
        assert await bench.read("identity") == IDENTITY
        assert await bench.read("design") == bench.register_map.design
        assert await bench.read("status") == Status.IDLE
        value = 0x12_3456_7890 + percent
        await bench.write("source", value)
        assert await bench.read("source") == value
        # byte strobes: one byte in the middle
        place = bench.register_map["key"].offset
        await bench.write("key", 0x11223344)
        await bench.control.write(place + 1, b"\xee")
        assert await bench.read("key") == 0x1122EE44
        assert (await bench.control.read(0xFF0, 4)).resp == AxiResp.DECERR
        assert (await bench.control.write(0xFF0, b"abcd")).resp == AxiResp.DECERR
        assert (await bench.control.write(0, b"abcd")).resp == AxiResp.SLVERR


@cocotb.test()
async def copy_under_backpressure(dut):
    bench, source, target = await made(dut)
    for percent in (0, 30, 70):
        bench.stall(percent, seed=percent + 1)
        for words in (1, 16, 333):
            for k in range(SIZE):
                target[k] = 0
            await bench.start(
                {"source": SOURCE + 40, "target": TARGET + 4000, "stride": 4096, "words": words}
            )
            await bench.finish()
            assert await bench.read("status") == Status.IDLE | Status.DONE
            expect = bytearray(SIZE)
            for k in range(len(bench.slaves)):
                expect[4000 + 4096 * k : 4000 + 4096 * k + 8 * words] = copied(
                    source, 40 + 4096 * k, 8 * words
                )
            assert target == expect
            assert await bench.read("count_words_copied") == words * len(bench.slaves)


@cocotb.test()
async def hard_reset_in_the_middle(dut):
    bench, source, target = await made(dut)
    values = {"source": SOURCE, "target": TARGET, "stride": 4096, "words": 100}
    for wait in (3, 17, 40, 90):
        await bench.start(values)
        await ClockCycles(dut.clk, wait)
        await bench.reset()
        assert await bench.read("status") == Status.IDLE
        assert await bench.read("words") == 0
    await bench.start(values)
    await bench.finish()
    assert target[:800] == copied(source, 0, 800)


@cocotb.test()
async def soft_reset_in_the_middle(dut):
    bench, source, target = await made(dut)
    values = {"source": SOURCE, "target": TARGET, "stride": 4096, "words": 300}
    for percent in (0, 60):
        bench.stall(percent, seed=7)
        for wait in (1, 9, 33, 120):
            await bench.start(values)
            await ClockCycles(dut.clk, wait)
            await bench.write("control", Control.RESET)
            while await bench.read("status") != Status.IDLE:
                pass
        for k in range(SIZE):
            target[k] = 0
        await bench.start(values)
        await bench.finish()
        assert await bench.read("status") == Status.IDLE | Status.DONE
        assert target[:2400] == copied(source, 0, 2400)


@cocotb.test()
async def read_error(dut):
    bench, source, target = await made(dut)
    values = {"source": SOURCE, "target": TARGET, "stride": 4096, "words": 300}
    bench.memory.poison.add(SOURCE + 808)
    await bench.start(values)
    await bench.finish()
    assert await bench.read("status") == Status.IDLE | Status.ERROR
    assert await bench.read("error_code") == ErrorCode.BUS_READ
    bench.memory.poison.clear()
    await bench.start(values)
    await bench.finish()
    assert await bench.read("status") == Status.IDLE | Status.DONE
    assert target[:2400] == copied(source, 0, 2400)


@cocotb.test()
async def write_error(dut):
    bench, _, _ = await made(dut)
    bench.memory.poison.add(TARGET + 8)
    await bench.start({"source": SOURCE, "target": TARGET, "stride": 4096, "words": 30})
    await bench.finish()
    assert await bench.read("status") == Status.IDLE | Status.ERROR
    assert await bench.read("error_code") == ErrorCode.BUS_WRITE
