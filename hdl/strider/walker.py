"""The page walker: `models.strider.machine` in hardware."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...models.errors import ErrorCode
from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.config import FIXED_TYPES
from ...models.strider.isa import FIELDS, Base, Op
from ...models.strider.machine import ARRAY_HEADER, PAGE_FIELDS, TUPLE_FIELDS
from .decode import PLACE_BITS, Decoder, Kind, tag_layout
from .pages import PageBuffers

__all__ = ["Walker", "program_layout"]


def program_layout(config):
    """The write port of a program memory."""
    return data.StructLayout({"index": range(config.program_depth), "data": 96, "write": 1})


def _instruction_layout():
    return data.FlexibleLayout(96, {name: data.Field(bits, first) for name, (first, bits) in FIELDS.items()})


class _State(enum.Enum, shape=4):
    START = 0       # waits for a page; issues the page header's first read
    PAGE = 1        # the rest of the page header
    POINTERS = 2    # the first window of line pointers
    SETTLE = 3
    CHECK = 4       # judges the page header
    SCAN = 5        # finds the next NORMAL line pointer
    SCAN_MORE = 6   # the second read of a tuple header
    SCAN_REFILL = 7  # the next window of line pointers
    LOOP = 8        # `bentr`
    BODY = 9        # every other instruction


class Walker(wiring.Component):
    """Walks the pages written to it, one after the other; cycle by cycle what `models.strider.machine.Machine` says.

    A page whose last word is written in cycle t starts in cycle t + 1 at the earliest. Issues go to the tuple buffer as `tag` and `window`
    in the decode stage, two cycles after the issue.

    Parameters
    ----------
    config
        The port's configuration.

    Members
    -------
    word, write : In
        Bus words of pages.
    program : In({index, data, write}), program_length : In
        The program memory's write port; instructions in it.
    room : In(1)
        A slot of the tuple buffer is free; counts what `taken` has taken until the cycle before.
    slot, base : In
        That slot.
    taken : Out(1)
        The slot is used up.
    freed : Out(1)
        A page buffer is free again.
    tag : Out(tag_layout(config)), window : Out(8 * bus_bytes)
    """

    def __init__(self, config, *, src_loc_at=0):
        self.config = config
        layout = tag_layout(config)
        super().__init__({
            "word": In(8 * config.bus_bytes), "write": In(1),
            "program": In(program_layout(config)),
            "program_length": In(range(config.program_depth + 1)),
            "room": In(1), "slot": In(layout["slot"].shape), "base": In(layout["base"].shape), "taken": Out(1),
            "freed": Out(1), "tag": Out(layout), "window": Out(8 * config.bus_bytes)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        config = self.config
        self.m = m = Module()
        self._fetch(m)
        m.submodules.pages = pages = PageBuffers(page_size=config.page_size, bus_bytes=config.bus_bytes, buffers=config.buffers)
        m.submodules.decoder = self.decoder = decoder = Decoder(config)
        self.pages = pages
        m.d.comb += [pages.word.eq(self.word), pages.write.eq(self.write)]
        full = Signal(range(config.buffers + 1))
        m.d.sync += full.eq(full + pages.full - self.freed)
        with m.If(self.freed):
            m.d.sync += pages.page.eq(Mux(pages.page == config.buffers - 1, 0, pages.page + 1))
        self.page_ready = full != 0

        # the pipeline: issue -> stage 1 (memory) -> stage 2 (decode)
        self.tag_in = tag_in = Signal(tag_layout(config))
        stage = Signal(tag_layout(config))
        decoded = Signal(tag_layout(config))
        m.d.sync += [stage.eq(tag_in), decoded.eq(stage)]
        m.d.comb += [
            decoder.tag.eq(decoded), decoder.window.eq(pages.window), self.window.eq(pages.window), self.tag.eq(decoded),
            self.tag.valid.eq(decoder.valid), self.tag.code.eq(decoder.code),
            tag_in.valid.eq(~decoder.halted), tag_in.slot.eq(self.slot), tag_in.base.eq(self.base)]

        self.state = Signal(_State)
        self.part = Signal(3)
        self._front_registers(m)
        self._body_registers(m)
        with m.If(~decoder.halted):
            with m.Switch(self.state):
                with m.Case(_State.START):
                    self._start(m)
                with m.Case(_State.PAGE):
                    self._read_page(m, self.part)
                with m.Case(_State.POINTERS):
                    self._read_pointers(m)
                    m.d.sync += self.state.eq(_State.SETTLE)
                with m.Case(_State.SETTLE):
                    m.d.sync += self.state.eq(_State.CHECK)
                with m.Case(_State.CHECK):
                    self._check(m)
                with m.Case(_State.SCAN):
                    self._scan(m, self.inside)
                with m.Case(_State.SCAN_MORE):
                    self._scan_more(m)
                with m.Case(_State.SCAN_REFILL):
                    self._read_pointers(m)
                    self._scanned(m, self.inside)
                with m.Case(_State.LOOP):
                    self._loop(m)
                with m.Case(_State.BODY):
                    self._body(m)
        return m

    # -- program -------------------------------------------------------------------------------------------------------

    def _fetch(self, m):
        depth = self.config.program_depth
        m.submodules.program_store = store = memory.Memory(shape=96, depth=depth, init=[])
        write, read = store.write_port(), store.read_port()
        self.pc = Signal(range(max(depth, 1 << 16)))
        self.pc_next = Signal.like(self.pc)
        m.d.comb += [write.addr.eq(self.program.index), write.data.eq(self.program.data), write.en.eq(self.program.write),
                     self.pc_next.eq(self.pc), read.addr.eq(self.pc_next), read.en.eq(1)]
        m.d.sync += self.pc.eq(self.pc_next)
        self.i = Signal(_instruction_layout())
        m.d.comb += self.i.eq(read.data)
        self.op = Signal(4)
        m.d.comb += self.op.eq(Mux(self.pc < self.program_length, self.i.op, 0))

    def _token(self, m, *, code=None, line=0, end=0):
        """Issue an error or the end of a page, which takes the slot; the caller has made sure of `room`."""
        m.d.comb += [self.tag_in.line.eq(line), self.taken.eq(1)]
        if end:
            m.d.comb += self.tag_in.end.eq(1)
        else:
            m.d.comb += self.tag_in.code.eq(code)

    # -- page header, line pointers, tuple headers -----------------------------------------------------------------------

    def _front_registers(self, m):
        config, decoder = self.config, self.decoder
        per_window = config.bus_bytes // p.LP_SIZE
        lines = (config.page_size - p.PAGE_HEADER_SIZE) // p.LP_SIZE
        self.all = Signal()
        self.version = Signal(16)
        self.line = Signal(range(lines + 1))
        self.count = Signal(range(lines + 1))
        self.queue = Signal(32 * per_window)
        self.queued = Signal(range(per_window + 1))
        self.queue_busy, self.header_busy = Signal(), Signal()
        self.next_valid, self.next_end = Signal(), Signal()
        self.next_code = Signal(8)
        self.inside = Signal()                  # after the scan a tuple's body follows
        m.d.comb += decoder.all.eq(self.all)
        with m.If(decoder.pointers):
            m.d.sync += [self.queue.eq(decoder.window), self.queued.eq(per_window), self.queue_busy.eq(0)]
        with m.If(decoder.header):
            m.d.sync += [self.header_busy.eq(0), self.next_valid.eq(1)]

    def _read(self, m, kind, address, part=0, final=1):
        m.d.comb += [self.pages.address.eq(address), self.tag_in.kind.eq(kind), self.tag_in.part.eq(part), self.tag_in.final.eq(final)]

    def _read_page(self, m, part):
        first, count = PAGE_FIELDS
        parts = -(-count // self.config.bus_bytes)
        self._read(m, Kind.PAGE, first + part * self.config.bus_bytes, 0, part == parts - 1)
        m.d.sync += self.part.eq(part + 1)
        with m.If(part == parts - 1):
            m.d.sync += self.state.eq(_State.POINTERS)
        with m.Else():
            m.d.sync += self.state.eq(_State.PAGE)

    def _read_pointers(self, m):
        self._read(m, Kind.POINTERS, p.PAGE_HEADER_SIZE + (self.line << 2))
        m.d.sync += self.queue_busy.eq(1)

    def _start(self, m):
        with m.If(self.page_ready):
            with m.If(self.op != Op.READB):
                with m.If(self.room):
                    self._token(m, code=ErrorCode.PROGRAM)
            with m.Else():
                self._read_page(m, Const(0, 3))
                m.d.sync += [self.line.eq(0), self.all.eq(self.i.flag), self.version.eq(self.i.offset), self.decoder.columns.eq(self.i.attr),
                             self.decoder.need.eq(self.i.count), self.next_valid.eq(0), self.next_end.eq(0), self.next_code.eq(0),
                             self.inside.eq(0)]

    def _check(self, m):
        d = self.decoder
        m.d.comb += self.pc_next.eq(1)
        m.d.sync += [self.state.eq(_State.LOOP), self.count.eq((d.lower - p.PAGE_HEADER_SIZE) >> 2), self.all.eq(self.all | d.flags[2])]
        with m.If(d.upper == 0):
            m.d.sync += [self.next_valid.eq(1), self.next_end.eq(1)]
        with m.Elif(d.version != self.version):
            m.d.sync += [self.next_valid.eq(1), self.next_code.eq(ErrorCode.PAGE_VERSION)]
        with m.Elif((d.lower < p.PAGE_HEADER_SIZE) | (d.lower > d.upper) | (d.upper > d.special) | (d.special > self.config.page_size)
                    | d.lower[:2].any() | d.special[:3].any()):
            m.d.sync += [self.next_valid.eq(1), self.next_code.eq(ErrorCode.PAGE_BOUNDS)]
        with m.Elif(d.lower == p.PAGE_HEADER_SIZE):
            m.d.sync += [self.next_valid.eq(1), self.next_end.eq(1)]
        with m.Else():
            m.d.sync += self.state.eq(_State.SCAN)

    def _scanned(self, m, inside):
        m.d.sync += self.state.eq(Mux(inside, _State.BODY, _State.LOOP))

    def _scan(self, m, inside):
        """One step towards the next NORMAL line pointer."""
        d = self.decoder
        entry = self.queue[:32]
        offset, flags, length = entry[:15], entry[15:17], entry[17:]
        m.d.sync += [self.state.eq(_State.SCAN), self.inside.eq(inside)]
        with m.If(self.line == self.count):
            m.d.sync += [self.next_valid.eq(1), self.next_end.eq(1)]
            self._scanned(m, inside)
        with m.Elif(self.queued == 0):
            with m.If(~self.queue_busy):
                self._read_pointers(m)
        with m.Else():
            m.d.sync += [self.queue.eq(self.queue >> 32), self.queued.eq(self.queued - 1), self.line.eq(self.line + 1)]
            with m.If(flags == p.LP_NORMAL):
                with m.If(offset[:3].any() | (offset < d.upper) | (offset + length > d.special) | (length < p.PAGE_HEADER_SIZE)):
                    m.d.sync += [self.next_valid.eq(1), self.next_code.eq(ErrorCode.LINE_BOUNDS)]
                    self._scanned(m, inside)
                with m.Else():
                    first, count = TUPLE_FIELDS
                    more = count > self.config.bus_bytes
                    self._read(m, Kind.HEADER, offset + first, 0, not more)
                    m.d.sync += [d.offset.eq(offset), d.length.eq(length), self.header_busy.eq(1)]
                    if more:
                        m.d.sync += self.state.eq(_State.SCAN_MORE)
                    else:
                        self._refill(m, self.queued == 1, self.line + 1, inside)
            with m.Elif(((flags == p.LP_UNUSED) & length.any())
                        | ((flags == p.LP_REDIRECT) & (length.any() | ~offset.any() | (offset > self.count)))):
                m.d.sync += [self.next_valid.eq(1), self.next_code.eq(ErrorCode.LINE_FLAGS)]
                self._scanned(m, inside)

    def _refill(self, m, empty, line, inside):
        with m.If(empty & (line != self.count)):
            m.d.sync += self.state.eq(_State.SCAN_REFILL)
        with m.Else():
            self._scanned(m, inside)

    def _scan_more(self, m):
        self._read(m, Kind.HEADER, self.decoder.offset + TUPLE_FIELDS[0] + self.config.bus_bytes, 1, 1)
        self._refill(m, self.queued == 0, self.line, self.inside)

    def _loop(self, m):
        d, i = self.decoder, self.i
        with m.If(self.next_valid & ~self.header_busy & ~self.queue_busy):
            with m.If(self.op != Op.BENTR):
                with m.If(self.room):
                    self._token(m, code=ErrorCode.PROGRAM)
            with m.Elif(self.next_code != 0):
                with m.If(self.room):
                    self._token(m, code=self.next_code, line=self.line)
            with m.Elif(self.next_end):
                with m.If(self.room):
                    self._token(m, end=1)
                    m.d.comb += [self.freed.eq(1), self.pc_next.eq(0)]
                    m.d.sync += self.state.eq(_State.START)
            with m.Elif(d.fault != 0):
                with m.If(self.room):
                    self._token(m, code=d.fault, line=self.line)
            with m.Elif(d.invisible):
                m.d.comb += self.tag_in.skip.eq(1)
                m.d.sync += self.next_valid.eq(0)
                self._scan(m, 0)
            with m.Elif(self.room):
                m.d.comb += self.pc_next.eq(Mux(d.dense, 2, i.offset))
                m.d.sync += [
                    self.next_valid.eq(0), self.tuple_line.eq(self.line), self.natts.eq(d.natts), self.nulls.eq(d.nulls), self.offset.eq(d.offset),
                    self.start.eq(d.data), self.place.eq(d.data), d.end.eq(d.offset + d.length), self.null_bits.eq(-1),
                    self.place_busy.eq(0), self.array_busy.eq(0), self.step.eq(0), self.index.eq(0)]
                self._scan(m, 1)

    # -- a tuple's attributes --------------------------------------------------------------------------------------------

    def _body_registers(self, m):
        d = self.decoder
        self.tuple_line = Signal.like(self.line)
        self.natts = Signal(11)
        self.nulls = Signal()
        self.offset = Signal(15)
        self.null_bits = Signal(32)
        self.start = Signal(PLACE_BITS)         # base D
        self.place = Signal(PLACE_BITS)         # base P
        self.array_header = Signal(PLACE_BITS)  # base A is that plus the header's length
        self.array_total = Signal(PLACE_BITS)
        self.array_short = Signal()
        self.array_busy, self.place_busy = Signal(), Signal()
        self.step = Signal(3)                   # of the current instruction
        self.index = Signal(16)                 # `att`: attributes done; `run`: elements done
        self.half = Signal()
        self.address = Signal(PLACE_BITS)       # of the next window of the current instruction
        self.beat, self.lane = Signal(16), Signal(8)
        short = Mux(d.array, d.short, self.array_short)
        self.elements = Signal(PLACE_BITS)
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
            m.d.sync += self.state.eq(_State.LOOP)

    def _leave(self, m):
        """A NULL leaves the tuple out."""
        m.d.comb += [self.pc_next.eq(1), self.tag_in.skip.eq(1)]
        m.d.sync += [self.state.eq(_State.LOOP), self.index.eq(0)]

    def _fit(self, m, end):
        with m.If(end > self.decoder.end):
            m.d.comb += self.tag_in.code.eq(ErrorCode.TUPLE_LENGTH)

    def _size(self, table, code):
        """`table[code]` for each type code, as a small multiplexer."""
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
        self.attr = Signal(17)
        m.d.comb += self.attr.eq(i.attr + self.index)
        self.present = Signal()
        m.d.comb += self.present.eq((self.attr < self.natts) & self.null_bits.bit_select(self.attr[:5], 1))
        origin = Signal(PLACE_BITS)
        with m.Switch(i.base):
            with m.Case(Base.P):
                m.d.comb += origin.eq(self.place)
            with m.Case(Base.D):
                m.d.comb += origin.eq(self.start)
            with m.Default():
                m.d.comb += origin.eq(self.elements)
        self.at, self.aligned = Signal(PLACE_BITS), Signal(PLACE_BITS)
        m.d.comb += [self.at.eq(origin + Mux(self.op == Op.ATT, 0, i.offset)), self.aligned.eq(self._align(m, self.at))]
        self.wait = ((i.base == Base.P) & self.place_busy) | ((i.base == Base.A) & self.array_wait)
        bad_type = i.type >= len(FIXED_TYPES)
        with m.Switch(self.op):
            with m.Case(Op.BEXIT):
                self._done(m)
            with m.Case(Op.RUN):
                self._legal(m, known & (i.base != 3), self._run)
            with m.Case(Op.CLN):
                self._legal(m, ~bad_type & (i.base != 3), self._cln)
            with m.Case(Op.ARR):
                self._legal(m, ((i.type == 4) | (i.type == 5)) & (i.base != 3), self._arr)
            with m.Case(Op.ATT):
                self._legal(m, Mux(i.use, known, ~bad_type), self._att)
            with m.Case(Op.VAR):
                self._legal(m, ~bad_type, self._var)
            with m.Case(Op.EXTRBI):
                self._extrbi(m)
            with m.Case(Op.INS):
                self._ins(m)
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
        rounded = Signal(PLACE_BITS)
        m.d.comb += rounded.eq(at + mask)
        return Cat(rounded[:3] & ~mask, rounded[3:])

    def _data(self, m, address, count, beat, lane, half):
        self._read(m, Kind.DATA, address)
        m.d.comb += [self.tag_in.count.eq(count), self.tag_in.beat.eq(beat), self.tag_in.lane.eq(lane), self.tag_in.half.eq(half)]

    def _advance(self, m, beat, lane, count):
        """The flat position `count` further on."""
        lanes = self.config.lanes
        moved = Signal(range(512))
        m.d.comb += moved.eq(lane + count)
        with m.If(moved >= lanes):
            m.d.sync += [self.beat.eq(beat + 1), self.lane.eq(moved - lanes)]
        with m.Else():
            m.d.sync += [self.beat.eq(beat), self.lane.eq(moved)]

    def _run(self, m):
        i = self.i
        begin = self.step == 0
        start, end = Signal(PLACE_BITS), Signal(PLACE_BITS)
        m.d.comb += [start.eq(Mux(i.base == Base.A, self.at, self.aligned)), end.eq(start + (i.count << self.log))]
        with m.If(begin & i.test & ~self.present):
            self._done(m)
        with m.Elif(~(begin & self.wait)):
            address, beat, lane = Signal(PLACE_BITS), Signal(16), Signal(8)
            m.d.comb += [address.eq(Mux(begin, start, self.address)), beat.eq(Mux(begin, i.beat, self.beat)), lane.eq(Mux(begin, i.lane, self.lane))]
            left, count = Signal(16), Signal.like(self.each)
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
        end = Signal(PLACE_BITS)
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
        end = Signal(PLACE_BITS)
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
        total, big = Signal(PLACE_BITS), Signal()
        m.d.comb += [total.eq(i.count << self.log), big.eq(total > p.VARATT_SHORT_MAX - (ARRAY_HEADER - 3))]
        unaligned = self.at != self.aligned
        header = Signal(PLACE_BITS)             # where the header lies
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
        base = Signal(PLACE_BITS)
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
        at = Signal(PLACE_BITS)
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
