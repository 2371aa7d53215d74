"""Rows between lines and memory: one after the other, each written back where it changed, in whose line another one comes."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import RowUnitConfig
from ..index import index, index_range
from ..memory.axi import AXI4, shared_by
from .filler import Filler
from .lookup import miss_layout
from .port import RowPort
from .written import Written, row_name

__all__ = ["Mover"]


class Mover(wiring.Component):
    """Takes rows that miss, in order: a row begins when the batches before its last one are through; a dirty one is read then, a beat a cycle, and leaves
    meanwhile; the other one is asked for when its own writing is answered.

    Members, beside those of `RowUnit` that have the same names
    -------
    i : In(stream of `miss_layout`)
    idle : Out(1)
        All that was written is answered.
    fetched : Out(2)
        So many rows are in their lines from the next cycle on, or were forgotten.
    """

    def __init__(self, config: RowUnitConfig, *, address_width: int, beats_width: int):
        self.config = config
        self.address_width, self.beats_width = address_width, beats_width
        line, beat = Out(config.line_bits), Out(index_range(config.most_beats))
        columns = [n for table in config.tables for n in table.columns]
        flags = ("closed", "settled", "settled_before", "discard")
        super().__init__(
            {
                "i": In(stream.Signature(miss_layout(config))),
                **dict.fromkeys(flags, In(1)),
                "busy": In(config.models),
                **{f"base{t}": In(address_width) for t in range(len(config.tables))},
                "line": line,
                "beat": beat,
                "read_line": line,
                "read_beat": beat,
                "data": Out(config.lanes * config.width),
                "write": Out(config.models),
                **{
                    f"read{n}": In(min(size, config.lanes) * config.width)
                    for n, size in enumerate(columns)
                },
                **dict.fromkeys(("idle", "bad_read", "bad_write", "fetch", "write_back"), Out(1)),
                "bad": Out(row_name(config)),
                "fetched": Out(2),
                "bus": Out(AXI4(address_width=address_width, data_bytes=config.bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = self.m = Module()
        config = self.config
        row_bytes = max(config.row_bytes(t) for t in range(len(config.tables)))
        m.submodules.filler = self.filler = Filler(config, row_bytes)
        m.submodules.port = self.port = RowPort(
            row_bytes=row_bytes,
            commands=config.commands,
            bus_bytes=config.bus_bytes,
            address_width=self.address_width,
            beats_width=self.beats_width,
        )
        m.submodules.written = self.written = Written(config)
        shared_by(m, self.bus, self.port.bus)
        self._wires()
        self._move(self._quiet())
        return m

    def _wires(self) -> None:
        """Join the parts."""
        m, head = self.m, self.i.p
        filler, port, written = self.filler, self.port, self.written
        bad = Mux(port.bad_read, filler.coming.as_value(), written.next.as_value())
        m.d.comb += [
            written.answered.eq(port.answered),
            written.sent.eq(Cat(head.old, head.table)),
            written.row.eq(Cat(head.row, head.table)),
            self.bad.as_value().eq(bad),
            filler.i.p.name.eq(Cat(head.row, head.table)),
            filler.i.p.line.eq(head.line),
            filler.come.eq(port.come),
            filler.busy.eq(self.busy),
            filler.row.eq(port.row),
            port.ready.eq(filler.ready),
            *(getattr(self, n).eq(getattr(filler, n)) for n in ("line", "beat", "data", "write")),
            self.bad_read.eq(port.bad_read),
            self.bad_write.eq(port.bad_write),
            self.idle.eq(port.idle),
        ]
        with m.Switch(head.table):
            for t in range(len(self.config.tables)):
                base, shift = getattr(self, f"base{t}"), self.config.row_bytes(t).bit_length() - 1
                with m.Case(t):
                    m.d.comb += [
                        port.words.eq(self.config.words(t)),
                        port.fetch_address.eq(base + (head.row << shift)),
                        port.send_address.eq(base + (head.old << shift)),
                    ]

    def _quiet(self) -> Value:
        """Return whether all batches before the last one are through, as seen from that of the row at hand, or nothing waits for them."""
        m, closed, waiting = self.m, Signal(8), Signal(8)
        m.d.sync += closed.eq(closed + self.closed)
        m.d.comb += waiting.eq(self.i.p.batch - 1 - closed)
        before = Mux(waiting == 0, self.settled_before, (waiting == 1) & self.settled)
        return before | ~self.i.p.waits

    def _move(self, quiet: Value) -> None:
        """Read what is written back, then ask for what comes."""
        m, head = self.m, self.i.p
        filler, port, written = self.filler, self.port, self.written
        begun, begins = Signal(), Signal()
        reads, over = Signal(), Signal()
        step, beats = index(max(map(len, self.config.slices)) + 1), Signal(16)
        drops = Signal()
        with m.Switch(head.table):
            for t, slices in enumerate(self.config.slices):
                with m.Case(t):
                    m.d.comb += beats.eq(len(slices))
        may = port.free & written.room | ~head.dirty
        m.d.comb += [
            begins.eq(self.i.valid & ~begun & quiet & may & ~self.discard),
            reads.eq(
                head.dirty & begun & (step != beats)
            ),  # not yet: a last change may be written now
            over.eq(self.i.valid & ~reads & (begun | (begins & ~head.dirty))),
            drops.eq(self.i.valid & self.discard & (~begun | over)),
            port.begin.eq(begins & head.dirty),
            written.send.eq(port.begin),
            self.write_back.eq(port.begin),
            port.fetch.eq(over & head.comes & ~written.late & ~self.discard),
            self.fetch.eq(port.fetch & port.asked),
            filler.i.valid.eq(self.fetch),
            self.i.ready.eq(self.fetch | drops | (over & ~head.comes)),
            self.fetched.eq(filler.done + (drops & head.comes)),
            self.read_line.eq(head.line),
        ]
        m.d.sync += begun.eq((begun | begins) & ~self.i.ready)
        with m.If(reads):
            m.d.sync += step.eq(step + 1)
        with m.If(self.i.ready):
            m.d.sync += step.eq(0)
        self._slices(step, reads, beats)

    def _slices(self, step: Signal, reads: Signal, beats: Signal) -> None:
        """Bring beats of a line into the row that leaves, a cycle behind their address."""
        m, config, size = self.m, self.config, 8 * self.config.container
        late, table, last = Signal.like(step), Signal.like(self.i.p.table), Signal()
        reading = Signal()
        m.d.sync += [late.eq(step), table.eq(self.i.p.table), reading.eq(reads)]
        m.d.sync += last.eq(reads & (step == beats - 1))
        m.d.comb += self.port.send.eq(last)
        for t, slices in enumerate(config.slices):
            for n, part in enumerate(slices):
                with m.If((self.i.p.table == t) & (step == n)):
                    m.d.comb += self.read_beat.eq(part.beat)
                with m.If(reading & (table == t) & (late == n)):
                    found = getattr(self, f"read{part.model}")
                    for lane in range(part.codes):
                        code = found.word_select(lane, config.width)
                        place = self.port.leaving.word_select(part.first + lane, size)
                        m.d.sync += place.eq(code)
