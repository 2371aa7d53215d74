# amaranth: UnusedElaboratable=no
"""Two managers that copy behind one arbiter: whether they can wait for each other for ever."""

from __future__ import annotations

from amaranth.hdl import Cat, Signal
from harness import Bench, Defect, Proof

from penstock.hdl.memory import AXI4, Arbiter

_PORT = AXI4(address_width=12, data_bytes=4)


def copiers(*, kept: tuple[int, int], bound: int = 6) -> Bench:
    """Each of two managers copies bursts of two words, and keeps up to `kept` words between R and
    W.

    A manager asks to read, and announces its write, when it likes, once each a burst; one that
    keeps two words announces it when it has them. The memory is always ready.
    """
    b = Bench()
    dut = b.m.submodules.dut = Arbiter([_PORT, _PORT])
    bus = dut.bus
    reading, second, owed, ended = Signal(3), Signal(), Signal(3), Signal(3)
    b.d.comb += [
        bus.arready.eq(1),
        bus.rvalid.eq(reading != 0),
        bus.rlast.eq(second),
        bus.awready.eq(1),
        bus.wready.eq(1),
        bus.bvalid.eq(ended != 0),
    ]
    beat, word = bus.rvalid & bus.rready, bus.wvalid & bus.wready
    b.d.sync += [
        reading.eq(reading + (bus.arvalid & bus.arready) - (beat & second)),
        owed.eq(owed + (bus.awvalid & bus.awready) - (word & bus.wlast)),
        ended.eq(ended + (word & bus.wlast) - (bus.bvalid & bus.bready)),
    ]
    with b.m.If(beat):
        b.d.sync += second.eq(~second)
    moved = Cat(
        beat, word, bus.arvalid & bus.arready, bus.awvalid & bus.awready, bus.bvalid & bus.bready
    ).any()
    wants = []
    for k, room in enumerate(kept):
        manager = getattr(dut, f"m{k}")
        held, busy, asks, tells, to_tell, announced, last = (
            Signal(2 if what == "words" else 1, name=f"m{k}_{what}")
            for what in ("words", "busy", "asks", "tells", "to_tell", "announced", "last")
        )
        b.d.comb += [
            manager.arvalid.eq(asks),
            manager.awvalid.eq(tells),
            manager.arlen.eq(1),
            manager.awlen.eq(1),
            manager.rready.eq(held != room),
            manager.wvalid.eq((held != 0) & announced),
            manager.wlast.eq(last),
            manager.bready.eq(1),
        ]
        for name, value in (
            (f"m{k} waits for AR", asks),
            (f"m{k} waits for AW", tells),
            (f"m{k} keeps words", held),
            (f"m{k} has announced a write", announced),
        ):
            b.show(name, value)
        with b.m.If(asks & manager.arready):
            b.d.sync += asks.eq(0)
        with b.m.If(tells & manager.awready):
            b.d.sync += [tells.eq(0), announced.eq(1)]
        with b.m.If(~busy & b.free(f"m{k} begins")):
            b.d.sync += [busy.eq(1), asks.eq(1), to_tell.eq(1)]
        with b.m.If(to_tell & b.free(f"m{k} announces") & ((held == 2) | (room < 2))):
            b.d.sync += [tells.eq(1), to_tell.eq(0)]
        gives = manager.wvalid & manager.wready
        b.d.sync += held.eq(held + (manager.rvalid & manager.rready) - gives)
        with b.m.If(gives):
            b.d.sync += last.eq(~last)
            with b.m.If(last):
                b.d.sync += announced.eq(0)
        with b.m.If(manager.bvalid & manager.bready):
            b.d.sync += busy.eq(0)
        b.within(
            b.assume,
            f"m{k} announces its write within 4 cycles",
            to_tell & ((held == 2) | (room < 2)),
            3,
        )
        wants += [asks, tells, announced]
        b.cover(f"m{k} copies", gives & last)
    b.within(
        b.check,
        f"something moves within {bound} cycles while a manager wants something",
        ~moved & Cat(*wants).any(),
        bound,
    )
    b.cover("both have announced or want to write", wants[1] & wants[5])
    return b


PROOFS = [
    Proof(
        "hdl.memory.Arbiter",
        "of two managers that copy, one of which keeps less than a burst, none waits for ever: "
        "within 6 cycles something moves",
        lambda: copiers(kept=(1, 2)),
        Defect("hdl.memory.arbiter", "m.d.sync += fresh.eq(1)", "m.d.sync += fresh.eq(0)"),
    ),
]
