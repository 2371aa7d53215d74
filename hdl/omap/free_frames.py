"""Frames of HBM that hold no item."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.front_schedule import FrontSchedule
from ..stream.passing import fields


class _Packer(wiring.Component):
    """Gathers numbers into words of `packed`."""

    def __init__(self, bits, lanes, packed):
        self.bits, self.lanes, self.packed = bits, lanes, packed
        super().__init__(
            {
                # numbers that are added, any of them
                "there": In(lanes),
                "freed": In(data.ArrayLayout(bits, lanes)),
                "word": Out(bits * packed),  # the numbers of a word, which leaves when it is `full`
                "full": Out(1),
                "some": Out(1),  # there is a number that is in no word yet
                "last": Out(bits),  # the one of them that came last
                "take": In(1),  # it goes, in a cycle in which no number is added
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits, packed, lanes = self.bits, self.packed, self.lanes
        held = Signal(data.ArrayLayout(bits, max(packed - 1, 1)), reset_less=True)
        count = Signal(range(packed), reset_less=True)
        following = Signal(data.ArrayLayout(bits, packed + lanes - 1))
        for k in range(packed - 1):
            m.d.comb += following[k].eq(held[k])
        at = count
        for k in range(lanes):
            for place in range(packed + lanes - 1):
                with m.If(self.there[k] & (at == place)):
                    m.d.comb += following[place].eq(self.freed[k])
            at = (at + self.there[k])[: (packed + lanes - 1).bit_length()]
        words = following.as_value()
        m.d.comb += fields(self, full=at >= packed, word=words, some=count != 0)
        m.d.comb += fields(self, last=Array(held[k] for k in range(max(packed - 1, 1)))[count - 1])
        m.d.sync += [
            held.eq(Mux(self.full, words[bits * packed :], words)),
            count.eq(at - Mux(self.full, packed, 0) - self.take),
        ]
        return m


class FreeFrames(wiring.Component):
    """Which frames of HBM hold no item. Those that were used before go first: words of `packed` of them in a ring, and those that fill no word yet; then
    those that never were used.
    """

    def __init__(self, config):
        self.config, self.schedule = config, FrontSchedule.of(config)
        self.count = config.freed_frames
        super().__init__(
            {
                "frame": Out(config.frame_bits),  # the next free frame
                # an operation is settled: it takes `frame` if `take` is high, and frees those
                # `freed` that are `there`, at most `FrontSchedule.freed` a cycle from the next
                # cycle on. The next one may settle two cycles after the last of them.
                "settle": In(1),
                "take": In(1),
                "there": In(self.count),
                "freed": In(data.ArrayLayout(config.frame_bits, self.count)),
                "full": Out(1),  # high for one cycle when more frames are in use than there may be
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, bits, lanes = self.config, self.config.frame_bits, self.schedule.freed
        steps = -(-self.count // lanes)
        m.submodules.packer = packer = _Packer(bits, lanes, self.schedule.packed)
        present = Signal(self.count, reset_less=True)
        frames = Signal(bits * self.count, reset_less=True)
        left = Signal(range(steps + 2))
        taken = Signal()
        used = Signal(range(config.frames + 2), reset_less=True)
        m.d.comb += [
            taken.eq(self.settle & self.take),
            packer.there.eq(present),
            packer.freed.eq(frames),
            self.full.eq((left == 1) & (used > config.frames - 1)),
        ]
        m.d.sync += used.eq(used + taken - sum(present[k] for k in range(lanes)))
        self._next(m, packer, taken)
        with m.If(self.settle):
            m.d.sync += [
                present.eq(self.there),
                frames.eq(self.freed.as_value()),
                left.eq(steps + 1),
            ]
        with m.Else():
            m.d.sync += [present.eq(present >> lanes), frames.eq(frames >> (bits * lanes))]
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
        return m

    def _next(self, m, packer, taken):
        """The ring, whose oldest word is at hand; then what the packer holds, then the first frame that
        never was used."""
        config, bits, packed = self.config, self.config.frame_bits, self.schedule.packed
        depth = self.schedule.words
        m.submodules.ring = ring = memory.Memory(shape=bits * packed, depth=depth, init=[])
        get, put = ring.read_port(), ring.write_port()
        unused = Signal(range(config.frames + 1), reset_less=True)
        words = Signal(range(depth + 1), reset_less=True)
        place = Signal(range(packed), reset_less=True)  # of the word at hand
        some, gone = Signal(), Signal()
        at_hand = Array(get.data.word_select(k, bits) for k in range(packed))
        m.d.comb += [
            some.eq(words != 0),
            gone.eq(taken & some & (place == packed - 1)),
            self.frame.eq(Mux(some, at_hand[place], Mux(packer.some, packer.last, unused))),
            packer.take.eq(taken & ~some & packer.some),
            put.data.eq(packer.word),
            put.en.eq(packer.full),
        ]
        for name, port, moves in (("head", get, gone), ("tail", put, packer.full)):
            at = Signal(range(depth), name=name, reset_less=True)
            m.d.comb += port.addr.eq(at)
            with m.If(moves):
                m.d.sync += at.eq(Mux(at == depth - 1, 0, at + 1))
        m.d.sync += words.eq(words + packer.full - gone)
        with m.If(taken & some):
            m.d.sync += place.eq(Mux(gone, 0, place + 1))
        with m.If(taken & ~some & ~packer.some):
            m.d.sync += unused.eq(unused + 1)
