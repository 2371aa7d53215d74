"""Pages on the host's port: which are read when, and how whole texts leave."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.storages import PENDING
from ..memory import AXI4, BurstReader, BurstWriter
from ..stream.queue import Queue


class PageReads(wiring.Component):
    """Reads pages in order, each as soon as no earlier write of the same page is unanswered."""

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.bin_bits)),  # page numbers
                "base": In(40),
                "o": Out(stream.Signature(config.bin_bits)),  # the page whose read is commanded
                # bus words of pages, never held up
                "data_valid": Out(1),
                "data": Out(8 * config.host_bus_bytes),
                "data_to": Out(range(config.cores.openers)),
                "released": In(1),  # the oldest page is written back, and the write is answered
                "empty": Out(1),  # all pages are written back
                "sent": Out(1),  # a page is commanded
                "waits": Out(1),  # it waits for its last write
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.host_bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.queue = queue = Queue(self.i.p.shape(), config.pages_in_flight)
        m.submodules.reader = reader = BurstReader(
            bus_bytes=config.host_bus_bytes, commands=config.pages_in_flight
        )
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        wiring.connect(m, reader.bus, wiring.flipped(self.bus))
        page = queue.o.payload
        depth = PENDING * config.window
        pages = [Signal(config.bin_bits, name=f"page{k}", reset_less=True) for k in range(depth)]
        in_flight = Signal(depth)
        head, tail = Signal(range(depth)), Signal(range(depth))
        same, free = Signal(), Signal()
        m.d.comb += [
            same.eq(Cat(in_flight[k] & (pages[k] == page) for k in range(depth)).any()),
            free.eq(~in_flight.bit_select(tail, 1)),
            self.waits.eq(queue.o.valid & same),
            reader.i.valid.eq(queue.o.valid & ~same & free),
            reader.i.p.address.eq(self.base + page * config.page_bytes),
            reader.i.p.beats.eq(config.page_beats),
            self.sent.eq(reader.i.valid & reader.i.ready),
            queue.o.ready.eq(self.sent),
            self.o.valid.eq(self.sent),
            self.o.payload.eq(page),
            self.data_valid.eq(reader.o.valid),
            self.data.eq(reader.o.p.data),
            reader.o.ready.eq(1),
            self.bus_error.eq(reader.error),
            self.empty.eq(~queue.o.valid & ~in_flight.any()),
        ]
        with m.If(self.sent):
            m.d.sync += tail.eq(tail + 1)
        for k in range(depth):
            with m.If(self.sent & (tail == k)):
                m.d.sync += pages[k].eq(page)
        with m.If(self.released):
            m.d.sync += head.eq(head + 1)
        bit = lambda at, when: Mux(when, Const(1, depth) << at, 0)[:depth]
        m.d.sync += in_flight.eq((in_flight | bit(tail, self.sent)) & ~bit(head, self.released))
        with m.If(reader.o.valid & reader.o.p.last):
            m.d.sync += self.data_to.eq(self.data_to + 1)
        return m


class PageWrites(wiring.Component):
    """The order in which pages are written, and when each write is answered whole."""

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.bin_bits)),  # page numbers
                "base": In(40),
                "o": Out(stream.Signature(40)),  # addresses
                "begun": In(1),  # the write of `o` is commanded
                "answered": In(1),  # a burst is answered
                "released": Out(1),  # with it, the oldest page is
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        depth = PENDING * config.window
        m.submodules.queue = queue = Queue(config.bin_bits, depth)
        m.submodules.bursts = bursts = Queue(8, depth)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        address = Signal(40)
        answered = Signal(8)
        m.d.comb += [
            address.eq(self.base + queue.o.payload * config.page_bytes),
            self.o.valid.eq(queue.o.valid),
            self.o.payload.eq(address),
            queue.o.ready.eq(self.o.ready),
            bursts.i.valid.eq(self.begun),
            bursts.i.payload.eq((address[:12] + (config.page_bytes - 1)) >> 12),
            self.released.eq(self.answered & (answered == bursts.o.payload)),
            bursts.o.ready.eq(self.released),
        ]
        with m.If(self.answered):
            m.d.sync += answered.eq(Mux(self.released, 0, answered + 1))
        return m


class WordDrain(wiring.Component):
    """Writes whole texts of `beats` bus words: a command when a text is known to come, and its words
    when it is whole.
    """

    def __init__(self, bus_bytes, beats):
        self.bus_bytes, self.beats = bus_bytes, beats
        super().__init__(
            {
                "valid": In(1),  # there is an address
                "coming": In(1),  # the words of a text will come
                "whole": In(1),  # they are there
                "address": In(40),
                "word": In(8 * bus_bytes),
                "begun": Out(1),  # the command is accepted
                "moved": Out(1),  # a word leaves
                "ended": Out(1),  # the last one does
                "idle": Out(1),
                "error": Out(1),
                "bus": Out(AXI4(data_bytes=bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.writer = writer = BurstWriter(bus_bytes=self.bus_bytes)
        wiring.connect(m, writer.bus, wiring.flipped(self.bus))
        passing, left = Signal(), Signal(range(self.beats))
        m.d.comb += [
            writer.i.valid.eq(~passing & self.valid & self.coming),
            writer.i.p.address.eq(self.address),
            writer.i.p.beats.eq(self.beats),
            writer.i_data.valid.eq(passing & self.whole),
            writer.i_data.payload.eq(self.word),
            self.begun.eq(writer.i.valid & writer.i.ready),
            self.moved.eq(passing & self.whole & writer.i_data.ready),
            self.ended.eq(self.moved & (left == 0)),
            self.idle.eq(writer.idle & ~passing),
            self.error.eq(writer.error),
        ]
        with m.If(self.begun):
            m.d.sync += [passing.eq(1), left.eq(self.beats - 1)]
        with m.Elif(self.moved):
            m.d.sync += left.eq(left - 1)
            with m.If(self.ended):
                m.d.sync += passing.eq(0)
        return m
