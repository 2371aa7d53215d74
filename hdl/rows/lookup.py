"""From rows that tuples name to lines, a row a cycle where one holds it."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import BATCH_BITS, PAST, TICKET_BITS, RowUnitConfig
from ..index import index, index_range
from .directory import Directory
from .gate import lines_layout, rows_layout
from .regions import Regions


def miss_layout(config: RowUnitConfig) -> data.StructLayout:
    """A row of a table that comes into a line, where it `comes`; the row there, `old`, that is written back, where it is `dirty`; `batch`, the last one that
    asked for that, which has to be through where it `waits`."""
    table = range(max(2, len(config.tables)))
    rows = {"row": config.row_bits, "table": table, "old": config.row_bits}
    return data.StructLayout(
        {**rows, "line": config.line_bits, "batch": 8, "dirty": 1, "comes": 1, "waits": 1}
    )


class LookUp(wiring.Component):
    """Looks up the places of each tuple: its line by the directory, the row of that by the owners, and a cycle later whether that is it. Where no line
    holds it, the owners are asked for one that gives way, and all behind waits. Its rules are `models.rows.unit.Directory`.
    """

    def __init__(self, config: RowUnitConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(rows_layout(config))),
                "o": Out(stream.Signature(miss_layout(config))),
                "o_lines": Out(stream.Signature(lines_layout(config))),  # there is always room
                # nothing is looked up; all lines that may have changed leave by `o`
                "sweep": In(1),
                "swept": Out(1),  # they have left
                # each for one cycle a row
                "lookup": Out(1),
                "hit": Out(1),
            }
        )

    def elaborate(self, platform):
        m = self.m = Module()
        m.submodules.directory = self.directory = Directory(self.config)
        m.submodules.regions = self.regions = Regions(self.config)
        self.goes, self.misses = Signal(), Signal()
        self.probe, self.found = Signal(), Signal()
        self.ages, self.judging = Signal(), Signal()
        self.sweeps = Signal()
        self.batch = Signal(BATCH_BITS, init=1)
        self.sweep_line = Signal(self.config.line_bits)
        asked = self._ask()
        owned = self._follow(asked, "owned")
        self.now = now = self._follow(owned, "compared")
        self.hot = Signal()
        with m.If(self.goes):
            m.d.sync += self.hot.eq(self.directory.hot)
        self._compare(now)
        self._judge(now)
        self._write(now)
        self._read(owned)
        self._lines(now)
        self._sweep()
        return m

    def _layout(self) -> data.StructLayout:
        """What is known of a lookup: it is none where it is left out; it may be the tuple's last, or an epoch's end."""
        config = self.config
        flags = dict.fromkeys(("valid", "out", "last", "end", "changes"), 1)
        place = index_range(len(config.places))
        table = index_range(len(config.tables))
        return data.StructLayout({"row": config.row_bits, "table": table, "place": place, **flags})

    def _ask(self) -> data.View:
        """Ask the directory for one place after the other; return the lookup at hand."""
        m, config = self.m, self.config
        asked, place = Signal(self._layout(), name="asked"), index(len(config.places))
        first, position = Signal(init=1), index(config.batch)
        before = Signal(rows_layout(config)["rows"].shape, name="before")
        head, following, leaves = self.i.p, Signal.like(place), Signal(name="leaves")
        out, last = Signal(name="out"), Signal(name="last")
        groups = [group for group in config.groups for _ in group]
        with m.Switch(place):
            for n, of in enumerate(config.places):
                with m.Case(n):
                    again = self._again(groups[n], before) & ~first if n == groups[n].start else 0
                    past = Mux(out, groups[n].stop, n + 1)
                    m.d.comb += [
                        out.eq(head.end | again),
                        asked.row.eq(head.rows[n]),
                        asked.table.eq(of.table),
                        asked.changes.eq(of.changes),
                        following.eq(past),
                        last.eq(head.end | (past == len(groups))),
                        self.directory.asked.eq(config.begins(of.table)[0] + head.rows[n]),
                    ]
        m.d.comb += [
            asked.valid.eq(self.i.valid),
            asked.out.eq(out),
            asked.last.eq(last),
            asked.place.eq(place),
            asked.end.eq(head.end),
            self.directory.ask.eq(self.goes),
            leaves.eq(self.i.valid & self.goes & last),
            self.i.ready.eq(self.goes & last),
        ]
        with m.If(self.i.valid & self.goes):
            m.d.sync += place.eq(Mux(last, 0, following))
        with m.If(leaves):
            over = head.end | (position == config.batch - 1)
            m.d.sync += [first.eq(over), position.eq(Mux(over, 0, position + 1))]
            m.d.sync += before.eq(head.rows)
        return asked

    def _again(self, group: range, before: data.View) -> Value:
        """Return whether the tuple before had the same rows at these places, where that is looked at."""
        same = [self.i.p.rows[n] == before[n] for n in group]
        return Cat(same).all() if self.config.bags else Cat(0)[0]

    def _follow(self, of: data.View, name: str) -> data.View:
        """Return what was at hand a step before."""
        copy = Signal(self._layout(), name=name)
        with self.m.If(self.goes):
            self.m.d.sync += copy.eq(of)
        return copy

    def _compare(self, now: data.View) -> None:
        """Say whether the line holds the row: that of the directory, or the one that the lookup before gave the row, which the directory did not know."""
        m, directory, regions = self.m, self.directory, self.regions
        known, late = Signal(), Signal()  # the directory's line holds it; the line of before does
        self.line, held = (Signal(self.config.line_bits, name=n) for n in ("line", "held"))
        self.owner = owner = Signal(directory.owner.shape(), name="owner_now")
        names = {"row": now.row, "table": now.table, "line": self.line, "changed": now.changes}
        latest = {n: Signal.like(v, name=f"latest_{n}") for n, v in names.items()}
        came, here = Signal(name="came"), Signal(name="here")
        with m.If(self.goes):
            m.d.sync += [held.eq(directory.held), came.eq(self.misses)]
            m.d.sync += [latest[n].eq(value) for n, value in names.items()]
        m.d.comb += [
            late.eq(came & (latest["row"] == now.row) & (latest["table"] == now.table)),
            known.eq(regions.known & (directory.owner.row == now.row)),
            here.eq(known | late),
            owner.eq(directory.owner),
            regions.line.eq(held),
            regions.table.eq(now.table),
            regions.hot.eq(self.hot),
            self.lookup.eq(now.valid & ~now.out & ~self.judging & ~self.sweep),
            self.hit.eq(self.lookup & here),
            self.line.eq(Mux(late, latest["line"], held)),
        ]
        with m.If(late):
            m.d.comb += [owner.changed.eq(latest["changed"]), owner.again.eq(0)]
        m.d.comb += regions.choose.eq(self.lookup)
        with m.If(self.lookup & ~here):
            m.d.comb += [regions.missed.eq(~regions.room), self.probe.eq(~regions.room)]
            m.d.sync += self.judging.eq(1)

    def _judge(self, now: data.View) -> None:
        """Look at one line after the other for one that gives way; an empty one is taken at once."""
        m, regions, owner = self.m, self.regions, self.directory.owner
        probed, asked, young = Signal(self.config.line_bits), Signal(), Signal()
        m.d.comb += [
            asked.eq((owner.batch == self.batch) | (owner.batch == self.batch - 1)),
            young.eq(regions.keeps & (owner.again != 0)),
            self.found.eq(regions.room | (~asked & ~young)),
            self.goes.eq(~now.valid | now.out | self.hit | self.misses),
            self.misses.eq(self.judging & self.found & self.o.ready),
            regions.turn.eq(self.probe),
            regions.fill.eq(self.misses & regions.room),
        ]
        with m.If(self.probe):
            m.d.sync += probed.eq(regions.hand)
        with m.If(self.judging):
            m.d.comb += self.line.eq(Mux(regions.room, regions.empty, probed))
            m.d.comb += [self.probe.eq(~self.found), self.ages.eq(young & ~asked & ~self.found)]
        with m.If(self.misses):
            m.d.sync += self.judging.eq(0)
        m.d.comb += [
            self.o.valid.eq(self.judging & self.found),
            self.o.p.row.eq(now.row),
            self.o.p.table.eq(now.table),
            self.o.p.line.eq(self.line),
            self.o.p.old.eq(owner.row),
            self.o.p.batch.eq(Mux(self.batch - owner.batch < PAST, owner.batch, self.batch - PAST)),
            self.o.p.dirty.eq(owner.changed & ~regions.room),
            self.o.p.comes.eq(1),
            self.o.p.waits.eq(~regions.room),
        ]

    def _first(self, table: Signal) -> Value:
        """Return how many lines the tables before this one have."""
        first = index(self.config.lines, name="first")
        with self.m.Switch(table):
            for t in range(len(self.config.tables)):
                with self.m.Case(t):
                    self.m.d.comb += first.eq(self.config.begins(t)[1])
        return first

    def _write(self, now: data.View) -> None:
        """Note what the line is now."""
        m, directory, entry = self.m, self.directory, self.directory.entry
        m.d.comb += [
            directory.line.eq(self._first(now.table) + self.line),
            directory.holds.eq(self.line),
            directory.owns.eq(self.hit | self.misses | self.ages),
            directory.names.eq(self.misses),
            entry.row.eq(now.row),
            entry.batch.eq(self.batch),
            entry.changed.eq(now.changes),
        ]
        with m.Switch(now.table):
            for t in range(len(self.config.tables)):
                with m.Case(t):
                    m.d.comb += directory.named.eq(self.config.begins(t)[0] + now.row)
        with m.If(self.hit):
            m.d.comb += entry.changed.eq(self.owner.changed | now.changes)
            m.d.comb += entry.again.eq(self.owner.again + (self.owner.again != 3))
        with m.If(self.ages):
            m.d.comb += [entry.eq(directory.owner), entry.again.eq(directory.owner.again - 1)]

    def _read(self, owned: data.View) -> None:
        """Look at the owner of the line that the directory names, or of the one that may give way."""
        m, directory, regions = self.m, self.directory, self.regions
        m.d.comb += [
            directory.look.eq(Mux(self.sweep, self.sweeps, self.goes | self.probe)),
            directory.looked.eq(self._first(owned.table) + directory.held),
        ]
        with m.If(self.probe):
            m.d.comb += directory.looked.eq(self._first(self.now.table) + regions.hand)
        with m.If(self.sweep):
            m.d.comb += directory.looked.eq(self._first(regions.swept) + self.sweep_line)

    def _lines(self, now: data.View) -> None:
        """Keep the lines of a tuple, and count tuples of a batch and rows that come."""
        m, batch, p = self.m, self.config.batch, self.o_lines.p
        ticket, position = Signal(TICKET_BITS), index(batch)
        over = now.end & (position != 0) | ~now.end & (position == batch - 1)
        m.d.comb += [
            self.o_lines.valid.eq(now.valid & now.last & self.goes),
            p.ticket.eq(ticket + self.misses),
            p.end.eq(now.end),
        ]
        m.d.sync += ticket.eq(ticket + self.misses)
        with m.If(self.o_lines.valid):
            m.d.sync += self.batch.eq(self.batch + over)
            m.d.sync += position.eq(Mux(now.end | over, 0, position + 1))
        for n in range(len(self.config.places)):
            kept, here = Signal(self.config.line_bits, name=f"kept{n}"), Signal(name=f"at{n}")
            m.d.comb += here.eq((now.place == n) & ~now.out)
            m.d.comb += p.lines[n].eq(Mux(here, self.line, kept))
            with m.If(now.valid & self.goes & here):
                m.d.sync += kept.eq(self.line)

    def _sweep(self) -> None:
        """At the end look at all lines for such as may have changed."""
        m, regions, line = self.m, self.regions, self.sweep_line
        looks, over, goes = Signal(), Signal(name="over"), self.sweeps
        changed, ends = self.directory.owner.changed, line == regions.empty
        at, sweep = Signal.like(line), Signal.like(regions.sweep, name="region")
        m.d.comb += [
            goes.eq(self.sweep & (~looks | ~changed | self.o.ready)),
            regions.sweeping.eq(self.sweep),
            regions.sweep.eq(sweep),
            self.swept.eq(over),
        ]
        with m.If(goes & ~over):
            m.d.sync += [looks.eq(~ends), at.eq(line), line.eq(line + 1)]
            with m.If(ends):
                m.d.sync += [sweep.eq(sweep + 1), line.eq(regions.following)]
                m.d.sync += over.eq(sweep == len(self.config.regions) - 1)
        with m.If(looks):
            m.d.comb += [
                self.o.valid.eq(changed),
                self.o.p.dirty.eq(1),
                self.o.p.comes.eq(0),
                self.o.p.waits.eq(0),
                self.o.p.line.eq(at),
                self.o.p.table.eq(regions.swept),
            ]
