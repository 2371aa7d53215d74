# amaranth: UnusedElaboratable=no
"""Guard: rest within a bound of `stop`, by AXI's rules; without `stop` it is not there."""

from __future__ import annotations

from amaranth.hdl import Cat, Signal
from harness import Bench, Defect, Proof, two_runs
from harness.environment import ReadMemory, WriteMemory

from penstock.hdl.memory import AXI4
from penstock.hdl.memory.guard import Guard

_NAME = "hdl.memory.guard"


def _stopping(b: Bench, dut):
    """Stop as a shell does: `stop` stays until `idle`. Return whether the master may have been
    reset before this cycle.
    """
    b.d.comb += dut.stop.eq(b.free("stop"))
    b.show("idle", dut.idle)
    b.assume("`stop` stays until `idle`", ~b.past(dut.stop & ~dut.idle) | dut.stop)
    rested = Signal()
    b.d.comb += rested.eq(b.past(dut.idle & dut.stop))
    b.check("the bus stays at rest while `stop` is high", ~(rested & dut.stop) | dut.idle)
    return rested


def reads(*, bound: int | None = None) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = Guard(AXI4(address_width=12, data_bytes=4, write=False))
    bus, master = dut.bus, dut.master
    rested = _stopping(b, dut)
    memory = ReadMemory(
        b,
        bus,
        "memory",
        opened=2,
        fair=None if bound is None else 1,
    )
    b.d.comb += [
        master.arvalid.eq(b.free("master.arvalid")),
        master.araddr.eq(b.free("master.araddr", 2)),
        master.arlen.eq(b.free("master.arlen")),
        master.rready.eq(b.free("master.rready")),
    ]
    waiting, before = (
        b.past(master.arvalid & ~master.arready),
        b.past(Cat(master.araddr[:2], master.arlen[0])),
    )
    b.assume(
        "the master's AR stays until it is taken, or the master is reset",
        ~waiting | rested | (master.arvalid & (Cat(master.araddr[:2], master.arlen[0]) == before)),
    )
    b.steady(b.check, "AR", bus.arvalid, bus.arready, bus.araddr[:2], bus.arlen[0])
    b.check(
        "`idle`: nothing is open and nothing offered",
        ~dut.idle | ((memory.open == 0) & ~bus.arvalid),
    )
    b.check(
        "no AR begins under `stop`", ~(dut.stop & bus.arvalid & ~b.past(bus.arvalid & ~bus.arready))
    )
    b.check("no data pass under `stop`", ~dut.stop | (~master.rvalid & bus.rready))
    b.check(
        "without `stop` it passes all channels as they are",
        dut.stop
        | (
            (master.arvalid == bus.arvalid)
            & (master.arready == bus.arready)
            & (master.rvalid == bus.rvalid)
            & (bus.rready == master.rready)
        ),
    )
    if bound is not None:
        waited = b.within(
            b.check, f"it is at rest within {bound} cycles", dut.stop & ~dut.idle, bound
        )
        b.cover(f"it takes {bound // 2} cycles", waited == bound // 2)
        b.check_only("at rest within")
    b.cover("a read is ended under `stop`", memory.ended & dut.stop & b.past(dut.stop))
    b.cover("the bus comes to rest while the master asks", rested & dut.stop & waiting)
    return b


def writes(*, bound: int | None = None, count: int = 2) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = Guard(AXI4(address_width=12, data_bytes=4, read=False), writes=count)
    bus, master = dut.bus, dut.master
    rested = _stopping(b, dut)
    memory = WriteMemory(b, bus, "memory", opened=count + 1, fair=None if bound is None else 1)
    b.d.comb += [
        master.awvalid.eq(b.free("master.awvalid")),
        master.awaddr.eq(b.free("master.awaddr", 2)),
        master.awlen.eq(b.free("master.awlen")),
        master.wvalid.eq(b.free("master.wvalid")),
        master.wdata.eq(b.free("master.wdata", 2)),
        master.wstrb.eq(b.free("master.wstrb", 4)),
        master.wlast.eq(b.free("master.wlast")),
        master.bready.eq(b.free("master.bready")),
    ]
    for channel, valid, ready, payload in (
        ("AW", master.awvalid, master.awready, Cat(master.awaddr[:2], master.awlen[0])),
        ("W", master.wvalid, master.wready, Cat(master.wdata[:2], master.wstrb, master.wlast)),
    ):
        b.assume(
            f"the master's {channel} stays until it is taken, or the master is reset",
            ~b.past(valid & ~ready) | rested | (valid & (payload == b.past(payload))),
        )
    b.assume(
        "the master's WLAST is right while it is not stopped",
        dut.stop | ~master.wvalid | (memory.owed == 0) | (master.wlast == memory.due),
    )
    b.steady(b.check, "AW", bus.awvalid, bus.awready, bus.awaddr[:2], bus.awlen[0])
    b.steady(b.check, "W", bus.wvalid, bus.wready, bus.wdata[:2], bus.wstrb, bus.wlast)
    b.check(
        "W never comes before the cycle after its AW's first offer",
        ~bus.wvalid | (memory.owed != 0),
    )
    b.check(
        "WLAST marks the burst's last beat, and no other", ~bus.wvalid | (bus.wlast == memory.due)
    )
    b.check(
        "`idle`: nothing is open and nothing offered",
        ~dut.idle | ((memory.open == 0) & ~bus.awvalid & ~bus.wvalid & (memory.owed == 0)),
    )
    b.check(
        "no AW begins under `stop`", ~(dut.stop & bus.awvalid & ~b.past(bus.awvalid & ~bus.awready))
    )
    b.check(
        "beats that begin under `stop` have no strobes and no data",
        ~(dut.stop & bus.wvalid & ~b.past(bus.wvalid & ~bus.wready))
        | ((bus.wstrb == 0) & (bus.wdata == 0)),
    )
    b.check(f"at most {count} bursts lack data", memory.owed <= count)
    may = memory.held | (memory.owed != count)
    b.check(
        "without `stop` it passes all channels as they are, W behind its AW",
        dut.stop
        | (
            (bus.awvalid == (master.awvalid & may))
            & (bus.wvalid == (master.wvalid & (memory.owed != 0)))
            & (master.bvalid == bus.bvalid)
            & (bus.bready == master.bready)
        ),
    )
    b.check(
        "answers are taken under `stop` and not passed", ~dut.stop | (bus.bready & ~master.bvalid)
    )
    if bound is not None:
        waited = b.within(
            b.check, f"it is at rest within {bound} cycles", dut.stop & ~dut.idle, bound
        )
        b.cover(f"it takes {bound // 2} cycles", waited == bound // 2)
        b.check_only("at rest within")
    b.cover("a burst is ended without the master", memory.last & dut.stop & (bus.wstrb == 0))
    b.cover("an answer is taken under `stop`", memory.answered & dut.stop)
    b.cover(
        "a beat of the master's is refused, then `stop`",
        dut.stop & b.past(~dut.stop & bus.wvalid & ~bus.wready) & (bus.wstrb != 0),
    )
    b.cover(
        "all words pass under `stop` while their AW waits",
        dut.stop & b.past(dut.stop & memory.last) & memory.held & (memory.owed == 0),
    )
    return b


def payloads() -> Bench:
    """Two runs that differ in addresses, data, strobes and responses alone."""
    b = Bench()
    handshakes = (
        "stop",
        "master__arvalid",
        "master__rready",
        "master__awvalid",
        "master__awlen",
        "master__wvalid",
        "master__wlast",
        "master__bready",
        "bus__arready",
        "bus__rvalid",
        "bus__rlast",
        "bus__awready",
        "bus__wready",
        "bus__bvalid",
    )
    (_, one), (_, other) = two_runs(
        b, lambda: Guard(AXI4(address_width=12, data_bytes=4), writes=2), handshakes
    )
    for name in one:
        if name.endswith(("valid", "ready", "wlast", "idle", "active")):
            b.check(f"{name} is the same in both", one[name] == other[name])
    b.cover("data differ", one["bus__wvalid"] & (one["bus__wdata"] != other["bus__wdata"]))
    return b


PROOFS = [
    Proof(
        "hdl.memory.Guard",
        "no handshake depends on an address, data, strobes or a response (two runs)",
        payloads,
        Defect(_NAME, "owed.i.valid.eq(offered)", "owed.i.valid.eq(offered & ~bus.awaddr[2])"),
        covers=14,
    ),
    Proof(
        "hdl.memory.Guard",
        "reads: AXI's rules, nothing new under `stop`, `idle`, passes all without `stop`",
        reads,
        Defect(_NAME, "opened.eq((~self.stop & room) | held)", "opened.eq(~self.stop & room)"),
    ),
    Proof(
        "hdl.memory.Guard",
        "reads come to rest within 12 cycles of `stop`; "
        "bursts ≤ 2 beats, 2 open, memory fair within 1",
        lambda: reads(bound=12),
        Defect(_NAME, "bus.rready.eq(master.rready | self.stop)", "bus.rready.eq(master.rready)"),
    ),
    Proof(
        "hdl.memory.Guard",
        "writes: AXI's rules, zeros without strobes under `stop`, `idle`; 2 bursts lack data",
        writes,
        Defect(
            _NAME, "held.eq(bus.wvalid & ~bus.wready & ~fill)", "held.eq(bus.wvalid & ~bus.wready)"
        ),
    ),
    Proof(
        "hdl.memory.Guard",
        "writes come to rest within 14 cycles of `stop`; "
        "bursts ≤ 2 beats, 3 open, memory fair within 1",
        lambda: writes(bound=14),
        (
            Defect(_NAME, "owed.i.valid.eq(offered)", "owed.i.valid.eq(begun)"),
            Defect(
                _NAME,
                "held.eq(bus.wvalid & ~bus.wready & ~fill)",
                "held.eq(bus.wvalid & ~bus.wready)",
            ),
        ),
    ),
]
