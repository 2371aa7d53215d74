# amaranth: UnusedElaboratable=no
"""Deframer, Framer, Bridge: no sequence of bytes wedges the link."""

from __future__ import annotations

import sys

from amaranth.hdl import Cat, Signal
from harness import Bench, Defect, Proof
from harness.environment import offer, take
from harness.small import registers_of, shrunk

from penstock.hdl.link.bridge import Bridge
from penstock.hdl.link.frames import Deframer, Framer
from penstock.hdl.memory import AXI4, AXI4Lite
from penstock.models.link.device import Identity
from penstock.models.link.frames import ESCAPE, FLAG

_FRAMES = sys.modules["penstock.hdl.link.frames"]
#: a ring of 8 bytes, headers of 3, at most 2 bytes of data
_SMALL = {"RING": 8, "HEADER": 3, "MAXIMUM": 2}


def in_step() -> Bench:
    """Two deframers. One has had any bytes, the other none; from a flag on, both have the same
    bytes.
    """
    b = Bench()
    small = _SMALL | {"RING": 4}
    old, old_part = shrunk(_FRAMES, Deframer, **small)
    new, new_part = shrunk(_FRAMES, Deframer, **small)
    b.m.submodules += [old_part, new_part]
    begins, joined = b.free("the new one begins"), Signal()
    valid, byte = b.free("i.valid"), b.free("i.payload", 8)
    flag = valid & old.i.ready & (byte == FLAG)
    b.d.comb += [
        old.i.valid.eq(valid),
        old.i.payload.eq(byte),
        new.i.payload.eq(byte),
        new.i.valid.eq(valid & (joined | begins)),
        old.o.ready.eq(1),
        new.o.ready.eq(1),
    ]
    b.assume("the new one begins with a flag", ~begins | joined | flag)
    b.d.sync += joined.eq(joined | begins)
    b.show("old.o.valid", old.o.valid)
    b.show("new.o.valid", new.o.valid)
    registers = [registers_of(part) for part in (old_part, new_part)]
    # what waits in the ring takes room, and room is all that the past may cost
    b.assume(
        "behind that flag nothing waits",
        ~joined | b.past(joined) | (registers[0]["kept"] == registers[0]["get"]),
    )
    # what induction need not find by itself: the registers that a flag makes equal
    fresh = Cat(value == value.init for value in [*registers[1].values(), new.o.valid]).all()
    b.check("inside: until then the new one is as after reset", joined | fresh)
    one, other = registers
    for each, part in zip(registers, (old, new), strict=True):
        waits, all_ = ((each[end] - each["get"])[:2] for end in ("kept", "put"))
        b.check("inside: the ring is in order", (waits <= all_) & (~part.o.valid | (waits != 0)))
    b.check(
        "inside: `writes` is the same once it is known",
        ~joined | (one["header"] < 2) | (one["writes"] == other["writes"]),
    )
    b.check(
        "inside: `shift` is the same while bits of it are to be seen",
        ~joined | (one["turns"] == 0) | (one["shift"] == other["shift"]),
    )
    for name in ("crc", "turns", "seen", "escape", "bad", "header", "left", "tail"):
        b.check(
            f"inside: `{name}` is the same", ~joined | (registers[0][name] == registers[1][name])
        )
    for name, (ahead, behind) in {
        "bytes of the body under way": ("put", "kept"),
        "bytes that wait": ("kept", "get"),
    }.items():
        mine, its = ((each[ahead] - each[behind])[:2] for each in registers)
        b.check(f"inside: as many {name}", ~joined | (mine == its))
    b.check("both offer in the same cycles", ~joined | (old.o.valid == new.o.valid))
    b.check("both take bytes in the same cycles", ~joined | (old.i.ready == new.i.ready))
    b.check("both drop the same bodies", ~joined | (old.dropped == new.dropped))
    b.cover("a body is dropped after the flag", joined & new.dropped)
    b.cover("the past ends in the middle of a body", begins & ~joined & old.dropped)
    return b


