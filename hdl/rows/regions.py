"""Lines that are filled one after the other, and those that give way."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.store import SEED, TAPS
from ...models.rows.unit import KEEPING, PASSING, PINNED, RARELY, RowUnitConfig
from ..index import index, index_range


class Regions(wiring.Component):
    """Keeps how far the lines of each region are filled and which line's turn it is to give way, and chooses the region for a row without a line
    (`models.rows.unit`)."""

    def __init__(self, config: RowUnitConfig):
        self.config = config
        lines, regions = config.line_bits, index_range(len(config.regions))
        tables = index_range(len(config.tables))
        super().__init__(
            {
                # choose a region of this table, for a row that is `hot` or not
                "table": In(tables),
                # while `sweeping`, outputs are of this region, not of a chosen one
                "sweep": In(regions),
                "hot": In(1),  # the row is pinned
                "choose": In(1),  # outputs are of the region chosen now, from this cycle on
                "sweeping": In(1),
                "fill": In(1),  # a line is filled
                "turn": In(1),  # the turn goes to the next line
                "missed": In(1),  # all lines are filled and a row has none
                "known": Out(1),  # `line` of the table was filled
                "keeps": Out(1),  # the region keeps rows
                "room": Out(1),  # not all its lines are filled
                "empty": Out(lines),  # the next line that is not filled
                "hand": Out(lines),  # the line whose turn it is
                "following": Out(lines),  # the first line of the region after `sweep`
                "line": In(lines),
                "swept": Out(tables),  # the table of `sweep`
            }
        )

    def elaborate(self, platform):
        m = Module()
        regions, bits = self.config.regions, self.config.line_bits
        filled = [Signal(bits, name=f"filled{n}") for n in range(len(regions))]
        turns = [Signal(bits, name=f"turn{n}") for n in range(len(regions))]
        kind, region = Signal(2), index(len(regions))
        chosen = self._chosen(m, filled)
        with m.If(self.choose):
            m.d.sync += kind.eq(chosen)
        now = Mux(self.choose, chosen, kind)
        begins = Array(region.begin for region in regions)
        m.d.comb += [
            self.keeps.eq(now == KEEPING),
            self.following.eq(Array([*(r.begin for r in regions[1:]), 0])[self.sweep]),
            self.empty.eq(begins[region] + Array(filled)[region]),
            self.hand.eq(begins[region] + Array(turns)[region]),
        ]
        for n, of in enumerate(regions):
            with m.If(self.sweep == n):
                m.d.comb += self.swept.eq(of.table)
            mine = (self.table == of.table) & (now == of.kind)
            with m.If(Mux(self.sweeping, self.sweep == n, mine)):
                m.d.comb += [region.eq(n), self.room.eq(filled[n] != of.lines)]
            inside = (self.line >= of.begin) & (self.line < of.begin + filled[n])
            with m.If((self.table == of.table) & inside):
                m.d.comb += self.known.eq(1)
            with m.If(region == n):
                m.d.sync += filled[n].eq(filled[n] + self.fill)
                with m.If(self.turn):
                    m.d.sync += turns[n].eq(Mux(turns[n] == of.lines - 1, 0, turns[n] + 1))
        return m

    def _chosen(self, m: Module, filled: list[Signal]) -> Signal:
        """Return the kind of region for the row."""
        chosen = Signal(2)
        for t in range(len(self.config.tables)):
            of = {r.kind: n for n, r in enumerate(self.config.regions) if r.table == t}
            full = {kind: filled[n] == self.config.regions[n].lines for kind, n in of.items()}
            with m.If(self.table == t):
                if KEEPING in of:
                    random = Signal(16, init=SEED, name=f"random{t}")
                    following = (random >> 1) ^ Mux(random[0], TAPS, 0)
                    rarely = (following & RARELY) == 0
                    with m.If(~full[KEEPING] | (full[PASSING] & rarely)):
                        m.d.comb += chosen.eq(KEEPING)
                    with m.If(self.missed):
                        m.d.sync += random.eq(following)
                if PINNED in of:
                    with m.If(self.hot):
                        m.d.comb += chosen.eq(PINNED)
        return chosen
