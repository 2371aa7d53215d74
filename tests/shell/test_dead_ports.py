"""hdl/shell/shell.py before memories that are slow in legal ways, and before broken ones: every run ends, and every soft reset."""

from __future__ import annotations

import pytest
from amaranth.hdl import Signal

from penstock.hdl.shell import Shell, shell
from penstock.models.errors import ErrorCode
from penstock.models.shell import Control, Interrupt, Status
from testbench.pysim import simulate
from testbench.shell_host import Host
from testbench.subordinate import ORDERS, Subordinate
from testbench.toy import CopyEngine

WORDS, WATCHDOG = 70, 40
REGISTERS = {"source": 0x0FC0, "target": 0x4FC0, "words": WORDS, "watchdog": WATCHDOG}
#: a channel, and after how many of its transfers it falls silent
SILENT = [("ar", 0), ("r", 9), ("aw", 0), ("w", 0), ("w", 11), ("b", 0)]


class Pins:
    """A shell's first memory port under the names of the protocol."""

    def __init__(self, dut: Shell) -> None:
        self.dut = dut

    def __getattr__(self, name: str) -> Signal:
        return getattr(self.dut, f"m0_axi_{name}")


def simulated(bench, **memory) -> Subordinate:
    engine = CopyEngine(bus_bytes=4, address_width=16)
    dut = Shell(engine, engine.register_map)
    subordinate = Subordinate(Pins(dut), **memory)

    async def hosted(ctx) -> None:
        host = Host(ctx, dut)
        for name, value in {**REGISTERS, "interrupt": Interrupt.ENABLE}.items():
            await host.write(name, value)
        await host.write("control", Control.START)
        await bench(host)

    simulate(dut, hosted, background=(subordinate.serve,))
    return subordinate


@pytest.mark.parametrize("order", ORDERS)
def test_a_run_ends_however_addresses_and_data_wait_for_each_other(order):
    seen = []

    async def bench(host: Host) -> None:
        await host.rest(2000)
        seen.append([await host.read(name) for name in ("status", "error_code")])

    memory = simulated(bench, order=order)
    assert seen == [[Status.IDLE | Status.DONE, 0]]
    source, target = (memory.content[at : at + 4 * WORDS] for at in (0x0FC0, 0x4FC0))
    assert (target == source ^ 0xA5).all()


@pytest.mark.parametrize(
    "stop",
    [pytest.param(at, marks=pytest.mark.long if at != 8 else ()) for at in (3, 8, 9, 10, 30)],
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_run_that_is_stopped_ends_its_bursts(order, stop):
    """Whatever was begun is finished, with strobes of 0; the next run is as if nothing had been."""
    seen = []

    async def bench(host: Host) -> None:
        await host.ctx.tick().repeat(stop)
        await host.write("control", Control.RESET)
        await host.rest(800)
        seen.append(await host.read("status"))
        await host.write("control", Control.START)
        await host.rest(2000)
        seen.append(await host.read("status"))

    memory = simulated(bench, order=order, pace=0.3)
    assert seen == [Status.IDLE, Status.IDLE | Status.DONE]
    assert memory.complete == memory.moved["aw"] == memory.answered


@pytest.mark.parametrize(
    ("channel", "after", "reset"),
    [
        *((*silent, False) for silent in SILENT),
        *(pytest.param(*silent, True, marks=pytest.mark.long) for silent in SILENT),
        ("babble", 0, False),
        ("babble", 0, True),
        ("aw", 1, True),
        ("unasked", 0, False),
        ("unasked", 0, True),
    ],
)
def test_a_memory_that_falls_silent_hangs_nothing(channel, after, reset):
    seen = []

    async def bench(host: Host) -> None:
        if reset:
            await host.ctx.tick().repeat(25)
            await host.write("control", Control.RESET)
        await host.rest(4 * WATCHDOG + 600)
        names = ("status", "error_code", "interrupt")
        seen.append([await host.read(name) for name in names])
        await host.write("interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        # a start is refused, a soft reset ends at once, and neither brings the port back
        await host.write("control", Control.START)
        await host.rest(4)
        seen.append([await host.read(name) for name in names])
        await host.write("control", Control.RESET)
        await host.rest(4)
        seen.append([await host.read(name) for name in ("status", "error_code")])

    simulated(bench, order="neither waits", deaf=channel, after=after)
    dead, pending = Status.IDLE | Status.DEAD, Interrupt.ENABLE | Interrupt.PENDING
    ends = [dead | Status.ERROR, ErrorCode.WATCHDOG, pending]
    if channel in ("babble", "unasked"):  # all that was asked for comes, and more; or what was not
        ends = [dead | Status.DONE, 0, pending]
    assert seen == [
        [dead, 0, Interrupt.ENABLE] if reset else ends,
        [dead | Status.ERROR, ErrorCode.DEAD_PORT, pending],
        [dead, 0],
    ]


def test_without_a_watchdog_a_soft_reset_waits_for_a_number_of_cycles(monkeypatch):
    """So many that no memory is silent for as long."""
    monkeypatch.setattr(shell, "PATIENCE", 90)
    took = []

    async def bench(host: Host) -> None:
        await host.write("watchdog", 0)
        await host.ctx.tick().repeat(500)
        assert await host.read("status") == Status.BUSY
        await host.write("control", Control.RESET)
        took.append(await host.rest(200))
        assert await host.read("status") == Status.IDLE | Status.DEAD

    simulated(bench, order="neither waits", deaf="b")
    assert 85 < took[0] < 100
