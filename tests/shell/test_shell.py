"""hdl/shell/shell.py in Amaranth's simulator: how long an engine is held in reset after a run."""

from __future__ import annotations

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from penstock.hdl.shell import Shell, engine_members
from penstock.models.errors import ErrorCode
from penstock.models.shell import Control, EngineRegister, RegisterMap, Status

DEPTH = 13


class Lingering(wiring.Component):
    """While it runs valid bits enter a pipeline without reset. `ends` = 1: fails in cycle 20, 2: ends well there, with the pipeline full; 0: goes on.

    Fails at once if it is started with something in its pipeline.
    """

    def __init__(self, settling: int) -> None:
        self.settling, self.register_map = settling, RegisterMap([EngineRegister("ends", 2)])
        super().__init__(engine_members(self.register_map, []))

    def elaborate(self, platform):
        m = Module()
        running, cycle, pipeline = Signal(), Signal(8), Signal(DEPTH, reset_less=True)
        m.d.sync += [pipeline.eq(Cat(running, pipeline)), cycle.eq(cycle + running)]
        stale = Signal()
        m.d.comb += [
            self.error.eq(stale | ((cycle == 20) & (self.registers.ends == 1))),
            self.done.eq((cycle == 20) & (self.registers.ends == 2)),
            self.report.code.eq(ErrorCode.BUS_READ.value),
        ]
        with m.If(self.start):
            m.d.sync += [running.eq(1), stale.eq(pipeline.any())]
        return m


def run(settling: int, ends: int, stop: int = 0) -> tuple[int, bool]:
    """Return how many cycles a run that is stopped in cycle `stop` (0: never) keeps the shell busy, and whether another start finds the pipeline empty."""
    engine = Lingering(settling)
    dut = Shell(engine, engine.register_map)
    offset, found = {r.name: r.offset for r in dut.register_map.registers}, []

    async def write(ctx, name: str, value: int) -> None:
        for member, given in (
            ("awaddr", offset[name]),
            ("awvalid", 1),
            ("wdata", value),
            ("wstrb", 15),
            ("wvalid", 1),
            ("bready", 1),
        ):
            ctx.set(getattr(dut, f"s_axil_{member}"), given)
        waiting = {"aw", "w"}
        while waiting:
            taken = {
                channel for channel in waiting if ctx.get(getattr(dut, f"s_axil_{channel}ready"))
            }
            await ctx.tick()
            for channel in taken:
                ctx.set(getattr(dut, f"s_axil_{channel}valid"), 0)
            waiting -= taken
        while not ctx.get(dut.s_axil_bvalid):
            await ctx.tick()
        await ctx.tick()

    async def status(ctx) -> int:
        ctx.set(dut.s_axil_araddr, offset["status"])
        ctx.set(dut.s_axil_arvalid, 1)
        ctx.set(dut.s_axil_rready, 1)
        while not ctx.get(dut.s_axil_arready):
            await ctx.tick()
        await ctx.tick()
        ctx.set(dut.s_axil_arvalid, 0)
        while not ctx.get(dut.s_axil_rvalid):
            await ctx.tick()
        value = ctx.get(dut.s_axil_rdata)
        await ctx.tick()
        return value

    async def bench(ctx) -> None:
        await write(ctx, "ends", ends)
        await write(ctx, "control", Control.START)
        assert ctx.get(dut.busy)
        if stop:
            await ctx.tick().repeat(stop)
            await write(ctx, "control", Control.RESET)
        after = 0
        while ctx.get(dut.busy):
            await ctx.tick()
            after += 1
            assert after < 100
        # the least that a host can wait before it starts again
        await write(ctx, "control", Control.START)
        for _ in range(2):
            value = await status(ctx)
        found.append((after, not value & Status.ERROR))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found[0]


@pytest.mark.parametrize("stop", [1, 5, 30])
def test_a_stopped_run_leaves_nothing(stop):
    assert run(DEPTH, 0, stop)[1]


def test_a_failed_run_leaves_nothing():
    assert run(DEPTH, 1)[1] and not run(1, 1)[1]


def test_a_run_that_ends_well_is_not_waited_for():
    """Its pipelines are empty by themselves: the shell is at rest as soon as with an engine that has nothing to settle."""
    assert run(DEPTH, 2)[0] == run(1, 2)[0] == run(DEPTH, 1)[0] - (DEPTH - 1)