def takes() -> Bench:
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_FRAMES, Deframer, **_SMALL)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    b.within(
        b.check, "a byte is taken within 9 cycles, whatever waits", dut.i.valid & ~dut.i.ready, 8
    )
    b.check(
        "a body is dropped only at a flag",
        ~dut.dropped | (dut.i.valid & dut.i.ready & (dut.i.payload == FLAG)),
    )
    b.cover("a body is dropped", dut.dropped)
    return b


def whole() -> Bench:
    """Requests whole or not at all. A polynomial of 0 makes the CRC of any body of four bytes
    right, so that short ones are kept.
    """
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_FRAMES, Deframer, **_SMALL, CRC_POLYNOMIAL=0, CRC_RESIDUE=0)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    place, writes, left, inside = Signal(2), Signal(), Signal(8), Signal()
    b.d.comb += inside.eq((place != 0) | (left != 0))
    with b.m.If(dut.o.valid & dut.o.ready):
        with b.m.If((place == 0) & (left != 0)):
            b.d.sync += left.eq(left - 1)
        with b.m.Else():
            b.d.sync += place.eq(place + 1)
        with b.m.If(place == 1):
            b.d.sync += writes.eq(dut.o.payload[0])
        with b.m.If(place == 2):
            b.d.sync += [place.eq(0), left.eq(dut.o.payload & writes.replicate(8))]
    b.show("inside a request", inside)
    b.check("a request that has begun comes whole, without gap", ~inside | dut.o.valid)
    b.check("its data are at most what a frame may have", left <= 2)
    b.cover("a request comes", dut.o.valid)
    return b


def framer() -> Bench:
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_FRAMES, Framer)
    offer(b, dut.i, "i")
    take(b, dut.o, "o", within=1)
    inside, escaped = Signal(), Signal()
    sent = dut.o.valid & dut.o.ready
    last = Signal()
    with b.m.If(dut.i.valid & dut.i.ready):
        b.d.sync += last.eq(dut.i.p.last)
    with b.m.If(sent):
        b.d.sync += [
            inside.eq(Cat(inside ^ (dut.o.payload == FLAG))),
            escaped.eq((dut.o.payload == ESCAPE) & ~escaped),
        ]
    b.check("bytes of a body are taken inside a frame alone", ~(dut.i.valid & dut.i.ready) | inside)
    b.check("an escape is not before a flag", ~(dut.o.valid & escaped) | (dut.o.payload != FLAG))
    b.check(
        "a frame ends only behind a body's last byte",
        ~(sent & inside & (dut.o.payload == FLAG)) | last,
    )
    b.within(b.check, "a body's byte is taken within 60 cycles", dut.i.valid & ~dut.i.ready, 60)
    b.cover("a frame ends", sent & inside & (dut.o.payload == FLAG))
    b.cover("an escape is sent", sent & escaped)
    return b


