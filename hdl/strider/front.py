"""The Strider's front: page header, line pointers, tuple headers."""

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.lib import enum

from ...models.heap import page as p
from ...models.strider.errors import PageError
from ...models.strider.isa import Op
from ...models.strider.machine import PAGE_FIELDS, TUPLE_FIELDS
from .address import Origin
from .decode import Kind, page_bits

#: words of a page before its line pointers
_HEADER_WORDS = p.PAGE_HEADER_SIZE // p.LP_SIZE


class State(enum.Enum, shape=4):
    START = 0  # waits for a page; issues the page header's first read
    PAGE = 1  # the rest of the page header
    POINTERS = 2  # the first window of line pointers
    SETTLE = 3  # until the page header has been read
    CHECK = 4  # judges it
    SCAN = 5  # finds the next NORMAL line pointer
    SCAN_MORE = 6  # the second read of a tuple header
    SCAN_REFILL = 7  # the next window of line pointers
    LOOP = 8  # `bentr`
    BODY = 9  # every other instruction
    HALT = 10  # after an error


class Pointer(enum.Enum, shape=2):
    """What a line pointer leads to."""

    TUPLE = 0
    PASS = 1
    BOUNDS = 2  #: an error
    FLAGS = 3  #: an error


class Front:
    """Part of `StriderPipeline`: finds tuples and judges them. Line pointers are looked at one ahead, where they leave the window or the queue behind it."""

    def _front_registers(self, m):
        config, decoder = self.config, self.decoder
        per_window = config.bus_bytes // p.LP_SIZE
        inside = page_bits(config)
        self.all = Signal()
        self.version = Signal(16)
        # the next line pointer, in words from the page's start
        self.entry = Signal(inside - 2, init=_HEADER_WORDS)
        self.queued = Signal(range(per_window))  # line pointers behind the next one
        self.queue_busy = Signal()
        # the next line pointer is there; what it is
        self.known, self.kind = Signal(), Signal(Pointer)
        self.known_offset, self.known_finish = Signal(inside), Signal(inside)
        # where a tuple it leads to would end, it is not within the page's tuples
        self.past = Signal()
        m.d.comb += self.past.eq(self.known_finish > decoder.special)
        # of the tuple whose header is read
        self.next_offset, self.next_finish = Signal(inside), Signal(inside)
        self.next_valid, self.next_end, self.next_error = Signal(), Signal(), Signal()
        self.next_code = Signal(8)
        self.inside = Signal()  # after the scan a tuple's body follows
        # the scan takes a step; `inside` in this step
        self.scanning, self.going = Signal(), Signal()
        self.take = Signal()  # the next line pointer is used
        self.over, self.final = Signal(), Signal()  # there is no next line pointer; it is the last
        m.d.comb += [
            decoder.all.eq(self.all),
            decoder.version.eq(self.version),
            decoder.offset.eq(self.next_offset),
            decoder.finish.eq(self.next_finish),
        ]
        if (fixed := config.fixed) is not None:
            m.d.comb += [
                self.version.eq(fixed.setup.offset),
                decoder.columns.eq(fixed.setup.attr),
                decoder.need.eq(fixed.setup.count),
            ]
            if fixed.setup.flag:
                m.d.comb += decoder.all.eq(1)
            m.d.comb += [
                self.policy.saturate.eq(fixed.setup.keep),
                self.policy.skip.eq(fixed.setup.test),
                self.policy.go.eq(fixed.setup.use),
            ]
        self._look_ahead(m, per_window)
        with m.If(decoder.header):
            m.d.sync += self.next_valid.eq(1)

    def _look_ahead(self, m, per_window):
        d, inside = self.decoder, page_bits(self.config)
        queue = Signal(32 * (per_window - 1))
        entry = Signal(32)
        m.d.comb += entry.eq(Mux(d.pointers, d.window, queue) if per_window > 1 else d.window)
        offset, flags, length = entry[:15], entry[15:17], entry[17:]
        finish = Signal(16)
        m.d.comb += finish.eq(offset + length)
        outside = (
            offset[:3].any()
            | (offset[:inside] < d.upper)
            | finish[inside:].any()
            | ((length[3:5] != 3) & ~length[5:].any())
        )
        target = (offset != 0) & (offset + _HEADER_WORDS <= d.lower[2:])  # of a redirect
        kind = Signal(Pointer)
        with m.If(flags == p.LP_NORMAL):
            m.d.comb += kind.eq(Mux(outside, Pointer.BOUNDS, Pointer.TUPLE))
        with m.Elif(
            ((flags == p.LP_UNUSED) & length.any())
            | ((flags == p.LP_REDIRECT) & (length.any() | ~target))
        ):
            m.d.comb += kind.eq(Pointer.FLAGS)
        with m.Else():
            m.d.comb += kind.eq(Pointer.PASS)
        with m.If(self.take):
            m.d.sync += self.known.eq(0)
        fill = d.pointers
        if per_window > 1:
            with m.If(d.pointers):
                m.d.sync += [queue.eq(d.window[32:]), self.queued.eq(per_window - 1)]
            with m.Elif(self.take & (self.queued != 0)):
                m.d.sync += [queue.eq(queue[32:]), self.queued.eq(self.queued - 1)]
            fill = d.pointers | (self.take & (self.queued != 0))
        with m.If(fill):
            m.d.sync += [
                self.known.eq(1),
                self.kind.eq(kind),
                self.known_offset.eq(offset),
                self.known_finish.eq(finish),
            ]
        with m.If(d.pointers):
            m.d.sync += self.queue_busy.eq(0)

    def _known_origin(self, m):
        """Choose among the origins that no window moves, in the cycle of the issue: the addition behind the others is a long way.

        In a tuple's body these are its data (base D), or the tuple itself for null bits; before it the next tuple's header or, where no line pointer is
        known, the next line pointer; at a page's start 0.
        """
        fixed = self.config.fixed
        bits = (
            self.instruction.op == sorted(fixed.ops).index(Op.EXTRBI)
            if fixed is not None and Op.EXTRBI in fixed.ops
            else self.op == Op.EXTRBI
            if fixed is None
            else Const(0)
        )
        with m.If(self.state == State.BODY):
            m.d.sync += self.known_origin.eq(Mux(bits, self.offset, self.start))
        with m.Elif(self.state == State.START):
            m.d.sync += self.known_origin.eq(0)
        with m.Else():
            m.d.sync += self.known_origin.eq(
                Mux(self.known, self.known_offset, Cat(Const(0, 2), self.entry))
            )

    def _read_page(self, m, part):
        first, count = PAGE_FIELDS
        parts = -(-count // self.config.bus_bytes)
        begin = part == 0
        self._read(
            m,
            Kind.PAGE,
            Mux(begin, Origin.KNOWN, Origin.LAST),
            Mux(begin, first, self.config.bus_bytes),
            part,
            part == parts - 1,
        )
        m.d.sync += self.part.eq(part + 1)
        with m.If(part == parts - 1):
            m.d.sync += self.state.eq(State.POINTERS)
        with m.Else():
            m.d.sync += self.state.eq(State.PAGE)

    def _read_pointers(self, m):
        self._read(m, Kind.POINTERS, Origin.KNOWN, 0)
        m.d.sync += self.queue_busy.eq(1)

    def _start(self, m):
        with m.If(self.page_ready):
            if self.config.fixed is not None:
                self._enter_page(m)
                m.d.sync += self.all.eq(self.config.fixed.setup.flag)
                return
            with m.If(self.op != Op.READB):
                with m.If(self.room):
                    m.d.sync += self.entry.eq(_HEADER_WORDS)
                    self._token(m, code=PageError.PROGRAM)
            with m.Else():
                self._enter_page(m)
                m.d.sync += [
                    self.all.eq(self.i.flag),
                    self.version.eq(self.i.offset),
                    self.decoder.columns.eq(self.i.attr),
                    self.decoder.need.eq(self.i.count),
                    self.policy.saturate.eq(self.i.keep),
                    self.policy.skip.eq(self.i.test),
                    self.policy.go.eq(self.i.use),
                ]

    def _enter_page(self, m):
        self._read_page(m, self.part)
        m.d.sync += [
            self.entry.eq(_HEADER_WORDS),
            self.known.eq(0),
            self.queued.eq(0),
            self.next_valid.eq(0),
            self.next_end.eq(0),
            self.next_error.eq(0),
            self.inside.eq(0),
        ]

    def _check(self, m):
        d = self.decoder
        lower_short, crossed = Signal(), Signal()
        m.d.sync += [self.over.eq(0), self.final.eq(d.lower[2:] == _HEADER_WORDS + 1)]
        self._go_to(m, 1)
        m.d.comb += [
            lower_short.eq(d.lower < p.PAGE_HEADER_SIZE),
            crossed.eq(
                (d.lower > d.upper) | (d.upper > d.special) | (d.special > self.config.page_size)
            ),
        ]
        m.d.sync += [
            self.state.eq(State.LOOP),
            self.all.eq(self.all | d.visible),
            self.next_valid.eq(1),
            self.part.eq(0),
        ]
        with m.If(d.fresh):
            m.d.sync += self.next_end.eq(1)
        with m.Elif(d.stale):
            m.d.sync += [self.next_error.eq(1), self.next_code.eq(PageError.PAGE_VERSION)]
        with m.Elif(d.beyond | lower_short | crossed | d.lower[:2].any() | d.special[:3].any()):
            m.d.sync += [self.next_error.eq(1), self.next_code.eq(PageError.PAGE_BOUNDS)]
        with m.Elif(d.lower == p.PAGE_HEADER_SIZE):
            m.d.sync += self.next_end.eq(1)
        with m.Else():
            m.d.sync += [self.next_valid.eq(0), self.state.eq(State.SCAN)]

    def _scanned(self, m, inside):
        m.d.sync += self.state.eq(Mux(inside, State.BODY, State.LOOP))

    def _scan(self, m, inside):
        """One step towards the next NORMAL line pointer; what it sets goes before what the state sets."""
        m.d.sync += [self.state.eq(State.SCAN), self.inside.eq(inside)]
        with m.If(self.over):
            m.d.sync += [self.next_valid.eq(1), self.next_end.eq(1)]
            self._scanned(m, inside)
        with m.Elif(~self.known):
            with m.If(~self.queue_busy):
                self._read_pointers(m)
        with m.Else():
            m.d.comb += self.take.eq(1)
            m.d.sync += [
                self.entry.eq(self.entry + 1),
                self.over.eq(self.final),
                self.final.eq(self.entry + 2 == self.decoder.lower[2:]),
            ]
            kind = Signal(Pointer)
            m.d.comb += kind.eq(
                Mux((self.kind == Pointer.TUPLE) & self.past, Pointer.BOUNDS, self.kind)
            )
            with m.Switch(kind):
                with m.Case(Pointer.TUPLE):
                    first, count = TUPLE_FIELDS
                    more = count > self.config.bus_bytes
                    self._read(m, Kind.HEADER, Origin.KNOWN, first, 0, not more)
                    m.d.sync += [
                        self.next_offset.eq(self.known_offset),
                        self.next_finish.eq(self.known_finish),
                    ]
                    if more:
                        m.d.sync += self.state.eq(State.SCAN_MORE)
                    else:
                        self._refill(m, self.queued == 0, ~self.final, inside)
                for error, code in (
                    (Pointer.BOUNDS, PageError.LINE_BOUNDS),
                    (Pointer.FLAGS, PageError.LINE_FLAGS),
                ):
                    with m.Case(error):
                        m.d.sync += [
                            self.next_valid.eq(1),
                            self.next_error.eq(1),
                            self.next_code.eq(code),
                        ]
                        self._scanned(m, inside)

    def _refill(self, m, empty, some, inside):
        with m.If(empty & some):
            m.d.sync += self.state.eq(State.SCAN_REFILL)
        with m.Else():
            self._scanned(m, inside)

    def _scan_more(self, m):
        self._read(m, Kind.HEADER, Origin.LAST, self.config.bus_bytes, 1, 1)
        self._refill(m, ~self.known, ~self.over, self.inside)

    def _loop(self, m):
        with m.If(self.next_valid & ~self.queue_busy):
            if self.config.fixed is None:
                with m.If(self.op == Op.BENTR):
                    self._next(m)
                with m.Elif(self.room):
                    m.d.sync += self.entry.eq(_HEADER_WORDS)
                    self._token(m, code=PageError.PROGRAM)
            else:
                self._next(m)

    def _next(self, m):
        """Judge the next event and enter it."""
        d = self.decoder
        with m.If(self.next_error):
            with m.If(self.room):
                self._token(m, code=self.next_code)
        with m.Elif(self.next_end):
            with m.If(self.room):
                self._token(m, end=1)
                m.d.comb += self.freed.eq(1)
                self._go_to(m, 0)
                m.d.sync += self.state.eq(State.START)
        with m.Elif(d.fault != 0):
            with m.If(self.room):
                self._token(m, code=d.fault)
        with m.Elif(d.invisible):
            m.d.comb += [self.tag_in.skip.eq(1), self.scanning.eq(1)]
            m.d.sync += self.next_valid.eq(0)
        with m.Elif(self.room):
            self._enter(m)
            m.d.comb += [self.scanning.eq(1), self.going.eq(1)]
            m.d.sync += self.next_valid.eq(0)

    def _line(self):
        """The line pointer that an `enter` or `token` in the decode stage is about."""
        entry = Signal.like(self.entry)
        self.m.d.comb += entry.eq(Mux(self.decoder.tag.token, self.entry, self.tuple_entry))
        return entry - _HEADER_WORDS

    def _read(self, m, kind, origin, offset, part=0, final=1):
        m.d.comb += [
            self.order.origin.eq(origin),
            self.order.offset.eq(offset),
            self.tag_in.kind.eq(kind),
            self.tag_in.part.eq(part),
            self.tag_in.final.eq(final),
        ]
