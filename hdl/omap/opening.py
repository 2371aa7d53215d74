"""Pages are read and opened, in the order in which they are shown."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.back import BackSchedule
from ..memory import AXI4
from ..stream.passing import fields
from ..stream.queue import Queue
from .pages import PageReads
from .sealing import Opener


class PageOpening(wiring.Component):
    """Reads pages, and opens each one in the next opener."""

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                # page numbers; a page is read as soon as its number is known
                "i": In(stream.Signature(config.bin_bits)),
                "i_counter": In(stream.Signature(64)),  # it is opened when its counter is known
                "key": In(128),
                "base": In(40),
                # whether the next operation has pages: the two oldest ones, in this order
                "host0": In(1),
                "host1": In(1),
                # they are open, or will be by the time when their rows are read one a cycle; their
                # tags may not be compared yet
                "open": Out(1),
                "taken": In(1),  # they are read from the next cycle on, instead of those before
                # their rows: data in the next cycle
                "row": In(range(max(config.page_rows, 2))),
                "page": Out(128 * config.merge_blocks).array(2),
                "released": In(1),  # the oldest page is written back, and the write is answered
                "forged": Out(1),  # a tag does not fit
                # as of `PageReads`
                "sent": Out(1),
                "waits": Out(1),
                "empty": Out(1),
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.host_bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.reads = reads = PageReads(config)
        wiring.connect(m, wiring.flipped(self.i), reads.i)
        wiring.connect(m, reads.bus, wiring.flipped(self.bus))
        m.d.comb += [
            reads.base.eq(self.base),
            reads.released.eq(self.released),
            *fields(self, sent=reads.sent, waits=reads.waits, empty=reads.empty),
            *fields(self, bus_error=reads.bus_error),
        ]
        turn = self._texts(m, reads)
        slots = max(config.pages_in_flight // config.cores.openers, 1)
        first, second = Signal(range(config.cores.openers)), Signal(range(config.cores.openers))
        m.d.comb += second.eq(first + self.host0)
        readers = [Signal.like(first, name=f"reader{k}") for k in range(2)]
        with m.If(self.taken):
            m.d.sync += [
                first.eq(second + self.host1),
                readers[0].eq(first),
                readers[1].eq(second),
            ]
        openers, texts, forged = [], [], []
        for k in range(config.cores.openers):
            opener = self._opener(m, k, slots, reads, turn)
            count = Signal(range(slots + 1), name=f"texts{k}")
            oldest = Signal.like(opener.slot, name=f"oldest{k}")
            takes = Signal(name=f"takes{k}")
            m.d.comb += [
                takes.eq(self.taken & ((self.host0 & (first == k)) | (self.host1 & (second == k)))),
            ]
            m.d.sync += count.eq(count + opener.nears - takes)
            with m.If(takes):
                m.d.sync += [
                    opener.slot.eq(oldest),
                    oldest.eq(Mux(oldest == slots - 1, 0, oldest + 1)),
                ]
            openers.append(opener)
            texts.append(count)
            forged.append(opener.ended & ~opener.fits)
        datas = Array(opener.data for opener in openers)
        counts = Array(texts)
        m.d.comb += [
            self.open.eq(
                (~self.host0 | (counts[first] != 0)) & (~self.host1 | (counts[second] != 0))
            ),
            self.forged.eq(Cat(forged).any()),
            *(self.page[k].eq(datas[readers[k]]) for k in range(2)),
        ]
        return m

    def _opener(self, m, k, slots, reads, turn):
        """An opener that gets every page whose turn it is; `turn`: as of `_texts`."""
        config, (text, valid, to) = self.config, turn
        opener = Opener(
            bus_bytes=config.host_bus_bytes,
            chunks=config.chunks,
            blocks=config.chunk_blocks,
            slots=slots,
            rounds=config.cores.rounds,
            parts=config.slot_blocks,
            lanes=config.merge_blocks,
            ahead=BackSchedule.of(config).ahead,
        )
        m.submodules[f"opener{k}"] = opener
        m.d.comb += [
            opener.key.eq(self.key),
            opener.i.payload.eq(text),
            opener.i.valid.eq(valid & (to == k)),
            opener.i_data.payload.eq(reads.data),
            opener.i_data.valid.eq(reads.data_valid & (reads.data_to == k)),
            opener.row.eq(self.row),
        ]
        return opener

    def _texts(self, m, reads):
        """Pages that are commanded, with their counters, which come later: the oldest one as a text,
        whether both are there, and which opener gets it."""
        config, depth = self.config, self.config.pages_in_flight
        m.submodules.commanded = commanded = Queue(config.bin_bits, depth)
        m.submodules.counters = counters = Queue(64, depth)
        wiring.connect(m, reads.o, commanded.i)
        wiring.connect(m, wiring.flipped(self.i_counter), counters.i)
        text = Signal(data.StructLayout({"nonce": 128, "blank": 1}))
        valid, to = Signal(), Signal(range(config.cores.openers))
        m.d.comb += [
            valid.eq(commanded.o.valid & counters.o.valid),
            commanded.o.ready.eq(valid),
            counters.o.ready.eq(valid),
            text.nonce.eq(Cat(counters.o.payload, commanded.o.payload)),
            text.blank.eq(counters.o.payload == 0),
        ]
        with m.If(valid):
            m.d.sync += to.eq(to + 1)
        return text, valid, to