def bridge() -> Bench:
    """Between a deframer that gives requests whole and buses that answer within 2 cycles."""
    b = Bench()
    registers, memory = AXI4Lite(address_width=8), AXI4(address_width=12, data_bytes=4)
    dut = b.m.submodules.dut = Bridge(
        Identity(4, 4096, 1_000_000), registers=registers, memory=memory
    )
    offer(b, dut.i, "i")
    take(b, dut.o, "o", within=1)
    b.d.comb += dut.dropped.eq(b.free("dropped"))
    place, writes, left = Signal(3), Signal(), Signal(8)
    inside = Signal()
    b.d.comb += inside.eq((place != 0) | (left != 0))
    taken = dut.i.valid & dut.i.ready
    with b.m.If(taken):
        with b.m.If((place == 0) & (left != 0)):
            b.d.sync += left.eq(left - 1)
        with b.m.Else():
            b.d.sync += place.eq(place + 1)
        with b.m.If(place == 1):
            b.d.sync += writes.eq(dut.i.payload[0])
        with b.m.If(place == 2):
            b.d.sync += left.eq(dut.i.payload & writes.replicate(8))
        with b.m.If(place == 6):
            b.d.sync += place.eq(0)
    b.assume("a request that has begun comes without gap", ~inside | dut.i.valid)
    for name, bus in (("registers", dut.axil), ("memory", dut.bus)):
        reads, aw, w = (Signal(name=f"{name}_{what}") for what in ("reads", "aw", "w"))
        b.d.comb += [
            bus.arready.eq(b.free(f"{name}.arready") & ~reads),
            bus.awready.eq(b.free(f"{name}.awready") & ~aw),
            bus.wready.eq(b.free(f"{name}.wready") & ~w),
            bus.rvalid.eq(b.free(f"{name}.rvalid") & reads),
            bus.bvalid.eq(b.free(f"{name}.bvalid") & aw & w),
            bus.rresp.eq(b.free(f"{name}.rresp", 2)),
            bus.bresp.eq(b.free(f"{name}.bresp", 2)),
        ]
        b.d.sync += [
            reads.eq((reads | (bus.arvalid & bus.arready)) & ~(bus.rvalid & bus.rready)),
            aw.eq((aw | (bus.awvalid & bus.awready)) & ~(bus.bvalid & bus.bready)),
            w.eq((w | (bus.wvalid & bus.wready)) & ~(bus.bvalid & bus.bready)),
        ]
        b.steady(b.assume, f"{name}.R (given)", bus.rvalid, bus.rready, bus.rresp)
        b.steady(b.assume, f"{name}.B (given)", bus.bvalid, bus.bready, bus.bresp)
        for channel, payload in (
            ("ar", bus.araddr),
            ("aw", bus.awaddr),
            ("w", Cat(bus.wdata, bus.wstrb)),
        ):
            valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
            b.steady(b.check, f"{name}.{channel.upper()}", valid, ready, payload)
            b.within(b.assume, f"{name} takes {channel.upper()} within 2 cycles", valid & ~ready, 1)
        b.within(b.assume, f"{name} gives R within 2 cycles", reads & ~bus.rvalid, 1)
        b.within(b.assume, f"{name} gives B within 2 cycles", aw & w & ~bus.bvalid, 1)
    moved = taken | (dut.o.valid & dut.o.ready)
    b.within(
        b.check,
        "within 12 cycles a byte is taken or given, while there is something to do",
        (inside | dut.i.valid) & ~moved,
        12,
    )
    b.cover("a response ends", dut.o.valid & dut.o.p.last)
    b.cover("a word is written", dut.bus.bvalid & dut.bus.bready)
    return b


_F, _B = "hdl.link.frames", "hdl.link.bridge"

PROOFS = [
    Proof(
        "hdl.link.Deframer",
        "from a flag on, whatever came before, it does what a new one does",
        in_step,
        (
            Defect(
                _F,
                "escape.eq(0), bad.eq(0)",
                "bad.eq(0)",
            ),
            Defect(
                _F,
                "bad.eq(0), header.eq(0)",
                "header.eq(0)",
            ),
        ),
        method="induction",
        depth=3,
    ),
    Proof(
        "hdl.link.Deframer",
        "takes each byte within 9 cycles, whatever waits",
        takes,
        (
            Defect(
                _F,
                "self.i.ready.eq(self.turns == 0)",
                "self.i.ready.eq((self.turns == 0) & ~bad)",
            ),
        ),
    ),
    Proof(
        "hdl.link.Deframer",
        "requests come whole, without gap; ring of 8, headers of 3, data ≤ 2",
        whole,
        (Defect(_F, "m.d.sync += self.put.eq(self.kept)", "pass"),),
        method="bounded",
        depth=80,
        covers=80,
        search=80,
    ),
    Proof(
        "hdl.link.Framer",
        "frames begin and end with flags, escapes, each byte taken within 60 cycles",
        framer,
        (Defect(_F, "self.o.valid.eq(self.i.valid)", "self.o.valid.eq(0)"),),
        search=70,
        covers=60,
    ),
    Proof(
        "hdl.link.Bridge",
        "AXI's rules on both buses; within 12 cycles a byte is taken or given; "
        "buses answer within 2",
        bridge,
        (Defect(_B, 'm.next = "READ_BYTE"', 'm.next = "READ_ANSWER"'),),
        covers=40,
    ),
]
