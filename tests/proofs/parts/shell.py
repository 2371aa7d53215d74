# amaranth: UnusedElaboratable=no
"""Shell around any engine: start, stop, reset, errors, interrupt; from every reachable state RESET
leads to rest.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from harness import Bench, Defect, Proof
from harness.environment import ReadMemory, WriteMemory

from penstock.hdl.memory import AXI4
from penstock.hdl.shell import Shell, engine_members
from penstock.models.shell import Control, RegisterMap

_PORT = AXI4(address_width=12, data_bytes=4)


class AnyEngine(wiring.Component):
    """Asks, gives and takes what it likes, in bursts of two beats, by AXI's rules; ends, well or
    not, when it likes.

    `dirty` is high where it is not in its reset state.
    """

    def __init__(self, bench: Bench, register_map: RegisterMap) -> None:
        self.bench, self.settling, self.open_writes = bench, 2, 1
        self.dirty = Signal()
        self.free = {
            name: bench.free(f"engine.{name}", width)
            for name, width in (
                ("done", 1),
                ("error", 1),
                ("rready", 1),
                ("bready", 1),
                ("ar", 1),
                ("aw", 1),
                ("w", 1),
                ("araddr", 2),
                ("awaddr", 2),
                ("wdata", 2),
            )
        }
        super().__init__(engine_members(register_map, [_PORT]))

    def elaborate(self, platform):
        m = Module()
        bus, free, running, second = self.m0, self.free, Signal(), Signal()
        with m.If(self.start):
            m.d.sync += running.eq(1)
        m.d.comb += [
            self.done.eq(free["done"] & running),
            self.error.eq(free["error"] & running),
            self.report.code.eq(1),
            bus.rready.eq(free["rready"]),
            bus.bready.eq(free["bready"]),
            bus.arlen.eq(1),
            bus.awlen.eq(1),
            bus.wstrb.eq(15),
            bus.wlast.eq(second),
        ]
        offered = []
        for channel, name in (("ar", "araddr"), ("aw", "awaddr"), ("w", "wdata")):
            on, payload = Signal(name=f"{channel}_on"), Signal(2, name=f"{channel}_payload")
            offered.append(on)
            m.d.comb += [getattr(bus, f"{channel}valid").eq(on), getattr(bus, name).eq(payload)]
            with m.If(~on | getattr(bus, f"{channel}ready")):
                m.d.sync += [on.eq(free[channel] & (running | self.start)), payload.eq(free[name])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += second.eq(~second)
        m.d.comb += self.dirty.eq(Cat(*offered, second, running).any())
        return m


class _Bus:
    """The flat names of a port as a bus."""

    def __init__(self, dut, prefix: str) -> None:
        for name in _PORT.members:
            setattr(self, name, getattr(dut, f"{prefix}_{name}"))


def shell(*, bound: int | None = None) -> Bench:
    b = Bench()
    register_map = RegisterMap(cycle_bits=2)
    engine = AnyEngine(b, register_map)
    dut = b.m.submodules.dut = Shell(engine, register_map)
    for name, width in (
        ("awvalid", 1),
        ("awaddr", len(dut.s_axil_awaddr)),
        ("wvalid", 1),
        ("wdata", 8),
        ("wstrb", 1),
        ("bready", 1),
        ("arvalid", 1),
        ("araddr", len(dut.s_axil_araddr)),
        ("rready", 1),
    ):
        b.d.comb += getattr(dut, f"s_axil_{name}").eq(b.free(f"host.{name}", width))
    for channel, payload in (
        ("aw", dut.s_axil_awaddr),
        ("w", Cat(dut.s_axil_wdata[:8], dut.s_axil_wstrb)),
        ("ar", dut.s_axil_araddr),
    ):
        b.steady(
            b.assume,
            f"host.{channel.upper()} (given)",
            getattr(dut, f"s_axil_{channel}valid"),
            getattr(dut, f"s_axil_{channel}ready"),
            payload,
        )
    bus = _Bus(dut, "m0_axi")
    fair = None if bound is None else 1
    reads = ReadMemory(b, bus, "memory", opened=2, fair=fair)
    writes = WriteMemory(b, bus, "memory", opened=2, fair=fair)
    for name, value in (("busy", dut.busy), ("irq", dut.irq), ("start", engine.start)):
        b.show(name, value)
    rest = Signal()
    b.d.comb += rest.eq(
        (reads.open == 0) & (writes.open == 0) & (writes.owed == 0) & ~bus.arvalid & ~bus.awvalid
    )
    ran = Signal()
    with b.m.If(engine.start):
        b.d.sync += ran.eq(1)
    if bound is None:
        b.steady(b.check, "host.B", dut.s_axil_bvalid, dut.s_axil_bready, dut.s_axil_bresp)
        b.steady(b.check, "host.R", dut.s_axil_rvalid, dut.s_axil_rready, dut.s_axil_rresp)
        b.steady(b.check, "memory.AR", bus.arvalid, bus.arready, bus.araddr[:2])
        b.steady(b.check, "memory.AW", bus.awvalid, bus.awready, bus.awaddr[:2])
        b.steady(b.check, "memory.W", bus.wvalid, bus.wready, bus.wdata[:2], bus.wlast, bus.wstrb)
        b.check(
            "W never comes before its AW was taken, WLAST marks the last beat",
            ~bus.wvalid | ((writes.owed != 0) & (bus.wlast == writes.due)),
        )
        b.check(
            "a run starts at rest, with the engine in its reset state",
            ~engine.start | (rest & ~engine.dirty & ~dut.busy),
        )
        b.check(
            "`busy` is low only at rest, with the engine in its reset state",
            dut.busy | (rest & ~engine.dirty),
        )
        b.check("the shell is busy from `start` on", ~b.past(engine.start) | dut.busy)
        b.check("the interrupt comes only after a run", ~dut.irq | ran)
        b.cover("the interrupt is raised", dut.irq)
        b.cover(
            "a run ends with a write burst open",
            ran & ~dut.busy & b.past(dut.busy) & (b.past(b.past(b.past(b.past(bus.wstrb)))) == 0),
        )
    else:
        control = next(
            register.offset for register in register_map.registers if register.name == "control"
        )
        address, written, asked = Signal.like(dut.s_axil_awaddr), Signal(), Signal()
        with b.m.If(dut.s_axil_awvalid & dut.s_axil_awready):
            b.d.sync += address.eq(dut.s_axil_awaddr)
        b.d.comb += written.eq(
            dut.s_axil_wvalid
            & dut.s_axil_wready
            & (address >> 2 == control // 4)
            & dut.s_axil_wstrb[0]
            & ((dut.s_axil_wdata & Control.RESET) != 0)
        )
        b.show("RESET is written", written)
        waited = Signal(range(bound + 2))
        ends = written | (dut.busy & (engine.done | engine.error) & ~asked)
        with b.m.If(ends):
            b.d.sync += [asked.eq(1), waited.eq(0)]
        with b.m.Elif(~dut.busy):
            b.d.sync += [asked.eq(0), waited.eq(0)]
        with b.m.Elif(asked):
            b.d.sync += waited.eq(waited + (waited != bound + 1))
        b.check(
            f"the shell is at rest within {bound} cycles of RESET, `done` or `error`",
            ~(asked & dut.busy & (waited == bound)),
        )
        b.cover("RESET is written while a run is under way", written & dut.busy & ran)
        b.cover(f"it takes {bound // 2} cycles", waited == bound // 2)
    b.cover("a run ends", ran & ~dut.busy)
    return b


def interrupts() -> Bench:
    """Status of the common block: `done` and `error` in `status` as the run ended, the interrupt
    with them.
    """
    b = Bench()
    register_map = RegisterMap(cycle_bits=2)
    engine = AnyEngine(b, register_map)
    dut = b.m.submodules.dut = Shell(engine, register_map)
    offsets = {register.name: register.offset for register in register_map.registers}
    word = b.free("host.place", 4)
    for name, value in (
        ("awvalid", b.free("host.awvalid")),
        ("awaddr", word << 2),
        ("wvalid", b.free("host.wvalid")),
        ("wdata", b.free("host.wdata", 2)),
        ("wstrb", b.free("host.wstrb")),
        ("bready", 1),
    ):
        b.d.comb += getattr(dut, f"s_axil_{name}").eq(value)
    for channel, payload in (
        ("aw", dut.s_axil_awaddr),
        ("w", Cat(dut.s_axil_wdata[:2], dut.s_axil_wstrb[0])),
    ):
        b.steady(
            b.assume,
            f"host.{channel.upper()} (given)",
            getattr(dut, f"s_axil_{channel}valid"),
            getattr(dut, f"s_axil_{channel}ready"),
            payload,
        )
    bus = _Bus(dut, "m0_axi")
    ReadMemory(b, bus, "memory", opened=1)
    WriteMemory(b, bus, "memory", opened=2)
    address, taken = (
        Signal.like(dut.s_axil_awaddr),
        dut.s_axil_wvalid & dut.s_axil_wready & dut.s_axil_wstrb[0],
    )
    with b.m.If(dut.s_axil_awvalid & dut.s_axil_awready):
        b.d.sync += address.eq(dut.s_axil_awaddr)
    to_interrupt = taken & (address >> 2 == offsets["interrupt"] // 4)
    to_control = taken & (address >> 2 == offsets["control"] // 4)
    to_watchdog = taken & (address >> 2 == offsets["watchdog"] // 4)
    b.assume("the watchdog is off", ~to_watchdog | (dut.s_axil_wdata[:8] == 0))
    # how the run under way has ended: nothing yet, by RESET, or to be told
    started, told, stopped, enabled = (
        Signal(name=name) for name in ("started", "told", "stopped", "enabled")
    )
    reset = to_control & ((dut.s_axil_wdata & Control.RESET) != 0)
    start = to_control & ((dut.s_axil_wdata & Control.START) != 0) & ~dut.busy & ~reset
    b.check(
        "START begins a run while the shell is idle, and nothing else does", engine.start == start
    )
    for name, value in (("busy", dut.busy), ("irq", dut.irq), ("start", start), ("RESET", reset)):
        b.show(name, value)
    b.check("RESET ends in rest, not in a run", ~b.past(reset) | ~engine.start)
    with b.m.If(start):
        b.d.sync += [started.eq(1), stopped.eq(0)]
    with b.m.Elif(reset):
        b.d.sync += [stopped.eq(1)]
    with b.m.If(started & (engine.done | engine.error) & ~stopped & ~reset):
        b.d.sync += told.eq(1)
    with b.m.If(reset | start):
        b.d.sync += told.eq(0)
    with b.m.If(~dut.busy & ~start):
        b.d.sync += started.eq(0)
    ending = b.past(dut.busy) & ~dut.busy
    b.show("the run's end is to be told", told)
    with b.m.If(to_interrupt):
        b.d.sync += enabled.eq((dut.s_axil_wdata & 1) != 0)
    b.check("the interrupt is low while it is not enabled", enabled | ~dut.irq)
    b.check(
        "an interrupt that is raised stays until it is cleared or disabled",
        ~b.past(dut.irq & ~to_interrupt) | dut.irq,
    )
    # the host may have written the register while the run ended
    touched = [to_interrupt]
    for _ in range(3):
        touched.append(b.past(touched[-1]))
    alone = ~Cat(touched[1:]).any()
    b.check(
        "a run that ended by itself raises the interrupt",
        ~(ending & told & enabled & alone) | dut.irq,
    )
    raised = dut.irq & ~b.past(dut.irq) & ~b.past(to_interrupt)
    b.check("a run that RESET stopped raises none", ~raised | told)
    b.cover("a run raises the interrupt", ending & told & dut.irq)
    b.cover("a run is stopped by RESET", ending & stopped & started)
    return b


_SHELL, _REGISTERS = "hdl.shell.shell", "hdl.shell.registers"

PROOFS = [
    Proof(
        "hdl.shell.Shell",
        "AXI's rules on all ports; a run starts at rest with the engine in its reset state; `busy`",
        shell,
        (
            Defect(_SHELL, "m.Elif(Cat(self.idle).all())", "m.Elif(1)"),
            Defect(_SHELL, "self.clear.eq(1)", "self.clear.eq(0)"),
        ),
    ),
    Proof(
        "hdl.shell.Shell",
        "rest within 20 cycles of RESET, `done` or `error`, from every reachable state; "
        "memory fair within 1",
        lambda: shell(bound=20),
        (
            Defect(
                "hdl.memory.guard",
                "held.eq(bus.wvalid & ~bus.wready & ~fill)",
                "held.eq(bus.wvalid & ~bus.wready)",
            ),
        ),
    ),
    Proof(
        "hdl.shell.Shell",
        "START, RESET and the interrupt",
        interrupts,
        (
            Defect(
                _SHELL,
                "self.engine.start.eq(self.registers.start & ~self.registers.reset)",
                "self.engine.start.eq(self.registers.start)",
            ),
            Defect(
                _REGISTERS, "self.irq.eq(self.enable & self.pending)", "self.irq.eq(self.pending)"
            ),
        ),
    ),
]
