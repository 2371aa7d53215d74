"""Rows that come from memory, on their way into lines."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import RowUnitConfig
from ..index import index, index_range
from ..stream.queue import Queue
from .written import row_name


class Filler(wiring.Component):
    """Writes each row into its line, a beat of all its models a cycle but for those in which one of them is written anyway. The words of the next one come
    from the last of them on.
    """

    def __init__(self, config: RowUnitConfig, row_bytes: int):
        self.config = config
        where = data.StructLayout({"name": row_name(config), "line": config.line_bits})
        self.where = where
        super().__init__(
            {
                # where the rows belong that are asked for, in order; there is room for all
                "i": In(stream.Signature(where)),
                "coming": Out(row_name(config)),  # the row whose words come
                "come": In(1),  # a row's last word comes in this cycle
                "row": In(8 * row_bytes),  # the row, in the next cycle
                "ready": Out(1),  # words may come
                "busy": In(config.models),  # models whose lines are written by others in this cycle
                # a beat for that line of each model whose bit is set in `write`
                "line": Out(config.line_bits),
                "beat": Out(index_range(max(config.beats_of))),
                **{f"data{k}": Out(width) for k, width in enumerate(config.beat_bits)},
                "write": Out(config.models),
                "done": Out(1),  # a row's last beat is written in this cycle
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, size = self.config, 8 * self.config.container
        m.submodules.waiting = waiting = Queue(self.where, config.commands + 2)
        step, active = index(max(config.beats_of)), Signal()
        filled = Signal(self.where)
        m.d.comb += [
            waiting.i.payload.eq(self.i.payload),
            waiting.i.valid.eq(self.i.valid),
            self.i.ready.eq(waiting.i.ready),
            self.coming.eq(waiting.o.p.name),
            waiting.o.ready.eq(self.come),
            self.line.eq(filled.line),
            self.ready.eq(~active | self.done),
            self.beat.eq(step),
        ]
        with m.If(self.done):
            m.d.sync += active.eq(0)
        with m.If(self.come):
            m.d.sync += [active.eq(1), filled.eq(waiting.o.payload)]
        with m.If(self.write.any()):
            m.d.sync += step.eq(Mux(self.done, 0, step + 1))
        for t, slices in enumerate(config.slices):
            for beat in range(config.beats_of[t]):
                parts = [part for part in slices if part.beat == beat]
                models = sum(1 << part.model for part in parts)
                with m.If(active & (filled.name.table == t) & (step == beat)):
                    m.d.comb += self.write.eq(Mux((self.busy & models).any(), 0, models))
                    m.d.comb += self.done.eq(self.write.any() & (beat == config.beats_of[t] - 1))
                for part in parts:
                    places = range(part.first, part.first + part.codes)
                    codes = [self.row.word_select(k, size)[: config.width] for k in places]
                    with m.If(step == beat):
                        m.d.comb += getattr(self, f"data{part.model}").eq(Cat(codes))
        return m
