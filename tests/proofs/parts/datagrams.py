# amaranth: UnusedElaboratable=no
"""The link's datagrams: no sequence of bytes wedges their receiver, their CRC is CRC-32, and nobody but a session's host has the device."""

from __future__ import annotations

import sys

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.lib.data import StructLayout
from harness import Bench, Defect, Proof
from harness.environment import WriteMemory, offer, take
from harness.small import made, registers_of, shrunk

from penstock.hdl.link.datagrams import DatagramReceiver, DatagramSender
from penstock.hdl.link.filler import Filler
from penstock.hdl.link.pusher import Pusher
from penstock.hdl.link.responder import Responder
from penstock.hdl.memory import AXI4
from penstock.models.link.frames import CRC_BYTES

from .link import after

_DATAGRAMS, _RESPONDER = (
    sys.modules[f"penstock.hdl.link.{name}"] for name in ("datagrams", "responder")
)
_PUSHER, _FILLER = (sys.modules[f"penstock.hdl.link.{name}"] for name in ("pusher", "filler"))
#: pieces up to 64, rings of up to 15
_STREAM = {"at": 2, "size": 4, "shift": 1, "first": 6, "slot": 4, "bitmap": 4, "done": 4}
_FEW = {"_COUNT": 6, "_STREAM": StructLayout(_STREAM)}
#: heads of a word, at most 2 bytes of data, a CRC of one byte that is right for any datagram of a word or more
_SMALL = {"HEAD": 4, "_KIND": 0, "LONGEST": 2, "CRC_BYTES": 1}
_ANY_CRC = {"CRC_POLYNOMIAL": 0, "CRC_RESIDUE": 0}


def receiver() -> Bench:
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_DATAGRAMS, lambda: DatagramReceiver(32), **_SMALL, **_ANY_CRC)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    b.within(
        b.check, "a word is taken within 6 cycles, whatever waits", dut.i.valid & ~dut.i.ready, 5
    )
    ended = Signal()
    b.d.sync += ended.eq(ended | (dut.i.valid & dut.i.ready & dut.i.p.last))
    b.check("nothing is offered before a datagram has ended", ~dut.o.valid | ended)
    b.cover("a request is offered", dut.o.valid & dut.o.ready)
    return b


def sender() -> Bench:
    """The register beside IEEE's, which is kept for each datagram."""
    b = Bench()
    dut = DatagramSender()
    b.m.submodules.dut = part = made(dut)
    inside = registers_of(part)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    register, tail = Signal(32, init=0xFFFF_FFFF, name="ieee_crc"), Signal(3)
    taken, sent = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    with b.m.If(taken):
        b.d.sync += register.eq(after(register, dut.i.p.data))
        with b.m.If(dut.i.p.last):
            b.d.sync += tail.eq(CRC_BYTES)
    with b.m.If(sent & (tail != 0)):
        b.d.sync += tail.eq(tail - 1)
        with b.m.If(tail == 1):
            b.d.sync += register.eq(0xFFFF_FFFF)
    reflected = Cat(*reversed(list(register)))
    moved = Cat(reflected, Const(0xFFFF_FFFF, 32))
    at = Mux(tail == 0, 0, (CRC_BYTES - tail)[:3])
    b.check("inside: the bytes of the CRC to come", (inside["left"] == tail) & (tail <= CRC_BYTES))
    b.check("its register is IEEE's", inside["crc"] == (moved >> (at << 3))[:32])
    byte = Mux(tail == 0, dut.i.p.data, (~reflected).word_select(at[:2], 8))
    b.check("what is sent is the body, then the CRC", ~dut.o.valid | (dut.o.p.data == byte))
    b.check("its last byte is the CRC's", ~dut.o.valid | (dut.o.p.last == (tail == 1)))
    b.check("a byte is taken when it is sent", (tail != 0) | (taken == sent))
    b.cover("a datagram ends", sent & dut.o.p.last)
    return b


def responder() -> Bench:
    b = Bench()
    port = AXI4(address_width=13, data_bytes=4)
    dut, b.m.submodules.dut = shrunk(_RESPONDER, lambda: Responder(port, 4096), LONGEST=4)
    for name in ("i", "told"):
        offer(b, getattr(dut, name), name)
    for name in ("asks", "o", "fill", "filling"):
        take(b, getattr(dut, name), name)
    b.d.comb += [dut.tick.eq(b.free("tick")), dut.fill_idle.eq(b.free("fill_idle"))]
    b.d.comb += dut.fill_status.eq(b.free("fill_status", 2))
    b.check(
        "memory is filled for the session that has the device",
        ~dut.fill.valid | ((dut.asked.number == dut.session.mine) & (dut.session.mine != 0)),
    )
    b.check(
        "the bridge is asked for the session that has the device, or for its opening",
        ~dut.asks.valid
        | ((dut.asked.number == dut.session.mine) & ((dut.session.mine != 0) | dut.opens)),
    )
    b.cover("the bridge is asked", dut.asks.valid)
    b.cover("an answer begins", dut.o.valid)
    return b


