"""Rows that come from memory, on their way into lines."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import RowUnitConfig
from ..index import index, index_range
from ..stream.queue import Queue
from .written import row_name

__all__ = ["Filler"]


class Filler(wiring.Component):
    """Writes each row into its line, a beat a cycle but for those in which its model is written anyway, and then lets the next one come.

    Members
    -------
    i : In(stream of {name, line})
        Where the rows belong that are asked for, in order; there is room for all.
    coming : Out
        The row whose words come.
    come : In(1), row : In, ready : Out(1)
        A row's last word comes in this cycle, the row is there in the next one; words may come.
    busy : In(models)
        Models whose lines are written by others in this cycle.
    line, beat, data : Out, write : Out(models)
        A beat for that line of each model whose bit is set.
    done : Out(1)
        A row's last beat is written in this cycle.
    """

    def __init__(self, config: RowUnitConfig, row_bytes: int):
        self.config = config
        where = data.StructLayout({"name": row_name(config), "line": config.line_bits})
        self.where = where
        super().__init__(
            {
                "i": In(stream.Signature(where)),
                "coming": Out(row_name(config)),
                "come": In(1),
                "row": In(8 * row_bytes),
                "ready": Out(1),
                "busy": In(config.models),
                "line": Out(config.line_bits),
                "beat": Out(index_range(config.most_beats)),
                "data": Out(config.lanes * config.width),
                "write": Out(config.models),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, size = self.config, 8 * self.config.container
        m.submodules.waiting = waiting = Queue(self.where, config.commands + 2)
        step = index(max(map(len, config.slices)))
        m.d.comb += [
            waiting.i.payload.eq(self.i.payload),
            waiting.i.valid.eq(self.i.valid),
            self.i.ready.eq(waiting.i.ready),
            self.coming.eq(waiting.o.p.name),
            self.line.eq(waiting.o.p.line),
            waiting.o.ready.eq(self.done),
        ]
        with m.FSM():
            with m.State("COME"):
                m.d.comb += self.ready.eq(1)
                with m.If(self.come):
                    m.next = "FILL"
            with m.State("FILL"):
                with m.Switch(waiting.o.p.name.table):
                    for t, slices in enumerate(config.slices):
                        with m.Case(t):
                            m.d.comb += self.done.eq((step == len(slices) - 1) & self.write.any())
                            for n, part in enumerate(slices):
                                with m.If((step == n) & ~self.busy[part.model]):
                                    m.d.comb += self.write.eq(1 << part.model)
                with m.If(self.write.any()):
                    m.d.sync += step.eq(Mux(self.done, 0, step + 1))
                with m.If(self.done):
                    m.next = "COME"
        with m.Switch(waiting.o.p.name.table):
            for t, slices in enumerate(config.slices):
                with m.Case(t), m.Switch(step):
                    for n, part in enumerate(slices):
                        places = range(part.first, part.first + part.codes)
                        codes = [self.row.word_select(k, size)[: config.width] for k in places]
                        with m.Case(n):
                            m.d.comb += [self.beat.eq(part.beat), self.data.eq(Cat(codes))]
        return m
