"""Rows that were written back and are not answered yet: memory may still hold their old bytes, so `mover` fetches none of them.

Twin: `_answer` in `models/rows/unit_cycles.py`.
"""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.burst_split import window_beats
from ...models.rows.unit import RowUnitConfig
from ..index import index


def row_name(config: RowUnitConfig) -> data.StructLayout:
    """Which row of which table."""
    return data.StructLayout({"row": config.row_bits, "table": range(max(2, len(config.tables)))})


class Written(wiring.Component):
    """Keeps the names of rows that are written until they are answered, `RowUnitConfig.writes` at most. Answers come in order."""

    def __init__(self, config: RowUnitConfig):
        self.config, self.name = config, row_name(config)
        super().__init__(
            {
                "send": In(1),  # the row `sent` is written
                "answered": In(1),  # a burst that was written is answered
                "sent": In(self.name),
                "row": In(self.name),
                "next": Out(self.name),  # the row whose burst is answered next
                "late": Out(1),  # `row` is among those that are not answered
                "room": Out(1),  # there is room for one more
            }
        )

    def elaborate(self, platform):
        m = Module()
        most = self.config.writes
        names = [Signal(self.name.size, name=f"name{k}") for k in range(most)]
        open_ = [Signal(name=f"open{k}") for k in range(most)]
        at, gone = index(most), index(most)
        row = self.row.as_value()
        m.d.comb += [
            self.late.eq(
                Cat(o & (name == row) for o, name in zip(open_, names, strict=True)).any()
            ),
            self.room.eq(~Array(open_)[at]),
            self.next.as_value().eq(Array(names)[gone]),
        ]
        window = window_beats(self.config.bus_bytes)
        bursts = [-(-self.config.words(t) // window) for t in range(len(self.config.tables))]
        part, last = index(max(bursts)), Signal()
        with m.Switch(self.next.table):
            for t, count_of in enumerate(bursts):
                with m.Case(t):
                    m.d.comb += last.eq(part == count_of - 1)
        with m.If(self.answered):
            m.d.sync += [part.eq(Mux(last, 0, part + 1)), gone.eq(gone + last)]
            m.d.sync += Array(open_)[gone].eq(~last)
        with m.If(self.send):
            m.d.sync += [Array(names)[at].eq(self.sent.as_value()), Array(open_)[at].eq(1)]
            m.d.sync += at.eq(at + 1)
        return m
