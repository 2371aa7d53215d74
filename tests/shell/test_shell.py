"""hdl/shell/shell.py in Amaranth's simulator: from which cycle an end counts, how long an engine is held in reset after a run."""

from __future__ import annotations

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from penstock.hdl.shell import Shell, engine_members
from penstock.models.errors import ErrorCode
from penstock.models.shell import Control, EngineRegister, Interrupt, Legal, RegisterMap, Status
from testbench.pysim import simulate
from testbench.shell_host import Host

DEPTH = 13


class Lingering(wiring.Component):
    """While it runs valid bits enter a pipeline without reset. `ends` = 1: fails in cycle `at`, 2: ends well there, 3: both; 0: goes on.

    Fails at once if it is started with something in its pipeline.
    """

    def __init__(self, settling: int, at: int = 20) -> None:
        self.at, self.settling = at, settling
        self.register_map = RegisterMap([EngineRegister("ends", 2)])
        super().__init__(engine_members(self.register_map, []))

    def elaborate(self, platform):
        m = Module()
        running, cycle, pipeline = Signal(), Signal(8), Signal(DEPTH, reset_less=True)
        now = (self.start | running) & (cycle == self.at)
        m.d.sync += [
            pipeline.eq(Cat(running, pipeline)),
            cycle.eq(cycle + (self.start | running)),
        ]
        stale = Signal()
        m.d.comb += [
            self.error.eq(stale | (now & self.registers.ends[0])),
            self.done.eq(now & self.registers.ends[1]),
            self.report.code.eq(ErrorCode.BUS_READ.value),
        ]
        with m.If(self.start):
            m.d.sync += [running.eq(1), stale.eq(pipeline.any())]
        return m


def simulated(dut: Shell, bench) -> None:
    async def hosted(ctx) -> None:
        await bench(Host(ctx, dut))

    simulate(dut, hosted)


def run(settling: int, ends: int, stop: int = 0) -> tuple[int, bool]:
    """Return how many cycles a run that is stopped in cycle `stop` (0: never) keeps the shell busy, and whether another start finds the pipeline empty."""
    engine = Lingering(settling)
    dut, found = Shell(engine, engine.register_map), []

    async def bench(host: Host) -> None:
        await host.write("ends", ends)
        await host.write("control", Control.START)
        assert host.ctx.get(dut.busy)
        if stop:
            await host.ctx.tick().repeat(stop)
            await host.write("control", Control.RESET)
        after = await host.rest()
        # the least that a host can wait before it starts again
        await host.write("control", Control.START)
        for _ in range(2):
            value = await host.read("status")
        found.append((after, not value & Status.ERROR))

    simulated(dut, bench)
    return found[0]


@pytest.mark.parametrize("stop", [1, 5, 30])
def test_a_stopped_run_leaves_nothing(stop):
    assert run(DEPTH, 0, stop)[1]


def test_a_failed_run_leaves_nothing():
    assert run(DEPTH, 1)[1] and not run(1, 1)[1]


def test_a_run_that_ends_well_is_not_waited_for():
    """Its pipelines are empty by themselves: the shell is at rest as soon as with an engine that has nothing to settle."""
    assert run(DEPTH, 2)[0] == run(1, 2)[0] == run(DEPTH, 1)[0] - (DEPTH - 1)


@pytest.mark.parametrize("ends", [1, 2, 3], ids=["error", "done", "both"])
@pytest.mark.parametrize("at", [0, 1, 20])
def test_an_end_counts_from_cycle_0(at, ends):
    """`error` wins; the interrupt comes, and a run after it ends the same way."""
    engine = Lingering(3, at)
    dut, seen = Shell(engine, engine.register_map), []

    async def bench(host: Host) -> None:
        await host.write("ends", ends)
        await host.write("interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        for _ in range(2):
            await host.write("control", Control.START)
            await host.rest()
            names = ("status", "cycles", "error_code", "interrupt")
            seen.append([await host.read(name) for name in names])

    simulated(dut, bench)
    code = ErrorCode.BUS_READ if ends & 1 else 0
    end = Status.ERROR if ends & 1 else Status.DONE
    assert seen == [[Status.IDLE | end, at, code, Interrupt.ENABLE | Interrupt.PENDING]] * 2


def test_a_start_with_values_that_are_not_legal():
    """It ends in cycle 0, and the engine sees nothing of it; bits beyond a width stay in mind until all bytes are written."""
    engine = Lingering(3, 5)
    legal = Legal(least=1, most=2)
    engine.register_map = known = RegisterMap([EngineRegister("ends", 2, legal=legal)])
    dut, seen = Shell(engine, known), []

    async def bench(host: Host) -> None:
        for value, strobe in ((0, 15), (2, 15), (3, 15), (6, 15), (2, 1), (1 << 31, 8), (2, 15)):
            await host.write("ends", value, strobe=strobe)
            await host.write("control", Control.START)
            await host.rest()
            names = ("error_code", "error_item", "cycles")
            seen.append([await host.read(name) for name in names])

    simulated(dut, bench)
    refused, done = [ErrorCode.REGISTER, known["ends"].offset, 0], [0, 0, 5]
    assert seen == [refused, done, refused, refused, refused, refused, done]


@pytest.mark.parametrize("ends", [1, 2], ids=["error", "done"])
def test_reset_clears_done_and_error_whenever_it_comes(ends):
    """Also in the last cycle of a run, in which the engine has been reset and the shell is busy still."""
    engine = Lingering(3)
    dut, left = Shell(engine, engine.register_map), {}

    async def bench(host: Host) -> None:
        await host.write("ends", ends)
        for late in range(40):
            await host.write("control", Control.START)
            await host.write("control", Control.RESET, late=late)
            await host.rest()
            left[late] = [await host.read(name) for name in ("status", "error_code")]

    simulated(dut, bench)
    assert left == {late: [Status.IDLE, 0] for late in range(40)}
