"""Zeros into a part of HBM, before the first operation."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory import AXI4, BurstWriter


class Clear(wiring.Component):
    """Fills a region with zeros, at the port's rate. Timing: `models.omap.cycles.cleared`.

    Parameters: `bus_bytes`; `at`, `size`: the region's first byte, a multiple of 4096,
    and its bytes, whole bus words.
    """

    def __init__(self, *, bus_bytes, at, size):
        self.bus_bytes, self.at, self.beats = bus_bytes, at, size // bus_bytes
        super().__init__(
            {
                "start": In(1),  # begin with a command in the next cycle
                # high from the cycle after `start` until the last write is answered
                "busy": Out(1),
                "moved": Out(1),  # a word is written
                "error": Out(1),
                "bus": Out(AXI4(data_bytes=bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = max(24, self.beats.bit_length() + 1)
        m.submodules.writer = writer = BurstWriter(bus_bytes=self.bus_bytes, beats_width=bits)
        wiring.connect(m, writer.bus, wiring.flipped(self.bus))
        asked = Signal()
        m.d.comb += [
            writer.i.valid.eq(self.busy & ~asked),
            writer.i.p.address.eq(self.at),
            writer.i.p.beats.eq(self.beats),
            writer.i_data.valid.eq(self.busy),
            writer.i_data.payload.eq(0),
            self.moved.eq(self.bus.wvalid & self.bus.wready),
            self.error.eq(writer.error),
        ]
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), asked.eq(0)]
        with m.Elif(self.busy & ~asked):
            m.d.sync += asked.eq(writer.i.ready)
        with m.Elif(self.busy & writer.idle):
            m.d.sync += self.busy.eq(0)
        return m
