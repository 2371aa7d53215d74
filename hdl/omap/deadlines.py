"""What is used at its deadline, and must be there by then."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.queue import Queue


class Deadline(wiring.Component):
    """Says when what was begun is due, a fixed time later, whatever happens in between.

    * `cycles`: from `begun` to `due`, ≥ 2.
    * `depth`: how many are under way at most.
    """

    def __init__(self, cycles, depth):
        self.cycles, self.depth = cycles, depth
        super().__init__(
            {
                "begun": In(1),
                "met": In(2),  # how many are done, in the order in which they were begun
                "due": Out(1),  # the oldest one's time has come
                "late": Out(1),  # it has, and the oldest one is not done
                "idle": Out(1),  # none is under way
            }
        )

    def elaborate(self, platform):
        m = Module()
        now = Signal(self.cycles.bit_length() + 1)
        m.submodules.times = times = Queue(len(now), self.depth)
        done = Signal(range(self.depth + 4))
        m.d.sync += [now.eq(now + 1), done.eq(done + self.met - (self.due & ~self.late))]
        m.d.comb += [
            times.i.valid.eq(self.begun),
            times.i.payload.eq(now + self.cycles),
            self.due.eq(times.o.valid & (times.o.payload == now)),
            times.o.ready.eq(self.due),
            self.late.eq(self.due & (done == 0) & (self.met == 0)),
            self.idle.eq(~times.o.valid),
        ]
        return m
