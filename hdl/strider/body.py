"""The body of a Strider: the instructions that take a tuple apart."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.strider.errors import PageError
from ...models.strider.isa import Base, Op
from ...models.strider.machine import ARRAY_HEADER
from ..stream.passing import fields
from .fetch import instruction_layout, opcode
from .layouts import Kind, Origin, bases_layout, issue_layout, tag_layout, tuple_layout
from .progress import Attributes, Cursor


class Body(wiring.Component):
    """Issues the windows of a tuple's attributes, instruction by instruction, while it is `active`."""

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "active": In(1),  # it is the body's turn
                "enter": In(1),  # a tuple begins
                "tuple": In(tuple_layout(config)),
                "instruction": In(instruction_layout(config)),
                # of a built-in program, as of `Fetch`
                "following": In(instruction_layout(config)),
                "waiting": In(1),
                # a window, what it was read for, and what was read before it
                "tag": In(tag_layout(config)),
                "window": In(8 * config.bus_bytes),
                "odd": In(1),
                "padded": In(1),
                "bases": In(bases_layout()),
                "o": Out(issue_layout(config)),
                "advance": Out(1),  # the instruction's last cycle
                "taken": Out(1),  # a tuple is complete, which takes a slot
                "ended": Out(1),  # a tuple is complete, or left out
            }
        )
        self.attributes, self.cursor = Attributes(config), Cursor(config)
        # of the tuple under way
        self.offset = Signal.like(self.tuple.offset)
        self.start = Signal.like(self.tuple.data)
        self.nulls = Signal()
        self.step = Signal(3)  # of the instruction
        self.begin = Signal()  # its first
        # of an array's header, the part that comes next
        self.part = Signal(range(-(-ARRAY_HEADER // config.bus_bytes)))
        self.half = Signal()  # the value's second window is next

    def elaborate(self, platform):
        m = Module()
        m.submodules.attributes = attributes = self.attributes
        m.submodules.cursor = cursor = self.cursor
        both = {"instruction": self.instruction, "following": self.following, "begin": self.begin}
        m.d.comb += [
            *fields(attributes, **both, load=self.advance | self.enter, waiting=self.waiting),
            *fields(attributes, enter=self.enter, tuple=self.tuple),
            *fields(attributes, tag=self.tag, window=self.window),
            *fields(cursor, **both, load=self.advance | self.enter),
            self.begin.eq(self.step == 0),
            self.o.anchor.eq(Mux(self._is(Op.EXTRBI), self.offset, self.start)),
        ]
        with m.If(self.active):
            self._instruction(m)
        with m.If(self.enter):
            m.d.sync += [
                *(self.offset.eq(self.tuple.offset), self.start.eq(self.tuple.data)),
                *(self.nulls.eq(self.tuple.nulls), self.step.eq(0), self.half.eq(0)),
            ]
        return m

    def _is(self, op):
        """Whether the instruction is `op`."""
        fixed = self.config.fixed
        if fixed is not None and op not in fixed.ops:
            return Const(0)
        return self.instruction.op == opcode(self.config, op)

    def _instruction(self, m):
        u, fixed = self.instruction, self.config.fixed
        m.d.comb += [
            self.o.tag.type.eq(u.type),
            *fields(self.o, total=u.total, offset=u.first, mask=u.mask),
        ]
        with m.Switch(u.base):
            for base, origin in (
                (Base.P, Origin.PLACE),
                (Base.D, Origin.ANCHOR),
                (Base.A, Origin.ARRAY),
            ):
                with m.Case(base):
                    m.d.comb += self.o.origin.eq(origin)
        handlers = {
            Op.BEXIT: self._done,
            Op.RUN: self._run,
            Op.CLN: self._cln,
            Op.ARR: self._arr,
            Op.ATT: self._att,
            Op.VAR: self._var,
            Op.EXTRBI: self._extrbi,
            Op.INS: self._ins,
        }
        legal = u.legal if fixed is None else Const(1)  # a built-in program is legal
        with m.If(legal), m.Switch(u.op):
            for op, handler in handlers.items():
                if fixed is None or op in fixed.ops:
                    with m.Case(opcode(self.config, op)):
                        handler(m)
        with m.If(~legal):
            m.d.comb += self.o.tag.code.eq(PageError.PROGRAM)

    def _done(self, m):
        """The instruction's last cycle."""
        m.d.sync += [self.step.eq(0), self.half.eq(0), self.part.eq(0)]
        m.d.comb += self.advance.eq(1)
        with m.If(self.instruction.bexit):
            m.d.comb += [self.o.tag.commit.eq(1), self.taken.eq(1), self.ended.eq(1)]

    def _leave(self, m):
        """A NULL leaves the tuple out."""
        m.d.comb += [self.o.tag.skip.eq(1), self.ended.eq(1)]

    def _window(self, m, kind, *, begin):
        """Issue a window of `kind` at the instruction's own address, or (`begin` not set) as far behind the last one as windows of its type lie apart."""
        m.d.comb += fields(self.o.tag, kind=kind, part=0, final=1)
        with m.If(~begin):
            m.d.comb += fields(self.o, origin=Origin.LAST, offset=self.instruction.stride, mask=0)

    def _data(self, m, count, half, *, begin):
        """Issue a window of `count` values."""
        self._window(m, Kind.DATA, begin=begin)
        cursor = self.cursor
        m.d.comb += fields(self.o.tag, count=count, beat=cursor.beat, lane=cursor.lane, half=half)

    def _run(self, m):
        u, cursor, begin = self.instruction, self.cursor, self.begin
        waits = self.bases.grows & ((u.base == Base.P) | (u.base == Base.A))
        with m.If(begin & u.test & ~self.attributes.present):
            self._done(m)
        with m.Elif(~(begin & waits)):
            count, final = Signal.like(u.each), Signal()
            m.d.comb += [
                final.eq(cursor.left <= u.each),
                count.eq(Mux(final, cursor.left, u.each)),
                cursor.count.eq(count),
            ]
            self._data(m, count, self.half, begin=begin)
            with m.If(begin):
                m.d.comb += self.o.tag.begin.eq(1)
                with m.If((u.base == Base.P) & ~u.keep):
                    m.d.comb += self.o.move.eq(1)
            m.d.sync += self.step.eq(1)
            with m.If(u.windows & ~self.half & (cursor.left != 0)):
                m.d.sync += self.half.eq(1)
            with m.Else():
                m.d.comb += cursor.move.eq(1)
                m.d.sync += self.half.eq(0)
                with m.If(final):
                    self._done(m)

    def _cln(self, m):
        with m.If(self.instruction.test & ~self.attributes.present):
            self._done(m)
        with m.Elif(~self.bases.grows):
            m.d.comb += [self.o.tag.begin.eq(1), self.o.move.eq(1)]
            self._done(m)

    def _absent(self, m, done):
        """A used attribute is not there; `done` where that is no NULL."""
        u = self.instruction
        with m.If(u.missing & self.attributes.behind):
            done(m)
        with m.Elif(u.flag):
            self._leave(m)
        with m.Else():
            m.d.comb += self.o.tag.code.eq(PageError.TUPLE_NULL)

    def _next_attribute(self, m):
        m.d.comb += [self.cursor.move.eq(1), self.attributes.step.eq(1)]
        m.d.sync += [self.step.eq(1), self.half.eq(0)]
        with m.If(self.cursor.left <= 1):
            self._done(m)

    def _att(self, m):
        """One attribute a cycle; base P is in `o` already."""
        u = self.instruction
        m.d.comb += self.cursor.count.eq(1)
        with m.If(self.bases.grows):
            pass
        with m.Elif(u.count == 0):
            self._done(m)
        with m.Elif(self.half):
            self._data(m, 1, 1, begin=Const(0))
            self._next_attribute(m)
        with m.Elif(self.attributes.present):
            m.d.comb += [self.o.tag.begin.eq(1), self.o.move.eq(~u.keep)]
            with m.If(u.use):
                self._data(m, 1, 0, begin=Const(1))
            with m.If(u.use & u.windows):
                m.d.sync += [self.half.eq(1), self.step.eq(1)]
            with m.Else():
                self._next_attribute(m)
        with m.Elif(u.use):
            self._absent(m, self._next_attribute)
        with m.Else():
            self._next_attribute(m)

    def _arr(self, m):
        u, fixed, latency = self.instruction, self.config.fixed, self.config.latency
        bases, probes = self.bases, fixed is None or fixed.probes
        low = Signal(3)  # how the place is aligned
        m.d.comb += low.eq(
            Mux(u.base == Base.P, bases.place, Mux(u.base == Base.A, bases.array, 0)) + u.first[:3]
        )
        unaligned = (low & u.alignment) != 0 if probes else Const(0)
        m.d.comb += [*fields(self.o.tag, big=u.big, value=u.elements), self.o.mask.eq(0)]
        with m.Switch(self.step):
            with m.Case(0):
                with m.If(u.test & ~self.attributes.present):
                    self._absent(m, self._done)
                with m.Elif(~(bases.grows | ((u.base != Base.D) & bases.unsettled))):
                    with m.If(unaligned):
                        self._window(m, Kind.PROBE, begin=Const(1))
                        m.d.comb += self.o.mark.eq(1)
                        m.d.sync += self.step.eq(Mux(u.big, latency, 1))
                    with m.Else():
                        self._header_begins(m)
            if probes:
                for wait in range(1, latency):
                    with m.Case(wait):
                        m.d.sync += self.step.eq(wait + 1)
                with m.Case(latency):
                    self._header_begins(m)
                    m.d.comb += fields(self.o, origin=Origin.ARRAY, offset=0)
                    with m.If(~(self.odd & ~u.big)):
                        m.d.comb += fields(self.o, offset=u.alignment, mask=u.alignment)
            with m.Default():
                m.d.comb += fields(self.o, origin=Origin.LAST, offset=self.config.bus_bytes)
                self._header_part(m)

    def _header_begins(self, m):
        m.d.comb += fields(self.o, mark=1, move=1, open=~self.instruction.big)
        m.d.sync += self.step.eq(self.config.latency + 1)
        self._header_part(m)

    def _header_part(self, m):
        final = self.part == -(-ARRAY_HEADER // self.config.bus_bytes) - 1
        m.d.comb += fields(self.o.tag, kind=Kind.ARRAY, part=self.part, final=final)
        m.d.sync += self.part.eq(self.part + 1)
        with m.If(final):
            self._done(m)

    def _var(self, m):
        u, late = self.instruction, self.config.latency - 4
        with m.Switch(self.step):
            with m.Case(0):
                with m.If(u.test & ~self.attributes.present):
                    self._done(m)
                with m.Elif(~self.bases.grows):
                    self._value(m)
            # the place behind an aligned value is known in this cycle, or (`late`) in the next
            with m.Case(2):
                with m.If(self.bases.crooked):
                    m.d.sync += self.step.eq(3 + late)
                with m.Else():
                    if late:
                        m.d.sync += self.step.eq(3)
                    else:
                        self._done(m)
            if late:
                with m.Case(3):
                    self._done(m)
            with m.Case(4 + 2 * late):  # it is known whether another one was one
                with m.If(self.padded):
                    self._value(m)
                    m.d.comb += fields(self.o, offset=u.alignment, mask=u.alignment, put=1)
                with m.Else():
                    self._done(m)
            with m.Default():
                m.d.sync += self.step.eq(self.step + 1)

    def _value(self, m):
        self._window(m, Kind.VALUE, begin=Const(1))
        m.d.comb += self.o.open.eq(1)
        m.d.sync += self.step.eq(1)

    def _extrbi(self, m):
        m.d.sync += self.step.eq(self.step + 1)
        m.d.comb += self.o.mask.eq(0)
        with m.If(~self.nulls):
            self._done(m)
        with m.Elif(self.step == 0):
            self._read_bits(m, Origin.ANCHOR, self.instruction.bitmap, 0)
        with m.Elif(self.step == 1):
            self._read_bits(m, Origin.LAST, 4, 1)
        with m.Elif(self.step == self.config.latency):
            self._done(m)

    def _read_bits(self, m, origin, offset, part):
        m.d.comb += fields(self.o, origin=origin, offset=offset)
        m.d.comb += fields(self.o.tag, kind=Kind.BITS, part=part, final=1)

    def _ins(self, m):
        u = self.instruction
        with m.If(self.attributes.behind):
            m.d.comb += [
                *fields(self.o.tag, kind=Kind.INSERT, count=1, beat=u.beat, lane=u.lane),
                *fields(self.o.tag, value=u.value, over=u.keep, nan=u.use),
            ]
        self._done(m)
