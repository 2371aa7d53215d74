"""Which line holds which row."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import BATCH_BITS, RowUnitConfig
from ..index import index_range

__all__ = ["Directory"]


class Directory(wiring.Component):
    """A line for each row of all tables, and for each line its owner: a row, the batch that asked last, whether it was changed, how
    often it was asked for again, 3 times at most.

    What is there before it is written is of no use: a row is held where both sides agree, in a line that was filled.

    Members
    -------
    first_line : In
        How many lines the tables have before the one that is meant.
    asked : In, held : Out, hot : Out(1)
        A row, counted over all tables, and a cycle later the line that may hold it, and whether it is pinned.
    looked : In, owner : Out
        A line, and a cycle later its owner.
    line, entry, named : In, owns, names : In(1)
        Write the line's owner; write the line that holds `named`, a row counted over all tables.
    """

    def __init__(self, config: RowUnitConfig):
        self.config = config
        owner = data.StructLayout(
            {"row": config.row_bits, "batch": BATCH_BITS, "changed": 1, "again": 2}
        )
        lines = In(config.line_bits)
        super().__init__(
            {
                "asked": In(index_range(config.rows)),
                "named": In(index_range(config.rows)),
                "first_line": In(index_range(config.lines)),
                "held": Out(config.line_bits),
                "hot": Out(1),
                "looked": lines,
                "owner": Out(owner),
                "line": lines,
                "entry": In(owner),
                "owns": In(1),
                "names": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        size = self.owner.shape().size
        m.submodules.rows = rows = Memory(shape=config.line_bits, depth=config.rows, init=[])
        m.submodules.owners = owners = Memory(shape=size, depth=config.lines, init=[])
        held, named = rows.read_port(), rows.write_port()
        owner, owned = owners.read_port(), owners.write_port()
        m.d.comb += [
            held.addr.eq(self.asked),
            named.addr.eq(self.named),
            owner.addr.eq(self.first_line + self.looked),
            owned.addr.eq(self.first_line + self.line),
            self.held.eq(held.data),
            self.owner.as_value().eq(owner.data),
            named.data.eq(self.line),
            named.en.eq(self.names),
            owned.data.eq(self.entry.as_value()),
            owned.en.eq(self.owns),
        ]
        if len(words := self.config.pins):
            m.submodules.pins = pins = Memory(shape=32, depth=len(words), init=words.tolist())
            pinned, bit = pins.read_port(), Signal(5)
            m.d.comb += [
                pinned.addr.eq(self.asked >> 5),
                self.hot.eq(pinned.data.bit_select(bit, 1)),
            ]
            m.d.sync += bit.eq(self.asked)
        return m
