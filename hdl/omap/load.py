"""Which bins the operations of a load show. Specification: `models.omap.load`."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .pairs import pairs_shape

__all__ = ["LoadPairs"]


class LoadPairs(wiring.Component):
    """Passes the pairs of operations; in a load, what they show is not random (`load.shown`).

    Members
    -------
    start : In(1), records : In(32)
        A run begins in the next cycle: a load of so many records, if any.
    i, o : stream of pairs
    """

    def __init__(self, config):
        self.config = config
        shape = pairs_shape(config.bin_bits)
        super().__init__(
            {
                "start": In(1),
                "records": In(32),
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        left, at = Signal(32), Signal(config.bin_bits)
        following, next_at = Signal.like(at), Signal.like(at)
        last = config.bins - 1
        m.d.comb += [
            following.eq(Mux(at == last, 0, at + 1)),
            next_at.eq(Mux(following == last, 0, following + 1)),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
            self.o.payload.eq(self.i.payload),
        ]
        with m.If(self.records != 0):
            m.d.comb += [
                self.o.p.shown0.eq(Mux(left != 0, 0, at)),
                self.o.p.shown1.eq(Mux(left != 0, 1, following)),
            ]
        with m.If(self.start):
            m.d.sync += [left.eq(self.records), at.eq(config.hbm_bins)]
        with m.Elif(self.o.valid & self.o.ready):
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
            with m.Else():
                m.d.sync += at.eq(next_at)
        return m
