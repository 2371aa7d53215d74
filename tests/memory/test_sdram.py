# amaranth: UnusedElaboratable=no
"""hdl/memory/sdram.py on the chip of testbench/sdram.py, which checks its own rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.hdl.memory import AXI4
from penstock.hdl.memory.sdram import SdramController
from penstock.models.memory.sdram import CHIP, Command, SdramError
from testbench.pysim import simulate
from testbench.sdram import Sdram

QUICK = replace(CHIP, power_up=2_000.0)


def attach(dut: SdramController, chip: Sdram):
    """The chip on the controller's pins."""

    async def process(ctx):
        pins = dut.pins
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
            command = Command.NOP if cs else Command(ras << 2 | cas << 1 | we)
            back = chip.edge(command, bank, address, mask, out if driven else None)
            ctx.set(pins.dq_i, 0x5555 if back is None else back)

    return process


@pytest.mark.parametrize(
    ("seed", "clock_hz", "bus_bytes"),
    [
        (0, 25_000_000, 8),
        (1, 60_000_000, 8),
        (2, 60_000_000, 4),
        (3, 100_000_000, 16),
        (4, 133_000_000, 8),
    ],
)
def test_random_bursts(seed: int, clock_hz: int, bus_bytes: int) -> None:
    """Reads see what was written, bursts cross rows, refreshes come in time whatever the manager does, all rules kept."""
    rng = np.random.default_rng(seed)
    dut = SdramController(AXI4(data_bytes=bus_bytes), clock_hz=clock_hz, chip=QUICK)
    chip = Sdram(QUICK, clock_hz)
    bus = dut.bus
    expected: dict[int, int] = {}
    bases = [
        0,
        1024 - 4 * bus_bytes,
        4096 - 40 * bus_bytes,
        QUICK.bytes - 4096,
        QUICK.bytes // 2 + 1024,
    ]

    async def write(ctx, address, words, strobes):
        ctx.set(bus.awaddr, address)
        ctx.set(bus.awlen, len(words) - 1)
        ctx.set(bus.awvalid, 1)
        await ctx.tick().until(bus.awready)
        ctx.set(bus.awvalid, 0)
        for k, word in enumerate(words):
            for _ in range(int(rng.integers(0, 2) * rng.integers(0, 300 if k == 3 else 3))):
                await ctx.tick()
            ctx.set(bus.wdata, word)
            ctx.set(bus.wstrb, strobes[k])
            ctx.set(bus.wlast, k == len(words) - 1)
            ctx.set(bus.wvalid, 1)
            await ctx.tick().until(bus.wready)
            ctx.set(bus.wvalid, 0)
            for lane in range(bus_bytes):
                if strobes[k] >> lane & 1 and address < QUICK.bytes:
                    expected[address + k * bus_bytes + lane] = word >> 8 * lane & 0xFF
        ctx.set(bus.bready, 1)
        (response,) = await ctx.tick().sample(bus.bresp).until(bus.bvalid)
        ctx.set(bus.bready, 0)
        assert response == (2 if address >= QUICK.bytes else 0)

    async def read(ctx, address, count):
        ctx.set(bus.araddr, address)
        ctx.set(bus.arlen, count - 1)
        ctx.set(bus.arvalid, 1)
        await ctx.tick().until(bus.arready)
        ctx.set(bus.arvalid, 0)
        slow = rng.random() < 0.3
        for k in range(count):
            for _ in range(int(rng.integers(0, 30)) if slow else 0):
                await ctx.tick()
            ctx.set(bus.rready, 1)
            word, response, last = (
                await ctx.tick().sample(bus.rdata, bus.rresp, bus.rlast).until(bus.rvalid)
            )
            ctx.set(bus.rready, 0)
            assert (response, last) == (2 if address >= QUICK.bytes else 0, k == count - 1)
            if not response:
                for lane in range(bus_bytes):
                    place = address + k * bus_bytes + lane
                    assert word >> 8 * lane & 0xFF == expected.get(place, (0xAD, 0xDE)[place % 2])

    async def bench(ctx):
        for k in range(24):
            length = int(rng.choice([1, 2, 9, 40]))
            base = int(rng.choice(bases)) if k % 8 else QUICK.bytes
            address = base + int(rng.integers(0, 8)) * bus_bytes
            length = min(length, (4096 - address % 4096) // bus_bytes)
            if rng.random() < 0.5:
                strobes = [
                    (1 << bus_bytes) - 1
                    if rng.random() < 0.7
                    else int(rng.integers(1 << bus_bytes))
                    for _ in range(length)
                ]
                await write(
                    ctx,
                    address,
                    [int.from_bytes(rng.bytes(bus_bytes), "little") for _ in range(length)],
                    strobes,
                )
            else:
                await read(ctx, address, length)
        await ctx.tick().repeat(2 * chip.rules.interval)  # refreshes go on at rest

    simulate(dut, bench, background=(attach(dut, chip),), period=1 / clock_hz)
    assert chip.refreshes >= 8 + chip.cycle // (chip.rules.interval + 1) - 2


def chip_after_setup() -> Sdram:
    chip = Sdram(replace(CHIP, power_up=0.0), 100_000_000)
    chip.edge(Command.PRECHARGE, 0, 1 << 10, 0, None)
    idle(chip, chip.rules.rp - 1)
    for _ in range(8):
        chip.edge(Command.REFRESH, 0, 0, 0, None)
        idle(chip, chip.rules.rfc - 1)
    chip.edge(Command.MODE, 0, 3 << 4, 0, None)
    idle(chip, 1)
    return chip


def idle(chip: Sdram, count: int) -> None:
    for _ in range(count):
        chip.edge(Command.NOP, 0, 0, 0, None)


A, R, W, P, F = Command.ACTIVATE, Command.READ, Command.WRITE, Command.PRECHARGE, Command.REFRESH


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(A, 0), (R, 0)], "tRCD"),
        ([(A, 2), (P, 0)], "tRAS"),
        ([(A, 3), (W, 0), (P, 0)], "tWR"),
        ([(A, 5), (P, 0), (A, 3)], "tRP|tRC"),
        ([(A, 9), (P, 0), (A, 0)], "tRP"),
        ([(R, 0)], "closed bank"),
        ([(A, 3), (A, 0)], "open bank"),
        ([(A, 9), (F, 0)], "open bank"),
        ([(F, 2), (A, 0)], "before the command before it is over"),
        ([(Command.NOP, 900)], "no refresh"),
        ([(A, 3), (R, 2), (W, 0)], "both ends drive"),
    ],
)
def test_the_chip_notices(steps: list[tuple[Command, int]], message: str) -> None:
    """Each rule broken once: the command, and the idle cycles after it."""
    chip = chip_after_setup()
    with pytest.raises(SdramError, match=message):
        for command, pause in steps:
            chip.edge(command, 0, 0, 0, 0 if command is W else None)
            idle(chip, pause)


def test_set_up_is_checked() -> None:
    chip = Sdram(CHIP, 100_000_000)
    with pytest.raises(SdramError, match="power-up"):
        chip.edge(Command.PRECHARGE, 0, 1 << 10, 0, None)
    chip = Sdram(replace(CHIP, power_up=0.0), 100_000_000)
    with pytest.raises(SdramError, match="before the chip is set up"):
        chip.edge(A, 0, 0, 0, None)
    with pytest.raises(ValueError, match="at most 133 MHz"):
        CHIP.cycles(200_000_000)
