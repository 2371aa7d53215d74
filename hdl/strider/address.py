"""The cycles after an issue: its address is formed, and compared with the tuple's end while the window is read."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.strider.isa import Op
from .fetch import alignment, by_type
from .layouts import (
    Kind,
    Origin,
    bases_layout,
    issue_layout,
    length_layout,
    place_bits,
    tag_layout,
    tuple_layout,
)


class AddressStage(wiring.Component):
    """Forms the address of each issue, and keeps the bases that addresses count from.

    What is issued in cycle t has its address in t + 1, and comes out as `tag` in t + latency - 1, with its window.
    """

    def __init__(self, config):
        self.config = config
        places = place_bits(config)
        super().__init__(
            {
                "i": In(issue_layout(config)),
                # `i` enters this tuple: base P is where its data begin
                "enter": In(1),
                "tuple": In(tuple_layout(config)),
                "length": In(length_layout()),  # what the window of `tag` says
                # of the window that is read, and two bus words further on
                "address": Out(places),
                "after": Out(places),
                "tag": Out(tag_layout(config)),
                # bytes from the window of `tag` to the tuple's end
                "left": Out(signed(places + 1)),
                # how many of them are left over by what `begin`s with it (by an array with a 4-byte
                # header)
                "spare": Out(signed(places + 1)),
                "bases": Out(bases_layout()),
            }
        )
        self.place = Signal(places)  # base P
        self.array = Signal(places)  # base A
        self.last = Signal(places)  # the address before
        self.crooked = Signal()  # it is not aligned as its type is
        # cycles since the header of an array was issued that may be short
        self.growing = Signal(config.latency - 1)
        self.grows = Signal()  # such a header is under way: bases may still change

    def elaborate(self, platform):
        m = Module()
        issue = Signal(issue_layout(self.config))  # of the cycle before
        m.d.sync += issue.eq(self.i)
        names = ("waiting", "measuring", "decoded")[5 - self.config.latency :]
        tags = [issue.tag, *(Signal(tag_layout(self.config), name=name) for name in names)]
        m.d.sync += [later.eq(earlier) for earlier, later in pairwise(tags)]
        m.d.comb += self.tag.eq(tags[-1])

        address, reach = self._form(m, issue)
        self._move(m, issue, address, reach)
        self._measure(m, tags, address, reach)
        self._settle(m)
        crooked = Signal()
        m.d.comb += crooked.eq((address[:3] & by_type(self.config, alignment, issue.tag.type)) != 0)
        m.d.sync += [tags[1].unaligned.eq(crooked), self.crooked.eq(crooked)]
        return m

    def _form(self, m, issue):
        """Return the address of an issue and its reach."""
        places = place_bits(self.config)
        origin, total, further = Signal(places), Signal(places), Signal(places)
        address, reach = Signal(places), Signal(places)
        with m.Switch(issue.origin):
            for code, base in (
                (Origin.ANCHOR, issue.anchor),
                (Origin.PLACE, self.place),
                (Origin.ARRAY, self.array),
                (Origin.LAST, self.last),
            ):
                with m.Case(code):
                    m.d.comb += origin.eq(base)
        m.d.comb += [
            total.eq(origin + issue.offset),
            address.eq(Cat(total[:3] & ~issue.mask, total[3:])),
            reach.eq(address + issue.total),
            self.address.eq(address),
            # beside the address, not behind it
            further.eq(issue.offset + 2 * self.config.bus_bytes),
            self.after.eq(origin + further),
        ]
        return address, reach

    def _move(self, m, issue, address, reach):
        """Set the bases; the tuple that `i` enters comes last."""
        fixed = self.config.fixed
        m.d.sync += self.last.eq(address)
        with m.If(self.growing[-1] & self.length.short):
            m.d.sync += [self.array.eq(self.array - 3), self.place.eq(self.place - 3)]
        if fixed is None or Op.VAR in fixed.ops:
            with m.If((self.tag.kind == Kind.VALUE) & ~self.length.again):
                m.d.sync += self.place.eq(self.place + self.length.size)
        with m.If(issue.move):
            m.d.sync += self.place.eq(reach)
        with m.If(issue.put):
            m.d.sync += self.place.eq(address)
        with m.If(issue.mark):
            m.d.sync += self.array.eq(address)
        with m.If(self.enter):
            m.d.sync += self.place.eq(self.tuple.data)

    def _measure(self, m, tags, address, reach):
        """Say how far it is from a window's place, and from the end of what begins with it, to the tuple's end."""
        places = place_bits(self.config)
        following, end = Signal.like(self.tuple.finish), Signal.like(self.tuple.finish)
        with m.If(self.enter):
            m.d.sync += following.eq(self.tuple.finish)
        with m.If(tags[-3].enter):  # the windows issued before it are compared by now
            m.d.sync += end.eq(following)
        for _ in range(self.config.latency - 3):
            at, far = Signal(places), Signal(places)
            m.d.sync += [at.eq(address), far.eq(reach)]
            address, reach = at, far
        measured = tags[-2]
        first = ~((measured.kind == Kind.ARRAY) & (measured.part != 0))
        if self.config.fixed is not None and Op.ARR not in self.config.fixed.ops:
            first = Const(1)
        with m.If(first):
            m.d.sync += [self.left.eq(end - address), self.spare.eq(end - reach)]

    def _settle(self, m):
        """Say when a base that is moved may be decided by: what moves it has its address two cycles later, its window `latency` cycles."""
        bases, unsettled = self.bases, Signal.like(self.growing)
        moves = self.i.open.replicate(len(unsettled)) | self.i.move
        shifts = self.i.open & self.i.mark
        with m.If(self.enter):
            m.d.sync += [self.growing.eq(0), self.grows.eq(0), unsettled.eq(0)]
        with m.Else():
            m.d.sync += [
                self.growing.eq(Cat(shifts, self.growing)),
                self.grows.eq(shifts | self.growing[:-2].any()),
                unsettled.eq((unsettled >> 1) | moves),
            ]
        m.d.comb += [
            bases.place.eq(self.place),
            bases.array.eq(self.array),
            bases.grows.eq(self.grows),
            bases.unsettled.eq(unsettled[0]),
            bases.crooked.eq(self.crooked),
        ]
