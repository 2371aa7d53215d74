"""A port to HBM whose data are used at their deadlines."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..memory import AXI4, BurstReader, BurstWriter
from ..memory.axi import shared_by
from ..stream.queue import Queue


class HbmPort(wiring.Component):
    """Reads and writes by commands, none of which is ever held up.

    A command to read that is given in cycle t has its first word at `word` from cycle t + 3 + the
    port's latency on; words stay until they are taken. A write that is given in cycle t is counted
    as answered in cycle t + 4 + the latency at the earliest. Whatever is not there when it is due is
    late, and so is a command for which there is no room, as HBM takes none.

    * `reads`, `words`: commands to read, and words, that may wait or be on their way.
    * `writes`, `beats`: commands to write, and words of them, that may wait.
    """

    def __init__(self, *, bus_bytes, reads, words, writes, beats):
        self.bus_bytes = bus_bytes
        self.reads, self.words = reads, words
        self.writes, self.beats = writes, beats
        self.reader = BurstReader(bus_bytes=bus_bytes, commands=reads)
        self.writer = BurstWriter(bus_bytes=bus_bytes, strobes=True)
        super().__init__(
            {
                "read": In(stream.Signature(self.reader.i.p.shape())),
                "write": In(stream.Signature(self.writer.i.p.shape())),  # each is one burst
                "data": In(stream.Signature(self.writer.i_data.p.shape())),
                "word": Out(8 * bus_bytes),  # the oldest word
                "take": In(1),  # it is used
                "due": In(4),  # so many more writes must be answered by now
                "late": Out(1),
                "error": Out(1),
                "bus": Out(AXI4(data_bytes=bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader, m.submodules.writer = reader, writer = self.reader, self.writer
        shared_by(m, self.bus, reader.bus, writer.bus)
        m.submodules.commands = commands = Queue(reader.i.p.shape(), self.reads)
        m.submodules.words = words = Queue(8 * self.bus_bytes, self.words)
        m.submodules.writes = writes = Queue(writer.i.p.shape(), self.writes)
        m.submodules.beats = beats = Queue(writer.i_data.p.shape(), self.beats)
        wiring.connect(m, wiring.flipped(self.read), commands.i)
        wiring.connect(m, wiring.flipped(self.write), writes.i)
        wiring.connect(m, wiring.flipped(self.data), beats.i)
        wiring.connect(m, commands.o, reader.i)
        wiring.connect(m, writes.o, writer.i)
        wiring.connect(m, beats.o, writer.i_data)
        answered = Signal(12)  # beyond those that were due
        refused = [(q.i.valid & ~q.i.ready) for q in (commands, words, writes, beats)]
        m.d.comb += [
            reader.o.ready.eq(words.i.ready),
            words.i.valid.eq(reader.o.valid),
            words.i.payload.eq(reader.o.p.data),
            self.word.eq(words.o.payload),
            words.o.ready.eq(self.take),
            self.late.eq(
                (self.take & ~words.o.valid)
                | (self.due > answered)
                | refused[0]
                | refused[1]
                | refused[2]
                | refused[3]
            ),
            self.error.eq(reader.error | writer.error),
        ]
        m.d.sync += answered.eq(answered + self.bus.bvalid - self.due)
        return m
