"""Frames of HBM that hold no item."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FreeFrames"]


class FreeFrames(wiring.Component):
    """A ring of frames that were used before; where it is empty, those that never were.

    Members
    -------
    frame : Out
        The next free frame.
    settle : In(1)
        An operation is settled: it takes `frame` if `take` is high, and frees those `freed` that are
        `there`, one a cycle from the next cycle on. The next one may settle `count` + 2 cycles later.
    full : Out(1)
        High for one cycle when more frames are in use than there may be.
    """

    def __init__(self, config):
        self.config = config
        self.count = 2 * config.slots + 1
        super().__init__(
            {
                "frame": Out(config.frame_bits),
                "settle": In(1),
                "take": In(1),
                "there": In(self.count),
                "freed": In(data.ArrayLayout(config.frame_bits, self.count)),
                "full": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, bits = self.config, self.config.frame_bits
        m.submodules.ring = ring = memory.Memory(shape=bits, depth=config.frames, init=[])
        get, put = ring.read_port(), ring.write_port()
        head = Signal(range(config.frames), reset_less=True)
        tail = Signal(range(config.frames), reset_less=True)
        level = Signal(range(config.frames + 1), reset_less=True)
        unused = Signal(range(config.frames + 1), reset_less=True)  # the first that never was used
        there = Signal(self.count)
        frames = Signal(bits * self.count, reset_less=True)
        left = Signal(range(self.count + 2))

        def advance(pointer):
            return Mux(pointer == config.frames - 1, 0, pointer + 1)

        taken, again = Signal(), Signal()
        m.d.comb += [
            get.addr.eq(head),
            self.frame.eq(Mux(level != 0, get.data, unused)),
            taken.eq(self.settle & self.take),
            again.eq(level != 0),
            put.addr.eq(tail),
            put.data.eq(frames[:bits]),
            put.en.eq(there[0]),
            self.full.eq((left == 1) & (unused - level > config.frames - 1)),
        ]
        m.d.sync += level.eq(level + there[0] - (taken & again))
        with m.If(there[0]):
            m.d.sync += tail.eq(advance(tail))
        with m.If(taken & again):
            m.d.sync += head.eq(advance(head))
        with m.If(taken & ~again):
            m.d.sync += unused.eq(unused + 1)
        with m.If(self.settle):
            m.d.sync += [
                there.eq(self.there),
                frames.eq(self.freed.as_value()),
                left.eq(self.count + 1),
            ]
        with m.Else():
            m.d.sync += [there.eq(there >> 1), frames.eq(Cat(frames[bits:], frames[:bits]))]
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
        return m
