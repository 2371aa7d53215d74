"""From a port's tuple stream to the threads' input slots."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ..index import index, index_range
from ..rows.gate import tuple_layout


def beat_layout(plan: AnalyticsPlan) -> data.StructLayout:
    """Payload of a tuple stream: the codes of one beat, whether it is the tuple's last, or the end of the epoch (no data)."""
    return tuple_layout(plan.lanes, plan.format.width)


class Loader(wiring.Component):
    """Deals a port's tuples to its threads, group by group, into a ring of `plan.striders.input_slots` slots.

    A group is complete when each of the port's threads has a tuple, when the batch is full, or when the epoch ends within it. A beat accepted in
    cycle t can be read from its slot from cycle t + 1 on; `available`, `count`, `ended` and `final` change in t + 1, too.
    """

    def __init__(self, plan: AnalyticsPlan):
        self.plan = plan
        per_port = plan.threads_per_port
        super().__init__(
            {
                # beats of tuples and end tokens; taken while a slot is free and the epoch goes on
                "i": In(stream.Signature(beat_layout(plan))),
                # writes to the threads' slots: which threads (a bit each), slot, beat, codes; as
                # `load…` of `hdl.analytics.core.Core`
                "load": Out(per_port),
                "load_slot": Out(index_range(plan.striders.input_slots)),
                "load_beat": Out(index_range(plan.layout.beats)),
                "load_data": Out(plan.lanes * plan.format.width),
                # threads that have a tuple of the group that waits, from the first on
                "count": Out(index_range(per_port + 1)),
                "available": Out(1),  # a complete group waits
                "ended": Out(1),  # no more tuples of this epoch will come
                # the epoch has ended and at most the group that waits is left of it
                "final": Out(1),
                # the engine starts a group on all ports at once. A port that has no tuples left in this
                # epoch takes no part, but uses up a slot: slots and `release` are common to all ports.
                "pop": In(1),
                # the engine is through with the oldest started group's slot
                "release": In(1),
                "advance": In(1),  # begin the next epoch
                # the run has failed: take and forget everything up to the end of the epoch
                "discard": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, per_port = self.plan, self.plan.threads_per_port
        slots = plan.striders.input_slots
        batch = plan.merge_count // plan.ports  # this port's positions of a batch; 0: no limit
        head, tail = index(slots), index(slots)  # next slot to write, oldest waiting one
        held, level = index(slots + 1), index(slots + 1)
        thread, position = index(per_port), index(max(batch, 1))
        counts = Array(index(per_port + 1, name=f"count{n}") for n in range(slots))
        turn = lambda pointer: Mux(pointer == slots - 1, 0, pointer + 1)

        taken, tuple_done, group_done = Signal(), Signal(), Signal()
        complete, sit_out = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~self.ended & ((held != slots) | self.discard)),
            taken.eq(self.i.valid & self.i.ready & ~self.discard),
            self.load_slot.eq(head),
            self.load_data.eq(self.i.p.lanes),
            tuple_done.eq(taken & ~self.i.p.end & self.i.p.last),
            group_done.eq((thread == per_port - 1) | ((position == batch - 1) if batch else 0)),
            complete.eq((tuple_done & group_done) | (taken & self.i.p.end & (thread != 0))),
            self.available.eq(level != 0),
            self.count.eq(Mux(level != 0, counts[tail], 0)),
            self.final.eq(self.ended & (level <= 1)),
            sit_out.eq(self.pop & (level == 0)),
        ]
        with m.If(taken & ~self.i.p.end):
            m.d.comb += self.load.eq(1 << thread)
            m.d.sync += self.load_beat.eq(Mux(self.i.p.last, 0, self.load_beat + 1))
        with m.If(tuple_done):
            m.d.sync += [
                thread.eq(thread + 1),
                position.eq(Mux(position == batch - 1, 0, position + 1)),
            ]
        with m.If(self.i.valid & self.i.ready & self.i.p.end):
            m.d.sync += [self.ended.eq(1), position.eq(0)]
        # a tuple that ends here counts; an end token does not
        with m.If(complete):
            m.d.sync += [counts[head].eq(thread + ~self.i.p.end), thread.eq(0)]
        with m.If(complete | sit_out):
            m.d.sync += head.eq(turn(head))
        with m.If(self.pop):
            m.d.sync += tail.eq(turn(tail))
        m.d.sync += [
            level.eq(level + complete - (self.pop & ~sit_out)),
            held.eq(held + (complete | sit_out) - self.release),
        ]
        with m.If(self.advance):
            m.d.sync += self.ended.eq(0)
        return m
