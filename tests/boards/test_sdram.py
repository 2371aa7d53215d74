"""A device whose memory is SDRAM: requests on its serial pins reach the chip, which checks its rules; the ULX3S is wired so."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

import penstock.api as api
from penstock.boards.build import elaborate
from penstock.boards.catalogue import boards
from penstock.boards.pll import Unreachable
from penstock.boards.top import clock_setting
from penstock.hdl.memory import SdramController
from penstock.hdl.soc import Soc
from penstock.models.link.device import Device, Identity
from penstock.models.link.frames import Request
from penstock.models.memory.sdram import CHIPS, Chip, Command
from testbench.link_cases import Words
from testbench.sdram import Sdram
from testbench.toy import CopyEngine

CLOCK_HZ = 60_000_000
DIVISOR = 4
QUICK = [replace(chip, power_up=2_000.0) for chip in CHIPS.values()]


@pytest.mark.parametrize("quick", QUICK, ids=CHIPS)
def test_memory_windows_through_the_chip(quick: Chip) -> None:
    """Reads and writes of any alignment, at the ends and beyond, between refreshes: the answers of the golden device."""
    engine = CopyEngine(bus_bytes=8)
    soc = Soc(
        engine,
        engine.register_map,
        memory_bytes=quick.bytes,
        clock_hz=CLOCK_HZ,
        baud=CLOCK_HZ // DIVISOR,
        memory="SDRAM",
    )
    m = Module()
    m.submodules.soc = soc
    m.submodules.controller = controller = SdramController(soc.port, clock_hz=CLOCK_HZ, chip=quick)
    connect(m, soc.memory, controller.bus)
    chip = Sdram(quick, CLOCK_HZ)
    golden = Device(Identity(8, quick.bytes, CLOCK_HZ), Words(0, 4), Words(quick.bytes, 8))
    rng = np.random.default_rng(4)
    requests = []
    for k in range(4):
        address = int(rng.choice([0, 1020, quick.bytes // 2 - 3, quick.bytes - 9])) + int(
            rng.integers(0, 6)
        )
        data = rng.bytes(int(rng.integers(1, 24)))
        requests += [
            Request(k, 2, address // 8 * 8, 0, bytes(40)),
            Request(k, 2, address, 0, data),
            Request(k, 2, address, len(data)),
        ]
    back, finished = bytearray(), []

    async def host(ctx):
        for request in requests:
            for byte in request.encode():
                for bit in (0, *(byte >> k & 1 for k in range(8)), 1):
                    ctx.set(soc.rx, bit)
                    await ctx.tick().repeat(DIVISOR)
            expected = golden.receive(request.encode())
            while len(back) < len(expected):
                await ctx.tick()
            assert bytes(back) == expected, request
            back.clear()
        finished.append(True)

    async def listen(ctx):
        bits, wait = [], 0
        while not finished:
            (tx,) = (await ctx.tick().sample(soc.tx))[2:]
            wait = max(wait - 1, 0)
            if not bits and not tx:  # a start bit's edge: its middle comes half a bit later
                bits, wait = [0], DIVISOR + DIVISOR // 2 - 1
            elif bits and not wait:
                bits.append(tx)
                wait = DIVISOR
                if len(bits) == 10:
                    back.append(sum(bit << k for k, bit in enumerate(bits[1:9])))
                    bits = []

    async def attached(ctx):
        pins = controller.pins
        async for _, _, we, cas, ras, cs, bank, address, mask, driven, out in ctx.tick().sample(
            pins.we_n,
            pins.cas_n,
            pins.ras_n,
            pins.cs_n,
            pins.ba,
            pins.a,
            pins.dqm,
            pins.dq_oe,
            pins.dq_o,
        ):
            given = chip.edge(
                Command.NOP if cs else Command(ras << 2 | cas << 1 | we),
                bank,
                address,
                mask,
                out if driven else None,
            )
            ctx.set(pins.dq_i, 0x5555 if given is None else given)

    sim = Simulator(m)
    sim.add_clock(1 / CLOCK_HZ)
    sim.add_process(attached)
    sim.add_testbench(listen)
    sim.add_testbench(host)
    sim.run()
    assert chip.refreshes > 8 + 2


@pytest.mark.parametrize(
    ("name", "size", "pins", "free"),
    [("ulx3s-25f-sdram", 32, 39, "dqm"), ("colorlight-i5-sdram", 8, 49, "a")],
)
def test_the_board(tmp_path: Path, name: str, size: int, pins: int, free: str) -> None:
    """The chip's pins are the board's, its clock leads by a quarter of a cycle, and its bytes are there."""
    board = boards()[name]
    assert (board.memory.kind, board.memory.bytes, board.sdram.bytes) == (
        "SDRAM",
        *[size << 20] * 2,
    )
    (tmp_path / "k.psk").write_text(
        "kernel f(x: input[2], y: output, w: model[2])\n w <- w - merge((sum(w * x) - y) * x, 4)\n"
    )
    design = api.compile(tmp_path / "k.psk", board, format="fixed:4,4")
    setting = clock_setting(board, 50.0)
    assert setting is not None and clock_setting(boards()["ulx3s-25f"], 25.0) is None
    with pytest.raises(Unreachable, match="runs at 40 to 100 MHz, not 25"):
        clock_setting(board, 25.0)
    lean = replace(design.plan.striders, lean=True, memory_bytes=board.memory.bytes)
    design = replace(design, plan=replace(design.plan, striders=lean))
    with warnings.catch_warnings():  # the boards' package has pins in Amaranth's older manner
        warnings.simplefilter("ignore", DeprecationWarning)
        made = elaborate(design.hardware, board, setting=setting)
    assert made.constraints.count("sdram_0__") == 2 * pins and all(
        f'"sdram_0__{each}' in made.constraints for each in ("clk", "dq", free)
    )
    divide = dict(setting.parameters)["CLKOP_DIV"]
    assert f"parameter \\CLKOS_CPHASE {divide // 2 + 3 * divide // 4}" in made.rtlil
