# amaranth: UnusedElaboratable=no
"""A station on Ethernet: no bytes wedge its reader, no frame is written into one that is being sent, and the line rests between two."""

from __future__ import annotations

import sys

from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from harness import Bench, Defect, Proof
from harness.environment import offer, take
from harness.small import made, others

from penstock.hdl.link.mac import FrameReceiver, FrameSender
from penstock.hdl.link.station import Composer, Ethernet, Reader
from penstock.models.link.ethernet import GAP, Station

__all__ = ["COMPONENTS", "PROOFS"]

_STATION = Station(bytes.fromhex("02a0b0c0d0e1"), bytes([10, 0, 0, 9]), 5004)
_MAC = sys.modules["penstock.hdl.link.mac"]


class _Alone(wiring.Component):
    """A station whose domains are one."""

    def __init__(self) -> None:
        self.station = Ethernet(_STATION)
        super().__init__(self.station.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.station = DomainRenamer({"eth": "sync"})(self.station)
        wiring.connect(m, wiring.flipped(self), self.station)
        return m


COMPONENTS = {"Ethernet": lambda: _Alone()}


def reader() -> Bench:
    b = Bench()
    b.m.submodules.dut = dut = Reader(_STATION)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    b.within(
        b.check,
        "a word is taken within 5 cycles in which nothing that is offered waits",
        dut.i.valid & ~dut.i.ready,
        5,
        but=dut.o.valid & ~dut.o.ready,
    )
    b.cover("a word is taken", dut.i.valid & dut.i.ready)
    return b


def composer() -> Bench:
    b = Bench()
    b.m.submodules.dut = dut = Composer(_STATION)
    for name in ("echo", "i"):
        offer(b, getattr(dut, name), name)
    busy = Signal()
    b.d.comb += [dut.busy.eq(busy), dut.spoilt.eq(b.free("spoilt")), dut.arp.eq(b.free("arp"))]
    b.d.sync += busy.eq(dut.go | (busy & b.free("sends")))
    b.check("nothing is written while a frame is sent", ~(dut.en & dut.busy))
    b.check("no other is asked for meanwhile", ~(dut.go & dut.busy))
    b.cover("a byte is written", dut.en)
    return b


def sender() -> Bench:
    b = Bench()
    with others(_MAC, SIZE=3, SHORTEST=6):
        dut = FrameSender()
        b.m.submodules.dut = made(DomainRenamer({"eth": "sync"})(dut))
    b.d.comb += [dut.go.eq(b.free("go") & ~dut.busy), dut.length.eq(b.constant("length", 3))]
    rest = Signal(range(GAP + 1), init=GAP)
    with b.m.If(dut.tx_en):
        b.d.sync += rest.eq(0)
    with b.m.Elif(rest != GAP):
        b.d.sync += rest.eq(rest + 1)
    b.check(
        "between two frames the line rests for 12 cycles", ~dut.tx_en | (rest == 0) | (rest == GAP)
    )
    b.check("and is 0", dut.tx_en | (dut.txd == 0))
    b.cover("a byte is sent", dut.tx_en)
    return b


def receiver() -> Bench:
    b = Bench()
    dut = FrameReceiver(16)
    b.m.submodules.dut = made(DomainRenamer({"eth": "sync"})(dut))
    for name, width in (("rxd", 8), ("rx_dv", 1), ("rx_er", 1)):
        b.d.comb += getattr(dut, name).eq(b.free(name, width))
    take(b, dut.o, "o")
    begun = Signal()
    b.d.sync += begun.eq(begun | (dut.rx_dv & (dut.rxd == 0xD5)))
    b.check("nothing is offered before a frame has begun", ~dut.o.valid | begun)
    b.cover("a byte comes", dut.rx_dv)
    return b


_S, _M = "hdl.link.station", "hdl.link.mac"

PROOFS = [
    Proof(
        "hdl.link.Reader",
        "takes each word within 5 cycles, those not counted in which what it offers waits; what it offers stays; any bytes",
        reader,
        Defect(
            _S,
            "self.peer.eq(self.peer >> 8 * WORD), count.eq(count - 1)",
            "self.peer.eq(self.peer >> 8 * WORD)",
        ),
        search=65,
    ),
    Proof(
        "hdl.link.Composer",
        "writes into no frame that is being sent; any datagrams, echoes and ends of sending",
        composer,
        Defect(
            _S,
            "with m.If(~self.busy & (self.echo.valid | self.i.valid))",
            "with m.If(self.echo.valid | self.i.valid)",
        ),
        search=80,
    ),
    Proof(
        "hdl.link.FrameSender",
        "between two frames the line rests for 12 cycles or more; a buffer of 8, frames of 6 bytes or more, one clock",
        sender,
        Defect(_M, "count.eq(GAP - 1)", "count.eq(GAP - 2)"),
        search=60,
    ),
    Proof(
        "hdl.link.FrameReceiver",
        "offers nothing before a frame has begun, and what it offers stays; a ring of 16, one clock",
        receiver,
        Defect("hdl.link.datagrams", "o.valid.eq(ahead != end)", "o.valid.eq(ahead == end)"),
        method="bounded",
        depth=24,
        search=24,
        covers=8,
    ),
]
