"""Between rows and a memory port: a row is gathered word by word, and leaves word by word."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..index import index, index_range
from ..memory.axi import AXI4, shared_by
from ..memory.reader import BurstReader
from ..memory.writer import BurstWriter

__all__ = ["RowPort"]


class RowPort(wiring.Component):
    """Fetches rows, some of them at once, and writes one meanwhile.

    Parameters
    ----------
    row_bytes
        Of the longest row.
    commands
        Rows that are fetched at once.
    bus_bytes, address_width, beats_width
        As of `BurstReader`.

    Members
    -------
    words : In
        Bus words of a row that is asked for or written.
    fetch : In(1), fetch_address : In, asked : Out(1)
        Ask for a row, as a stream's valid and ready.
    ready : In(1), come : Out(1), row : Out
        Words may come; a row's last one does in this cycle, `row` is there from the next one on until further words come.
    begin : In(1), send_address : In, send : In(1), leaving : In
        A row of `words` is to be written there; it is whole from the next cycle on, and stays until it has left.
    free, idle : Out(1)
        A row may be written, whose words are not there before the cycle after the next; all that was to be written is answered.
    answered : Out(1)
        A burst that was written is answered.
    bad_read, bad_write : Out(1), bus : Out(AXI4)
    """

    def __init__(
        self,
        *,
        row_bytes: int,
        commands: int,
        bus_bytes: int,
        address_width: int,
        beats_width: int,
    ):
        self.row_bytes, self.commands = row_bytes, commands
        self.sizes = {
            "bus_bytes": bus_bytes,
            "address_width": address_width,
            "beats_width": beats_width,
        }
        super().__init__(
            {
                "words": In(index_range(row_bytes // bus_bytes + 1)),
                "fetch": In(1),
                "fetch_address": In(address_width),
                "asked": Out(1),
                "ready": In(1),
                "come": Out(1),
                "row": Out(8 * row_bytes),
                "begin": In(1),
                "send": In(1),
                "send_address": In(address_width),
                "leaving": In(8 * row_bytes),
                "free": Out(1),
                "idle": Out(1),
                "answered": Out(1),
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
        count, going = index(words), index(words)
        telling, sending = Signal(), Signal()
        busy, last = Signal(), Signal()
        most, address = Signal.like(self.words), Signal.like(self.send_address)
        m.d.comb += [
            reader.i.p.address.eq(self.fetch_address),
            reader.i.p.beats.eq(self.words),
            reader.i.valid.eq(self.fetch),
            self.asked.eq(reader.i.ready),
            reader.o.ready.eq(self.ready),
            self.come.eq(reader.o.valid & self.ready & reader.o.p.last),
            writer.i.p.address.eq(address),
            writer.i.p.beats.eq(most),
            writer.i.valid.eq(telling),
            writer.i_data.payload.eq(self.leaving.word_select(going, word)),
            writer.i_data.valid.eq(sending),
            last.eq(sending & writer.i_data.ready & (going == most - 1)),
            self.free.eq(~busy | last),
            self.idle.eq(~busy & writer.idle),
            self.answered.eq(self.bus.bvalid & self.bus.bready),
            self.bad_read.eq(reader.error),
            self.bad_write.eq(writer.error),
        ]
        with m.If(reader.o.valid & self.ready):
            m.d.sync += self.row.word_select(count, word).eq(reader.o.p.data)
            m.d.sync += count.eq(Mux(reader.o.p.last, 0, count + 1))
        with m.If(telling & writer.i.ready):
            m.d.sync += telling.eq(0)
        with m.If(sending & writer.i_data.ready):
            m.d.sync += [going.eq(Mux(last, 0, going + 1)), sending.eq(~last), busy.eq(~last)]
        with m.If(self.send):
            m.d.sync += sending.eq(1)
        with m.If(self.begin):
            m.d.sync += [telling.eq(1), busy.eq(1), most.eq(self.words)]
            m.d.sync += address.eq(self.send_address)
        return m
