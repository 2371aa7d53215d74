"""Commands are split into AXI bursts: none is longer than AXI4 allows or crosses a 4 KiB boundary (`models.memory.burst_split`)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.burst_split import window_beats


def command_shape(address_width, beats_width):
    """What to read or write: `beats` ≥ 1 bus words from the bus-aligned byte `address` on."""
    return data.StructLayout({"address": address_width, "beats": beats_width})


class Splitter(wiring.Component):
    """Splits commands into bursts: INCR, full bus words, at most 256 beats, none across a 4 KiB boundary.

    A command accepted in cycle t offers its first burst in cycle t + 1, and one a cycle from then on; the next command is
    accepted in the cycle in which the last burst leaves. `i.ready` depends combinationally on `o.ready` and `enable`.
    """

    def __init__(self, *, bus_bytes, address_width=40, beats_width=24):
        self.bus_bytes = bus_bytes
        self.address_width = address_width
        self.beats_width = beats_width
        super().__init__(
            {
                "i": In(stream.Signature(command_shape(address_width, beats_width))),
                "enable": In(1),  # commands are accepted only while it is high
                # `length` is beats - 1, as on ARLEN
                "o": Out(
                    stream.Signature(data.StructLayout({"address": address_width, "length": 8}))
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        window = window_beats(self.bus_bytes)
        shift = (self.bus_bytes - 1).bit_length()
        inner = (window - 1).bit_length()  # address bits of a beat within its window
        # of the burst that is offered: all that leaves the component comes from registers
        word = Signal(self.address_width - shift, reset_less=True)  # its address, in bus words
        after = Signal(self.beats_width, reset_less=True)  # beats behind it, unless it is the last
        some, final = Signal(), Signal(reset_less=True)
        length = Signal(8, reset_less=True)
        m.d.comb += [
            self.o.valid.eq(some),
            self.o.p.address.eq(word << shift),
            self.o.p.length.eq(length),
            self.i.ready.eq(self.enable & (~some | (final & self.o.ready))),
        ]
        start, beats = self.i.p.address >> shift, self.i.p.beats
        total = Signal(max(self.beats_width, inner) + 1)  # beats from the start of the window on
        fits = Signal()
        m.d.comb += [total.eq(beats + start[:inner]), fits.eq(total <= window)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                word.eq(start),
                after.eq(Cat(total[:inner], total[inner:] - 1)),
                some.eq(1),
                final.eq(fits),
                length.eq(Mux(fits, beats - 1, ~start[:inner])),
            ]
        with m.Elif(some & self.o.ready):
            m.d.sync += [
                some.eq(~final),
                word.eq(((word >> inner) + 1) << inner),
                after.eq(after - window),
                final.eq(after <= window),
                length.eq(Mux(after <= window, after, window) - 1),
            ]
        return m
