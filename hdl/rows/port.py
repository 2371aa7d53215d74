"""Between rows and a memory port: a row is gathered word by word, and leaves word by word."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import RowUnitConfig, leaving_rows
from ..index import index, index_range
from ..memory.axi import AXI4, shared_by
from ..memory.reader import BurstReader
from ..memory.splitter import command_shape
from ..memory.writer import BurstWriter
from ..stream.passing import passed_on
from ..stream.queue import Queue


class RowPort(wiring.Component):
    """Fetches rows, some of them at once, and writes others meanwhile.

    * `config`: whose longest row, bus words and rows that are fetched at once it has.
    * `address_width`, `beats_width`: as of `BurstReader`.
    """

    def __init__(self, config: RowUnitConfig, *, address_width: int, beats_width: int):
        self.commands, bus_bytes = config.commands, config.bus_bytes
        row_bytes = self.row_bytes = max(config.row_bytes(t) for t in range(len(config.tables)))
        self.sizes = {
            "bus_bytes": bus_bytes,
            "address_width": address_width,
            "beats_width": beats_width,
        }
        words = In(index_range(row_bytes // bus_bytes + 1))
        super().__init__(
            {
                # ask for a row, with `asked` as a stream's valid and ready
                "fetch": In(1),
                "ready": In(1),  # words may come
                "begin": In(1),  # a row is to be written
                # the next of these rows is whole, two cycles behind its `begin` at the earliest
                "send": In(1),
                "fetch_address": In(address_width),
                "send_address": In(address_width),
                "fetch_words": words,
                "send_words": words,
                "asked": Out(1),
                "come": Out(1),  # a row's last word comes in this cycle
                "free": Out(1),  # a row may be written: fewer than `leaving_rows` have not left
                "idle": Out(1),  # all that was to be written is answered
                "answered": Out(1),  # a burst that was written is answered
                # there from the cycle after `come` on until further words come
                "row": Out(8 * row_bytes),
                "leaving": In(8 * row_bytes),
                "bad_read": Out(1),
                "bad_write": Out(1),
                "bus": Out(AXI4(address_width=address_width, data_bytes=bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word, words = 8 * self.sizes["bus_bytes"], self.row_bytes // self.sizes["bus_bytes"]
        m.submodules.reader = reader = BurstReader(**self.sizes, commands=self.commands)
        m.submodules.writer = writer = BurstWriter(**self.sizes)
        shared_by(m, self.bus, reader.bus, writer.bus)
        command = command_shape(self.sizes["address_width"], self.sizes["beats_width"])
        most = leaving_rows(self.row_bytes)
        m.submodules.commands = commands = Queue(command, most)
        m.submodules.sizes = sizes = Queue(len(self.send_words), most)
        m.submodules.rows = rows = Queue(len(self.leaving), most)
        count, going, held = index(words), index(words), index(most + 1)
        taken, last = Signal(), Signal()
        m.d.comb += [
            reader.i.p.address.eq(self.fetch_address),
            reader.i.p.beats.eq(self.fetch_words),
            reader.i.valid.eq(self.fetch),
            self.asked.eq(reader.i.ready),
            reader.o.ready.eq(self.ready),
            self.come.eq(reader.o.valid & self.ready & reader.o.p.last),
            commands.i.p.address.eq(self.send_address),
            commands.i.p.beats.eq(self.send_words),
            commands.i.valid.eq(self.begin),
            *passed_on(commands.o, writer.i),
            sizes.i.payload.eq(self.send_words),
            sizes.i.valid.eq(self.begin),
            rows.i.payload.eq(self.leaving),
            rows.i.valid.eq(self.send),
            writer.i_data.payload.eq(rows.o.payload.word_select(going, word)),
            writer.i_data.valid.eq(rows.o.valid),
            taken.eq(rows.o.valid & writer.i_data.ready),
            last.eq(taken & (going == sizes.o.payload - 1)),
            *(of.o.ready.eq(last) for of in (rows, sizes)),
            self.free.eq((held != most) | last),
            self.idle.eq((held == 0) & writer.idle),
            self.answered.eq(self.bus.bvalid & self.bus.bready),
            self.bad_read.eq(reader.error),
            self.bad_write.eq(writer.error),
        ]
        m.d.sync += held.eq(held + self.begin - last)
        with m.If(reader.o.valid & self.ready):
            m.d.sync += self.row.word_select(count, word).eq(reader.o.p.data)
            m.d.sync += count.eq(Mux(reader.o.p.last, 0, count + 1))
        with m.If(taken):
            m.d.sync += going.eq(Mux(last, 0, going + 1))
        return m
