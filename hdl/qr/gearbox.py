"""Bus words cut into chunks of any size."""

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data, stream

from ..arith.shift import rotated


class Gearbox:
    """Adds to a module what cuts runs of bus words into chunks; a run's last word may hold padding behind its last chunk, which is dropped.

    A run begins with a command. Words are accepted from the next cycle on; a chunk is offered from the cycle after that in which its last word was
    accepted. Initiation interval 1 chunk a cycle, as long as chunks are no larger than a bus word and words are there: a run of `count` chunks
    then takes count + 3 cycles from its command to the next one. No combinational path between the streams.

    * `name`: of its signals.
    * `i` (`stream`): the words.
    * `chunk_units`: units of the largest chunk.
    * `count_bits`, `unit_bits`: bits of a run's number of chunks, and of a unit.
    """

    def __init__(self, m, name, i, chunk_units, *, count_bits=24, unit_bits=32):
        self.i, bits, most = i, unit_bits, chunk_units
        sizes = {"size": range(most + 1), "grow": 1, "count": count_bits}
        asked = data.StructLayout({**sizes, "units": range((most << count_bits) + 1)})
        chunks = data.StructLayout({"data": most * bits, "end": 1})
        # `count` chunks, the first one of `size` ≥ 1 units; with `grow` each has a unit more than
        # the one before it. `units`: of all of them. A run of no chunks takes no words.
        self.command = stream.Signature(asked).create(path=(name, "run"))
        # a chunk, its first unit lowest; units above `size` are 0. After each run one item with
        # `end` and nothing else.
        self.o = stream.Signature(chunks).create(path=(name, "chunk"))
        self._cut(m, len(i.payload) // bits, bits, most)

    def _cut(self, m, word, bits, most):
        # a ring of words, which a chunk may begin anywhere in: below two chunks (one ahead of the chunk being taken) the next word's place is free
        places = -(-(2 * most + 2 * word - 2) // word)
        ring = [Signal(word * bits, name=f"word{k}", reset_less=True) for k in range(places)]
        head, tail = Signal(range(places * word)), Signal(range(places))
        level, size = Signal(range(places * word + 1)), Signal(range(most + 1))
        left = Signal(len(self.command.p.count))  # chunks not yet given
        # units of the run not yet accepted; not positive: none
        wanted = Signal(range(-word, (most << len(left)) + 1))
        active, grow, enough = Signal(), Signal(), Signal()
        some, more = Signal(), Signal()  # left != 0, wanted > 0
        put, take = Signal(), Signal()
        chunk, stays = Signal(most * bits), Signal.like(level)
        m.d.comb += [
            self.command.ready.eq(~active),
            enough.eq((level >= size) & some),
            self.o.valid.eq(active & (enough | ~some)),
            self.o.p.end.eq(~some),
            self.i.ready.eq(active & more & (level < 2 * most)),
            put.eq(self.i.valid & self.i.ready),
            take.eq(self.o.valid & self.o.ready & enough),
            chunk.eq(rotated(m, Cat(ring), head, bits, most)),
            stays.eq(level - Mux(take, size, 0)),
        ]
        for k in range(most):
            with m.If((k < size) & some):
                m.d.comb += self.o.p.data.word_select(k, bits).eq(chunk.word_select(k, bits))
        m.d.sync += level.eq(stays)
        with m.If(put):
            m.d.sync += [
                level.eq(stays + word),
                wanted.eq(wanted - word),
                more.eq(wanted > word),
                tail.eq(Mux(tail == places - 1, 0, tail + 1)),
            ]
            for k, place in enumerate(ring):
                with m.If(tail == k):
                    m.d.sync += place.eq(self.i.payload)
        with m.If(take):
            behind = head + size
            m.d.sync += [
                left.eq(left - 1),
                some.eq(left != 1),
                size.eq(size + grow),
                head.eq(Mux(behind >= places * word, behind - places * word, behind)),
            ]
        with m.If(self.o.valid & self.o.ready & self.o.p.end):
            m.d.sync += [register.eq(0) for register in (active, level, head, tail)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                active.eq(1),
                size.eq(self.command.p.size),
                grow.eq(self.command.p.grow),
                left.eq(self.command.p.count),
                wanted.eq(self.command.p.units),
                *(flag.eq(self.command.p.count != 0) for flag in (some, more)),
            ]
