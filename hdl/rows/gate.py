"""Tuples on their way past the row unit: taken whole, held until they have their lines, given on in order."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import TICKET_BITS, RowUnitConfig
from ..index import index
from ..stream.queue import Queue

__all__ = ["Gate", "tuple_layout"]


def tuple_layout(lanes: int, width: int) -> data.StructLayout:
    """Payload of a tuple stream: the codes of one beat, whether it is the tuple's last, or the end of the epoch (no data)."""
    return data.StructLayout({"lanes": data.ArrayLayout(width, lanes), "last": 1, "end": 1})


class Gate(wiring.Component):
    """Takes a tuple or an epoch's end while fewer than `RowUnitConfig.ahead` are held and `take` is high.

    Members
    -------
    i, o : In, Out(stream of `tuple_layout`)
    take : In(1), whole, end : Out(1)
        A tuple's last beat is taken in this cycle; an epoch's end is.
    index0, … : Out
        Rows of the tuple that was taken last, from the next cycle on.
    same0, … : Out(1)
        Of each group of places: the tuple before had the same rows there.
    named : In(1), line0, … : In, ticket : In
        The tuple has these lines; it goes on when so many rows were fetched, counted from the start.
    fetched : In(1)
        A row is in its line from the next cycle on.
    """

    def __init__(self, config: RowUnitConfig):
        self.config = config
        beats = stream.Signature(tuple_layout(config.lanes, config.width))
        members = {"i": In(beats), "o": Out(beats), "ticket": In(TICKET_BITS)}
        members |= {name: In(1) for name in ("take", "named", "fetched")}
        members |= {name: Out(1) for name in ("whole", "end")}
        for n in range(len(config.places)):
            members |= {f"index{n}": Out(config.row_bits), f"line{n}": In(config.line_bits)}
        members |= {f"same{g}": Out(1) for g in range(len(config.groups) * bool(config.bags))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats, places, ahead = config.beats, config.places, config.ahead
        lines = data.ArrayLayout(config.line_bits, len(places))
        entry = data.StructLayout({"lines": lines, "ticket": TICKET_BITS, "end": 1})
        m.submodules.codes = codes = Queue(config.lanes * config.width, beats * ahead)
        m.submodules.names = names = Queue(entry, ahead)
        held, came, gone = index(ahead + 1), index(beats), index(beats)
        there, since = Signal(TICKET_BITS), Signal(TICKET_BITS)
        taken, through, ready = Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.take & (held != ahead)),
            taken.eq(self.i.valid & self.i.ready),
            self.end.eq(taken & self.i.p.end),
            self.whole.eq(taken & ~self.i.p.end & self.i.p.last),
            codes.i.payload.eq(self.i.p.lanes.as_value()),
            codes.i.valid.eq(taken & ~self.i.p.end),
            names.i.valid.eq(self.named | self.end),
            names.i.p.end.eq(self.end),
            names.i.p.ticket.eq(self.ticket),
            since.eq(there - names.o.p.ticket),
            ready.eq(names.o.p.end | ~since[-1]),
            self.o.valid.eq(names.o.valid & ready),
            self.o.p.lanes.as_value().eq(codes.o.payload),
            self.o.p.end.eq(names.o.p.end),
            self.o.p.last.eq(gone == beats - 1),
            through.eq(self.o.valid & self.o.ready & (self.o.p.end | self.o.p.last)),
            names.o.ready.eq(self.o.ready & ready & (names.o.p.end | self.o.p.last)),
            codes.o.ready.eq(self.o.ready & self.o.valid & ~names.o.p.end),
        ]
        m.d.sync += [
            held.eq(held + (self.whole | self.end) - through),
            there.eq(there + self.fetched),
        ]
        with m.If(taken & ~self.i.p.end):
            m.d.sync += came.eq(Mux(self.i.p.last, 0, came + 1))
        with m.If(self.o.valid & self.o.ready & ~self.o.p.end):
            m.d.sync += gone.eq(Mux(self.o.p.last, 0, gone + 1))
        same = [Signal(name=f"equal{n}") for n in range(len(places))]
        for g, group in enumerate(config.groups * bool(config.bags)):
            m.d.comb += getattr(self, f"same{g}").eq(Cat(same[n] for n in group).all())
        for n, place in enumerate(places):
            beat, lane = divmod(place.position, config.lanes)
            m.d.comb += names.i.p.lines[n].eq(getattr(self, f"line{n}"))
            index_of = getattr(self, f"index{n}")
            row = (self.i.p.lanes[lane] + place.begin)[: len(index_of)]
            with m.If(taken & (came == beat)):
                m.d.sync += index_of.eq(row)
                if config.bags:
                    m.d.sync += same[n].eq(row == index_of)
            with m.If(gone == beat):
                m.d.comb += self.o.p.lanes[lane].eq(names.o.p.lines[n])
        return m
