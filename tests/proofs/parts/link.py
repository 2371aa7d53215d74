# amaranth: UnusedElaboratable=no
"""Deframer and Framer: no sequence of bytes wedges them, and their CRC is CRC-32."""

from __future__ import annotations

import sys

from amaranth.hdl import Array, Cat, Mux, Signal
from harness import Bench, Defect, Proof
from harness.environment import offer, take
from harness.small import registers_of, shrunk

from penstock.hdl.link.frames import Deframer, Framer
from penstock.models.link.frames import ESCAPE, ESCAPE_XOR, FLAG

_FRAMES = sys.modules["penstock.hdl.link.frames"]
#: with a polynomial of 0 the CRC of any body of four bytes is right, so that short ones are kept
_ANY_CRC = {"CRC_POLYNOMIAL": 0, "CRC_RESIDUE": 0}
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
    dut, b.m.submodules.dut = shrunk(_FRAMES, Deframer, **_SMALL, **_ANY_CRC, CRC_BYTES=1)
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


def valid_frame() -> Bench:
    """A flag, a request, a flag, to a deframer that is as after a reset: the request comes."""
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_FRAMES, Deframer, **_SMALL, **_ANY_CRC, CRC_BYTES=1)
    body = [b.constant(f"byte {k} of the body", 8) for k in range(_SMALL["HEADER"] + 2 + 1)]
    writes, length = body[1][0], body[2]
    data = Mux(writes, length, 0)
    b.assume("the length is that of a request", length <= _SMALL["MAXIMUM"])
    place, escaped, begun, over = Signal(4), Signal(), Signal(), Signal()
    byte, ended = Array(body)[place], Signal()
    special = (byte == FLAG) | (byte == ESCAPE)
    b.d.comb += [
        ended.eq(place == _SMALL["HEADER"] + data + 1),
        dut.i.valid.eq(b.free("i.valid") & ~over),
        dut.i.payload.eq(
            Mux(
                ~begun | ended,
                FLAG,
                Mux(special, Mux(escaped, byte ^ ESCAPE_XOR, ESCAPE), byte),
            )
        ),
    ]
    b.within(b.assume, "bytes come at once", ~dut.i.valid & dut.i.ready & ~over, 0)
    with b.m.If(dut.i.valid & dut.i.ready):
        b.d.sync += begun.eq(1)
        with b.m.If(begun & ended):
            b.d.sync += over.eq(1)
        with b.m.Elif(begun & special & ~escaped):
            b.d.sync += escaped.eq(1)
        with b.m.Elif(begun):
            b.d.sync += [escaped.eq(0), place.eq(place + 1)]
    given = Signal(4)
    b.d.comb += dut.o.ready.eq(1)
    b.d.sync += given.eq(given + dut.o.valid)
    for name, value in (("the frame is over", over), ("o.valid", dut.o.valid), ("given", given)):
        b.show(name, value)
    b.check("nothing is dropped", ~dut.dropped)
    b.check("nothing comes before the frame is over", over | ~dut.o.valid)
    b.check("what comes is the request", ~dut.o.valid | (dut.o.payload == Array(body)[given]))
    b.check("no more comes", ~dut.o.valid | (given < _SMALL["HEADER"] + data))
    b.within(
        b.check,
        "it comes within 3 cycles, without gap",
        over & (given != _SMALL["HEADER"] + data) & ~dut.o.valid,
        2,
    )
    whole = over & (given == _SMALL["HEADER"] + data)
    b.cover("a request with two bytes of data has come", whole & (data == 2))
    b.cover("a flag was a byte of data", whole & (data == 1) & (body[3] == FLAG))
    return b


#: CRC-32 as IEEE 802.3 writes it: the most significant bit first, the polynomial 0x04C11DB7
_NORMAL = 0x04C1_1DB7
NORMAL_RESIDUE = 0xC704_DD7B


def crc_bits(register: list, bits: list) -> list:
    """The CRC's register after bits, by IEEE 802.3's polynomial: lists of bits, as integers or as
    values; the register's least significant first.
    """
    for bit in bits:
        back = register[31] ^ bit
        register = [back, *register[:31]]
        for k in range(1, 32):
            if _NORMAL >> k & 1:
                register[k] = register[k] ^ back
    return register


def after(register, bits) -> Cat:
    """`crc_bits` for signals."""
    return Cat(crc_bits(list(register), list(bits)))


