"""The cycle after an issue, in which its address is formed, and the one after that, in which it is compared with the tuple's end."""

from enum import IntEnum

from amaranth.hdl import Cat, Const, Signal, signed
from amaranth.lib import data

from ...models.strider.isa import Op
from .decode import Kind, page_bits, place_bits


class Origin(IntEnum):
    """What an address counts from."""

    KNOWN = 0  #: what stands still, as the Strider's state says: `Front._known_origin`
    PLACE = 1  #: base P
    ARRAY = 2  #: the last array's header, as if it had 24 bytes
    LAST = 3  #: the address before this one


def order_layout(config):
    """What an issue asks of the next cycle.

    The address is that of `origin` plus `offset`, with the bits of `mask` cleared; `reach` is `total` bytes further. `move`: base P is set to `reach`;
    `put`: to the address; `mark`: ARRAY is set to the address.
    """
    places = place_bits(config)
    return data.StructLayout(
        {"origin": 2, "offset": places, "mask": 3, "total": places, "move": 1, "put": 1, "mark": 1}
    )


class Addresses:
    """Part of `StriderPipeline`: the registers that addresses count from, and how far the tuple reaches."""

    def _address_registers(self, m):
        config, inside = self.config, page_bits(self.config)
        self.places = place_bits(config)
        self.order = Signal(order_layout(config))  # of the issue
        self.formed = Signal(order_layout(config))  # of the issue before
        self.offset, self.start = Signal(inside), Signal(inside)
        self.place, self.array, self.last = (
            Signal(self.places),
            Signal(self.places),
            Signal(self.places),
        )
        self.end_next, self.end = Signal(inside), Signal(inside)
        self.shrink = Signal()  # the array's header turned out to have 21 bytes
        self.known_origin = Signal(inside)  # `Origin.KNOWN` of the issue before
        m.d.sync += self.formed.eq(self.order)

    def _form(self, m, before):
        """Form an issue's address, one cycle later; `before` is the tag of the issue that is measured next. Return the address and its reach."""
        config, d, order = self.config, self.decoder, self.formed
        fixed = config.fixed
        origin = Signal(self.places)
        bases = {
            Origin.KNOWN: self.known_origin,
            Origin.PLACE: self.place,
            Origin.ARRAY: self.array,
            Origin.LAST: self.last,
        }
        with m.Switch(order.origin):
            for code, base in bases.items():
                with m.Case(code):
                    m.d.comb += origin.eq(base)
        total, address, reach = Signal(self.places), Signal(self.places), Signal(self.places)
        # beside the address, not behind it
        further, after = Signal(self.places), Signal(self.places)
        m.d.comb += [
            total.eq(origin + order.offset),
            address.eq(Cat(total[:3] & ~order.mask, total[3:])),
            reach.eq(address + order.total),
            further.eq(order.offset + 2 * config.bus_bytes),
            after.eq(origin + further),
            self.pages.address.eq(address),
            self.pages.after.eq(after),
        ]
        m.d.sync += self.last.eq(address)
        with m.If(self.shrink):
            m.d.sync += [self.array.eq(self.array - 3), self.place.eq(self.place - 3)]
        if fixed is None or Op.VAR in fixed.ops:
            with m.If(d.value & ~d.again):
                m.d.sync += self.place.eq(self.place + d.size)
        with m.If(order.move):
            m.d.sync += self.place.eq(reach)
        with m.If(order.put):
            m.d.sync += self.place.eq(address)
        with m.If(order.mark):
            m.d.sync += self.array.eq(address)
        with m.If(before.enter):  # the windows issued before it are compared by now
            m.d.sync += self.end.eq(self.end_next)
        return address, reach

    def _measure(self, m, tag, address, reach):
        """Say how far it is from a window's place, and from the end of what begins with it, to the tuple's end; both a cycle later."""
        if self.config.latency > 4:
            formed, reached = Signal(self.places), Signal(self.places)
            m.d.sync += [formed.eq(address), reached.eq(reach)]
            address, reach = formed, reached
        at, far = Signal(self.places), Signal(self.places)
        left, spare = Signal(signed(self.places + 1)), Signal(signed(self.places + 1))
        m.d.sync += [at.eq(address), far.eq(reach)]
        first = ~((tag.kind == Kind.ARRAY) & (tag.part != 0))
        if self.config.fixed is not None and Op.ARR not in self.config.fixed.ops:
            first = Const(1)
        with m.If(first):
            m.d.sync += [left.eq(self.end - at), spare.eq(self.end - far)]
        m.d.comb += [self.decoder.left.eq(left), self.decoder.spare.eq(spare)]

    def _enter_tuple(self, m):
        d = self.decoder
        m.d.sync += [
            self.offset.eq(self.next_offset),
            self.start.eq(d.data),
            self.place.eq(d.data),
            self.end_next.eq(self.next_finish),
        ]
