"""A SoC of LiteX without a CPU that holds exported cores, and a bus master that plays their recorded runs.

    python litex_soc.py CORE [CORE ...]      writes soc.v, its memories' files and sources.f into the current folder

Each core has its registers, and RAM of its own for its memory ports. The simulation prints PASS, or FAIL with the
step, and ends.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from litex.build.generic_platform import Pins
from litex.build.sim import SimPlatform
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import wishbone
from migen import FSM, ClockDomain, Display, Finish, If, Memory, NextState, NextValue, Signal

from testbench.recorded import CHECK, COMPARE, PUT, SET, WAIT, Recorded

WRITE, READ, POLL = 0, 1, 2
RAM, REGISTERS, SPACING = 0x1000_0000, 0x9000_0000, 0x0100_0000


class Player(LiteXModule):
    """Carries out steps (kind, address, data, mask): writes, and reads that repeat until they are equal (POLL), or must be at once (READ)."""

    def __init__(self, steps: list[tuple[int, int, int, int]]) -> None:
        self.bus = wishbone.Interface(data_width=32, adr_width=30, addressing="word")
        words = [kind << 96 | at << 64 | data << 32 | mask for kind, at, data, mask in steps]
        memory = Memory(98, len(words), init=words)
        port = memory.get_port(async_read=True)
        self.specials += memory, port
        got = Signal(32)
        at, step = Signal(max=len(words) + 1), port.dat_r
        kind, address, data, mask = step[96:], step[64:96], step[32:64], step[:32]
        self.fsm = fsm = FSM(reset_state="STEP")
        self.comb += port.adr.eq(at)
        equal = (self.bus.dat_r ^ data) & mask == 0
        fsm.act(
            "STEP",
            self.bus.stb.eq(1),
            self.bus.cyc.eq(1),
            self.bus.adr.eq(address[2:]),
            self.bus.dat_w.eq(data),
            self.bus.we.eq(kind == WRITE),
            self.bus.sel.eq(0b1111),
            If(
                self.bus.ack,
                NextValue(got, self.bus.dat_r),
                NextState("NEXT"),
                If((kind != WRITE) & ~equal, NextState("UNEQUAL")),
            ),
        )
        fsm.act("UNEQUAL", If(kind == READ, NextState("FAIL")).Else(NextState("STEP")))
        fsm.act(
            "NEXT",
            NextValue(at, at + 1),
            If(at == len(words) - 1, NextState("PASS")).Else(NextState("STEP")),
        )
        fsm.act("PASS", NextState("PASS"))
        fsm.act("FAIL", NextState("FAIL"))
        self.sync += [
            If(fsm.ongoing("PASS"), Display("PASS: %d steps", at), Finish()),
            If(fsm.ongoing("FAIL"), Display("FAIL: step %d, %x", at, got), Finish()),
        ]


def steps_of(core: Recorded, ram: int, registers: int) -> list[tuple[int, int, int, int]]:
    """Return the recorded run of a core, without the cycles, which are those of another memory."""
    steps = []
    for step in core.steps:
        if step.kind in (PUT, COMPARE):
            assert step.at % 4 == 0
            for k in range(0, len(step.data), 4):
                word = step.data[k : k + 4]
                at, mask = ram + step.at + k, (1 << 8 * len(word)) - 1
                kind = WRITE if step.kind == PUT else READ
                steps.append((kind, at, int.from_bytes(word, "little"), mask))
        elif step.kind == SET:
            steps.append((WRITE, registers + step.at, step.value, 0))
        elif step.kind == CHECK:
            steps.append((READ, registers + step.at, step.value, 0xFFFFFFFF))
        elif step.kind == WAIT:
            steps.append((POLL, registers + core.registers["status"], 1, 1))
    return steps


def main(*cores: str) -> None:
    recorded = [Recorded(Path(core)) for core in cores]
    width = 8 * max(port["bytes"] for run in recorded for port in run.ports)
    platform = SimPlatform("SIM", [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1))])
    soc = SoCCore(
        platform, 50_000_000, cpu_type=None, with_uart=False, with_timer=False, with_ctrl=False,
        integrated_sram_size=0, ident="", bus_timeout=None, bus_data_width=width,
    )  # fmt: skip
    soc.cd_sys = ClockDomain()
    soc.comb += soc.cd_sys.clk.eq(platform.request("sys_clk"))
    soc.comb += soc.cd_sys.rst.eq(platform.request("sys_rst"))
    steps = []
    for k, run in enumerate(recorded):
        sys.path.insert(0, str(run.folder / "litex"))
        module = import_module(run.folder.name)
        core = getattr(module, module.__all__[0])(platform)
        soc.add_module(f"core{k}", core)
        registers, ram = REGISTERS + k * SPACING, RAM + k * SPACING
        region = SoCRegion(origin=registers, size=0x1000, cached=False)
        soc.bus.add_slave(f"core{k}", core.control, region)
        soc.add_ram(f"ram{k}", origin=ram, size=0x10000)
        for port in run.ports:
            bus = getattr(core, port["name"])
            soc.bus.add_master(f"core{k}_{port['name']}", bus, SoCRegion(origin=ram, size=0x10000))
        steps += steps_of(run, ram, registers)
    soc.player = Player(steps)
    soc.bus.add_master("player", soc.player.bus)
    soc.finalize()
    platform.get_verilog(soc, name="soc").write("soc.v")
    Path("sources.f").write_text("".join(f"{source[0]}\n" for source in platform.sources))


if __name__ == "__main__":
    main(*sys.argv[1:])