def filler() -> Bench:
    """Commands of up to three bus words of 8 bytes, across 4 KiB as well, while the bridge rests."""
    b = Bench()
    port = AXI4(address_width=13, data_bytes=8)
    dut, b.m.submodules.dut = shrunk(_FILLER, lambda: Filler(port), LONGEST=16)
    for name in ("i", "data"):
        offer(b, getattr(dut, name), name)
    b.assume("commands are of whole words", ~dut.i.valid | (dut.i.p.address[:3] == 0))
    b.assume("and of some", ~dut.i.valid | (dut.i.p.beats != 0))
    b.assume("one at a time", ~dut.i.valid | dut.idle)
    memory = WriteMemory(b, dut.bus, "memory", beats=4)
    b.d.comb += dut.bus.bresp.eq(b.free("bresp", 2))
    half, odd, answers = Signal(32), Signal(), Signal(2)
    with b.m.If(dut.data.valid & dut.data.ready):
        b.d.sync += [odd.eq(~odd), half.eq(dut.data.payload)]
    with b.m.If(dut.i.valid & dut.i.ready):
        b.d.sync += answers.eq(0)
    with b.m.Elif(memory.answered):
        b.d.sync += answers.eq(answers | dut.bus.bresp)
    whole = Cat(half, dut.data.payload)
    b.check("what is written are two words", ~dut.bus.wvalid | (odd & (dut.bus.wdata == whole)))
    b.check("which pass with the second", ~memory.beat | dut.data.ready)
    b.check("its answers, ORed", ~dut.idle | (dut.status == answers))
    asks = b.free("the bridge asks") & dut.idle & ~dut.i.valid
    b.d.comb += [dut.bridge.araddr.eq(b.free("araddr", 13)), dut.bridge.arvalid.eq(asks)]
    b.check("the bridge asks past it", ~asks | (dut.bus.araddr == dut.bridge.araddr))
    b.cover("two bursts of a command are answered", memory.answered & (answers == 1))
    return b


def pusher() -> Bench:
    """One port, whose counter reads as anything, also as less than before."""
    b = Bench()
    dut, b.m.submodules.dut = shrunk(_PUSHER, lambda: Pusher([(0x7C, 0x48)]), **_FEW)
    for name in ("asks", "i"):
        offer(b, getattr(dut, name), name)
    for name in ("told", "o"):
        take(b, getattr(dut, name), name)
    of, stream, busy = dut.of, dut.stream, Signal()
    pulses, said = ("begin", "take", "kept"), ("port", "address", "length", "asked")
    for name in (*pulses, *said):
        b.d.comb += getattr(of, name).eq(b.free(name, len(getattr(of, name))))
    begins, whole = Cat(getattr(of, n) for n in pulses), Cat(getattr(of, n) for n in said)
    before = Signal.like(whole)
    b.d.sync += [before.eq(whole), busy.eq((busy | begins.any()) & ~of.done)]
    b.assume("one thing at a time", of.begin + of.take + of.kept <= Mux(busy, 0, 1))
    b.assume("the request stays", ~busy | (whole == before))
    b.assume("the responder rests", ~(busy | begins.any()) | ~dut.asks.valid)
    b.assume("and waits for nothing", ~begins.any() | ~dut.i.valid)
    behind = Signal(32)
    b.d.comb += behind.eq((of.address[10:16] >> stream.shift) - stream.done)
    free = behind < stream.size >> stream.shift
    b.check("what goes to memory has a slot that is free", ~(of.done & of.goes) | free)
    b.cover("a piece goes to memory", of.done & of.goes)
    b.cover("a register is asked for", busy & dut.o.valid)
    return b


_D, _R = "hdl.link.datagrams", "hdl.link.responder"

PROOFS = [
    Proof(
        "hdl.link.DatagramReceiver",
        "takes each word within 6 cycles, whatever waits; what it offers stays; ring of 8 words, heads of one, "
        "data ≤ 2 bytes, a CRC of one",
        receiver,
        Defect(_D, "self.i.ready.eq(~self.ended &", "self.i.ready.eq(~self.ended & ~bad &"),
    ),
    Proof(
        "hdl.link.DatagramSender",
        "what is sent is the body, then IEEE's CRC-32 of it",
        sender,
        Defect(_D, "self.o.p.data.eq(~crc[:8])", "self.o.p.data.eq(crc[:8])"),
        method="induction",
        depth=2,
    ),
    Proof(
        "hdl.link.Responder",
        "asks the bridge for the session that has the device alone, or for its opening; what it offers "
        "stays; any bytes, any answers of the bridge; data ≤ 4",
        responder,
        Defect(
            _R,
            "(self.asked.number != self.session.mine) | (self.session.mine == 0)",
            "self.asked.number != self.session.mine",
        ),
        covers=26,
        search=30,
    ),
    Proof(
        "hdl.link.Filler",
        "writes words in order, two to a bus word, and its status is all answers, ORed; commands of up to 3 bus words",
        filler,
        Defect("hdl.link.filler", "self.status | bus.bresp", "bus.bresp"),
        search=30,
        covers=30,
    ),
    Proof(
        "hdl.link.Pusher",
        "a piece goes to memory only where its page's slot was read; what it offers stays; any answers of the bridge; "
        "counts of 6 bits",
        pusher,
        Defect(
            "hdl.link.pusher",
            "self.ahead[:6] >= stream.size) | ~free",
            "self.ahead[:6] >= stream.size)",
        ),
    ),
]
