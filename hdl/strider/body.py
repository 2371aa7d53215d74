"""The walker's body: the instructions that take a tuple apart."""

from amaranth.hdl import Array, Cat, Const, Mux, Signal
from amaranth.utils import exact_log2

from ...models.errors import ErrorCode
from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.config import FIXED_TYPES
from ...models.strider.isa import Base, Op
from ...models.strider.machine import ARRAY_HEADER
from .decode import Kind, place_bits
from .front import State

__all__ = ["Body"]


class Body:
    """Part of `Walker`: issues the windows of a tuple's attributes."""

    def _body_registers(self, m):
        d, config, fixed = self.decoder, self.config, self.config.fixed
        self.places = place_bits(config)
        self.tuple_line = Signal.like(self.line)
        self.natts = Signal(11)
        self.nulls = Signal()
        self.offset = Signal(15)
        self.null_bits = Signal(32)
        self.start = Signal(self.places)         # base D
        self.place = Signal(self.places)         # base P
        self.array_header = Signal(self.places)  # base A is that plus the header's length
        self.array_total = Signal(self.places)
        self.array_short = Signal()
        self.array_busy, self.place_busy = Signal(), Signal()
        self.step = Signal(3)                   # of the current instruction
        self.index = Signal(16 if fixed is None else fixed.index_bits)  # `att`: attributes done; `run`: elements done
        self.half = Signal()
        self.address = Signal(self.places)       # of the next window of the current instruction
        self.beat = Signal(16 if fixed is None else config.beats.bit_length())
        self.lane = Signal(8 if fixed is None else (config.lanes - 1).bit_length())
        short = Mux(d.array, d.short, self.array_short)
        self.elements = Signal(self.places)
        m.d.comb += [self.elements.eq(self.array_header + Mux(short, ARRAY_HEADER - 3, ARRAY_HEADER)), d.place.eq(self.place)]
        with m.If(d.array):
            m.d.sync += [self.array_short.eq(d.short), self.array_busy.eq(0), self.place_busy.eq(0)]
            with m.If(self.place_busy):
                m.d.sync += self.place.eq(self.elements + self.array_total)
        with m.If(d.value):
            m.d.sync += self.place.eq(self.place + d.size)
            with m.If(d.again):
                m.d.sync += self.place.eq(self.place)
        with m.If(d.bits):
            m.d.sync += self.null_bits.eq(d.window)
        self.array_wait = self.array_busy & ~d.array

    def _done(self, m):
        """The instruction's last cycle."""
        i = self.i
        m.d.sync += [self.step.eq(0), self.index.eq(0), self.half.eq(0)]
        m.d.comb += self.pc_next.eq(self.pc + 1)
        with m.If(i.bexit):
            m.d.comb += [self.pc_next.eq(1), self.tag_in.commit.eq(1), self.taken.eq(1)]
            m.d.sync += self.state.eq(State.LOOP)

    def _leave(self, m):
        """A NULL leaves the tuple out."""
        m.d.comb += [self.pc_next.eq(1), self.tag_in.skip.eq(1)]
        m.d.sync += [self.state.eq(State.LOOP), self.index.eq(0)]

    def _fit(self, m, end):
        with m.If(end > self.decoder.end):
            m.d.comb += self.tag_in.code.eq(ErrorCode.TUPLE_LENGTH)

    def _size(self, table, code):
        """`table[code]` for each type code, as a small multiplexer."""
        if self.config.fixed is not None:
            value = Const(0, 8)
            for known in self.config.fixed.types:
                value = Mux(code == known, table(FIXED_TYPES[known]), value) if len(self.config.fixed.types) > 1 else Const(table(FIXED_TYPES[known]), 8)
            return value
        return Array([Const(table(name), 8) for name in FIXED_TYPES] + [Const(0, 8)] * 2)[code]

    def _body(self, m):
        config, i = self.config, self.i
        m.d.comb += self.tag_in.line.eq(self.tuple_line)
        self.log = Signal(2)
        self.windows = Signal()                 # two windows an element
        self.each = Signal(range(max(config.elements(n) for n in FIXED_TYPES) + 1))
        known = Signal()
        m.d.comb += [
            self.log.eq(self._size(lambda n: exact_log2(TYPES[n].length), i.type)),
            self.windows.eq(self._size(lambda n: config.windows(n) - 1, i.type)),
            self.each.eq(self._size(lambda n: config.elements(n) if n in config.types else 1, i.type)),
            known.eq(self._size(lambda n: n in config.types, i.type)),
            self.tag_in.type.eq(i.type)]
        self.attr = Signal(17 if config.fixed is None else config.fixed.attribute_bits)
        m.d.comb += self.attr.eq(i.attr + self.index)
        self.present = Signal()
        m.d.comb += self.present.eq((self.attr < self.natts) & self.null_bits.bit_select(self.attr[:5], 1))
        origin = Signal(self.places)
        with m.Switch(i.base):
            with m.Case(Base.P):
                m.d.comb += origin.eq(self.place)
            with m.Case(Base.D):
                m.d.comb += origin.eq(self.start)
            with m.Default():
                m.d.comb += origin.eq(self.elements)
        self.at, self.aligned = Signal(self.places), Signal(self.places)
        m.d.comb += [self.at.eq(origin + Mux(self.op == Op.ATT, 0, i.offset)), self.aligned.eq(self._align(m, self.at))]
        self.wait = ((i.base == Base.P) & self.place_busy) | ((i.base == Base.A) & self.array_wait)
        bad_type = i.type >= len(FIXED_TYPES)
        legal = {
            Op.BEXIT: (self._done, None), Op.RUN: (self._run, known & (i.base != 3)), Op.CLN: (self._cln, ~bad_type & (i.base != 3)),
            Op.ARR: (self._arr, ((i.type == 4) | (i.type == 5)) & (i.base != 3)), Op.ATT: (self._att, Mux(i.use, known, ~bad_type)),
            Op.VAR: (self._var, ~bad_type), Op.EXTRBI: (self._extrbi, None), Op.INS: (self._ins, None)}
        if config.fixed is not None:            # nothing but what the program has; none of it is illegal
            legal = {op: (handler, None) for op, (handler, _) in legal.items() if op in config.fixed.ops}
        with m.Switch(self.op):
            for op, (handler, condition) in legal.items():
                with m.Case(op):
                    if condition is None:
                        handler(m)
                    else:
                        self._legal(m, condition, handler)
            if config.fixed is None:
                with m.Default():
                    m.d.comb += self.tag_in.code.eq(ErrorCode.PROGRAM)

    def _legal(self, m, condition, handler):
        with m.If(condition):
            handler(m)
        with m.Else():
            m.d.comb += self.tag_in.code.eq(ErrorCode.PROGRAM)

    def _align(self, m, at):
        mask = Signal(3)
        m.d.comb += mask.eq((1 << self.log) - 1)
        rounded = Signal(self.places)
        m.d.comb += rounded.eq(at + mask)
        return Cat(rounded[:3] & ~mask, rounded[3:])

    def _data(self, m, address, count, beat, lane, half):
        self._read(m, Kind.DATA, address)
        m.d.comb += [self.tag_in.count.eq(count), self.tag_in.beat.eq(beat), self.tag_in.lane.eq(lane), self.tag_in.half.eq(half)]

    def _advance(self, m, beat, lane, count):
        """The flat position `count` further on."""
        lanes = self.config.lanes
        moved = Signal(range(512) if self.config.fixed is None else range(2 * (lanes + self.config.bus_bytes)))
        m.d.comb += moved.eq(lane + count)
        with m.If(moved >= lanes):
            m.d.sync += [self.beat.eq(beat + 1), self.lane.eq(moved - lanes)]
        with m.Else():
            m.d.sync += [self.beat.eq(beat), self.lane.eq(moved)]

    def _run(self, m):
        i = self.i
        begin = self.step == 0
        start, end = Signal(self.places), Signal(self.places)
        m.d.comb += [start.eq(Mux(i.base == Base.A, self.at, self.aligned)), end.eq(start + (i.count << self.log))]
        with m.If(begin & i.test & ~self.present):
            self._done(m)
        with m.Elif(~(begin & self.wait)):
            address, beat, lane = Signal(self.places), Signal.like(self.beat), Signal.like(self.lane)
            m.d.comb += [address.eq(Mux(begin, start, self.address)), beat.eq(Mux(begin, i.beat, self.beat)), lane.eq(Mux(begin, i.lane, self.lane))]
            left, count = Signal.like(self.index), Signal.like(self.each)
            m.d.comb += [left.eq(i.count - self.index), count.eq(Mux(left > self.each, self.each, left))]
            self._data(m, address, count, beat, lane, self.half)
            with m.If(begin):
                self._fit(m, end)
                with m.If((i.base == Base.P) & ~i.keep):
                    m.d.sync += self.place.eq(end)
            m.d.sync += [self.step.eq(1), self.address.eq(address + (Mux(self.windows, 1, count) << Mux(self.windows, 2, self.log)))]
            with m.If(self.windows & ~self.half & (left != 0)):
                m.d.sync += [self.half.eq(1), self.beat.eq(beat), self.lane.eq(lane)]
            with m.Else():
                self._advance(m, beat, lane, count)
                m.d.sync += [self.index.eq(self.index + count), self.half.eq(0)]
                with m.If(left <= self.each):
                    self._done(m)

    def _cln(self, m):
        i = self.i
        end = Signal(self.places)
        m.d.comb += end.eq(Mux(i.base == Base.A, self.at, self.aligned) + (i.count << self.log))
        with m.If(~(self.wait | self.place_busy)):
            self._fit(m, end)
            m.d.sync += self.place.eq(end)
            self._done(m)

    def _absent(self, m, done):
        """A used attribute is not there; `done` where that is no NULL."""
        i = self.i
        with m.If(i.missing & (self.attr >= self.natts)):
            done(m)
        with m.Elif(i.flag):
            self._leave(m)
        with m.Else():
            m.d.comb += self.tag_in.code.eq(ErrorCode.TUPLE_NULL)

    def _next_attribute(self, m):
        i = self.i
        self._advance(m, Mux(self.step == 0, i.beat, self.beat), Mux(self.step == 0, i.lane, self.lane), 1)
        m.d.sync += [self.step.eq(1), self.index.eq(self.index + 1), self.half.eq(0)]
        with m.If(self.index + 1 >= i.count):
            self._done(m)

    def _att(self, m):
        i = self.i
        end = Signal(self.places)
        m.d.comb += end.eq(self.aligned + (1 << self.log))
        with m.If(self.place_busy):
            pass
        with m.Elif(i.count == 0):
            self._done(m)
        with m.Elif(self.half):
            self._data(m, self.address, 1, self.beat_now(), self.lane_now(), 1)
            self._next_attribute(m)
        with m.Elif(self.present):
            self._fit(m, end)
            with m.If(~i.keep):
                m.d.sync += self.place.eq(end)
            with m.If(i.use):
                self._data(m, self.aligned, 1, self.beat_now(), self.lane_now(), 0)
            with m.If(i.use & self.windows):
                m.d.sync += [self.half.eq(1), self.address.eq(self.aligned + 4)]
            with m.Else():
                self._next_attribute(m)
        with m.Elif(i.use):
            self._absent(m, self._next_attribute)
        with m.Else():
            self._next_attribute(m)

    def beat_now(self):
        return Mux(self.step == 0, self.i.beat, self.beat)

    def lane_now(self):
        return Mux(self.step == 0, self.i.lane, self.lane)

    def _arr(self, m):
        i, d = self.i, self.decoder
        total, big = Signal(self.places), Signal()
        m.d.comb += [total.eq(i.count << self.log), big.eq(total > p.VARATT_SHORT_MAX - (ARRAY_HEADER - 3))]
        unaligned = self.at != self.aligned
        header = Signal(self.places)             # where the header lies
        with m.Switch(self.step):
            with m.Case(0):
                with m.If(i.test & ~self.present):
                    self._absent(m, self._done)
                with m.Elif(~(self.wait | self.array_wait)):
                    m.d.sync += [self.address.eq(self.aligned), self.array_header.eq(self.at)]
                    with m.If(unaligned):
                        self._read(m, Kind.PROBE, self.at)
                        self._fit(m, self.at + 1)
                        m.d.comb += [self.tag_in.big.eq(big), self.tag_in.fits.eq(self.at + (ARRAY_HEADER - 3) <= d.end)]
                        m.d.sync += self.step.eq(Mux(big, 3, 1))
                        m.d.sync += self.index.eq(0)
                    with m.Else():
                        self._array_part(m, self.at, Const(0, 3), total, big)
            with m.Case(1):
                m.d.sync += self.step.eq(2)
            with m.Case(2):
                m.d.sync += self.step.eq(3)
            with m.Case(3):
                m.d.comb += header.eq(Mux(d.odd & ~big, self.array_header, self.address))
                self._array_part(m, header, Const(0, 3), total, big)
            with m.Default():
                self._array_part(m, self.address, self.part, total, big)

    def _array_part(self, m, address, part, total, big):
        d, bus = self.decoder, self.config.bus_bytes
        parts = -(-ARRAY_HEADER // bus)
        final = part == parts - 1
        base = Signal(self.places)
        m.d.comb += base.eq(Mux(part == 0, address, self.array_header))
        self._read(m, Kind.ARRAY, address, part, final)
        fits = [base + size <= d.end for size in (ARRAY_HEADER - 3, ARRAY_HEADER)]
        m.d.comb += [self.tag_in.value.eq(total), self.tag_in.big.eq(big),
                     self.tag_in.fits.eq(Cat(*fits, *[base + size + total <= d.end for size in (ARRAY_HEADER - 3, ARRAY_HEADER)]))]
        with m.If(part == 0):
            self._fit(m, address + 1)
            m.d.sync += [self.array_header.eq(address), self.array_total.eq(total), self.array_short.eq(0), self.array_busy.eq(~big),
                         self.place_busy.eq(~big), self.place.eq(address + ARRAY_HEADER + total)]
        m.d.sync += [self.step.eq(4), self.part.eq(part + 1), self.address.eq(address + bus)]
        with m.If(final):
            self._done(m)

    def _var(self, m):
        i, d = self.i, self.decoder
        first, second = self.step == 0, self.step == 3
        at = Signal(self.places)
        unaligned = (self.place != self.aligned) & first
        m.d.comb += at.eq(Mux(second, self.aligned, self.place))
        with m.If(first & i.test & ~self.present):
            self._done(m)
        with m.Elif(first & self.place_busy):
            pass
        with m.Elif(second & ~d.padded):
            self._done(m)
        with m.Elif(first | second):
            self._read(m, Kind.VALUE, at)
            self._fit(m, at + 1)
            m.d.comb += [self.tag_in.unaligned.eq(unaligned), self.tag_in.fits.eq(Cat(Const(0, 1), at + 2 <= d.end, at + 4 <= d.end))]
            m.d.sync += [self.place.eq(at), self.step.eq(Mux(unaligned, 1, 4))]
        with m.Elif(self.step == 5):
            self._done(m)
        with m.Else():
            m.d.sync += self.step.eq(self.step + 1)

    def _extrbi(self, m):
        with m.If(~self.nulls):
            m.d.sync += self.null_bits.eq(-1)
            self._done(m)
        with m.Elif(self.step == 0):
            self._read(m, Kind.BITS, self.offset + p.TUPLE_BITMAP + (self.i.attr[5:] << 2))
            m.d.sync += self.step.eq(1)
        with m.Elif(self.step == 1):
            m.d.sync += self.step.eq(2)
        with m.Else():
            self._done(m)

    def _ins(self, m):
        i = self.i
        with m.If(i.attr >= self.natts):
            m.d.comb += [self.tag_in.kind.eq(Kind.INSERT), self.tag_in.count.eq(1), self.tag_in.beat.eq(i.beat), self.tag_in.lane.eq(i.lane),
                         self.tag_in.value.eq(Cat(i.count, i.offset))]
        self._done(m)
