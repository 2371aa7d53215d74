"""The walker's front: page header, line pointers, tuple headers."""

from amaranth.hdl import Const, Mux, Signal
from amaranth.lib import enum

from ...models.errors import ErrorCode
from ...models.heap import page as p
from ...models.strider.isa import Op
from ...models.strider.machine import PAGE_FIELDS, TUPLE_FIELDS
from .decode import Kind

__all__ = ["Front", "State"]


class State(enum.Enum, shape=4):
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


class Front:
    """Part of `Walker`: finds tuples and judges them."""

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
        if (fixed := config.fixed) is not None:
            m.d.comb += [self.version.eq(fixed.setup.offset), decoder.columns.eq(fixed.setup.attr), decoder.need.eq(fixed.setup.count)]
            if fixed.setup.flag:
                m.d.comb += decoder.all.eq(1)
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
            m.d.sync += self.state.eq(State.POINTERS)
        with m.Else():
            m.d.sync += self.state.eq(State.PAGE)

    def _read_pointers(self, m):
        self._read(m, Kind.POINTERS, p.PAGE_HEADER_SIZE + (self.line << 2))
        m.d.sync += self.queue_busy.eq(1)

    def _start(self, m):
        with m.If(self.page_ready):
            if self.config.fixed is not None:
                self._enter_page(m)
                m.d.sync += self.all.eq(self.config.fixed.setup.flag)
                return
            with m.If(self.op != Op.READB):
                with m.If(self.room):
                    self._token(m, code=ErrorCode.PROGRAM)
            with m.Else():
                self._enter_page(m)
                m.d.sync += [self.all.eq(self.i.flag), self.version.eq(self.i.offset), self.decoder.columns.eq(self.i.attr),
                             self.decoder.need.eq(self.i.count)]

    def _enter_page(self, m):
        self._read_page(m, Const(0, 3))
        m.d.sync += [self.line.eq(0), self.next_valid.eq(0), self.next_end.eq(0), self.next_code.eq(0), self.inside.eq(0)]

    def _check(self, m):
        d = self.decoder
        m.d.comb += self.pc_next.eq(1)
        m.d.sync += [self.state.eq(State.LOOP), self.count.eq((d.lower - p.PAGE_HEADER_SIZE) >> 2), self.all.eq(self.all | d.flags[2])]
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
            m.d.sync += self.state.eq(State.SCAN)

    def _scanned(self, m, inside):
        m.d.sync += self.state.eq(Mux(inside, State.BODY, State.LOOP))

    def _scan(self, m, inside):
        """One step towards the next NORMAL line pointer."""
        d = self.decoder
        entry = self.queue[:32]
        offset, flags, length = entry[:15], entry[15:17], entry[17:]
        m.d.sync += [self.state.eq(State.SCAN), self.inside.eq(inside)]
        with m.If(self.line == self.count):
            m.d.sync += [self.next_valid.eq(1), self.next_end.eq(1)]
            self._scanned(m, inside)
        with m.Elif(self.queued == 0):
            with m.If(~self.queue_busy):
                self._read_pointers(m)
        with m.Else():
            m.d.sync += [self.queue.eq(self.queue[32:]), self.queued.eq(self.queued - 1), self.line.eq(self.line + 1)]
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
                        m.d.sync += self.state.eq(State.SCAN_MORE)
                    else:
                        self._refill(m, self.queued == 1, self.line + 1, inside)
            with m.Elif(((flags == p.LP_UNUSED) & length.any())
                        | ((flags == p.LP_REDIRECT) & (length.any() | ~offset.any() | (offset > self.count)))):
                m.d.sync += [self.next_valid.eq(1), self.next_code.eq(ErrorCode.LINE_FLAGS)]
                self._scanned(m, inside)

    def _refill(self, m, empty, line, inside):
        with m.If(empty & (line != self.count)):
            m.d.sync += self.state.eq(State.SCAN_REFILL)
        with m.Else():
            self._scanned(m, inside)

    def _scan_more(self, m):
        self._read(m, Kind.HEADER, self.decoder.offset + TUPLE_FIELDS[0] + self.config.bus_bytes, 1, 1)
        self._refill(m, self.queued == 0, self.line, self.inside)

    def _loop(self, m):
        with m.If(self.next_valid & ~self.header_busy & ~self.queue_busy):
            if self.config.fixed is None:
                wrong = Signal()
                m.d.comb += wrong.eq(self.op != Op.BENTR)
                with m.If(wrong & self.room):
                    self._token(m, code=ErrorCode.PROGRAM)
                with m.If(~wrong):
                    self._next(m)
            else:
                self._next(m)

    def _next(self, m):
        """Judge the next event and enter it."""
        d, i = self.decoder, self.i
        with m.If(self.next_code != 0):
            with m.If(self.room):
                self._token(m, code=self.next_code, line=self.line)
        with m.Elif(self.next_end):
            with m.If(self.room):
                self._token(m, end=1)
                m.d.comb += [self.freed.eq(1), self.pc_next.eq(0)]
                m.d.sync += self.state.eq(State.START)
        with m.Elif(d.fault != 0):
            with m.If(self.room):
                self._token(m, code=d.fault, line=self.line)
        with m.Elif(d.invisible):
            m.d.comb += self.tag_in.skip.eq(1)
            m.d.sync += self.next_valid.eq(0)
            self._scan(m, 0)
        with m.Elif(self.room):
            m.d.comb += self.pc_next.eq(Mux(d.dense, 2, i.offset if self.config.fixed is None else self.config.fixed.sparse))
            m.d.sync += [
                self.next_valid.eq(0), self.tuple_line.eq(self.line), self.natts.eq(d.natts), self.nulls.eq(d.nulls), self.offset.eq(d.offset),
                self.start.eq(d.data), self.place.eq(d.data), d.end.eq(d.offset + d.length), self.null_bits.eq(-1),
                self.place_busy.eq(0), self.array_busy.eq(0), self.step.eq(0), self.index.eq(0)]
            self._scan(m, 1)
