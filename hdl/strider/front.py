"""The front of a Strider: page header, line pointers, tuple headers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...models.heap import page as p
from ...models.strider.errors import PageError
from ...models.strider.isa import Op
from ...models.strider.machine import PAGE_FIELDS, TUPLE_FIELDS
from ..stream.passing import fields
from .fetch import instruction_layout
from .layouts import (
    Kind,
    Origin,
    header_layout,
    issue_layout,
    page_bits,
    page_layout,
    policy_layout,
    setup_layout,
    tag_layout,
    tuple_layout,
)
from .pointers import HEADER_WORDS, LinePointers, Target


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
    BODY = 9  # every other instruction: `Body` issues
    HALT = 10  # after an error


class Front(wiring.Component):
    """Reads page headers, line pointers and tuple headers, judges the tuples, and enters the visible ones one after the other: `Body` then reads their
    attributes.

    While a tuple is entered, the read of the next one's header is issued. Then the body issues reads, from the first cycle of `active` to `ended`.
    """

    def __init__(self, config):
        self.config = config
        inside = page_bits(config)
        super().__init__(
            {
                # a window, what it was read for, and what the last headers say
                "tag": In(tag_layout(config)),
                "window": In(8 * config.bus_bytes),
                "page": In(page_layout(config)),
                "header": In(header_layout(config)),
                "instruction": In(instruction_layout(config)),
                "full": In(1),  # a page buffer is full
                "room": In(1),  # a slot of the tuple buffer is free
                "ended": In(1),  # the body's last issue for a tuple
                "failed": In(1),  # there was an error
                "o": Out(issue_layout(config)),
                # an error or a page's end is issued: it takes a slot of the tuple buffer
                "taken": Out(1),
                "freed": Out(1),  # a page is done with
                # the next tuple, which is entered with `enter`
                "tuple": Out(tuple_layout(config)),
                "enter": Out(1),
                "waiting": Out(1),  # the instruction is to be `bentr`
                "active": Out(1),  # the body issues
                # where the program goes on
                "to_page": Out(1),  # at `readB`
                "to_tuple": Out(1),  # at `bentr`
                "setup": Out(setup_layout()),
                "policy": Out(policy_layout()),
                "line": Out(13),  # the line pointer that an `enter` or `token` of `tag` is about
            }
        )
        self.pointers = LinePointers(config)
        self.state = Signal(State)
        self.part = Signal(range(max(self.page_parts, config.latency - 2)))  # of `state`
        # what `bentr` meets next: a tuple, if `end` or `error` is not set
        self.next = Signal(
            data.StructLayout(
                {"valid": 1, "end": 1, "error": 1, "code": 8, "offset": inside, "finish": inside}
            )
        )
        self.inside = Signal()  # after the scan a tuple's body has its turn; else `bentr`
        self.scanning = Signal()  # the scan takes a step
        self.going = Signal()  # what `inside` becomes in this step

    @property
    def page_parts(self):
        """Windows of a page header."""
        return -(-PAGE_FIELDS[1] // self.config.bus_bytes)

    def elaborate(self, platform):
        m, header = Module(), self.header
        m.submodules.pointers = pointers = self.pointers
        m.d.comb += [
            *fields(pointers, tag=self.tag, window=self.window, page=self.page),
            *fields(self.tuple, offset=self.next.offset, finish=self.next.finish),
            *fields(self.tuple, data=header.data, natts=header.natts, nulls=header.nulls),
            self.waiting.eq(self.state == State.LOOP),
            self.active.eq(self.state == State.BODY),
        ]
        self._anchor(m)
        self._line(m)
        if self.config.fixed is not None:
            setup, policy = _settings(self.config.fixed.setup)
            m.d.comb += [*fields(self.setup, **setup), *fields(self.policy, **policy)]
        with m.If((self.tag.kind == Kind.HEADER) & self.tag.final):
            m.d.sync += self.next.valid.eq(1)
        self._states(m)
        # these assignments come last: they override those of the state
        with m.If(self.scanning):
            self._scan(m)
        halt = Signal()
        m.d.sync += halt.eq(self.failed)
        with m.If(halt):
            m.d.sync += self.state.eq(State.HALT)
        return m

    def _states(self, m):
        """What is issued in each state."""
        with m.Switch(self.state):
            with m.Case(State.START), m.If(self.full):
                self._start(m)
            with m.Case(State.PAGE):
                self._read_page(m)
            with m.Case(State.POINTERS):
                self._read_pointers(m)
                m.d.sync += [self.state.eq(State.SETTLE), self.part.eq(0)]
            with m.Case(State.SETTLE):
                m.d.sync += self.part.eq(self.part + 1)
                with m.If(self.part == self.config.latency - 3):
                    m.d.sync += self.state.eq(State.CHECK)
            with m.Case(State.CHECK):
                self._check(m)
            with m.Case(State.SCAN):
                m.d.comb += [self.scanning.eq(1), self.going.eq(self.inside)]
            with m.Case(State.SCAN_MORE):
                self._read(m, Kind.HEADER, Origin.LAST, self.config.bus_bytes, 1, 1)
                more = ~self.pointers.known & ~self.pointers.over
                self._scanned(m, self.inside, more)
            with m.Case(State.SCAN_REFILL):
                self._read_pointers(m)
                self._scanned(m, self.inside)
            with m.Case(State.LOOP), m.If(self.next.valid & ~self.pointers.busy):
                self._loop(m)
            with m.Case(State.BODY), m.If(self.ended):
                m.d.comb += self.to_tuple.eq(1)
                m.d.sync += self.state.eq(State.LOOP)

    def _anchor(self, m):
        """The origin that no window moves: the next tuple's header or, where no line pointer is known, the next line pointer; at a page's start 0."""
        next_pointer = Cat(Const(0, 2), self.pointers.entry)
        with m.If(self.state != State.START):
            m.d.comb += self.o.anchor.eq(
                Mux(self.pointers.known, self.pointers.offset, next_pointer)
            )

    def _line(self, m):
        """The line pointer of an `enter` is that of the tuple under way: the next one is looked at already."""
        entered, entry = Signal.like(self.pointers.entry), Signal.like(self.pointers.entry)
        with m.If(self.enter):
            m.d.sync += entered.eq(self.pointers.entry)
        m.d.comb += [
            entry.eq(Mux(self.tag.token, self.pointers.entry, entered)),
            self.line.eq(entry - HEADER_WORDS),
        ]

    def _read(self, m, kind, origin, offset, part=0, final=1):
        """Issue the read of a window."""
        m.d.comb += [
            self.o.origin.eq(origin),
            self.o.offset.eq(offset),
            *fields(self.o.tag, kind=kind, part=part, final=final),
        ]

    def _read_page(self, m):
        first, final = self.part == 0, self.part == self.page_parts - 1
        self._read(
            m,
            Kind.PAGE,
            Mux(first, Origin.ANCHOR, Origin.LAST),
            Mux(first, PAGE_FIELDS[0], self.config.bus_bytes),
            self.part,
            final,
        )
        m.d.sync += [
            self.part.eq(self.part + 1),
            self.state.eq(Mux(final, State.POINTERS, State.PAGE)),
        ]

    def _read_pointers(self, m):
        self._read(m, Kind.POINTERS, Origin.ANCHOR, 0)
        m.d.comb += self.pointers.ask.eq(1)

    def _token(self, m, code):
        """Issue an error as soon as a slot of the tuple buffer is free for it."""
        with m.If(self.room):
            m.d.comb += [self.taken.eq(1), *fields(self.o.tag, code=code, token=1)]

    def _require(self, m, op):
        """Return whether the instruction is `op`; issue an error of the page as a whole where it is not."""
        if self.config.fixed is not None:
            return Const(1)
        matches = self.instruction.op == op
        with m.If(~matches):
            self._token(m, PageError.PROGRAM)
            # back before the first line pointer: the error's line is 0, the page as a whole
            m.d.comb += self.pointers.begin.eq(self.room)
        return matches

    def _start(self, m):
        """Begin a page."""
        with m.If(self._require(m, Op.READB)):
            self._read_page(m)
            m.d.comb += self.pointers.begin.eq(1)
            m.d.sync += [*fields(self.next, valid=0, end=0, error=0), self.inside.eq(0)]
            if self.config.fixed is None:
                setup, policy = _settings(self.instruction)
                m.d.sync += [*fields(self.setup, **setup), *fields(self.policy, **policy)]

    def _check(self, m):
        """Judge a page by its header."""
        page, size = self.page, self.config.page_size
        m.d.comb += [self.pointers.checked.eq(1), self.to_tuple.eq(1)]
        m.d.sync += [self.state.eq(State.LOOP), self.next.valid.eq(1), self.part.eq(0)]
        short = page.lower < p.PAGE_HEADER_SIZE
        crossed = (page.lower > page.upper) | (page.upper > page.special) | (page.special > size)
        uneven = page.lower[:2].any() | page.special[:3].any()
        with m.If(page.fresh):
            m.d.sync += self.next.end.eq(1)
        with m.Elif(page.stale):
            m.d.sync += fields(self.next, error=1, code=PageError.PAGE_VERSION)
        with m.Elif(page.beyond | short | crossed | uneven):
            m.d.sync += fields(self.next, error=1, code=PageError.PAGE_BOUNDS)
        with m.Elif(page.lower == p.PAGE_HEADER_SIZE):
            m.d.sync += self.next.end.eq(1)
        with m.Else():
            m.d.sync += [self.next.valid.eq(0), self.state.eq(State.SCAN)]

    def _scanned(self, m, inside, refill=None):
        """The scan is over, but for a window of line pointers that is to be read first."""
        after = Mux(inside, State.BODY, State.LOOP)
        m.d.sync += self.state.eq(
            after if refill is None else Mux(refill, State.SCAN_REFILL, after)
        )

    def _scan(self, m):
        """Take a step towards the next NORMAL line pointer."""
        pointers, inside = self.pointers, self.going
        m.d.sync += [self.state.eq(State.SCAN), self.inside.eq(inside)]
        with m.If(pointers.over):
            m.d.sync += fields(self.next, valid=1, end=1)
            self._scanned(m, inside)
        with m.Elif(pointers.known):
            m.d.comb += pointers.take.eq(1)
            with m.Switch(pointers.target):
                with m.Case(Target.TUPLE):
                    self._read_header(m)
                for error, code in (
                    (Target.BOUNDS, PageError.LINE_BOUNDS),
                    (Target.FLAGS, PageError.LINE_FLAGS),
                ):
                    with m.Case(error):
                        m.d.sync += fields(self.next, valid=1, error=1, code=code)
                        self._scanned(m, inside)
        with m.Elif(~pointers.busy):
            self._read_pointers(m)

    def _read_header(self, m):
        pointers, (first, count) = self.pointers, TUPLE_FIELDS
        more = count > self.config.bus_bytes
        self._read(m, Kind.HEADER, Origin.ANCHOR, first, 0, not more)
        m.d.sync += fields(self.next, offset=pointers.offset, finish=pointers.finish)
        if more:
            m.d.sync += self.state.eq(State.SCAN_MORE)
        else:
            self._scanned(m, self.going, ~pointers.queued & ~pointers.final)

    def _loop(self, m):
        """Judge what comes next, and enter it."""
        header = self.header
        with m.If(~self._require(m, Op.BENTR)):
            pass
        with m.Elif(self.next.error):
            self._token(m, self.next.code)
        with m.Elif(self.next.end):
            with m.If(self.room):
                m.d.comb += [
                    *(self.taken.eq(1), self.o.tag.end.eq(1), self.freed.eq(1)),
                    self.to_page.eq(1),
                ]
                m.d.sync += self.state.eq(State.START)
        with m.Elif(header.fault != 0):
            self._token(m, header.fault)
        with m.Elif(header.invisible):
            m.d.comb += [self.o.tag.skip.eq(1), self.scanning.eq(1)]
            m.d.sync += self.next.valid.eq(0)
        with m.Elif(self.room):
            m.d.comb += [
                *(self.enter.eq(1), self.o.tag.enter.eq(1)),
                *(self.scanning.eq(1), self.going.eq(1)),
            ]
            m.d.sync += self.next.valid.eq(0)


def _settings(readb):
    """What a `readB` says of pages and tuples, and of values that do not fit."""
    setup = {"all": readb.flag, "version": readb.offset}
    setup |= {"columns": readb.attr, "need": readb.count}
    return setup, {"saturate": readb.keep, "skip": readb.test, "go": readb.use}
