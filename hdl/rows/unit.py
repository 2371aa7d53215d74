"""From tuples whose indices name rows to tuples whose indices name lines that hold them."""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import BATCH_BITS, RowUnitConfig
from ..index import index, index_range
from ..memory.axi import AXI4, shared_by
from ..stream.queue import Queue
from .directory import Directory
from .port import RowPort

__all__ = ["RowUnit", "tuple_layout"]


def tuple_layout(lanes: int, width: int) -> data.StructLayout:
    """Payload of a tuple stream: the codes of one beat, whether it is the tuple's last, or the end of the epoch (no data)."""
    return data.StructLayout({"lanes": data.ArrayLayout(width, lanes), "last": 1, "end": 1})


class RowUnit(wiring.Component):
    """Replaces each index of a tuple by the number of the line that holds its row, fetched into it where none does; the next tuple is taken when this
    one has gone on. Its cycles are `models.rows.unit_cycles`, its rules `models.rows.unit`.

    The lines are the engine's: the unit reads and writes them by `line`, `beat` and model. Lines must not be written by others while it writes them,
    which `settled` says of all tuples that went on but those of the batch under way.

    Parameters
    ----------
    config
        Tables and places.
    address_width, beats_width
        Bits of addresses, and of a burst command's length.

    Members
    -------
    i, o : In, Out(stream of `tuple_layout`)
    base0, … : In(address_width)
        Where the tables lie, multiples of their rows' bytes, constant while it runs.
    closed : In(1), settled : In(1)
        A batch's last changes are under way; those of all closed ones are in place.
    discard : In(1)
        Pass everything on as it is; lines are lost.
    stop, flush : In(1)
        Take no more tuples; write back what changed (one cycle, not before `stop`).
    done : Out(1)
        High for one cycle when all is written back and answered.
    line, beat, data : Out, write : Out(models)
        A beat for that line of each model whose bit is set.
    read0, … : In
        Of each model, the beat of `line` and `beat` a cycle before.
    bad_read, bad_write : Out(1)
        An error response, in its cycle.
    lookup, hit, fetch, write_back : Out(1)
        Each for one cycle a row.
    bus : Out(AXI4)
    """

    def __init__(self, config: RowUnitConfig, *, address_width: int, beats_width: int):
        self.config = config
        self.address_width, self.beats_width = address_width, beats_width
        layout = tuple_layout(config.lanes, config.width)
        models = sum(len(table.models) for table in config.tables)
        self.columns = [n for table in config.tables for n in table.columns]
        beats = max(s.beat for slices in config.slices for s in slices) + 1
        members = {
            "i": In(stream.Signature(layout)),
            "o": Out(stream.Signature(layout)),
            **{name: In(1) for name in ("closed", "settled", "discard", "stop", "flush")},
            **{f"base{t}": In(address_width) for t in range(len(config.tables))},
            "done": Out(1),
            "line": Out(config.line_bits),
            "beat": Out(index_range(beats)),
            "data": Out(config.lanes * config.width),
            "write": Out(models),
            **{
                name: Out(1)
                for name in ("bad_read", "bad_write", "lookup", "hit", "fetch", "write_back")
            },
            "bus": Out(AXI4(address_width=address_width, data_bytes=config.bus_bytes)),
        }
        for model, columns in enumerate(self.columns):
            members[f"read{model}"] = In(min(columns, config.lanes) * config.width)
        super().__init__(members)

    def elaborate(self, platform):
        m = self.m = Module()
        config = self.config
        tables, places = len(config.tables), len(config.places)
        self.table, self.place = index(tables), index(places)  # at hand
        self.lines = [Signal(config.line_bits, name=f"line{n}") for n in range(places)]
        self.filled = Array(Signal(config.line_bits, name=f"filled{t}") for t in range(tables))
        self.hands = Array(Signal(config.line_bits, name=f"hand{t}") for t in range(tables))
        self.batch = Signal(BATCH_BITS, init=1)
        self.step = index(max(map(len, config.slices)) + 1)  # beat of a table's row
        self.old_row = Signal(config.row_bits)
        self._parts()
        self._batches()
        self._kept()
        self._places()
        flushing = Signal()
        with m.If(self.flush):
            m.d.sync += flushing.eq(1)
        with m.FSM() as fsm:
            self._tuples()
            self._look_up()
            self._fetch()
            self._write_back(flushing)
        self._slices(fsm.ongoing("FILL"), fsm.ongoing("READ"))
        return m

    def _of_table(self, values: Sequence[int], shape, name: str) -> Signal:
        """Return the number that belongs to the table at hand."""
        found = Signal(shape, name=name)
        with self.m.Switch(self.table):
            for t, value in enumerate(values):
                with self.m.Case(t):
                    self.m.d.comb += found.eq(value)
        return found

    def _parts(self) -> None:
        """Build the directory and the way to memory and back."""
        m, config = self.m, self.config
        tables = range(len(config.tables))
        begins = [config.begins(t) for t in tables]
        m.submodules.directory = self.directory = directory = Directory(config)
        m.submodules.port = self.port = port = RowPort(
            row_bytes=max(config.row_bytes(t) for t in tables),
            bus_bytes=config.bus_bytes,
            address_width=self.address_width,
            beats_width=self.beats_width,
        )
        with m.Switch(self.table):
            for t in tables:
                base, shift = getattr(self, f"base{t}"), config.row_bytes(t).bit_length() - 1
                with m.Case(t):
                    m.d.comb += [
                        directory.first_row.eq(begins[t][0]),
                        directory.first_line.eq(begins[t][1]),
                        port.words.eq(config.words(t)),
                        port.fetch_address.eq(base + (directory.row << shift)),
                        port.send_address.eq(base + (self.old_row << shift)),
                    ]
        shared_by(m, self.bus, port.bus)
        m.d.comb += [
            directory.line.eq(self.line),
            directory.entry.row.eq(directory.row),
            directory.entry.batch.eq(self.batch),
            self.bad_read.eq(port.bad_read),
            self.bad_write.eq(port.bad_write),
            self.write_back.eq(port.send),
        ]
        self.beats = self._of_table([len(s) for s in config.slices], self.step.shape(), "beats")
        lines = [table.lines for table in config.tables]
        self.most_lines = self._of_table(lines, config.line_bits, "most_lines")

    def _batches(self) -> None:
        """Count the batches that went on and are not closed, and the tuples of the one that is under way."""
        m, batch = self.m, self.config.batch
        position = index(batch)
        whole = Signal()
        waiting = Signal(8)  # more than slots before the engine
        passed = self.o.valid & self.o.ready
        with m.If(passed & self.o.p.end):
            m.d.comb += whole.eq(position != 0)
            m.d.sync += position.eq(0)
        with m.Elif(passed & self.o.p.last):
            m.d.comb += whole.eq(position == batch - 1)
            m.d.sync += position.eq(Mux(position == batch - 1, 0, position + 1))
        m.d.sync += [waiting.eq(waiting + whole - self.closed), self.batch.eq(self.batch + whole)]
        self.quiet = (waiting == 0) & self.settled

    def _kept(self) -> None:
        """Hold a tuple, and put lines into the places of its indices as it goes on."""
        m, config = self.m, self.config
        m.submodules.tuples = self.kept = kept = Queue(config.lanes * config.width, config.beats)
        self.came, self.gone = index(config.beats), index(config.beats)
        self.indices = [Signal(config.row_bits, name=f"index{n}") for n in range(len(self.lines))]
        codes = Signal(data.ArrayLayout(config.width, config.lanes))
        m.d.comb += [
            kept.i.payload.eq(self.i.p.lanes.as_value()),
            codes.as_value().eq(kept.o.payload),
            self.o.p.lanes.eq(codes),
        ]
        for n, place in enumerate(config.places):
            beat, lane = divmod(place.position, config.lanes)
            with m.If(kept.i.valid & (self.came == beat)):
                m.d.sync += self.indices[n].eq(self.i.p.lanes[lane] + place.begin)
            with m.If((self.gone == beat) & ~self.discard):
                m.d.comb += self.o.p.lanes[lane].eq(self.lines[n])

    def _tuples(self) -> None:
        """Take a tuple or an epoch's end, and let it go on."""
        m, beats = self.m, self.config.beats
        kept, came, gone = self.kept, self.came, self.gone
        with m.State("TAKE"):
            m.d.comb += [
                self.i.ready.eq(kept.i.ready),
                kept.i.valid.eq(self.i.valid & ~self.i.p.end),
            ]
            with m.If(self.i.valid & self.i.ready):
                with m.If(self.i.p.end):
                    m.next = "END"
                with m.Else():
                    m.d.sync += came.eq(Mux(self.i.p.last, 0, came + 1))
                    with m.If(self.i.p.last):
                        m.next = "ASK"
            with m.Elif(self.stop):
                m.next = "REST"
        with m.State("GIVE"):
            m.d.comb += [
                self.o.valid.eq(kept.o.valid),
                self.o.p.last.eq(gone == beats - 1),
                kept.o.ready.eq(self.o.ready),
            ]
            with m.If(self.o.valid & self.o.ready):
                m.d.sync += gone.eq(Mux(self.o.p.last, 0, gone + 1))
                with m.If(self.o.p.last):
                    m.next = "TAKE"
        with m.State("END"):
            m.d.comb += [self.o.valid.eq(1), self.o.p.end.eq(1)]
            with m.If(self.o.ready):
                m.next = "TAKE"

    def _places(self) -> None:
        """Say which row of which table the place at hand asks for."""
        m, config = self.m, self.config
        self.at_last = self.place == len(config.places) - 1
        self.sweeping, self.sweep = Signal(), Signal.like(self.table, name="sweep")
        self.changes, self.through = Signal(), Signal()  # `through`: the place has its line
        with m.Switch(self.place):
            for n, place in enumerate(config.places):
                with m.Case(n):
                    m.d.comb += [
                        self.directory.row.eq(self.indices[n]),
                        self.changes.eq(place.changes),
                    ]
                    m.d.comb += self.table.eq(place.table)
                    with m.If(self.through):
                        m.d.sync += self.lines[n].eq(self.line)
        with m.If(self.sweeping):
            m.d.comb += self.table.eq(self.sweep)
        with m.If(self.through):
            m.d.sync += self.place.eq(Mux(self.at_last, 0, self.place + 1))

    def _next_place(self) -> None:
        self.m.next = "ASK"
        with self.m.If(self.at_last):
            self.m.next = "GIVE"

    def _look_up(self) -> None:
        """Look up the row of each place: its line by the directory, the row of that by the owners."""
        m, directory = self.m, self.directory
        here = Signal()  # the line holds the row
        with m.State("ASK"):
            m.next = "OWNER"
        with m.State("OWNER"):
            m.d.comb += directory.looked.eq(directory.held)
            m.d.sync += self.line.eq(directory.held)
            m.next = "COMPARE"
        with m.State("COMPARE"):
            known = self.line < self.filled[self.table]
            m.d.comb += [
                self.lookup.eq(1),
                here.eq(known & (directory.owner.row == directory.row)),
            ]
            m.next = "WAIT"
            with m.If(here):
                m.d.comb += [self.hit.eq(1), directory.owns.eq(1), self.through.eq(1)]
                m.d.comb += directory.entry.changed.eq(directory.owner.changed | self.changes)
                self._next_place()

    def _fetch(self) -> None:
        """Find a line for a row that has none, and fetch the row."""
        m, filled, hand = self.m, self.filled[self.table], self.hands[self.table]
        directory, port = self.directory, self.port
        with m.State("WAIT"):
            with m.If(self.discard):
                m.d.sync += self.place.eq(0)
                m.next = "GIVE"
            with m.Elif(self.quiet & port.idle):
                m.next = "PROBE"
                with m.If(filled < self.most_lines):
                    m.d.sync += [self.line.eq(filled), filled.eq(filled + 1)]
                    m.next = "FETCH"
        with m.State("PROBE"):
            m.d.comb += directory.looked.eq(hand)
            m.d.sync += self.line.eq(hand)
            m.d.sync += hand.eq(Mux(hand == self.most_lines - 1, 0, hand + 1))
            m.next = "JUDGE"
        with m.State("JUDGE"):
            m.d.sync += self.old_row.eq(directory.owner.row)
            m.next = "PROBE"
            with m.If(directory.owner.batch != self.batch):
                m.next = "FETCH"
                with m.If(directory.owner.changed):
                    m.next = "READ"
        with m.State("FETCH"):
            m.d.comb += port.fetch.eq(1)
            with m.If(port.asked):
                m.d.comb += self.fetch.eq(1)
                m.next = "RECEIVE"
        with m.State("RECEIVE"), m.If(port.come):
            m.next = "FILL"
        with m.State("FILL"):
            first = self.step == 0
            m.d.comb += directory.entry.changed.eq(self.changes)
            m.d.comb += [directory.owns.eq(first), directory.names.eq(first)]
            m.d.sync += self.step.eq(self.step + 1)
            with m.If(self.step == self.beats - 1):
                m.d.sync += self.step.eq(0)
                m.d.comb += self.through.eq(1)
                self._next_place()

    def _write_back(self, flushing: Signal) -> None:
        """Read a line that is written back; at the end look at all lines for such."""
        m, tables, directory, port = self.m, len(self.config.tables), self.directory, self.port
        with m.State("READ"):
            m.d.sync += self.step.eq(self.step + 1)
            with m.If(self.step == self.beats):
                m.d.sync += self.step.eq(0)
                m.d.comb += port.send.eq(1)
                m.next = "FETCH"
                with m.If(self.sweeping):
                    m.next = "SENT"
        with m.State("REST"), m.If(flushing & port.idle):
            m.d.sync += [self.sweeping.eq(1), self.line.eq(0)]
            m.next = "SWEEP"
        with m.State("SWEEP"):
            m.d.comb += directory.looked.eq(self.line)
            m.next = "LOOK"
            with m.If(self.line == self.filled[self.table]):
                m.d.sync += [self.sweep.eq(self.sweep + 1), self.line.eq(0)]
                m.next = "SWEEP"
                with m.If(self.sweep == tables - 1):
                    m.next = "FINAL"
        with m.State("LOOK"):
            m.d.sync += self.old_row.eq(directory.owner.row)
            m.next = "READ"
            with m.If(~directory.owner.changed):
                m.d.sync += self.line.eq(self.line + 1)
                m.next = "SWEEP"
        with m.State("SENT"), m.If(port.sent):
            m.d.sync += self.line.eq(self.line + 1)
            m.next = "SWEEP"
        with m.State("FINAL"), m.If(port.idle):
            m.d.comb += self.done.eq(1)
            m.next = "OVER"
        with m.State("OVER"):
            pass

    def _slices(self, filling: Value, reading: Value) -> None:
        """Bring beats of rows into lines, and from lines into the row that leaves, a cycle behind their address."""
        m, config, size = self.m, self.config, 8 * self.config.container
        late = Signal.like(self.step, name="late_step")
        m.d.sync += late.eq(self.step)
        with m.Switch(self.table):
            for t, slices in enumerate(config.slices):
                with m.Case(t):
                    for n, part in enumerate(slices):
                        places = range(part.first, part.first + part.codes)
                        codes = [self.port.row.word_select(k, size)[: config.width] for k in places]
                        with m.If(self.step == n):
                            m.d.comb += [self.beat.eq(part.beat), self.data.eq(Cat(codes))]
                            m.d.comb += self.write.eq(filling << part.model)
                        with m.If(reading & (late == n)):
                            found = getattr(self, f"read{part.model}")
                            for lane, k in enumerate(places):
                                code = found.word_select(lane, config.width)
                                m.d.sync += self.port.leaving.word_select(k, size).eq(code)
