"""A device behind its PHY's bytes, in simulation: frames in and out as `sim.board.Datagrams` moves them."""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.hdl.soc import Soc
from penstock.models.link.ethernet import FCS, PREAMBLE, START, on_wire, sound
from penstock.sim.board import Datagrams

__all__ = ["Framed", "Wired"]


class Wired(wiring.Component):
    """`soc`, whose two domains are one, with the pins of a device of datagrams: each is a frame on the wire, preamble and FCS with it."""

    def __init__(self, soc: Soc) -> None:
        self.soc, self.library = soc, soc.library
        coming = {"rx_data": In(9), "rx_valid": In(1), "rx_ready": Out(1), "tick": In(1)}
        super().__init__(
            {**coming, "tx_data": Out(9), "tx_valid": Out(1), "tx_ready": In(1), "busy": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        soc, gap, byte, held = self.soc, Signal(4), Signal(8), Signal()
        m.submodules.soc = DomainRenamer({"eth": "sync"})(soc)
        m.d.comb += [
            self.rx_ready.eq(gap == 0),
            soc.rxd.eq(self.rx_data[:8]),
            soc.rx_dv.eq(self.rx_valid & self.rx_ready),
            self.busy.eq(soc.busy),
            self.tx_data.eq(byte),
            self.tx_data[8].eq(~soc.tx_en),
            self.tx_valid.eq(held),
        ]
        m.d.sync += [byte.eq(soc.txd), held.eq(soc.tx_en)]
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.Elif(self.rx_valid & self.rx_data[8]):
            m.d.sync += gap.eq(12)
        return m


class Framed(Datagrams):
    """A device that is `Wired`; `wrap` makes a frame of a datagram, and `unwrap` gives the datagram in one, both without FCS; b"": there is none."""

    def __init__(self, source: str, wrap, unwrap) -> None:
        super().__init__(source)
        self.wrap, self.unwrap = wrap, unwrap

    def send(self, datagram: bytes) -> None:
        super().send(on_wire(self.wrap(datagram)))

    def run(self) -> bytes:
        whole = super().run()
        if not whole:
            return b""
        frame = whole[8:]
        assert whole[:8] == bytes([PREAMBLE] * 7 + [START]) and sound(frame)
        return self.unwrap(frame[:-FCS])
