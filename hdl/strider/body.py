"""The Strider's body: the instructions that take a tuple apart."""

from amaranth.hdl import Array, Cat, Const, Mux, Signal

from ...models.heap import page as p
from ...models.strider.errors import PageError
from ...models.strider.isa import BITMAP_GROUP, FIXED_TYPES, Base, Op
from ...models.strider.machine import ARRAY_HEADER
from .address import Origin
from .decode import Kind, beat_bits
from .front import State

#: where the null bitmap's first byte lies in the word of four bytes that is read for it
_BITMAP_BYTE = p.TUPLE_BITMAP % 4


class Body:
    """Part of `StriderPipeline`: issues the windows of a tuple's attributes."""

    def _body_registers(self, m):
        d, config, fixed = self.decoder, self.config, self.config.fixed
        self.tuple_entry = Signal.like(self.entry)
        self.natts = (
            Signal.like(d.natts)
            if fixed is None
            else Signal(min(11, fixed.setup.attr.bit_length()))
        )
        self.nulls = Signal()
        self.null_bits = Signal(BITMAP_GROUP if fixed is None else fixed.bitmap_bits)
        self.null_next = Signal.like(self.null_bits)
        # the instruction's next attribute; whether the tuple has it and it is no NULL; whether it lies behind the tuple's last one
        self.attr = Signal(17 if fixed is None else fixed.attribute_bits)
        self.present, self.behind = Signal(), Signal()
        self.stepping = Signal()  # on to the attribute after it
        self.step = Signal(3)  # of the current instruction
        # elements or attributes that are still to come; `left`, `beat`, `lane` hold in an instruction's first cycle where the program is built in
        self.left = Signal(16 if fixed is None else fixed.index_bits)
        self.done_attributes = Signal(16)
        self.half = Signal()
        self.beat = Signal(beat_bits(config))
        self.lane = Signal(range(config.lanes))
        self.crooked = Signal()  # the value whose header was issued before is not aligned
        # cycles since an array's header with two possible lengths; cycles until addresses can be decided by
        self.growing, self.unsettled = Signal(config.latency - 1), Signal(config.latency - 1)
        self.settle = Signal(config.latency - 1)
        # such a header is under way whose length may still change base P and A
        self.grows = Signal()
        m.d.sync += [
            self.growing.eq(self.growing << 1),
            self.grows.eq(self.growing[:-2].any()),
            self.unsettled.eq((self.unsettled >> 1) | self.settle),
        ]
        m.d.comb += self.shrink.eq(self.growing[-1] & d.short)
        # the bitmap begins in the last byte of one word and goes on in the next
        low = 8 * (4 - _BITMAP_BYTE)
        m.d.comb += self.null_next.eq(self.null_bits)
        with m.If(d.bits):
            with m.If(d.tag.part == 0):
                m.d.comb += self.null_next[:low].eq(d.window[8 * _BITMAP_BYTE : 32])
            with m.Else():
                m.d.comb += self.null_next[low:].eq(d.window)
        m.d.sync += self.null_bits.eq(self.null_next)

    def _prepare(self, m):
        """Look up what the first cycle of a built-in program's next instruction, or of its next attribute, begins with."""
        u, d = self.following, self.decoder
        after = Signal.like(self.attr)
        m.d.comb += after.eq(self.attr + 1)
        with m.If(self.advancing | self.entering):
            behind = Mux(self.state == State.LOOP, u.attr >= d.natts, u.attr >= self.natts)
            present = (self.state == State.LOOP) | self.null_next.bit_select(u.attr[:5], 1)
            m.d.sync += [
                self.attr.eq(u.attr),
                self.behind.eq(behind),
                self.present.eq(~behind & present),
                self.left.eq(u.count),
                self.beat.eq(u.beat),
                self.lane.eq(u.lane),
            ]
        with m.Elif(self.stepping):
            m.d.sync += [
                self.attr.eq(after),
                self.behind.eq(after >= self.natts),
                self.present.eq((after < self.natts) & self.null_bits.bit_select(after[:5], 1)),
            ]

    def _enter(self, m):
        """Enter the tuple whose header was read."""
        d = self.decoder
        self._enter_tuple(m)
        m.d.comb += [self.tag_in.enter.eq(1), self.entering.eq(1)]
        m.d.sync += [
            self.tuple_entry.eq(self.entry),
            self.natts.eq(d.natts),
            self.nulls.eq(d.nulls),
            self.null_bits.eq(-1),
            self.growing.eq(0),
            self.grows.eq(0),
            self.unsettled.eq(0),
            self.step.eq(0),
            self.half.eq(0),
        ]

    def _done(self, m):
        """The instruction's last cycle."""
        u = self.instruction
        m.d.sync += [self.step.eq(0), self.half.eq(0), self.part.eq(0)]
        m.d.comb += self.advancing.eq(1)
        with m.If(u.bexit):
            m.d.comb += [self.tag_in.commit.eq(1), self.taken.eq(1)]
            self._back(m)

    def _back(self, m):
        self._go_to(m, 1)
        m.d.sync += self.state.eq(State.LOOP)

    def _leave(self, m):
        """A NULL leaves the tuple out."""
        m.d.comb += self.tag_in.skip.eq(1)
        self._back(m)

    def _size(self, table, code):
        """`table[code]` for each type code, as a small multiplexer."""
        fixed = self.config.fixed
        if fixed is not None:
            first, *others = fixed.types or (0,)
            value = Const(table(FIXED_TYPES[first]), 8)
            for known in others:
                value = Mux(code == known, table(FIXED_TYPES[known]), value)
            return value
        return Array([Const(table(name), 8) for name in FIXED_TYPES] + [Const(0, 8)] * 2)[code]

    def _body(self, m):
        config, u = self.config, self.instruction
        begin = self.step == 0
        m.d.comb += self.tag_in.type.eq(u.type)
        if config.fixed is None:
            self.now_left, self.now_beat, self.now_lane = (
                Mux(begin, u.count, self.left),
                Mux(begin, u.beat, self.beat),
                Mux(begin, u.lane, self.lane),
            )
            m.d.comb += [
                self.attr.eq(u.attr + Mux(begin, 0, self.done_attributes)),
                self.behind.eq(self.attr >= self.natts),
                self.present.eq(~self.behind & self.null_bits.bit_select(self.attr[:5], 1)),
            ]
        else:
            self.now_left, self.now_beat, self.now_lane = self.left, self.beat, self.lane
        based = {Base.P: Origin.PLACE, Base.D: Origin.KNOWN, Base.A: Origin.ARRAY}
        m.d.comb += [
            self.order.total.eq(u.total),
            self.order.offset.eq(u.first),
            self.order.mask.eq(u.mask),
        ]
        with m.Switch(u.base):
            for base, origin in based.items():
                with m.Case(base):
                    m.d.comb += self.order.origin.eq(origin)
        self.wait = self.grows & ((u.base == Base.P) | (u.base == Base.A))
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
        if config.fixed is not None:  # nothing but what the program has; none of it is illegal
            with m.Switch(u.op):
                for number, op in enumerate(sorted(config.fixed.ops)):
                    with m.Case(number):
                        handlers[op](m)
            return
        with m.If(u.legal):
            with m.Switch(self.op):
                for op, handler in handlers.items():
                    with m.Case(op):
                        handler(m)
        with m.Else():
            m.d.comb += self.tag_in.code.eq(PageError.PROGRAM)

    def _window(self, m, kind, *, begin):
        """Issue a window of `kind` at the instruction's own address, or (`begin` not set) as far behind the last one as windows of its type lie apart."""
        m.d.comb += [self.tag_in.kind.eq(kind), self.tag_in.part.eq(0), self.tag_in.final.eq(1)]
        with m.If(~begin):
            m.d.comb += [
                self.order.origin.eq(Origin.LAST),
                self.order.offset.eq(self.instruction.stride),
                self.order.mask.eq(0),
            ]

    def _data(self, m, count, half, *, begin):
        self._window(m, Kind.DATA, begin=begin)
        m.d.comb += [
            self.tag_in.count.eq(count),
            self.tag_in.beat.eq(self.now_beat),
            self.tag_in.lane.eq(self.now_lane),
            self.tag_in.half.eq(half),
        ]

    def _advance(self, m, count):
        """The flat position `count` further on."""
        lanes = self.config.lanes
        if lanes & (lanes - 1) == 0:
            m.d.sync += Cat(self.lane, self.beat).eq(
                Cat(self.now_lane[: len(self.lane)], self.now_beat) + count
            )
            return
        moved = Signal(range(2 * lanes))
        m.d.comb += moved.eq(self.now_lane + count)
        with m.If(moved >= lanes):
            m.d.sync += [self.beat.eq(self.now_beat + 1), self.lane.eq(moved - lanes)]
        with m.Else():
            m.d.sync += [self.beat.eq(self.now_beat), self.lane.eq(moved)]

    def _moves(self, m):
        """The instruction sets base P to its own end."""
        m.d.comb += [self.order.move.eq(1), self.settle.eq(0b001)]

    def _run(self, m):
        u = self.instruction
        begin = self.step == 0
        with m.If(begin & u.test & ~self.present):
            self._done(m)
        with m.Elif(~(begin & self.wait)):
            count, final = Signal.like(u.each), Signal()
            m.d.comb += [
                final.eq(self.now_left <= u.each),
                count.eq(Mux(final, self.now_left, u.each)),
            ]
            self._data(m, count, self.half, begin=begin)
            with m.If(begin):
                m.d.comb += self.tag_in.begin.eq(1)
                with m.If((u.base == Base.P) & ~u.keep):
                    self._moves(m)
            m.d.sync += self.step.eq(1)
            with m.If(u.windows & ~self.half & (self.now_left != 0)):
                m.d.sync += [
                    self.half.eq(1),
                    self.beat.eq(self.now_beat),
                    self.lane.eq(self.now_lane),
                    self.left.eq(self.now_left),
                ]
            with m.Else():
                self._advance(m, count)
                m.d.sync += [self.left.eq(self.now_left - u.each), self.half.eq(0)]
                with m.If(final):
                    self._done(m)

    def _cln(self, m):
        with m.If(self.instruction.test & ~self.present):
            self._done(m)
        with m.Elif(~self.grows):
            m.d.comb += self.tag_in.begin.eq(1)
            self._moves(m)
            self._done(m)

    def _absent(self, m, done):
        """A used attribute is not there; `done` where that is no NULL."""
        u = self.instruction
        with m.If(u.missing & self.behind):
            done(m)
        with m.Elif(u.flag):
            self._leave(m)
        with m.Else():
            m.d.comb += self.tag_in.code.eq(PageError.TUPLE_NULL)

    def _next_attribute(self, m):
        self._advance(m, 1)
        m.d.comb += self.stepping.eq(1)
        m.d.sync += [
            self.step.eq(1),
            self.left.eq(self.now_left - 1),
            self.done_attributes.eq(Mux(self.step == 0, 0, self.done_attributes) + 1),
            self.half.eq(0),
        ]
        with m.If(self.now_left <= 1):
            self._done(m)

    def _att(self, m):
        """One attribute a cycle; base P is in `order` already."""
        u = self.instruction
        with m.If(self.grows):
            pass
        with m.Elif(u.count == 0):
            self._done(m)
        with m.Elif(self.half):
            self._data(m, 1, 1, begin=Const(0))
            self._next_attribute(m)
        with m.Elif(self.present):
            m.d.comb += self.tag_in.begin.eq(1)
            with m.If(~u.keep):
                self._moves(m)
            with m.If(u.use):
                self._data(m, 1, 0, begin=Const(1))
            with m.If(u.use & u.windows):
                m.d.sync += [
                    self.half.eq(1),
                    self.step.eq(1),
                    self.left.eq(self.now_left),
                    self.beat.eq(self.now_beat),
                    self.lane.eq(self.now_lane),
                    self.done_attributes.eq(Mux(self.step == 0, 0, self.done_attributes)),
                ]
            with m.Else():
                self._next_attribute(m)
        with m.Elif(u.use):
            self._absent(m, self._next_attribute)
        with m.Else():
            self._next_attribute(m)

    def _arr(self, m):
        u, d, fixed = self.instruction, self.decoder, self.config.fixed
        probes = fixed is None or fixed.probes
        low = Signal(3)  # how the place is aligned
        m.d.comb += low.eq(
            Mux(u.base == Base.P, self.place[:3], Mux(u.base == Base.A, self.array[:3], 0))
            + u.first[:3]
        )
        unaligned = (low & u.alignment) != 0 if probes else Const(0)
        m.d.comb += [
            self.tag_in.big.eq(u.big),
            self.tag_in.value.eq(u.elements),
            self.order.mask.eq(0),
        ]
        with m.Switch(self.step):
            with m.Case(0):
                with m.If(u.test & ~self.present):
                    self._absent(m, self._done)
                with m.Elif(~(self.grows | ((u.base != Base.D) & self.unsettled[0]))):
                    with m.If(unaligned):
                        self._window(m, Kind.PROBE, begin=Const(1))
                        m.d.comb += self.order.mark.eq(1)
                        m.d.sync += self.step.eq(Mux(u.big, self.config.latency, 1))
                    with m.Else():
                        self._header_begins(m)
            if probes:
                for wait in range(1, self.config.latency):
                    with m.Case(wait):
                        m.d.sync += self.step.eq(wait + 1)
                with m.Case(self.config.latency):
                    self._header_begins(m)
                    m.d.comb += [self.order.origin.eq(Origin.ARRAY), self.order.offset.eq(0)]
                    with m.If(~(d.odd & ~u.big)):
                        m.d.comb += [
                            self.order.offset.eq(u.alignment),
                            self.order.mask.eq(u.alignment),
                        ]
            with m.Default():
                m.d.comb += [
                    self.order.origin.eq(Origin.LAST),
                    self.order.offset.eq(self.config.bus_bytes),
                ]
                self._header_part(m)

    def _header_begins(self, m):
        u = self.instruction
        m.d.comb += [
            self.order.mark.eq(1),
            self.order.move.eq(1),
            self.settle.eq(Mux(u.big, 0b001, -1)),
        ]
        m.d.sync += [
            self.growing.eq(~u.big),
            self.grows.eq(~u.big),
            self.step.eq(self.config.latency + 1),
        ]
        self._header_part(m)

    def _header_part(self, m):
        final = self.part == -(-ARRAY_HEADER // self.config.bus_bytes) - 1
        m.d.comb += [
            self.tag_in.kind.eq(Kind.ARRAY),
            self.tag_in.part.eq(self.part),
            self.tag_in.final.eq(final),
        ]
        m.d.sync += self.part.eq(self.part + 1)
        with m.If(final):
            self._done(m)

    def _var(self, m):
        u, d, late = self.instruction, self.decoder, self.config.latency - 4
        with m.Switch(self.step):
            with m.Case(0):
                with m.If(u.test & ~self.present):
                    self._done(m)
                with m.Elif(~self.grows):
                    self._value(m)
            # the place behind an aligned value is known in this cycle, or (`late`) in the next
            with m.Case(2):
                with m.If(self.crooked):
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
                with m.If(d.padded):
                    self._value(m)
                    m.d.comb += [
                        self.order.offset.eq(u.alignment),
                        self.order.mask.eq(u.alignment),
                        self.order.put.eq(1),
                    ]
                with m.Else():
                    self._done(m)
            with m.Default():
                m.d.sync += self.step.eq(self.step + 1)

    def _value(self, m):
        self._window(m, Kind.VALUE, begin=Const(1))
        m.d.comb += self.settle.eq(-1)
        m.d.sync += self.step.eq(1)

    def _extrbi(self, m):
        m.d.sync += self.step.eq(self.step + 1)
        m.d.comb += self.order.mask.eq(0)
        with m.If(~self.nulls):
            self._done(m)
        with m.Elif(self.step == 0):
            self._read(m, Kind.BITS, Origin.KNOWN, self.instruction.bitmap)
        with m.Elif(self.step == 1):
            self._read(m, Kind.BITS, Origin.LAST, 4, 1)
        with m.Elif(self.step == self.config.latency):
            self._done(m)

    def _ins(self, m):
        u = self.instruction
        with m.If(self.behind):
            m.d.comb += [
                self.tag_in.kind.eq(Kind.INSERT),
                self.tag_in.count.eq(1),
                self.tag_in.beat.eq(u.beat),
                self.tag_in.lane.eq(u.lane),
                self.tag_in.value.eq(u.value),
                self.tag_in.over.eq(u.keep),
                self.tag_in.nan.eq(u.use),
            ]
        self._done(m)
