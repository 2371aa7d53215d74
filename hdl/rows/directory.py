"""Which line holds which row."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.rows.unit import BATCH_BITS, RowUnitConfig
from ..index import index_range


class Directory(wiring.Component):
    """A line for each row of all tables, and for each line its owner: a row, the batch that asked last, whether it was changed, how
    often it was asked for again, 3 times at most.

    What is there before it is written is of no use: a row is held where both sides agree, in a line that was filled. What is read is what is
    written in the same cycle.
    """

    def __init__(self, config: RowUnitConfig):
        self.config = config
        owner = data.StructLayout(
            {"row": config.row_bits, "batch": BATCH_BITS, "changed": 1, "again": 2}
        )
        rows, lines = In(index_range(config.rows)), In(index_range(config.lines))
        super().__init__(
            {
                # read `held` and `hot` of the row `asked`: there a cycle later, until it asks again
                "ask": In(1),
                # read `owner` of the line `looked`: there a cycle later, until it looks again
                "look": In(1),
                "owns": In(1),  # write `entry` as the owner of `line`
                "names": In(1),  # write `holds` as the line of the row `named`
                # rows and lines, counted over all tables
                "asked": rows,
                "named": rows,
                "looked": lines,
                "line": lines,
                # lines, counted over those of the row's table; `held` is one that may hold it
                "held": Out(config.line_bits),
                "holds": In(config.line_bits),
                "hot": Out(1),  # the line is pinned
                "owner": Out(owner),
                "entry": In(owner),
            }
        )

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
