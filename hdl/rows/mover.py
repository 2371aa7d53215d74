"""Rows between lines and memory: one after the other, each written back where it changed, in whose line another one comes."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ...models.rows.unit import RowUnitConfig
from ..index import index, index_range
from ..memory.axi import AXI4, shared_by
from .filler import Filler
from .lookup import miss_layout
from .port import RowPort
from .written import Written, row_name


def moving_members(config: RowUnitConfig, address_width: int) -> dict[str, Member]:
    """Return what a `Mover` and a `RowUnit` have alike."""
    line, beat = Out(config.line_bits), Out(index_range(max(config.beats_of)))
    return {
        "closed": In(1),  # a batch's last changes are under way
        "settled": In(1),  # the changes of all closed batches are in place
        "settled_before": In(1),  # those of all closed batches before the last one are
        "discard": In(1),  # tuples are taken and forgotten: wait for no batch
        # where the tables lie, multiples of their rows' bytes, constant while it runs
        **{f"base{t}": In(address_width) for t in range(len(config.tables))},
        # `data0`, … are this beat, of each model whose bit is set in `write`; `read0`, … are the
        # beat that is read, a cycle later
        **dict.fromkeys(("line", "read_line"), line),
        **dict.fromkeys(("beat", "read_beat"), beat),
        "busy": In(config.models),  # the engine writes lines of these models in this cycle
        "write": Out(config.models),
        **{f"data{k}": Out(width) for k, width in enumerate(config.beat_bits)},
        **{f"read{k}": In(width) for k, width in enumerate(config.beat_bits)},
        # an error response, in its cycle
        "bad_read": Out(1),
        "bad_write": Out(1),
        # each for one cycle a row
        "fetch": Out(1),
        "write_back": Out(1),
        "bad": Out(row_name(config)),  # which row of which table the error is about
        "bus": Out(AXI4(address_width=address_width, data_bytes=config.bus_bytes)),
    }


class Mover(wiring.Component):
    """Takes rows that miss, in order: a row's turn comes when the last batch that asked for the one that gives way is through; that is read then, where it is
    dirty, a beat a cycle, and leaves meanwhile; the other one is asked for with the last beat, or when its own writing is answered.
    """

    def __init__(self, config: RowUnitConfig, *, address_width: int, beats_width: int):
        self.config = config
        self.address_width, self.beats_width = address_width, beats_width
        members = {
            "i": In(stream.Signature(miss_layout(config))),
            "idle": Out(1),  # all that was written is answered
            # so many rows are in their lines from the next cycle on, or were forgotten
            "fetched": Out(2),
        }
        super().__init__({**members, **moving_members(config, address_width)})

    def elaborate(self, platform):
        m = self.m = Module()
        config = self.config
        sizes = {"address_width": self.address_width, "beats_width": self.beats_width}
        m.submodules.port = self.port = RowPort(config, **sizes)
        m.submodules.filler = self.filler = Filler(config, self.port.row_bytes)
        m.submodules.written = self.written = Written(config)
        shared_by(m, self.bus, self.port.bus)
        self.now, self.valid = Signal(miss_layout(config)), Signal()
        self._wires()
        self._move(self._quiet())
        return m

    def _wires(self) -> None:
        m, head, now = self.m, self.i.p, self.now
        filler, port, written = self.filler, self.port, self.written
        data = [f"data{k}" for k in range(self.config.models)]
        bad = Mux(port.bad_read, filler.coming.as_value(), written.next.as_value())
        m.d.comb += [
            written.answered.eq(port.answered),
            written.sent.eq(Cat(head.old, head.table)),
            written.row.eq(Cat(now.row, now.table)),
            self.bad.as_value().eq(bad),
            filler.i.p.name.eq(Cat(now.row, now.table)),
            filler.i.p.line.eq(now.line),
            filler.come.eq(port.come),
            filler.busy.eq(self.busy),
            filler.row.eq(port.row),
            port.ready.eq(filler.ready),
            *(getattr(self, n).eq(getattr(filler, n)) for n in ("line", "beat", "write", *data)),
            self.bad_read.eq(port.bad_read),
            self.bad_write.eq(port.bad_write),
            self.idle.eq(port.idle & ~self.valid),
        ]
        self._by_table(head, "send_address", head.old, "send_words")
        self._by_table(now, "fetch_address", now.row, "fetch_words")

    def _by_table(self, of: data.View, address: str, row: Signal, words: str) -> None:
        """Tell the port where a row lies, and how long it is."""
        config, port = self.config, self.port
        with self.m.Switch(of.table):
            for t in range(len(config.tables)):
                base, shift = getattr(self, f"base{t}"), config.row_bytes(t).bit_length() - 1
                with self.m.Case(t):
                    self.m.d.comb += getattr(port, address).eq(base + (row << shift))
                    self.m.d.comb += getattr(port, words).eq(config.words(t))

    def _quiet(self) -> Value:
        """Return whether the batch of the row at hand is through, or nothing waits for it: it is before the last one that was closed, or is that."""
        m, closed, behind = self.m, Signal(8), Signal(signed(8))
        m.d.sync += closed.eq(closed + self.closed)
        m.d.comb += behind.eq(closed - self.i.p.batch)
        through = Mux(behind > 0, self.settled_before, (behind == 0) & self.settled)
        return through | ~self.i.p.waits

    def _move(self, quiet: Value) -> None:
        """Let a row's turn come; then read what is written back, and ask with its last beat for what comes."""
        m, head = self.m, self.i.p
        now, valid = self.now, self.valid
        filler, port, written = self.filler, self.port, self.written
        reads, complete, over = Signal(), Signal(), Signal()
        step, beats = index(max(self.config.beats_of)), Signal(16)
        with m.Switch(now.table):
            for t, count in enumerate(self.config.beats_of):
                with m.Case(t):
                    m.d.comb += beats.eq(count)
        may = port.free & written.room | ~head.dirty
        last, read = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq((~valid | over) & (self.discard | (quiet & may))),
            port.begin.eq(self.i.valid & self.i.ready & head.dirty & ~self.discard),
            written.send.eq(port.begin),
            self.write_back.eq(port.begin),
            reads.eq(valid & now.dirty & ~read),
            last.eq(reads & (step == beats - 1)),
            complete.eq(valid & (~now.dirty | last | read)),
            port.fetch.eq(complete & now.comes & ~written.late & ~self.discard),
            self.fetch.eq(port.fetch & port.asked),
            filler.i.valid.eq(self.fetch),
            over.eq(complete & (self.fetch | self.discard | ~now.comes)),
            self.fetched.eq(filler.done + (over & now.comes & ~self.fetch)),
            self.read_line.eq(now.line),
            self.read_beat.eq(step),
        ]
        m.d.sync += [valid.eq((valid & ~over) | self.i.valid & self.i.ready)]
        m.d.sync += read.eq((read | last) & ~over)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [now.eq(head), now.dirty.eq(port.begin)]
        with m.If(reads):
            m.d.sync += step.eq(Mux(last, 0, step + 1))
        self._slices(step, reads, last)

    def _slices(self, step: Signal, reads: Signal, last: Signal) -> None:
        """Bring beats of a line into the row that leaves, a cycle behind their address: the last one as it is."""
        m, config, port = self.m, self.config, self.port
        size = 8 * config.container
        late, table, reading = Signal.like(step), Signal.like(self.now.table), Signal()
        m.d.sync += [late.eq(step), table.eq(self.now.table), reading.eq(reads), port.send.eq(last)]
        gathered = Signal.like(port.leaving)
        m.d.sync += gathered.eq(port.leaving)
        m.d.comb += port.leaving.eq(gathered)
        for t, slices in enumerate(config.slices):
            for part in slices:
                with m.If(reading & (table == t) & (late == part.beat)):
                    beat = getattr(self, f"read{part.model}")
                    for lane in range(part.codes):
                        place = port.leaving.word_select(part.first + lane, size)
                        m.d.comb += place.eq(beat.word_select(lane, config.width))
