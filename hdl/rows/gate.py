"""Tuples on their way past the row unit: taken whole, held until they have their lines, given on in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import TICKET_BITS, TUPLES, RowUnitConfig
from ..index import index
from ..stream.passing import passed_on
from ..stream.queue import Queue


def tuple_layout(lanes: int, width: int) -> data.StructLayout:
    """Payload of a tuple stream: the codes of one beat, whether it is the tuple's last, or the end of the epoch (no data)."""
    return data.StructLayout({"lanes": data.ArrayLayout(width, lanes), "last": 1, "end": 1})


def rows_layout(config: RowUnitConfig) -> data.StructLayout:
    """The row that each place of a tuple names, or the end of the epoch (no rows)."""
    places = len(config.places)
    return data.StructLayout({"rows": data.ArrayLayout(config.row_bits, places), "end": 1})


def lines_layout(config: RowUnitConfig) -> data.StructLayout:
    """The line of each place of a tuple, and when it goes on: when so many rows were fetched, counted from the start. Or the end of the epoch."""
    lines = data.ArrayLayout(config.line_bits, len(config.places))
    return data.StructLayout({"lines": lines, "ticket": TICKET_BITS, "end": 1})


class Gate(wiring.Component):
    """Takes a tuple or an epoch's end while fewer than `RowUnitConfig.ahead` are held, and fewer than `TUPLES` were not asked for by `o_rows`."""

    def __init__(self, config: RowUnitConfig):
        self.config = config
        beats = stream.Signature(tuple_layout(config.lanes, config.width))
        super().__init__(
            {
                "i": In(beats),
                "o": Out(beats),
                "stop": In(1),  # nothing is taken
                "fetched": In(2),  # so many rows are in their lines from the next cycle on
                # what each tuple that was taken asks for, from the cycle after its last beat on
                "o_rows": Out(stream.Signature(rows_layout(config))),
                # what each tuple has, in order; there is room for all
                "i_lines": In(stream.Signature(lines_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats, ahead = config.beats, config.ahead
        m.submodules.codes = codes = Queue(config.lanes * config.width, beats * ahead)
        m.submodules.names = names = Queue(lines_layout(config), ahead)
        m.submodules.rows = rows = Queue(rows_layout(config), TUPLES)
        held, came, gone = index(ahead + 1), index(beats), index(beats)
        fetches, since = Signal(TICKET_BITS), Signal(TICKET_BITS)
        taken, complete = Signal(), Signal()
        through, ready = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~self.stop & rows.i.ready & (held != ahead)),
            taken.eq(self.i.valid & self.i.ready),
            complete.eq(taken & (self.i.p.end | self.i.p.last)),
            codes.i.payload.eq(self.i.p.lanes.as_value()),
            codes.i.valid.eq(taken & ~self.i.p.end),
            rows.i.valid.eq(complete),
            rows.i.p.end.eq(self.i.p.end),
            *passed_on(rows.o, self.o_rows),
            *passed_on(self.i_lines, names.i),
            since.eq(fetches - names.o.p.ticket),
            ready.eq(names.o.p.end | ~since[-1]),
            self.o.valid.eq(names.o.valid & ready),
            self.o.p.lanes.as_value().eq(codes.o.payload),
            self.o.p.end.eq(names.o.p.end),
            self.o.p.last.eq(gone == beats - 1),
            through.eq(self.o.valid & self.o.ready & (self.o.p.end | self.o.p.last)),
            names.o.ready.eq(self.o.ready & ready & (names.o.p.end | self.o.p.last)),
            codes.o.ready.eq(self.o.ready & self.o.valid & ~names.o.p.end),
        ]
        m.d.sync += [held.eq(held + complete - through), fetches.eq(fetches + self.fetched)]
        with m.If(taken & ~self.i.p.end):
            m.d.sync += came.eq(Mux(self.i.p.last, 0, came + 1))
        with m.If(self.o.valid & self.o.ready & ~self.o.p.end):
            m.d.sync += gone.eq(Mux(self.o.p.last, 0, gone + 1))
        for n, place in enumerate(config.places):
            beat, lane = divmod(place.position, config.lanes)
            row, kept = (Signal(config.row_bits, name=f"{name}{n}") for name in ("row", "kept"))
            m.d.comb += row.eq(self.i.p.lanes[lane] + place.begin)
            m.d.comb += rows.i.p.rows[n].eq(row if beat == beats - 1 else kept)
            with m.If(taken & (came == beat)):
                m.d.sync += kept.eq(row)
            with m.If(gone == beat):
                m.d.comb += self.o.p.lanes[lane].eq(names.o.p.lines[n])
        return m
