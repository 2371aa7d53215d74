"""Rows that were written back and are not answered yet."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.window import window_beats
from ...models.rows.unit import WRITES, RowUnitConfig
from ..index import index

__all__ = ["Written", "row_name"]


def row_name(config: RowUnitConfig) -> data.StructLayout:
    """Which row of which table."""
    return data.StructLayout({"row": config.row_bits, "table": range(max(2, len(config.tables)))})


class Written(wiring.Component):
    """Keeps the names of rows that were written until all of them are answered, `WRITES` at most. Answers come in order.

    Members
    -------
    send : In(1), sent : In
        This row is written.
    answered : In(1), idle : In(1)
        A burst that was written is answered; all are.
    row : In, late : Out(1)
        Whether this row is among them.
    room : Out(1)
        There is room for one more.
    next : Out
        The row whose burst is answered next.
    """

    def __init__(self, config: RowUnitConfig):
        self.config, self.name = config, row_name(config)
        members = {name: In(1) for name in ("send", "answered", "idle")}
        members |= {"sent": In(self.name), "row": In(self.name), "next": Out(self.name)}
        super().__init__({**members, "late": Out(1), "room": Out(1)})

    def elaborate(self, platform):
        m = Module()
        names = [Signal(self.name.size, name=f"name{k}") for k in range(WRITES)]
        count, at, gone = index(WRITES + 1), index(WRITES + 1), index(WRITES + 1)
        row = self.row.as_value()
        m.d.comb += [
            at.eq(Mux(self.idle, 0, count)),
            self.late.eq(Cat((k < count) & (name == row) for k, name in enumerate(names)).any()),
            self.room.eq(count != WRITES),
            self.next.as_value().eq(Array(names)[gone]),
        ]
        m.d.sync += count.eq(at + self.send)
        with m.If(self.send):
            m.d.sync += Array(names)[at].eq(self.sent.as_value())
        window = window_beats(self.config.bus_bytes)
        bursts = [-(-self.config.words(t) // window) for t in range(len(self.config.tables))]
        part, last = index(max(bursts)), Signal()
        with m.Switch(self.next.table):
            for t, count_of in enumerate(bursts):
                with m.Case(t):
                    m.d.comb += last.eq(part == count_of - 1)
        with m.If(self.answered):
            m.d.sync += [part.eq(Mux(last, 0, part + 1)), gone.eq(gone + last)]
        with m.Elif(self.idle):
            m.d.sync += gone.eq(0)
        return m
