"""How far an instruction is: the attribute that comes next, and where its values go."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.heap import page as p
from ...models.strider.isa import BITMAP_GROUP
from .fetch import instruction_layout
from .layouts import Kind, beat_bits, tag_layout, tuple_layout

#: where the null bitmap's first byte lies in the word of four bytes that is read for it
_BITMAP_BYTE = p.TUPLE_BITMAP % 4


class Attributes(wiring.Component):
    """Says whether the tuple has the instruction's next attribute.

    With a built-in program this is looked up a cycle before, so that the outputs are registers.
    """

    def __init__(self, config):
        self.config = config
        fixed = config.fixed
        super().__init__(
            {
                "enter": In(1),  # a tuple begins
                "tuple": In(tuple_layout(config)),
                # a window and what it was read for: null bits come this way
                "tag": In(tag_layout(config)),
                "window": In(8 * config.bus_bytes),
                "instruction": In(instruction_layout(config)),
                "begin": In(1),  # its first cycle
                "step": In(1),  # on to the attribute behind this one
                # of a built-in program: the instruction of the next cycle, if it is another one
                "following": In(instruction_layout(config)),
                "load": In(1),
                "waiting": In(1),  # it is the first of `tuple`
                "behind": Out(1),  # the attribute lies behind the tuple's last one
                "present": Out(1),  # it does not, and is no NULL
            }
        )
        # of the tuple under way
        self.natts = Signal(11 if fixed is None else min(11, fixed.setup.attr.bit_length()))
        self.null_bits = Signal(BITMAP_GROUP if fixed is None else fixed.bitmap_bits)

    def elaborate(self, platform):
        m = Module()
        arriving = self._null_bits(m)
        with m.If(self.enter):
            m.d.sync += self.natts.eq(self.tuple.natts)
        if self.config.fixed is None:
            self._computed(m)
        else:
            self._looked_up(m, arriving)
        return m

    def _null_bits(self, m):
        """Return the null bits of the next cycle. The bitmap begins in the last byte of one word and goes on in the next."""
        low, arriving = 8 * (4 - _BITMAP_BYTE), Signal.like(self.null_bits)
        m.d.comb += arriving.eq(self.null_bits)
        with m.If(self.tag.kind == Kind.BITS):
            with m.If(self.tag.part == 0):
                m.d.comb += arriving[:low].eq(self.window[8 * _BITMAP_BYTE : 32])
            with m.Else():
                m.d.comb += arriving[low:].eq(self.window)
        m.d.sync += self.null_bits.eq(Mux(self.enter, -1, arriving))
        return arriving

    def _computed(self, m):
        stepped, done, attr = Signal(16), Signal(16), Signal(17)
        m.d.comb += [
            done.eq(Mux(self.begin, 0, stepped)),
            attr.eq(self.instruction.attr + done),
            self.behind.eq(attr >= self.natts),
            self.present.eq(~self.behind & self.null_bits.bit_select(attr[:5], 1)),
        ]
        m.d.sync += stepped.eq(done + self.step)

    def _looked_up(self, m, arriving):
        attr = Signal(self.config.fixed.attribute_bits)
        after = Signal.like(attr)
        m.d.comb += after.eq(attr + 1)
        first = self.following.attr
        with m.If(self.load):
            natts = Mux(self.waiting, self.tuple.natts, self.natts)
            present = self.waiting | arriving.bit_select(first[:5], 1)
            m.d.sync += [
                attr.eq(first),
                self.behind.eq(first >= natts),
                self.present.eq((first < natts) & present),
            ]
        with m.Elif(self.step):
            present = self.null_bits.bit_select(after[:5], 1)
            m.d.sync += [
                attr.eq(after),
                self.behind.eq(after >= self.natts),
                self.present.eq((after < self.natts) & present),
            ]


class Cursor(wiring.Component):
    """Says where the instruction's next value goes, and how many are still to come."""

    def __init__(self, config):
        self.config = config
        fixed = config.fixed
        super().__init__(
            {
                "instruction": In(instruction_layout(config)),
                "begin": In(1),  # its first cycle
                "move": In(1),  # on by `count` values
                "count": In(instruction_layout(config)["each"].shape),
                # of a built-in program: the instruction of the next cycle, if it is another one
                "following": In(instruction_layout(config)),
                "load": In(1),
                "left": Out(16 if fixed is None else fixed.index_bits),
                "beat": Out(beat_bits(config)),
                "lane": Out(range(config.lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        values = ("left", "beat", "lane")
        first = self.following if self.config.fixed is not None else self.instruction
        begins = {"left": first.count, "beat": first.beat, "lane": first.lane}
        kept = {name: Signal.like(getattr(self, name), name=f"kept_{name}") for name in values}
        stored = self.config.fixed is None
        for name in values:
            value = Mux(self.begin, begins[name], kept[name]) if stored else kept[name]
            m.d.comb += getattr(self, name).eq(value)
            m.d.sync += kept[name].eq(getattr(self, name))
        with m.If(self.move):
            m.d.sync += kept["left"].eq(self.left - self.count)
            self._position(m, kept["beat"], kept["lane"])
        if not stored:
            with m.If(self.load):
                m.d.sync += [kept[name].eq(begins[name]) for name in values]
        return m

    def _position(self, m, beat, lane):
        """The flat position `count` further on."""
        lanes = self.config.lanes
        if lanes & (lanes - 1) == 0:
            m.d.sync += Cat(lane, beat).eq(Cat(self.lane, self.beat) + self.count)
            return
        moved = Signal(range(2 * lanes))
        m.d.comb += moved.eq(self.lane + self.count)
        m.d.sync += lane.eq(moved)
        with m.If(moved >= lanes):
            m.d.sync += [beat.eq(self.beat + 1), lane.eq(moved - lanes)]
