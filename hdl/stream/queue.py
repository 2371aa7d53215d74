"""Elastic storage between streams: `Buffer` cuts the combinational paths, `Spare` those of `ready`, `Queue` holds many items."""

from amaranth.hdl import Module, Mux, Shape, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.mapping import DISTRIBUTED_BITS


class _Slice(wiring.Component):
    """What stands between two streams.

    * `shape`: shape of the payload.
    """

    def __init__(self, shape):
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})


class Buffer(_Slice):
    """A register slice: no combinational path from `i` to `o` in either direction, two items of storage.

    An item accepted in cycle t is offered from cycle t + 1 on; one item a cycle.
    """

    def elaborate(self, platform):
        m = Module()
        width = Shape.cast(self.shape).width
        spare = Signal(width, reset_less=True)  # the item that came while `o` was held
        spare_valid = Signal()
        payload = Signal(width, reset_less=True)
        valid = Signal()
        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(valid),
            _bits(self.o.payload).eq(payload),
        ]
        with m.If(~valid | self.o.ready):
            m.d.sync += [
                payload.eq(Mux(spare_valid, spare, _bits(self.i.payload))),
                valid.eq(spare_valid | self.i.valid),
                spare_valid.eq(0),
            ]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [spare.eq(_bits(self.i.payload)), spare_valid.eq(1)]
        return m


class Spare(_Slice):
    """Storage for one item, where it cannot go on: no combinational path from `o.ready` to `i.ready`.

    An item is offered in the cycle in which it is accepted; no item leaves later than it would without this component.
    """

    def elaborate(self, platform):
        m = Module()
        kept = Signal(Shape.cast(self.shape).width, reset_less=True)
        held = Signal()
        m.d.comb += [
            self.i.ready.eq(~held),
            self.o.valid.eq(held | self.i.valid),
            _bits(self.o.payload).eq(Mux(held, kept, _bits(self.i.payload))),
        ]
        m.d.sync += held.eq(self.o.valid & ~self.o.ready)
        with m.If(~held):
            m.d.sync += kept.eq(_bits(self.i.payload))
        return m


class Queue(wiring.Component):
    """A first-in first-out queue of any depth.

    An item accepted in cycle t is offered from cycle t + 1 on, if none is before it. `i.ready` is `level < depth`, whatever `o`
    does, so that one item a cycle passes when `depth` ≥ 2. No combinational path from `i` to `o` in either direction.

    * `shape`: shape of the payload.
    * `depth`: items that it holds, ≥ 1.
    """

    def __init__(self, shape, depth):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be an integer of at least 1, not {depth!r}")
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),  # items held
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = Shape.cast(self.shape).width
        push = Signal()
        pop = Signal()
        m.d.comb += [
            self.i.ready.eq(self.level != self.depth),
            self.o.valid.eq(self.level != 0),
            push.eq(self.i.valid & self.i.ready),
            pop.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += self.level.eq(self.level + push - pop)
        if self.depth == 1:
            item = Signal(width, reset_less=True)
            m.d.comb += _bits(self.o.payload).eq(item)
            with m.If(push):
                m.d.sync += item.eq(_bits(self.i.payload))
            return m

        m.submodules.storage = storage = memory.Memory(
            shape=unsigned(width), depth=self.depth, init=[]
        )
        write = storage.write_port()
        put = Signal(range(self.depth))
        get = Signal(range(self.depth))
        get_next = Signal(range(self.depth))
        m.d.comb += [write.addr.eq(put), write.data.eq(_bits(self.i.payload)), write.en.eq(push)]
        m.d.comb += get_next.eq(Mux(pop, _advance(get, self.depth), get))
        m.d.sync += get.eq(get_next)
        with m.If(push):
            m.d.sync += put.eq(_advance(put, self.depth))
        if self.depth * width <= DISTRIBUTED_BITS:
            read = storage.read_port(domain="comb")
            m.d.comb += read.addr.eq(get)
        else:  # reads ahead; what is written in this cycle is seen in the next
            read = storage.read_port(transparent_for=(write,))
            m.d.comb += [read.addr.eq(get_next), read.en.eq(1)]
        m.d.comb += _bits(self.o.payload).eq(read.data)
        return m


def _bits(payload):
    """The payload as a plain value, whatever view its shape makes of it."""
    return payload.as_value() if hasattr(payload, "as_value") else payload


def _advance(pointer, depth):
    """The position after `pointer` in a ring of `depth`."""
    return pointer + 1 if depth & (depth - 1) == 0 else Mux(pointer == depth - 1, 0, pointer + 1)
