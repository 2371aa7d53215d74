"""From tuples whose indices name rows to tuples whose indices name lines that hold them."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import BATCH_BITS, TICKET_BITS, RowUnitConfig
from ..index import index, index_range
from ..memory.axi import AXI4, shared_by
from ..stream.passing import passed_on
from .directory import Directory
from .filler import Filler
from .gate import Gate, tuple_layout
from .port import RowPort
from .regions import Regions
from .written import Written, row_name

__all__ = ["RowUnit"]


class RowUnit(wiring.Component):
    """Replaces each index of a tuple by the number of the line that holds its row, which is fetched where none does. Its cycles are
    `models.rows.unit_cycles`, its rules `models.rows.unit`.

    The lines are the engine's: the unit reads and writes beats of them, of none that the engine may still change.

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
    closed : In(1), settled : In(1), settled_before : In(1)
        A batch's last changes are under way; those of all closed ones are in place; those of all but the last one.
    busy : In(models)
        The engine writes lines of these models in this cycle.
    discard : In(1)
        Tuples are taken and forgotten: wait for no batch.
    stop, flush : In(1)
        Take no more tuples; write back what changed (one cycle, not before `stop`).
    done : Out(1)
        High for one cycle when all is written back and answered.
    line, beat, data : Out, write : Out(models)
        A beat for that line of each model whose bit is set.
    read_line, read_beat : Out, read0, … : In
        Which beat is read, and of each model that beat a cycle later.
    bad_read, bad_write : Out(1), bad : Out
        An error response, in its cycle, and which row of which table it is about.
    lookup, hit, fetch, write_back : Out(1)
        Each for one cycle a row.
    bus : Out(AXI4)
    """

    def __init__(self, config: RowUnitConfig, *, address_width: int, beats_width: int):
        self.config = config
        self.address_width, self.beats_width = address_width, beats_width
        beats = stream.Signature(tuple_layout(config.lanes, config.width))
        line, beat = Out(config.line_bits), Out(index_range(config.most_beats))
        columns = [n for table in config.tables for n in table.columns]
        members = {
            "i": In(beats),
            "o": Out(beats),
            **{name: In(1) for name in ("closed", "settled", "settled_before")},
            **{name: In(1) for name in ("discard", "stop", "flush")},
            "busy": In(config.models),
            **{f"base{t}": In(address_width) for t in range(len(config.tables))},
            "line": line,
            "beat": beat,
            "read_line": line,
            "read_beat": beat,
            "data": Out(config.lanes * config.width),
            "write": Out(config.models),
            **{name: Out(1) for name in ("done", "bad_read", "bad_write")},
            "bad": Out(row_name(config)),
            **{name: Out(1) for name in ("lookup", "hit", "fetch", "write_back")},
            "bus": Out(AXI4(address_width=address_width, data_bytes=config.bus_bytes)),
        }
        for n, size in enumerate(columns):
            members[f"read{n}"] = In(min(size, config.lanes) * config.width)
        super().__init__(members)

    def elaborate(self, platform):
        m = self.m = Module()
        config = self.config
        tables = len(config.tables)
        self.table, self.place = index(tables), index(len(config.places))  # at hand
        self.batch, self.last_batch = Signal(BATCH_BITS, init=1), Signal(BATCH_BITS)
        self.step = index(max(map(len, config.slices)) + 1)  # beat of a row that is read
        self.position = index(config.batch)  # of the tuple at hand in its batch
        self.kept: list[Signal] = []  # lines of the tuple's places
        self.row = Signal(config.row_bits)  # that the place asks for
        self.old_row = Signal(config.row_bits)  # that gives way
        self._parts()
        self._gate()
        self.quiet = self._batches()
        flushing = Signal()
        with m.If(self.sweeping):
            m.d.comb += self.table.eq(self.regions.swept)
        with m.If(self.flush):
            m.d.sync += flushing.eq(1)
        with m.FSM() as fsm:
            self._look_up()
            self._make_room()
            self._fetch()
            self._write_back(flushing)
        self._slices(fsm.ongoing("READ"))
        return m

    def _of(self, at: Signal, values: Sequence[int], shape, name: str) -> Signal:
        """Return the number that belongs to the table, at hand."""
        found = Signal(shape, name=name)
        with self.m.Switch(at):
            for t, value in enumerate(values):
                with self.m.Case(t):
                    self.m.d.comb += found.eq(value)
        return found

    def _parts(self) -> None:
        """Build the directory, the way to memory and back, and that into lines."""
        m, config = self.m, self.config
        tables = range(len(config.tables))
        row_bytes = max(config.row_bytes(t) for t in tables)
        m.submodules.directory = self.directory = directory = Directory(config)
        m.submodules.filler = self.filler = filler = Filler(config, row_bytes)
        m.submodules.port = self.port = port = RowPort(
            row_bytes=row_bytes,
            commands=config.commands,
            bus_bytes=config.bus_bytes,
            address_width=self.address_width,
            beats_width=self.beats_width,
        )
        m.submodules.regions = self.regions = regions = Regions(config)
        self.sweeping, self.sweep = Signal(), Signal.like(regions.sweep)
        m.d.comb += [
            regions.table.eq(self.table),
            regions.hot.eq(directory.hot),
            regions.sweeping.eq(self.sweeping),
            regions.sweep.eq(self.sweep),
            regions.line.eq(self.read_line),
        ]
        m.submodules.written = self.written = written = Written(config)
        bad = Mux(port.bad_read, filler.coming.as_value(), written.next.as_value())
        m.d.comb += [
            *(getattr(written, n).eq(getattr(port, n)) for n in ("send", "answered", "idle")),
            written.sent.eq(Cat(self.old_row, self.table)),
            written.row.eq(Cat(self.row, self.table)),
            self.bad.as_value().eq(bad),
        ]
        with m.Switch(self.table):
            for t in tables:
                base, shift = getattr(self, f"base{t}"), config.row_bytes(t).bit_length() - 1
                with m.Case(t):
                    m.d.comb += [
                        directory.first_line.eq(config.begins(t)[1]),
                        port.words.eq(config.words(t)),
                        port.fetch_address.eq(base + (self.row << shift)),
                        port.send_address.eq(base + (self.old_row << shift)),
                    ]
        shared_by(m, self.bus, port.bus)
        m.d.comb += [
            directory.line.eq(self.read_line),
            directory.entry.row.eq(self.row),
            directory.entry.batch.eq(self.batch),
            filler.i.p.name.eq(Cat(self.row, self.table)),
            filler.i.p.line.eq(self.read_line),
            filler.come.eq(port.come),
            filler.busy.eq(self.busy),
            filler.row.eq(port.row),
            port.ready.eq(filler.ready),
            *(getattr(self, n).eq(getattr(filler, n)) for n in ("line", "beat", "data", "write")),
            self.bad_read.eq(port.bad_read),
            self.bad_write.eq(port.bad_write),
            self.write_back.eq(port.send),
        ]
        beats = [len(s) for s in config.slices]
        self.beats = self._of(self.table, beats, self.step.shape(), "beats")

    def _gate(self) -> None:
        """Build what holds tuples, and say which row of which table the place at hand asks for."""
        m, config = self.m, self.config
        m.submodules.gate = self.gate = gate = Gate(config)
        self.changes, self.at_last = Signal(), Signal()
        self.through, self.asking, self.skip = Signal(), Signal(), Signal()
        ticket = Signal(TICKET_BITS)
        m.d.comb += [
            *passed_on(self.i, gate.i),
            *passed_on(gate.o, self.o),
            gate.named.eq((self.through | self.skip) & self.at_last),
            gate.ticket.eq(ticket + self.fetch),
            gate.fetched.eq(self.filler.done),
        ]
        m.d.sync += ticket.eq(ticket + self.fetch)
        rows = [
            config.begins(place.table)[0] + getattr(gate, f"index{n}")
            for n, place in enumerate(config.places)
        ]
        groups = [(group, g) for g, group in enumerate(config.groups) for _ in group]
        with m.Switch(self.place):
            for n, (group, g) in enumerate(groups):
                with m.Case(n):
                    if config.bags and n == group.start:
                        again = getattr(gate, f"same{g}") & (self.position != 0)
                        m.d.comb += self.skip.eq(self.asking & again)
                    self._at(n, group.stop, rows)
        for n, kept in enumerate(self.kept):
            here = Mux(self.through, self.read_line, kept) if n == len(rows) - 1 else kept
            m.d.comb += getattr(gate, f"line{n}").eq(here)

    def _at(self, n: int, past: int, rows: Sequence[Value]) -> None:
        """Say what the place asks for, and which is the next one: `past`, where the whole index is left out; the next one is asked for meanwhile."""
        m, place, gate = self.m, self.config.places[n], self.gate
        end, kept = len(rows), Signal(self.config.line_bits, name=f"line{n}")
        following = Mux(self.skip, rows[past % end], rows[(n + 1) % end])
        m.d.comb += [
            self.row.eq(getattr(gate, f"index{n}")),
            self.changes.eq(place.changes),
            self.table.eq(place.table),
            self.at_last.eq(Mux(self.skip, past == end, n + 1 == end)),
            self.directory.named.eq(rows[n]),
            self.directory.asked.eq(Mux(self.through | self.skip, following, rows[n])),
        ]
        with m.If(self.through | self.skip):
            m.d.sync += self.place.eq(Mux(self.skip, past % end, (n + 1) % end))
        with m.If(self.through):
            m.d.sync += kept.eq(self.read_line)
        self.kept.append(kept)

    def _batches(self) -> Value:
        """Count the batches that were looked up and are not closed; return whether all before the last one are through."""
        m, batch, position = self.m, self.config.batch, self.position
        waiting = Signal(8)  # more than slots before the engine
        whole = Signal()
        with m.If(self.gate.end):
            m.d.comb += whole.eq(position != 0)
            m.d.sync += position.eq(0)
        with m.Elif(self.gate.named):
            m.d.comb += whole.eq(position == batch - 1)
            m.d.sync += position.eq(Mux(position == batch - 1, 0, position + 1))
        m.d.sync += [waiting.eq(waiting + whole - self.closed), self.batch.eq(self.batch + whole)]
        m.d.sync += self.last_batch.eq(Mux(whole, self.batch, self.last_batch))
        return Mux(waiting == 0, self.settled_before, (waiting == 1) & self.settled)

    def _next_place(self, state: str) -> None:
        self.m.d.comb += self.through.eq(1)
        self.m.next = state
        with self.m.If(self.at_last):
            self.m.next = "TAKE"

    def _look_up(self) -> None:
        """Take a tuple; look up the row of each place: its line by the directory, the row of that by the owners."""
        m, directory = self.m, self.directory
        here = Signal()  # the line holds the row
        with m.State("TAKE"):
            m.d.comb += self.gate.take.eq(1)
            with m.If(self.gate.whole):
                m.next = "ASK"
            with m.Elif(self.stop):
                m.next = "REST"
        with m.State("ASK"):
            m.d.comb += self.asking.eq(1)
            m.next = "OWNER"
            with m.If(self.skip & self.at_last):
                m.next = "TAKE"
        with m.State("OWNER"):
            m.d.comb += [self.asking.eq(1), directory.looked.eq(directory.held)]
            m.d.comb += self.regions.choose.eq(1)
            m.d.sync += self.read_line.eq(directory.held)
            m.next = "COMPARE"
            with m.If(self.skip):
                m.next = "OWNER"
                with m.If(self.at_last):
                    m.next = "TAKE"
        with m.State("COMPARE"):
            m.d.comb += [
                self.lookup.eq(1),
                here.eq(self.regions.known & (directory.owner.row == self.row)),
                directory.entry.changed.eq(directory.owner.changed | self.changes),
                directory.entry.again.eq(directory.owner.again + (directory.owner.again != 3)),
            ]
            with m.If(here):
                m.d.comb += [self.hit.eq(1), directory.owns.eq(1)]
                self._next_place("OWNER")
            with m.Elif(self.regions.room):
                m.next = "WAIT"
            with m.Else():
                m.d.comb += self.regions.missed.eq(1)
                self._probe()

    def _probe(self) -> None:
        """Look at the next line in turn for one that gives way."""
        m, regions = self.m, self.regions
        m.d.comb += [self.directory.looked.eq(regions.hand), regions.turn.eq(1)]
        m.d.sync += self.read_line.eq(regions.hand)
        m.next = "JUDGE"

    def _make_room(self) -> None:
        """Find a line for a row that has none."""
        m, regions, owner = self.m, self.regions, self.directory.owner
        dirty = Signal()  # the line that gives way is written back
        with m.State("JUDGE"):
            m.d.sync += [self.old_row.eq(owner.row), dirty.eq(owner.changed)]
            asked = (owner.batch == self.batch) | (owner.batch == self.last_batch)
            young = regions.keeps & (owner.again != 0)
            m.next = "WAIT"
            with m.If(asked | young):
                self._probe()
            with m.If(~asked & young):
                entry = self.directory.entry
                m.d.comb += [
                    self.directory.owns.eq(1),
                    entry.eq(owner),
                    entry.again.eq(owner.again - 1),
                ]
        with m.State("WAIT"):
            with m.If(self.discard):
                self._next_place("ASK")
            with m.Elif(self.quiet):
                with m.If(regions.room):
                    m.d.comb += regions.fill.eq(1)
                    m.d.sync += self.read_line.eq(regions.empty)
                    m.next = "FETCH"
                with m.Elif(~dirty):
                    m.next = "FETCH"
                with m.Elif(self.port.sent & self.written.room):
                    m.next = "READ"  # not yet: a last change may be written in this cycle

    def _fetch(self) -> None:
        """Fetch a row into its line, not before what was written of it is there."""
        m, directory, port = self.m, self.directory, self.port
        with m.State("FETCH"), m.If(~self.written.late):
            m.d.comb += [port.fetch.eq(1), directory.entry.changed.eq(self.changes)]
            with m.If(port.asked):
                m.d.comb += [
                    self.fetch.eq(1),
                    self.filler.i.valid.eq(1),
                    directory.owns.eq(1),
                    directory.names.eq(1),
                ]
                self._next_place("ASK")
                for n, place in enumerate(self.config.places[:-1]):
                    if (
                        self.config.places[n + 1].table != place.table
                    ):  # not the row that is noted now
                        with m.If(self.place == n):
                            m.next = "OWNER"

    def _write_back(self, flushing: Signal) -> None:
        """Read a line that is written back; at the end look at all lines for such."""
        m, directory, port = self.m, self.directory, self.port
        with m.State("READ"):
            m.d.sync += self.step.eq(self.step + 1)
            with m.If(self.step == self.beats):
                m.d.sync += self.step.eq(0)
                m.d.comb += port.send.eq(1)
                m.next = "FETCH"
                with m.If(self.sweeping):
                    m.next = "SENT"
        with m.State("REST"), m.If(flushing & port.idle):
            m.d.sync += [self.sweeping.eq(1), self.read_line.eq(0)]
            m.next = "SWEEP"
        with m.State("SWEEP"):
            m.d.comb += directory.looked.eq(self.read_line)
            m.next = "LOOK"
            with m.If(self.read_line == self.regions.empty):
                following = self.regions.following
                m.d.sync += [self.sweep.eq(self.sweep + 1), self.read_line.eq(following)]
                m.next = "SWEEP"
                with m.If(self.sweep == len(self.config.regions) - 1):
                    m.next = "FINAL"
        with m.State("LOOK"):
            m.d.sync += self.old_row.eq(directory.owner.row)
            m.next = "READ"
            with m.If(~directory.owner.changed):
                m.d.sync += self.read_line.eq(self.read_line + 1)
                m.next = "SWEEP"
        with m.State("SENT"), m.If(port.sent & self.written.room):
            m.d.sync += self.read_line.eq(self.read_line + 1)
            m.next = "SWEEP"
        with m.State("FINAL"), m.If(port.idle):
            m.d.comb += self.done.eq(1)
            m.next = "OVER"
        with m.State("OVER"):
            pass

    def _slices(self, reading: Value) -> None:
        """Bring beats of a line into the row that leaves, a cycle behind their address."""
        m, config, size = self.m, self.config, 8 * self.config.container
        late = Signal.like(self.step, name="late_step")
        m.d.sync += late.eq(self.step)
        with m.Switch(self.table):
            for t, slices in enumerate(config.slices):
                with m.Case(t):
                    for n, part in enumerate(slices):
                        with m.If(self.step == n):
                            m.d.comb += self.read_beat.eq(part.beat)
                        with m.If(reading & (late == n)):
                            found = getattr(self, f"read{part.model}")
                            for lane in range(part.codes):
                                code = found.word_select(lane, config.width)
                                place = self.port.leaving.word_select(part.first + lane, size)
                                m.d.sync += place.eq(code)
