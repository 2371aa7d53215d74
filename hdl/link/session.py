"""Whose the device is, and what was done of that session."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.link.envelope import SILENCE, WINDOW


class Session(wiring.Component):
    """The session that has the device, and which of its sequences are done: all before `first`, and those of `bitmap` from there on."""

    def __init__(self):
        super().__init__(
            {
                # the request that is looked at
                "number": In(32),
                "sequence": In(32),
                "begin": In(1),  # its session takes the device
                "heard": In(1),  # it is of the session, which is not silent, therefore
                "take": In(1),  # its sequence is done
                "slide": In(1),  # go on behind `first`, which is done
                "tick": In(1),  # high for a cycle in each second
                "mine": Out(32),  # the session's number; 0: there is none
                "first": Out(32),
                "bitmap": Out(WINDOW),
                "silent": Out(1),  # no request of the session came for `SILENCE` ticks
                "done": Out(1),  # the request's sequence is done
                "far": Out(1),  # it lies behind the bitmap
            }
        )

    def elaborate(self, platform):
        m = Module()
        quiet, distance = Signal(range(SILENCE + 1)), Signal(32)
        old, place = distance[-1], distance[: (WINDOW - 1).bit_length()]
        m.d.comb += [
            distance.eq(self.sequence - self.first),
            self.silent.eq(quiet == SILENCE),
            self.done.eq(old | self.bitmap.bit_select(place, 1)),
            self.far.eq(~old & (distance >= WINDOW)),
        ]
        with m.If(self.heard):
            m.d.sync += quiet.eq(0)
        with m.Elif(self.tick & ~self.silent):
            m.d.sync += quiet.eq(quiet + 1)
        with m.If(self.begin):
            m.d.sync += [
                self.mine.eq(self.number),
                self.first.eq(self.first + WINDOW),
                self.bitmap.eq(0),
            ]
        with m.Elif(self.take):
            m.d.sync += self.bitmap.bit_select(place, 1).eq(1)
        with m.Elif(self.slide):
            m.d.sync += [self.first.eq(self.first + 1), self.bitmap.eq(self.bitmap >> 1)]
        return m
