"""A region of memory, read ahead of its consumer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.prefetcher import Prefetcher as Twin
from ..stream.queue import Queue
from .axi import AXI4
from .reader import BurstReader
from .splitter import command_shape


class Prefetcher(wiring.Component):
    """Reads a region of memory; whatever is asked for has room, so that no word waits on the bus.

    AXI4 lets memory serve one transaction at a time, reads and writes together. Words that waited on the bus for a consumer
    which itself waits for a write would then wait for ever.

    Timing (twin: `models.memory.prefetcher.Prefetcher`): a region accepted in cycle t is asked for from cycle t + 1 on, `burst`
    words at a time while the queue has room for them. A word that comes in cycle t is offered from cycle t + 1 on, one a
    cycle.

    * `bus_bytes`: bytes of a bus word.
    * `address_width`, `beats_width`: bits of a region's fields.
    * `depth`, `burst`: words of the queue, and words that are asked for at once.
    """

    def __init__(
        self, *, bus_bytes, address_width=40, beats_width=24, depth=Twin.DEPTH, burst=Twin.BURST
    ):
        self.bus_bytes = bus_bytes
        self.depth, self.burst = depth, burst
        self.address_width = address_width
        self.beats_width = beats_width
        super().__init__(
            {
                # the next region, accepted once the one before is asked for; `address` is a
                # multiple of `bus_bytes`, `beats` ≥ 1
                "i": In(stream.Signature(command_shape(address_width, beats_width))),
                "o": Out(stream.Signature(8 * bus_bytes)),  # the words of all regions, in order
                "error": Out(1),  # high in the cycle in which a word with an error response comes
                "idle": Out(1),  # all that was asked for has been taken from `o`
                "bus": Out(AXI4(address_width=address_width, data_bytes=bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = BurstReader(
            bus_bytes=self.bus_bytes, address_width=self.address_width, beats_width=self.beats_width
        )
        m.submodules.queue = queue = Queue(8 * self.bus_bytes, self.depth)
        wiring.connect(m, wiring.flipped(self.bus), reader.bus)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        address = Signal(self.address_width, reset_less=True)
        left = Signal(self.beats_width)  # words of the region that are not asked for
        room = Signal(range(self.depth + 1), init=self.depth)  # for words that are not asked for
        asked, fits = Signal(range(self.burst + 1)), Signal()
        m.d.comb += [
            fits.eq(left <= self.burst),
            self.i.ready.eq(left == 0),
            reader.i.valid.eq((left != 0) & (room >= self.burst)),
            reader.i.p.address.eq(address),
            reader.i.p.beats.eq(Mux(fits, left, self.burst)),
            asked.eq(Mux(reader.i.valid & reader.i.ready, reader.i.p.beats, 0)),
            queue.i.valid.eq(reader.o.valid),
            queue.i.payload.eq(reader.o.p.data),
            reader.o.ready.eq(1),
            self.error.eq(reader.error),
            self.idle.eq((left == 0) & (room == self.depth)),
        ]
        m.d.sync += room.eq(room - asked + (queue.o.valid & queue.o.ready))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [address.eq(self.i.p.address), left.eq(self.i.p.beats)]
        with m.Elif(reader.i.valid & reader.i.ready):
            m.d.sync += [
                address.eq(address + self.burst * self.bus_bytes),
                left.eq(Mux(fits, 0, left - self.burst)),
            ]
        return m
