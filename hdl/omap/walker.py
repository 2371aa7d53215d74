"""A snapshot's walk through the position map. Specification: `models.omap.kept_device`."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.config import power_of_two
from ...models.omap.messages import Operation
from ...models.omap.session_stages import read_cycles
from ...models.omap.shell import WALK_BITS
from ..memory import AXI4, BurstReader
from .layout import entry_layout, head_layout


class Walker(wiring.Component):
    """Reads the entries of the next buckets before a run, and offers an operation for each of them in it: a GET,
    or where there is no entry one that changes nothing, which takes as long. Entries are used when all of
    them are due, whatever they are and whenever HBM has them (`models.omap.session_stages.walked`).
    """

    def __init__(self, config):
        self.config = config
        self.most = (1 << WALK_BITS) - 1
        super().__init__(
            {
                # read `buckets` buckets, no more than are left; no operation is under way
                "start": In(1),
                "buckets": In(WALK_BITS),
                "key": Out(1),  # asks for the snapshot's key until it is `there`
                "there": In(1),
                "ready": Out(1),  # the entries are there, for one cycle
                "loaded": Out(1),  # so they are, until a run begins
                "busy": Out(1),  # the port is in use
                # a run begins; what was read is part of it, and will not be read again
                "begin": In(1),
                # operations of the run, while `loaded`
                "steps": Out(range(self.most * config.bucket_slots + 2)),
                "go": In(1),  # `o` is offered while it is high
                "o": Out(stream.Signature(head_layout(config))),
                "over": Out(1),  # the last operation ends the walk; from `begin` on
                "error": Out(1),
                "late": Out(1),
                "bus": Out(AXI4(data_bytes=config.bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.reader = reader = BurstReader(bus_bytes=config.bus_bytes, commands=1)
        wiring.connect(m, reader.bus, wiring.flipped(self.bus))
        #: the first bucket that was not walked through: no reset reaches it, a run that is cut off is the last one
        at = Signal(range(config.buckets + 1), reset_less=True)
        #: buckets and words that are read, whether the last one is among them; operations that are left
        self.count, self.words, self.final = (
            Signal(WALK_BITS),
            Signal.like(reader.i.p.beats),
            Signal(),
        )
        self.left, step, ended = Signal.like(self.steps), Signal(), Signal()
        m.d.comb += [
            reader.i.p.address.eq(at * config.bucket_bytes),
            reader.i.p.beats.eq(self._of_count(lambda n: n * config.bucket_beats)),
            reader.o.ready.eq(1),
            self.error.eq(reader.error),
            self.final.eq(at + self.count == config.buckets),
            step.eq(self.o.valid & self.o.ready),
            ended.eq(self.over & (self.left == 1)),
        ]
        self._walk(m, reader, at, step)
        self._entries(m, reader.o, step, ended)
        with m.If(self.begin):
            m.d.sync += self.over.eq(self.loaded & self.final)
            with m.If(self.loaded):
                m.d.sync += at.eq(at + self.count)
        with m.If(step & ended):
            m.d.sync += at.eq(0)
        return m

    def _of_count(self, make):
        """A number of each count of buckets."""
        return Array(Const(make(n)) for n in range(self.most + 1))[self.count]

    def _walk(self, m, reader, at, step):
        config = self.config
        waits = Signal(range(read_cycles(config, self.most) + 1))
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                rest = config.buckets - at
                m.d.sync += self.count.eq(Mux(rest < self.buckets, rest, self.buckets))
                m.next = "KEY"
            with m.State("KEY"):
                m.d.comb += self.key.eq(1)
                with m.If(self.there):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [self.busy.eq(1), reader.i.valid.eq(1)]
                m.d.sync += waits.eq(self._of_count(lambda n: read_cycles(config, n)))
                m.d.sync += self.words.eq(0)
                # the reader is idle; were it not, the words would be late: no cycle depends on HBM
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += self.busy.eq(1)
                m.d.sync += [waits.eq(waits - 1), self.words.eq(self.words + reader.o.valid)]
                entries = self._of_count(lambda n: n * config.bucket_slots)
                m.d.sync += self.steps.eq(entries + self.final)
                with m.If(waits == 1):
                    m.d.comb += self.late.eq(self.words != reader.i.p.beats)
                    m.next = "READY"
            with m.State("READY"):
                m.d.comb += [self.ready.eq(1), self.loaded.eq(1)]
                m.d.sync += self.left.eq(self.steps)
                m.next = "HOLD"
                with m.If(self.begin):
                    m.next = "LOOK"
            with m.State("HOLD"):
                m.d.comb += self.loaded.eq(1)
                with m.If(self.begin):
                    m.next = "LOOK"
            with m.State("LOOK"):  # the entry is read
                m.next = "STEP"
            with m.State("STEP"):
                m.d.comb += self.o.valid.eq(self.go)
                with m.If(step):
                    m.d.sync += self.left.eq(self.left - 1)
                    m.next = "LOOK"
                    with m.If(self.left == 1):
                        m.next = "IDLE"

    def _entries(self, m, words, step, ended):
        """RAM of entries, whose words come in their order, and the step that one of them makes."""
        config = self.config
        lanes = config.bus_bytes // config.entry_bytes
        layout = data.StructLayout({"valid": 1, "key": 8 * config.key_bytes})
        m.submodules.entries = entries = memory.Memory(
            shape=data.ArrayLayout(layout, lanes),
            depth=power_of_two(self.most * config.bucket_beats),
            init=[],
        )
        write, read = entries.write_port(), entries.read_port()
        at, lane = Signal.like(read.addr), Signal(range(max(lanes, 2)))
        with m.If(self.begin):
            m.d.sync += [at.eq(0), lane.eq(0)]
        with m.Elif(step):
            m.d.sync += lane.eq(Mux(lane == lanes - 1, 0, lane + 1))
            m.d.sync += at.eq(at + (lane == lanes - 1))
        rows = data.View(
            data.ArrayLayout(data.ArrayLayout(8, config.entry_bytes), lanes), words.p.data
        )
        for k in range(lanes):
            entry = data.View(entry_layout(config), rows[k].as_value()[: entry_layout(config).size])
            m.d.comb += [write.data[k].valid.eq(entry.valid), write.data[k].key.eq(entry.key)]
        asked = read.data[lane]
        gets = asked.valid & ~ended
        m.d.comb += [
            write.addr.eq(self.words),
            write.en.eq(words.valid),
            read.addr.eq(at),
            self.o.p.operation.eq(Mux(gets, Operation.GET.value, 0)),
            self.o.p.key.eq(Mux(gets, asked.key, 0)),
        ]