class _Crc:
    """IEEE's register beside one of `hdl.link.frames`, a bit a cycle."""

    def __init__(self, b: Bench, inside: dict[str, Signal]) -> None:
        self.b, self.inside = b, inside
        self.register = Signal(32, init=0xFFFF_FFFF, name="ieee_crc")
        self.bits, self.turns = Signal(8, name="ieee_bits"), Signal(4, name="ieee_turns")
        with b.m.If(self.turns != 0):
            b.d.sync += [
                self.register.eq(after(self.register, self.bits[:1])),
                self.bits.eq(self.bits >> 1),
                self.turns.eq(self.turns - 1),
            ]

    def byte(self, value) -> list:
        """What has a byte go through the register from the next cycle on."""
        return [self.bits.eq(value), self.turns.eq(8)]

    @property
    def reflected(self) -> Cat:
        """The register as hardware has it that shifts the least significant bit first."""
        return Cat(*reversed(list(self.register)))

    @property
    def same(self) -> Signal:
        """Whether both registers hold the same, and have the same bits before them."""
        inside = self.inside
        return (
            (inside["crc"] == self.reflected)
            & (inside["turns"] == self.turns)
            & ((self.turns == 0) | (inside["shift"] == self.bits))
        )


def checked() -> Bench:
    """The deframer's CRC is IEEE's."""
    b = Bench()
    dut, b.m.submodules.dut = part = shrunk(_FRAMES, Deframer, **_SMALL)
    inside = registers_of(part[1])
    offer(b, dut.i, "i")
    b.d.comb += dut.o.ready.eq(1)
    taken, byte = dut.i.valid & dut.i.ready, dut.i.payload
    crc, escaped, body = _Crc(b, inside), Signal(), Signal()
    flag = taken & (byte == FLAG)
    with b.m.If(flag):
        b.d.sync += [crc.register.eq(0xFFFF_FFFF), escaped.eq(0), body.eq(0)]
    with b.m.Elif(taken):
        b.d.sync += [body.eq(1), escaped.eq((byte == ESCAPE) & ~escaped)]
        with b.m.If((byte != ESCAPE) | escaped):
            b.d.sync += crc.byte(byte ^ Mux(escaped, ESCAPE_XOR, 0))
    b.check("its register is IEEE's", crc.same)
    b.check(
        "inside: the body, the escape", Cat(inside["seen"], inside["escape"]) == Cat(body, escaped)
    )
    b.check(
        "a body is kept only with the residue of CRC-32",
        ~(flag & body & ~dut.dropped) | (crc.register == NORMAL_RESIDUE),
    )
    b.check("a body that ends in an escape is dropped", ~(flag & body & escaped) | dut.dropped)
    b.cover("a byte was seen", body & (inside["turns"] == 1))
    b.cover("a body is dropped", flag & dut.dropped)
    return b


def framed() -> Bench:
    """What the framer sends: the body, then IEEE's CRC of it, least significant byte first."""
    b = Bench()
    dut, b.m.submodules.dut = part = shrunk(_FRAMES, Framer)
    inside = registers_of(part[1])
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    taken, sent = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    crc, byte, escaped, last = _Crc(b, inside), Signal(8), Signal(), Signal()
    open_, tail, count = Signal(), Signal(), Signal(3)  # CRC bytes that were sent
    with b.m.If(taken):
        b.d.sync += [*crc.byte(dut.i.p.data), byte.eq(dut.i.p.data), last.eq(dut.i.p.last)]
    # what is to be sent
    due = Mux(tail, (~crc.reflected).word_select(count[:2], 8), byte)
    is_escape = (dut.o.payload == ESCAPE) & ~escaped
    with b.m.If(sent & (dut.o.payload == FLAG)):
        b.d.sync += [
            open_.eq(~open_),
            *(signal.eq(0) for signal in (tail, count, escaped, last)),
            crc.register.eq(0xFFFF_FFFF),
        ]
    with b.m.Elif(sent):
        b.d.sync += escaped.eq(is_escape)
        with b.m.If(~is_escape):
            b.d.sync += [tail.eq(last), count.eq(count + tail)]
    true = dut.o.payload ^ Mux(escaped, ESCAPE_XOR, 0)
    offered = dut.o.valid & (dut.o.payload != FLAG)
    b.check("a byte is the body's, or its CRC's", ~(offered & ~is_escape) | (true == due))
    b.check(
        "an escape is for a flag or an escape",
        ~(offered & is_escape) | (due == FLAG) | (due == ESCAPE),
    )
    b.check(
        "a frame ends behind four bytes of CRC",
        ~(dut.o.valid & open_ & (dut.o.payload == FLAG)) | (tail & (count == 4)),
    )
    # what induction has to know: the states, and what the registers hold in each
    rest, body, send, next_, end = (inside["fsm_state"] == k for k in range(5))
    some, left, turns = send | next_ | end, inside["tail"], inside["turns"]
    special = (inside["byte"] == FLAG) | (inside["byte"] == ESCAPE)
    for name, holds in {
        "states": inside["fsm_state"] < 5,
        "a frame is open but at rest": rest == ~open_,
        "at rest": ~rest | (Cat(escaped, tail, last, count) == 0),
        "the last byte": ~some | (inside["last"] == last),
        "the escape": (inside["escaped"] == escaped) & (~escaped | (send & special)),
        "turns": ~(rest | body | end) | (turns == 0),
        "the register of the body": rest | (left != 4) | crc.same,
        "what is left of the CRC": ~some
        | (left == 4)
        | (
            (left < 4)
            & (Cat(turns, crc.turns) == 0)
            & (inside["crc"] == crc.reflected >> ((4 - left)[:3] << 3))
        ),
        "IEEE's register at rest": ~rest | ((crc.turns == 0) & (crc.register == 0xFFFF_FFFF)),
        "the byte that is sent": ~send | (inside["byte"] == due),
        "a body goes on": ~body | ((left == 4) & (Cat(tail, last, count) == 0)),
        "the CRC begins": ~send | (tail == (left != 4)),
        "the CRC's bytes": ~send | Mux(tail, last & (count == 3 - left), count == 0),
        "between bytes": ~next_
        | ((tail == last) & (count == Mux(left == 4, 0, 4 - left)) & (last | (left == 4))),
        "the end": ~end | (tail & (count == 4)),
    }.items():
        b.check(f"inside: {name}", holds)
    b.cover("a byte of the CRC is sent", sent & tail)
    b.cover("an escape is sent", sent & is_escape)
    return b


