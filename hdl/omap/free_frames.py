"""Frames of HBM that hold no item."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.front_schedule import FrontSchedule

__all__ = ["FreeFrames"]


class _Ring(wiring.Component):
    """Frames in the order in which they were freed. `frame`: the oldest one, if `some`; it goes with
    `take`, in a cycle that is at least two behind the last `put`."""

    def __init__(self, config):
        self.config = config
        bits = config.frame_bits
        super().__init__(
            {
                "frame": Out(bits),
                "level": Out(range(config.frames + 1)),
                "take": In(1),
                "put": In(1),
                "freed": In(bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.storage = storage = memory.Memory(
            shape=config.frame_bits, depth=config.frames, init=[]
        )
        get, put = storage.read_port(), storage.write_port()
        head = Signal(range(config.frames), reset_less=True)
        tail = Signal(range(config.frames), reset_less=True)
        level = Signal(range(config.frames + 1), reset_less=True)
        m.d.comb += [
            self.level.eq(level),
            get.addr.eq(head),
            self.frame.eq(get.data),
            put.addr.eq(tail),
            put.data.eq(self.freed),
            put.en.eq(self.put),
        ]
        m.d.sync += level.eq(level + self.put - self.take)
        for pointer, moves in ((head, self.take), (tail, self.put)):
            with m.If(moves):
                m.d.sync += pointer.eq(Mux(pointer == config.frames - 1, 0, pointer + 1))
        return m


class FreeFrames(wiring.Component):
    """Rings of frames that were used before; where all are empty, those that never were.

    Members
    -------
    frame : Out
        The next free frame.
    settle : In(1)
        An operation is settled: it takes `frame` if `take` is high, and frees those `freed` that are
        `there`, one a ring and cycle from the next cycle on. The next one may settle two cycles after
        the last of them.
    full : Out(1)
        High for one cycle when more frames are in use than there may be.
    """

    def __init__(self, config):
        self.config = config
        self.count = 2 * config.slots + 1
        self.rings = FrontSchedule.of(config).rings
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
        config, bits, count = self.config, self.config.frame_bits, self.rings
        steps = -(-self.count // count)
        rings = [_Ring(config) for _ in range(count)]
        unused = Signal(range(config.frames + 1), reset_less=True)  # the first that never was used
        there = Signal(self.count)
        frames = Signal(bits * self.count, reset_less=True)
        left = Signal(range(steps + 2))
        taken, some, ring = Signal(), Signal(), Signal(range(max(count, 2)))
        for k, each in reversed(list(enumerate(rings))):
            m.submodules[f"ring{k}"] = each
            with m.If(each.level != 0):
                m.d.comb += [some.eq(1), ring.eq(k)]
        for k, each in enumerate(rings):
            m.d.comb += [
                each.take.eq(taken & some & (ring == k)),
                each.put.eq(there[k]),
                each.freed.eq(frames.word_select(k, bits)),
            ]
        free = sum((each.level for each in rings), Const(0, 1))
        m.d.comb += [
            self.frame.eq(Mux(some, Array(each.frame for each in rings)[ring], unused)),
            taken.eq(self.settle & self.take),
            self.full.eq((left == 1) & (unused - free > config.frames - 1)),
        ]
        with m.If(taken & ~some):
            m.d.sync += unused.eq(unused + 1)
        with m.If(self.settle):
            m.d.sync += [
                there.eq(self.there),
                frames.eq(self.freed.as_value()),
                left.eq(steps + 1),
            ]
        with m.Else():
            m.d.sync += [there.eq(there >> count), frames.eq(frames >> (bits * count))]
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
        return m
