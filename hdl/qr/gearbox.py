"""Bus words cut into chunks of any size."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .barrel import rotated

__all__ = ["Gearbox"]


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
    command : In(stream.Signature({size, grow, count, units}))
        `count` chunks, the first one of `size` ≥ 1 units; with `grow` each has a unit more than the one before it. `units`: of all of
        them. A run of no chunks takes no words.
    i : In(stream.Signature(word_units * unit_bits))
    o : Out(stream.Signature({data, end}))
        A chunk, its first unit lowest; units above `size` are 0. After each run one item with `end` and nothing else.
    """

    def __init__(self, *, word_units, unit_bits, chunk_units, count_bits=24):
        self.word_units = word_units
        self.unit_bits = unit_bits
        self.chunk_units = chunk_units
        super().__init__(
            {
                "command": In(
                    stream.Signature(
                        data.StructLayout(
                            {
                                "size": range(chunk_units + 1),
                                "grow": 1,
                                "count": count_bits,
                                "units": range((chunk_units << count_bits) + 1),
                            }
                        )
                    )
                ),
                "i": In(stream.Signature(word_units * unit_bits)),
                "o": Out(
                    stream.Signature(data.StructLayout({"data": chunk_units * unit_bits, "end": 1}))
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._ring(m)
        self._move(m)
        return m

    def _ring(self, m):
        """A ring of words, which a chunk may begin anywhere in."""
        # a ring of words, which a chunk may begin anywhere in: below two chunks (one ahead of the chunk being taken) the next word's place is free
        self.places = -(-(2 * self.chunk_units + 2 * self.word_units - 2) // self.word_units)
        self.ring = [
            Signal(self.word_units * self.unit_bits, name=f"word{k}", reset_less=True)
            for k in range(self.places)
        ]
        self.head, self.tail = (
            Signal(range(self.places * self.word_units)),
            Signal(range(self.places)),
        )
        self.level = Signal(range(self.places * self.word_units + 1))
        self.size = Signal(range(self.chunk_units + 1))
        self.left = Signal(len(self.command.p.count))  # chunks not yet given
        # units of the run not yet accepted; not positive: none
        self.wanted = Signal(range(-self.word_units, (self.chunk_units << len(self.left)) + 1))
        self.active = Signal()
        self.grow = Signal()
        # left != 0, wanted > 0
        self.some = Signal()
        self.more = Signal()
        self.enough = Signal()
        self.put = Signal()
        self.take = Signal()
        self.chunk = Signal(self.chunk_units * self.unit_bits)

    def _move(self, m):
        """Words in, chunks out."""
        m.d.comb += [
            self.command.ready.eq(~self.active),
            self.enough.eq((self.level >= self.size) & self.some),
            self.o.valid.eq(self.active & (self.enough | ~self.some)),
            self.o.p.end.eq(~self.some),
            self.o.p.data.eq(
                Cat(
                    Mux((k < self.size) & self.some, self.chunk.word_select(k, self.unit_bits), 0)
                    for k in range(self.chunk_units)
                )
            ),
            self.i.ready.eq(self.active & self.more & (self.level < 2 * self.chunk_units)),
            self.put.eq(self.i.valid & self.i.ready),
            self.take.eq(self.o.valid & self.o.ready & self.enough),
        ]
        m.d.comb += self.chunk.eq(
            rotated(m, Cat(self.ring), self.head, self.unit_bits, self.chunk_units)
        )
        stays = Signal.like(self.level)
        m.d.comb += stays.eq(self.level - Mux(self.take, self.size, 0))
        m.d.sync += self.level.eq(stays)
        with m.If(self.put):
            m.d.sync += [
                self.level.eq(stays + self.word_units),
                self.wanted.eq(self.wanted - self.word_units),
                self.more.eq(self.wanted > self.word_units),
                self.tail.eq(Mux(self.tail == self.places - 1, 0, self.tail + 1)),
            ]
            for k, place in enumerate(self.ring):
                with m.If(self.tail == k):
                    m.d.sync += place.eq(self.i.payload)
        with m.If(self.take):
            behind = self.head + self.size
            m.d.sync += [
                self.left.eq(self.left - 1),
                self.some.eq(self.left != 1),
                self.size.eq(self.size + self.grow),
                self.head.eq(
                    Mux(
                        behind >= self.places * self.word_units,
                        behind - self.places * self.word_units,
                        behind,
                    )
                ),
            ]
        with m.If(self.o.valid & self.o.ready & self.o.p.end):
            m.d.sync += [self.active.eq(0), self.level.eq(0), self.head.eq(0), self.tail.eq(0)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.active.eq(1),
                self.size.eq(self.command.p.size),
                self.grow.eq(self.command.p.grow),
                self.left.eq(self.command.p.count),
                self.wanted.eq(self.command.p.units),
                self.some.eq(self.command.p.count != 0),
                self.more.eq(self.command.p.count != 0),
            ]
