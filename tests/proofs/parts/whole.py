# amaranth: UnusedElaboratable=no
"""Link as a whole: whatever bytes come, it gets on; its UARTs and its deframer are any that keep what
is proven of them.
"""

from __future__ import annotations

import sys

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from harness import Bench, Defect, Proof
from harness.small import made, others
from harness.substitute import replaced

from penstock.hdl.link.frames import Deframer
from penstock.hdl.link.link import Link
from penstock.hdl.link.uart import UartReceiver, UartTransmitter
from penstock.models.link.frames import ESCAPE, FLAG, NACK, RESPONSE, Status

from .bridge import BUSES, IDENTITY, Requests, bus_answers

_FRAMES, _BRIDGE = (sys.modules[f"penstock.hdl.link.{name}"] for name in ("frames", "bridge"))
#: the CRC has proofs of its own: none here, and a byte in its place
_NO_CRC = {"CRC_POLYNOMIAL": 0, "CRC_BYTES": 1}
#: bytes of a request's header, one of them its address
_HEADER = 4


class _AnyReceiver(wiring.Component):
    """Offers any bytes; one that is not taken may be lost for another."""

    def __init__(self, bench: Bench, divisor: int) -> None:
        self.bench = bench
        super().__init__(UartReceiver(divisor).signature)

    def elaborate(self, platform):
        m, b = Module(), self.bench
        m.d.comb += [
            self.o.valid.eq(b.free("receiver.valid")),
            self.o.payload.eq(b.free("receiver.payload", 8)),
        ]
        return m


class _AnyDeframer(wiring.Component):
    """Gives requests whole, without gap, once they have begun, and drops at a flag: any of them, at
    any time.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        super().__init__(Deframer().signature)

    def elaborate(self, platform):
        m, b = Module(), self.bench
        m.d.comb += [
            self.i.ready.eq(b.free("deframer takes a byte")),
            self.dropped.eq(
                b.free("deframer drops") & self.i.valid & self.i.ready & (self.i.payload == FLAG)
            ),
            self.o.valid.eq(b.free("request.valid")),
            self.o.payload.eq(b.free("request.payload", 8)),
        ]
        return m


class _AnyTransmitter(wiring.Component):
    """Takes bytes when it likes."""

    def __init__(self, bench: Bench, divisor: int) -> None:
        self.bench = bench
        super().__init__(UartTransmitter(divisor).signature)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(self.bench.free("transmitter takes a byte"))
        return m


class _Kept:
    """Keeps the component that a class makes, for the bench to look at its ports."""

    def __init__(self, make) -> None:
        self.make = make

    def __call__(self, *arguments):
        self.component = self.make(*arguments)
        return self.component


def _link(b: Bench) -> tuple:
    """The link, and its deframer and transmitter."""
    receiver, deframer, transmitter = (
        _Kept(lambda *given, kind=kind: kind(b, *given))
        for kind in (_AnyReceiver, _AnyDeframer, _AnyTransmitter)
    )
    places = {
        "hdl.link.link": {
            "UartReceiver": lambda _: receiver,
            "Deframer": lambda _: deframer,
            "UartTransmitter": lambda _: transmitter,
        }
    }
    small = others(_BRIDGE, _ADDRESS=1, HEADER=_HEADER)
    with replaced(places), small, others(_FRAMES, **_NO_CRC):
        dut = Link(IDENTITY, divisor=4, **BUSES)
        b.m.submodules.dut = made(dut)
    return dut, deframer.component, transmitter.component


#: cycles within which the transmitter takes a byte, and those within which a byte moves
TAKEN, MOVES = 2, 16


def link() -> Bench:
    b = Bench()
    dut, deframer, transmitter = _link(b)
    given, wire = deframer.o, transmitter.i
    for name, bus in (("registers", dut.axil), ("memory", dut.bus)):
        bus_answers(b, name, bus, check=False)
    b.steady(b.assume, "request (given)", given.valid, given.ready, given.payload)
    b.steady(b.check, "to the wire", wire.valid, wire.ready, wire.payload)
    taken, sent = given.valid & given.ready, wire.valid & wire.ready
    request = Requests(b, taken, given.payload, header=_HEADER)
    b.assume("a request that has begun comes without gap", ~request.inside | given.valid)
    b.assume("requests are of at most one byte", (request.place != 2) | (given.payload <= 1))
    b.within(b.assume, f"a byte is sent within {TAKEN} cycles", wire.valid & ~wire.ready, TAKEN - 1)
    # frames on the wire, and what they are due for: requests that came whole, drops
    frame, count, escaped = Signal(name="in_frame"), Signal(3, name="frame_bytes"), Signal()
    is_nack, dropped = Signal(), Signal()  # by the kind, by the status: a request may have the kind
    flag = sent & (wire.payload == FLAG)
    with b.m.If(flag):
        b.d.sync += [frame.eq(~frame), *(part.eq(0) for part in (count, escaped, is_nack, dropped))]
    with b.m.Elif(sent & (wire.payload == ESCAPE) & ~escaped):
        b.d.sync += escaped.eq(1)
    with b.m.Elif(sent):
        b.d.sync += [escaped.eq(0), count.eq(count + (count != 4))]
        with b.m.If(count == 1):
            b.d.sync += is_nack.eq(wire.payload == NACK | RESPONSE)
        with b.m.If(count == 3):
            b.d.sync += dropped.eq(wire.payload == Status.DROPPED)
    nack, answered = flag & frame & is_nack & dropped, flag & frame & ~(is_nack & dropped)
    due, owed, came = Signal(2, name="answers_due"), Signal(name="nack_due"), Signal()
    b.d.comb += came.eq(b.past(taken & request.inside) & ~request.inside)
    b.d.sync += due.eq(due + came - answered)
    with b.m.If(deframer.dropped):
        b.d.sync += owed.eq(1)
    with b.m.Elif(nack):
        b.d.sync += owed.eq(0)
    for name, value in (
        ("a request's byte is taken", taken),
        ("a byte is sent", sent),
        ("answers due", due),
        ("a nack is due", owed),
    ):
        b.show(name, value)
    busy = request.inside | given.valid | frame | (due != 0) | owed
    waited = b.within(
        b.check,
        f"within {MOVES} cycles a byte of a request is taken or one is sent, while something is to "
        "be done",
        busy & ~taken & ~sent,
        MOVES,
    )
    b.check("frames answer requests and drops", ~answered | (due != 0))
    b.check("at most one request is taken while another's answer is under way", due < 3)
    b.cover("a request is answered", answered)
    b.cover("a nack is sent", nack)
    b.cover(f"a byte moves after {MOVES // 4} cycles", waited == MOVES // 4)
    return b


PROOFS = [
    Proof(
        "hdl.link.Link",
        f"whatever bytes come, within {MOVES} cycles a request's byte is taken or a byte is sent "
        "while a request, an answer or a nack is due, and frames are answers or nacks; any "
        "UARTs and deframer as proven, requests of at most one byte; the wire takes bytes, and buses "
        "answer, within 2",
        link,
        Defect("hdl.link.link", "bridge.dropped.eq(deframer.dropped)", "bridge.dropped.eq(0)"),
        method="bounded",
        depth=50,
        covers=70,
        search=60,
        merge=True,
        long="20 s",
    ),
]
