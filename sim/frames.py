"""A whole device on Ethernet in simulation, at the bytes of its PHY: frames in and out."""

from typing import Any

from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..hdl.modules import ModuleLibrary
from ..hdl.soc.soc import Soc
from ..models.link.ethernet import FCS, PREAMBLE, START, Station, on_wire, sound
from . import board

#: cycles between two frames
_GAP = 12


class _Wired(wiring.Component):
    """`soc`, whose two domains are one, with the pins of a device of datagrams: each is a frame on the wire, preamble and FCS with it."""

    def __init__(self, soc: Soc) -> None:
        self.soc, self.library = soc, soc.library
        coming = {"rx_data": In(9), "rx_valid": In(1), "rx_ready": Out(1), "tick": In(1)}
        super().__init__(
            {**coming, "tx_data": Out(9), "tx_valid": Out(1), "tx_ready": In(1), "busy": Out(1)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        soc, gap = self.soc, Signal(range(_GAP + 1))
        byte, held = Signal(8), Signal()
        m.submodules.soc = DomainRenamer({"eth": "sync"})(soc)
        m.d.comb += [
            self.rx_ready.eq(gap == 0),
            soc.rxd.eq(self.rx_data[:8]),
            soc.rx_dv.eq(self.rx_valid & self.rx_ready),
            soc.tick.eq(self.tick),
            self.busy.eq(soc.busy),
            self.tx_data.eq(byte),
            self.tx_data[8].eq(~soc.tx_en),
            self.tx_valid.eq(held),
        ]
        m.d.sync += [byte.eq(soc.txd), held.eq(soc.tx_en)]
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.Elif(self.rx_valid & self.rx_data[8]):
            m.d.sync += gap.eq(_GAP)
        return m


def generate(engine: Any, library: ModuleLibrary, station: Station, **memory: Any) -> str:
    """Return the Verilog of an engine's device with those addresses, for `Frames`; `memory`: as of `board.generate`."""
    return board.generate(engine, library, **memory, baud=None, station=station, around=_Wired)


class Frames(board.Datagrams):
    """A simulated device behind frames of Ethernet, both without preamble and FCS."""

    def send(self, frame: bytes) -> None:
        super().send(on_wire(frame))

    def run(self, cycles: int | None = None) -> bytes:
        stream = super().run(cycles)
        if not stream:
            return b""
        frame = stream[8:]
        assert stream[:8] == bytes([PREAMBLE] * 7 + [START]) and sound(frame)
        return frame[:-FCS]
