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

    What is there before it is written is of no use: a row is held where both sides agree, in a line that was filled. What is read is what is
    written in the same cycle.

    Members
    -------
    ask : In(1), asked : In, held : Out, hot : Out(1)
        A row, counted over all tables, and a cycle later the line that may hold it, and whether it is pinned; they stay until it asks again.
    look : In(1), looked : In, owner : Out
        A line, counted over all tables, and a cycle later its owner, which stays until it looks again.
    line, entry, named : In, owns, names : In(1)
        Write the owner of that line, counted over all tables; write which line holds `named`, a row counted over all tables.
    holds : In
        The line that does, of those of its table.
    """

    def __init__(self, config: RowUnitConfig):
        self.config = config
        owner = data.StructLayout(
            {"row": config.row_bits, "batch": BATCH_BITS, "changed": 1, "again": 2}
        )
        rows, lines = In(index_range(config.rows)), In(index_range(config.lines))
        members = {name: In(1) for name in ("ask", "look", "owns", "names")}
        members |= {"asked": rows, "named": rows, "looked": lines, "line": lines}
        members |= {"held": Out(config.line_bits), "holds": In(config.line_bits), "hot": Out(1)}
        super().__init__({**members, "owner": Out(owner), "entry": In(owner)})

    def elaborate(self, platform):
        m = Module()
        config = self.config
        size = self.owner.shape().size
        m.submodules.rows = rows = Memory(shape=config.line_bits, depth=config.rows, init=[])
        m.submodules.owners = owners = Memory(shape=size, depth=config.lines, init=[])
        named, owned = rows.write_port(), owners.write_port()
        held = rows.read_port(transparent_for=(named,))
        owner = owners.read_port(transparent_for=(owned,))
        m.d.comb += [
            held.addr.eq(self.asked),
            held.en.eq(self.ask),
            named.addr.eq(self.named),
            owner.addr.eq(self.looked),
            owner.en.eq(self.look),
            owned.addr.eq(self.line),
            self.held.eq(held.data),
            self.owner.as_value().eq(owner.data),
            named.data.eq(self.holds),
            named.en.eq(self.names),
            owned.data.eq(self.entry.as_value()),
            owned.en.eq(self.owns),
        ]
        if len(words := self.config.pins):
            m.submodules.pins = pins = Memory(shape=32, depth=len(words), init=words.tolist())
            pinned, bit = pins.read_port(), Signal(5)
            m.d.comb += [
                pinned.addr.eq(self.asked >> 5),
                pinned.en.eq(self.ask),
                self.hot.eq(pinned.data.bit_select(bit, 1)),
            ]
            with m.If(self.ask):
                m.d.sync += bit.eq(self.asked)
        return m
