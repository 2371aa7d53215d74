# amaranth: UnusedElaboratable=no
"""Arbiter: one grant at a time, answers to who asked, turns within a bound, at most 255 bursts
open.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal
from harness import Bench, Defect, Proof
from harness.environment import ReadMemory, WriteMemory

from penstock.hdl.memory import AXI4, Arbiter

_NAME = "hdl.memory.arbiter"


def _one(values) -> object:
    """Whether at most one of some bits is high."""
    bits = Cat(*values)
    return (bits & (bits - 1)[: len(bits)]) == 0


def _at_once(b: Bench, channel: str, bus, managers: list, opened) -> None:
    """An idle port is manager 0's: it finds it free without a cycle of delay."""
    valid, ready = f"{channel}valid", f"{channel}ready"
    asks = Cat(getattr(manager, valid) for manager in managers).any()
    idle = b.past((opened == 0) & ~asks)
    first = managers[0]
    b.check(
        "manager 0 passes at once where nobody asked and nothing was open",
        ~(idle & getattr(first, valid))
        | (getattr(bus, valid) & (getattr(first, ready) == getattr(bus, ready))),
    )


def reads(count: int, *, bound: int | None = None) -> Bench:
    """`count` managers that only read; with `bound` the memory and the managers are fair, and turns
    come within it.
    """
    b = Bench()
    port = AXI4(address_width=12, data_bytes=4, write=False)
    dut = b.m.submodules.dut = Arbiter([port] * count)
    bus = dut.bus
    memory = ReadMemory(
        b,
        bus,
        "memory",
        opened=2,
        fair=None if bound is None else 1,
        exact=bound is not None,
    )
    managers = [getattr(dut, f"m{k}") for k in range(count)]
    opens = []
    for k, manager in enumerate(managers):
        b.d.comb += [
            manager.arvalid.eq(b.free(f"m{k}.arvalid")),
            manager.araddr.eq(b.free(f"m{k}.araddr", 2)),
            manager.arlen.eq(b.free(f"m{k}.arlen")),
            manager.rready.eq(1 if bound is not None else b.free(f"m{k}.rready")),
        ]
        b.show(f"m{k}.arready", manager.arready)
        b.show(f"m{k}.rvalid", manager.rvalid)
        b.steady(
            b.assume,
            f"m{k}.AR (given)",
            manager.arvalid,
            manager.arready,
            manager.araddr[:2],
            manager.arlen[0],
        )
        begun = manager.arvalid & manager.arready
        mine = Signal(3, name=f"open{k}")
        b.d.sync += mine.eq(mine + begun - (manager.rvalid & manager.rready & manager.rlast))
        b.show(f"m{k}: bursts open", mine)
        b.check(f"R comes to m{k} only for what it asked", ~manager.rvalid | (mine != 0))
        opens.append(mine)
        if bound is not None:
            waited = b.within(
                b.check,
                f"m{k} has its turn within {bound} cycles",
                manager.arvalid & ~manager.arready,
                bound,
            )
            b.cover(f"m{k} waits {bound // 2} cycles", waited == bound // 2)
    b.check("bursts of one manager alone are open", _one(mine != 0 for mine in opens))
    b.check("no burst is lost", sum(opens) == memory.open)
    b.check(
        "each beat comes to a manager",
        bus.rvalid == Cat(manager.rvalid for manager in managers).any(),
    )
    b.steady(b.check, "AR", bus.arvalid, bus.arready, bus.araddr[:2], bus.arlen[0])
    _at_once(b, "ar", bus, managers, memory.open)
    asks = Cat(manager.arvalid for manager in managers).any()
    b.within(
        b.check,
        "who asks is on the bus within two cycles when nothing is open",
        asks & ~bus.arvalid & (memory.open == 0),
        1,
    )
    b.cover(
        "the last manager has a burst open while the first asks",
        (opens[-1] != 0) & managers[0].arvalid,
    )
    if bound is not None:
        b.check_only("has its turn within")
    return b


def writes(count: int, *, bound: int | None = None, moves: int | None = None) -> Bench:
    """`count` managers that only write, W from the cycle after they first offered its AW on, or with
    `bound` after it was taken. `moves`: something moves within so many cycles, also where AW and W
    wait for each other.
    """
    b = Bench()
    port = AXI4(address_width=12, data_bytes=4, read=False)
    dut = b.m.submodules.dut = Arbiter([port] * count)
    bus = dut.bus
    fair = None if bound is None and moves is None else 1
    memory = WriteMemory(b, bus, "memory", opened=2, fair=fair, waits=bound is None)
    managers = [getattr(dut, f"m{k}") for k in range(count)]
    opens = []
    for k, manager in enumerate(managers):
        owed, held = Signal(3, name=f"owed{k}"), Signal(name=f"held{k}")
        wvalid = b.free(f"m{k}.wvalid")
        b.d.comb += [
            manager.awvalid.eq(b.free(f"m{k}.awvalid")),
            manager.awaddr.eq(b.free(f"m{k}.awaddr", 2)),
            manager.awlen.eq(b.free(f"m{k}.awlen")),
            manager.wvalid.eq(wvalid & (owed != 0)),
            manager.wdata.eq(b.free(f"m{k}.wdata", 2)),
            manager.wlast.eq(memory.due),
            manager.bready.eq(1),
        ]
        b.steady(
            b.assume,
            f"m{k}.AW (given)",
            manager.awvalid,
            manager.awready,
            manager.awaddr[:2],
            manager.awlen[0],
        )
        b.steady(b.assume, f"m{k}.W (given)", manager.wvalid, manager.wready, manager.wdata[:2])
        begun, beat = manager.awvalid & manager.awready, manager.wvalid & manager.wready
        mine = Signal(3, name=f"open{k}")
        first = manager.awvalid & ~held if bound is None else begun
        b.d.sync += [
            mine.eq(mine + begun - (manager.bvalid & manager.bready)),
            held.eq(manager.awvalid & ~manager.awready),
            owed.eq(owed + first - (beat & manager.wlast)),
        ]
        b.show(f"m{k}: bursts open", mine)
        b.check(f"B comes to m{k} only for what it wrote", ~manager.bvalid | (mine != 0))
        b.check(
            f"m{k} gives a word only to a burst of its own that was offered on the bus",
            ~beat | ((owed != 0) & (memory.owed != 0) & ((mine != 0) | held)),
        )
        opens.append(mine)
        if fair is not None:
            b.within(b.assume, f"m{k} gives W within 2 cycles", (owed != 0) & ~manager.wvalid, 1)
        if bound is not None:
            waited = b.within(
                b.check,
                f"m{k} has its turn within {bound} cycles",
                manager.awvalid & ~manager.awready,
                bound,
            )
            b.cover(f"m{k} waits {bound // 2} cycles", waited == bound // 2)
    if moves is not None:
        asks = Cat(manager.awvalid for manager in managers).any() | (memory.open != 0)
        moved = memory.begun | memory.beat | memory.answered
        text = f"AW, W or B moves within {moves} cycles while a manager asks"
        waited = b.within(b.check, text, asks & ~moved, moves)
        b.cover(f"something moves after {moves // 2} cycles", waited == moves // 2)
    b.check("W never comes before its AW was offered", ~bus.wvalid | (memory.owed != 0))
    b.check("bursts of one manager alone are open", _one(mine != 0 for mine in opens))
    b.check("no burst is lost", sum(opens) == memory.open)
    b.steady(b.check, "AW", bus.awvalid, bus.awready, bus.awaddr[:2], bus.awlen[0])
    _at_once(b, "aw", bus, managers, memory.open)
    b.steady(b.check, "W", bus.wvalid, bus.wready, bus.wdata[:2], bus.wlast)
    b.cover(
        "the last manager has a burst open while the first asks",
        (opens[-1] != 0) & managers[0].awvalid,
    )
    return b


def limit() -> Bench:
    """At most 255 bursts are open: the count inside never wraps. R never comes, so that it is
    reached by AR alone.
    """
    b = Bench()
    port = AXI4(address_width=12, data_bytes=4, write=False)
    dut = b.m.submodules.dut = Arbiter([port])
    bus = dut.bus
    opened, ended = Signal(10, name="open"), Signal()
    b.d.comb += [
        dut.m0.arvalid.eq(b.free("m0.arvalid")),
        bus.arready.eq(b.free("arready")),
        dut.m0.rready.eq(1),
        bus.rvalid.eq(b.free("rvalid") & (opened != 0)),
        bus.rlast.eq(1),
        ended.eq(bus.rvalid & bus.rready),
    ]
    b.steady(b.assume, "m0.AR (given)", dut.m0.arvalid, dut.m0.arready)
    b.d.sync += opened.eq(opened + (bus.arvalid & bus.arready) - ended)
    b.show("bursts open", opened)
    b.check("at most 255 bursts are open", opened <= 255)
    b.check("AR passes while fewer are", ~dut.m0.arvalid | (opened == 255) | bus.arvalid)
    b.steady(b.check, "AR", bus.arvalid, bus.arready)
    b.cover("three bursts are open", opened == 3)
    return b


#: the lowest number first, whoever had the last turn
_LOWEST_FIRST = Defect(
    _NAME,
    "with m.If(asks[(k + distance) % count]):\n"
    "                                    m.d.sync += owner.eq((k + distance) % count)",
    "with m.If(asks[count - 1 - distance] if count - 1 - distance != k else 0):\n"
    "                                    m.d.sync += owner.eq(count - 1 - distance)",
)

PROOFS = [
    Proof(
        "hdl.memory.Arbiter",
        "reads of 3 managers: one grant, answers to who asked, no burst lost, AR stays; manager 0 finds "
        "an idle port free at once",
        lambda: reads(3),
        Defect(
            _NAME,
            "with m.If((opened == 0) & ~valid):",
            "with m.If(~valid):",
        ),
    ),
    Proof(
        "hdl.memory.Arbiter",
        "writes of 3 managers: the same, W behind its AW's offer, W stays",
        lambda: writes(3),
        Defect(
            _NAME,
            "opened.eq(opened + begun - ended)",
            "opened.eq(opened + begun - (ended | (opened != 0)))",
        ),
    ),
    Proof(
        "hdl.memory.Arbiter",
        "reads of 2 managers have their turns within 16 cycles; "
        "bursts ≤ 2 beats, 2 open, memory fair within 1",
        lambda: reads(2, bound=16),
        Defect(_NAME, "asked.eq(others)", "asked.eq(0)"),
    ),
    Proof(
        "hdl.memory.Arbiter",
        "reads of 3 managers have their turns within 40 cycles; "
        "bursts ≤ 2 beats, 2 open, memory fair within 1",
        lambda: reads(3, bound=40),
        _LOWEST_FIRST,
        search=60,
    ),
    Proof(
        "hdl.memory.Arbiter",
        "writes of 2 managers have their turns within 26 cycles; "
        "bursts ≤ 2 beats, 2 open, memory and managers fair within 1",
        lambda: writes(2, bound=26),
        Defect(_NAME, "asked.eq(others)", "asked.eq(0)"),
    ),
    Proof(
        "hdl.memory.Arbiter",
        "writes of 2 managers: within 6 cycles something moves while one asks; bursts ≤ 2 beats, 2 open, "
        "memory and managers fair within 1, but AW may wait for W",
        lambda: writes(2, moves=6),
        Defect(_NAME, "owed + offered -", "owed + (bus.awvalid & bus.awready) -"),
    ),
    Proof(
        "hdl.memory.Arbiter",
        "at most 255 bursts are open",
        limit,
        Defect(_NAME, "(opened != 0xFF)", "(opened != 0x7F)"),
        search=140,
    ),
]