def framer() -> Bench:
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_FRAMES, Framer)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
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
    b.within(
        b.check,
        "a body's byte is taken within 32 cycles in which the wire does not let a byte wait",
        dut.i.valid & ~dut.i.ready,
        32,
        but=dut.o.valid & ~dut.o.ready,
    )
    b.within(
        b.check,
        "between a body's byte and the frame's end a byte is sent every 10 cycles",
        inside & ~sent & ~(dut.i.ready & ~dut.i.valid),
        10,
        but=dut.o.valid & ~dut.o.ready,
    )
    b.cover("a frame ends", sent & inside & (dut.o.payload == FLAG))
    b.cover("an escape is sent", sent & escaped)
    return b


_F = "hdl.link.frames"

PROOFS = [
    Proof(
        "hdl.link.Deframer",
        "from a flag on, whatever came before, it does what a new one does",
        in_step,
        Defect(_F, "escape.eq(0), bad.eq(0)", "bad.eq(0)"),
        method="induction",
        depth=3,
    ),
    Proof(
        "hdl.link.Deframer",
        "takes each byte within 9 cycles, whatever waits",
        takes,
        Defect(_F, "self.i.ready.eq(self.turns == 0)", "self.i.ready.eq((self.turns == 0) & ~bad)"),
    ),
    Proof(
        "hdl.link.Deframer",
        "requests come whole, without gap; ring of 8, headers of 3, data ≤ 2, a CRC of one byte",
        whole,
        Defect(_F, "m.d.sync += self.put.eq(self.kept)", "pass"),
        method="bounded",
        depth=50,
        covers=60,
        search=60,
    ),
    Proof(
        "hdl.link.Deframer",
        "a valid frame, to a deframer as after a reset, gives its request, byte for byte, within 3 "
        "cycles of its closing flag: any request, with any bytes; headers of 3, data ≤ 2, bytes as "
        "fast as they are taken, to its end",
        valid_frame,
        Defect(_F, "self.kept.eq(self.put)", "self.kept.eq(self.put - 1)"),
        method="bounded",
        depth=80,
        covers=80,
        search=80,
    ),
    Proof(
        "hdl.link.Deframer",
        "its CRC is IEEE's CRC-32 of the body, in each cycle, and a body is kept only with its residue, "
        "and not behind an escape",
        checked,
        Defect(_F, "(crc >> 1) ^ Mux(crc[0] ^ bit", "(crc >> 1) ^ Mux(crc[1] ^ bit"),
        method="induction",
        depth=2,
        search=80,
    ),
    Proof(
        "hdl.link.Framer",
        "frames begin and end with flags, escapes; a body's byte is taken within 32 cycles, and "
        "one is sent every 10 inside a frame, those not counted in which the wire lets a byte wait",
        framer,
        Defect(_F, "self.o.valid.eq(self.i.valid)", "self.o.valid.eq(0)"),
        search=70,
        covers=60,
    ),
    Proof(
        "hdl.link.Framer",
        "what is sent is the body, then IEEE's CRC-32 of it",
        framed,
        Defect(_F, "byte.eq(~crc[:8])", "byte.eq(crc[:8])"),
        method="induction",
        depth=2,
        search=50,
    ),
]
