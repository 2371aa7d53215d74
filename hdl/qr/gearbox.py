"""Bus words cut into chunks of any size."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Gearbox", "shifted_left", "shifted_right"]


class Gearbox(wiring.Component):
    """Cuts runs of bus words into chunks; a run's last word may hold padding behind its last chunk, which is dropped.

    A run begins with a command. Words are accepted from the next cycle on; a chunk is offered from the cycle after that in which its last word was
    accepted. Initiation interval 1 chunk a cycle, as long as chunks are no larger than a bus word and words are there: a run of `count` chunks
    then takes count + 3 cycles from its command to the next one. No combinational path between the streams.

    Parameters
    ----------
    word_units
        Units of a bus word.
    unit_bits
        Bits of a unit.
    chunk_units
        Units of the largest chunk.
    count_bits
        Bits of a run's number of chunks.

    Members
    -------
    command : In(stream.Signature({size, grow, shrink, count, units}))
        `count` chunks, the first one of `size` ≥ 1 units; with `grow` each has a unit more than the one before it, with `shrink` one less. `units`: of all of
        them. A run of no chunks takes no words.
    i : In(stream.Signature(word_units * unit_bits))
    o : Out(stream.Signature({data, end}))
        A chunk, its first unit lowest; units above `size` are 0. After each run one item with `end` and nothing else.
    """

    def __init__(self, *, word_units, unit_bits, chunk_units, count_bits=24, src_loc_at=0):
        self.word_units, self.unit_bits, self.chunk_units = word_units, unit_bits, chunk_units
        super().__init__({
            "command": In(stream.Signature(data.StructLayout({
                "size": range(chunk_units + 1), "grow": 1, "shrink": 1, "count": count_bits, "units": range((chunk_units << count_bits) + 1)}))),
            "i": In(stream.Signature(word_units * unit_bits)),
            "o": Out(stream.Signature(data.StructLayout({"data": chunk_units * unit_bits, "end": 1})))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        word, bits, largest = self.word_units, self.unit_bits, self.chunk_units
        room = word + 2 * largest - 1                        # accepting below two chunks keeps one ahead of the chunk being taken
        held = Signal(room * bits)
        level = Signal(range(room + 1))
        size = Signal(range(largest + 1))
        left = Signal(len(self.command.p.count))                 # chunks not yet given
        wanted = Signal(range(-word, (largest << len(left)) + 1))     # units of the run not yet accepted; not positive: none
        active, grow, shrink = Signal(), Signal(), Signal()
        enough = Signal()
        put, take = Signal(), Signal()
        m.d.comb += [
            self.command.ready.eq(~active), enough.eq((level >= size) & (left != 0)),
            self.o.valid.eq(active & (enough | (left == 0))), self.o.p.end.eq(left == 0),
            self.o.p.data.eq(Cat(Mux((k < size) & (left != 0), held.word_select(k, bits), 0) for k in range(largest))),
            self.i.ready.eq(active & (wanted > 0) & (level < 2 * largest)),
            put.eq(self.i.valid & self.i.ready), take.eq(self.o.valid & self.o.ready & enough)]
        # what stays, then the new word behind it
        stays = Signal(room * bits)
        at = Signal(range(room + 1))
        m.d.comb += [stays.eq(Mux(take, shifted_right(held, size, bits), held)), at.eq(level - Mux(take, size, 0))]
        used = Signal(room * bits)
        m.d.comb += used.eq(shifted_left(self.i.payload, at, bits, room * bits))
        with m.If(put):
            # above the level everything is zero, so that an OR puts the word in its place
            m.d.sync += [held.eq(stays | used), level.eq(at + word), wanted.eq(wanted - word)]
        with m.Else():
            m.d.sync += [held.eq(stays), level.eq(at)]
        with m.If(take):
            m.d.sync += [left.eq(left - 1), size.eq(size + grow - shrink)]
        with m.If(self.o.valid & self.o.ready & self.o.p.end):
            m.d.sync += [active.eq(0), level.eq(0), held.eq(0)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [active.eq(1), size.eq(self.command.p.size), grow.eq(self.command.p.grow), shrink.eq(self.command.p.shrink),
                         left.eq(self.command.p.count), wanted.eq(self.command.p.units)]
        return m



def shifted_right(value: Value, units: Value, bits: int) -> Value:
    """The value without its lowest `units` units of `bits`: a rank of multiplexers for each bit of `units`."""
    width = len(value)
    for k, by in enumerate(units):
        value = Mux(by, value[min(bits << k, width):], value)[:width]
    return value


def shifted_left(value: Value, units: Value, bits: int, width: int) -> Value:
    """The value above `units` units of 0, `width` bits of it."""
    for k, by in enumerate(units):
        value = Mux(by, Cat(Const(0, min(bits << k, width)), value), value)[:width]
    return value
