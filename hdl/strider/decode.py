"""The decode stage of a Strider: what the bytes of a window mean, and what is wrong with them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.errors import PageError
from ...models.strider.isa import FIXED_TYPES, Op
from ...models.strider.machine import ARRAY_HEADER, PAGE_FIELDS, TUPLE_FIELDS
from .layouts import (
    PLACE_BITS,
    Kind,
    header_layout,
    length_layout,
    page_bits,
    page_layout,
    place_bits,
    setup_layout,
    tag_layout,
)


class Decoder(wiring.Component):
    """Checks windows and keeps what they say. Everything it keeps is visible in the cycle after `tag`."""

    def __init__(self, config):
        self.config = config
        places, inside = place_bits(config), page_bits(config)
        super().__init__(
            {
                # a window and what it was read for
                "tag": In(tag_layout(config)),
                "window": In(8 * config.bus_bytes),
                "setup": In(setup_layout()),
                # where the tuple whose header is read begins and ends
                "offset": In(inside),
                "finish": In(inside),
                "line": In(13),  # the line pointer of the tag's tuple, or of its error
                # bytes from the window's place to the end of its tuple
                "left": In(signed(places + 1)),
                # how many of them are left over by what `begin`s with it (by an array with a 4-byte
                # header)
                "spare": In(signed(places + 1)),
                "code": Out(8),  # the first error, from the cycle after its tag on
                "at": Out(13),  # its line pointer
                "length": Out(length_layout()),
                # of the last headers
                "page": Out(page_layout(config)),
                "header": Out(header_layout(config)),
                "odd": Out(1),  # the byte of the last `PROBE` was an array's 1-byte header
                "padded": Out(1),  # the last value's header was padding
            }
        )

    def elaborate(self, platform):
        m = Module()
        tag, fixed = self.tag, self.config.fixed
        ops = set(Op) if fixed is None else fixed.ops
        # what is wrong with this tag (but for `array`, of which it is said a cycle later); the first error stays
        self.tag_error = tag_error = Signal(8)
        self.array = Signal(5)
        m.d.comb += tag_error.eq(tag.code)
        with m.If(tag.begin & (self.spare < 0)):
            m.d.comb += tag_error.eq(PageError.TUPLE_LENGTH)
        self._page(m)
        self._header(m)
        if Op.ARR in ops:
            self._array(m)
        if Op.VAR in ops:
            self._value(m)
        last, array, first = Signal(8), Signal(5), Signal(8)
        m.d.sync += [last.eq(tag_error), array.eq(self.array), first.eq(self.code)]
        m.d.comb += self.code.eq(last)
        meanings = (
            PageError.TUPLE_LENGTH,
            PageError.TUPLE_EXTERNAL,
            PageError.TUPLE_LENGTH,
            PageError.ARRAY_SHAPE,
            PageError.TUPLE_LENGTH,
        )
        for flag, code in reversed(list(zip(array, meanings, strict=True))):
            with m.If(flag):
                m.d.comb += self.code.eq(code)
        with m.If(first != 0):
            m.d.comb += self.code.eq(first)
        with m.If((self.code == 0) & (tag.enter | tag.token)):
            m.d.sync += self.at.eq(self.line)
        return m

    def _page(self, m):
        """Keep the fields of a page header, which comes in parts."""
        tag, bus, inside = self.tag, self.config.bus_bytes, page_bits(self.config)
        first, count = PAGE_FIELDS

        def field(at):
            """Return whether the part with the field at byte `at` comes now, and the field."""
            part, byte = divmod(at - first, bus)
            comes = (tag.kind == Kind.PAGE) & (tag.part == part)
            return comes, self.window[8 * byte : 8 * byte + 16]

        here, flags = field(10)
        with m.If(here):
            m.d.sync += self.page.visible.eq(flags[2])
        here, lower = field(12)
        _, upper = field(14)
        with m.If(here):
            m.d.sync += [
                self.page.lower.eq(lower),
                self.page.upper.eq(upper),
                self.page.fresh.eq(upper == 0),
            ]
        apart, special = field(16)
        _, version = field(18)
        over = Signal()
        m.d.comb += over.eq(lower[inside:].any() | upper[inside:].any())
        with m.If(here):
            m.d.sync += self.page.beyond.eq(over)
        with m.If(apart):
            m.d.sync += [
                self.page.special.eq(special),
                self.page.stale.eq(version != self.setup.version),
                self.page.beyond.eq(
                    (over if bus >= count else self.page.beyond) | special[inside:].any()
                ),
            ]

    def _visibility(self, m, mask):
        """Return whether a tuple's flags leave open if it is visible, and whether it is not."""

        def has(bits):
            return (mask & bits) != 0

        undecided, invisible = Signal(), Signal()
        locked = (
            mask & (p.HEAP_XMAX_IS_MULTI | p.HEAP_XMAX_EXCL_LOCK | p.HEAP_XMAX_KEYSHR_LOCK)
        ) == p.HEAP_XMAX_EXCL_LOCK
        with m.If(self.setup.all | self.page.visible):
            pass
        with m.Elif(has(p.HEAP_MOVED) | ~has(p.HEAP_XMIN_FROZEN)):
            m.d.comb += undecided.eq(1)
        with m.Elif((mask & p.HEAP_XMIN_FROZEN) == p.HEAP_XMIN_INVALID):
            m.d.comb += invisible.eq(1)
        with m.Elif(has(p.HEAP_XMAX_INVALID | p.HEAP_XMAX_LOCK_ONLY) | locked):
            pass
        with m.Elif(has(p.HEAP_XMAX_IS_MULTI) | ~has(p.HEAP_XMAX_COMMITTED)):
            m.d.comb += undecided.eq(1)
        with m.Else():
            m.d.comb += invisible.eq(1)
        return undecided, invisible

    def _header(self, m):
        tag, bus, fixed = self.tag, self.config.bus_bytes, self.config.fixed
        raw = self.window[16:27]
        natts, over = Signal(11), Signal()
        # bits of as many attributes as there can be
        few = 11 if fixed is None else min(11, fixed.setup.attr.bit_length())
        if bus < sum(TUPLE_FIELDS) - TUPLE_FIELDS[0]:
            kept = Signal()
            with m.If((tag.kind == Kind.HEADER) & ~tag.final):
                m.d.sync += [self.header.natts.eq(raw[:few]), kept.eq(raw > self.setup.columns)]
            m.d.comb += [natts.eq(self.header.natts), over.eq(kept)]
            mask, hoff = self.window[0:16], self.window[16:24]
        else:
            with m.If((tag.kind == Kind.HEADER) & tag.final):
                m.d.sync += self.header.natts.eq(raw[:few])
            m.d.comb += [natts.eq(raw[:few]), over.eq(raw > self.setup.columns)]
            mask, hoff = self.window[32:48], self.window[48:56]

        undecided, invisible = self._visibility(m, mask)
        nulls = mask[0]
        # in units of 8 bytes: 23 and the bitmap, rounded up
        least = (
            Const(p.PAGE_HEADER_SIZE // 8)
            if fixed is not None and fixed.setup.attr <= 8
            else Mux(nulls, (natts + 64 + 8 * p.TUPLE_BITMAP - 1) >> 6, 3)
        )
        start = Signal(len(self.header.data) + 1)
        m.d.comb += start.eq(Cat(Const(0, 3), self.offset[3:] + hoff[3:]))
        fault = Signal(8)
        with m.If(undecided):
            m.d.comb += fault.eq(PageError.TUPLE_VISIBILITY)
        with m.Elif(over):
            m.d.comb += fault.eq(PageError.TUPLE_NATTS)
        with m.Elif((hoff[:3] != 0) | (hoff[3:] < least) | (start > self.finish)):
            m.d.comb += fault.eq(PageError.TUPLE_HEADER)
        with m.If((tag.kind == Kind.HEADER) & tag.final):
            m.d.sync += [
                self.header.nulls.eq(nulls),
                self.header.data.eq(start),
                self.header.invisible.eq(invisible),
                self.header.fault.eq(Mux(invisible, 0, fault)),
                self.header.dense.eq(~nulls & (natts >= self.setup.need)),
            ]

    def _expected(self, m):
        """Return the header that the array under way should have: the long one, the short one."""
        tag, bus, fixed = self.tag, self.config.bus_bytes, self.config.fixed
        if fixed is not None and len(fixed.arrays) == 1:
            ((code, count),) = fixed.arrays
            kind, wide = Const(code, 3), Const(code & 1)
            total = Const(count * TYPES[FIXED_TYPES[code]].length, 32)
            length = Const(count, 16)
        else:
            # codes of types with 8 bytes are odd
            kind, wide = tag.type, tag.type[0]
            total, length = tag.value, Signal(16)
            m.d.comb += length.eq(Mux(wide, tag.value >> 3, tag.value >> 2))
        words, oid = [Signal(32, name=f"word{k}") for k in range(5)], Signal(32)
        m.d.comb += oid.eq(Mux(wide, TYPES["float8"].oid, TYPES["float4"].oid))
        for name in self.config.arrays[2:]:
            with m.If(kind == FIXED_TYPES.index(name)):
                m.d.comb += oid.eq(TYPES[name].oid)
        m.d.comb += [
            word.eq(value) for word, value in zip(words, [1, 0, oid, length, 1], strict=True)
        ]
        long, brief = Signal(32), Signal(8)
        m.d.comb += [
            long.eq((total[:PLACE_BITS] + (p.ARRAY_DATA + 4)) << 2),
            brief.eq(((total[:PLACE_BITS] + (p.ARRAY_DATA + 1)) << 1) | 1),
        ]
        padding = 8 * (-(-ARRAY_HEADER // bus) * bus)
        expected = [Signal(padding, name=name) for name in ("expected_long", "expected_short")]
        m.d.comb += [expected[0].eq(Cat(long, *words)), expected[1].eq(Cat(brief, *words))]
        return expected

    def _array(self, m):
        tag, bus = self.tag, self.config.bus_bytes
        first = self.window[:8]
        m.d.comb += self.length.short.eq(first[0])
        narrow = self.left < ARRAY_HEADER - 3
        with m.If(tag.kind == Kind.PROBE):
            m.d.sync += self.odd.eq(first[0])
            with m.If(self.left <= 0):
                m.d.comb += self.tag_error.eq(PageError.TUPLE_LENGTH)
            with m.Elif((first != 0) & (tag.big | ~first[0])):
                m.d.comb += self.tag_error.eq(PageError.ARRAY_SHAPE)
                with m.If(first == p.VARATT_EXTERNAL):
                    m.d.comb += self.tag_error.eq(PageError.TUPLE_EXTERNAL)
                with m.Elif(first[0] & narrow):
                    m.d.comb += self.tag_error.eq(PageError.TUPLE_LENGTH)
        with m.If(tag.kind == Kind.ARRAY):
            kept = Signal()
            short = Signal()
            m.d.comb += short.eq(Mux(tag.part == 0, first[0], kept))
            m.d.sync += kept.eq(short)
            expected = self._expected(m)
            wrong = Signal(2)
            for kind, header in enumerate((ARRAY_HEADER, ARRAY_HEADER - 3)):
                parts = []
                for k in range(-(-ARRAY_HEADER // bus)):
                    count = 8 * max(0, min(bus, header - k * bus))
                    parts.append(
                        (tag.part == k)
                        & (self.window[:count] != expected[kind][8 * k * bus : 8 * k * bus + count])
                    )
                m.d.comb += wrong[kind].eq(Cat(parts).any())
            begins = tag.part == 0
            m.d.comb += self.array.eq(
                Cat(
                    begins & (self.left <= 0),
                    begins & ((first == p.VARATT_EXTERNAL) | (first[:2] == 2)),
                    begins & Mux(short, narrow, self.left < ARRAY_HEADER),
                    Mux(short, wrong[1] | tag.big, wrong[0]),
                    tag.final & Mux(short, self.spare < -3, self.spare < 0),
                )
            )

    def _value(self, m):
        tag = self.tag
        first, word = self.window[:8], self.window[:32]
        external = first == p.VARATT_EXTERNAL
        m.d.comb += [
            self.length.again.eq(tag.unaligned & ~first[0]),
            self.length.size.eq(word[2:18]),
        ]
        with m.If(external):
            m.d.comb += self.length.size.eq(p.VARATT_EXTERNAL_SIZE)
        with m.Elif(first[0]):
            m.d.comb += self.length.size.eq(first >> 1)
        with m.If(tag.kind == Kind.VALUE):
            m.d.sync += self.padded.eq(self.length.again)
            with m.If(self.left <= 0):
                m.d.comb += self.tag_error.eq(PageError.TUPLE_LENGTH)
            with m.Elif(self.length.again):
                with m.If(first != 0):
                    m.d.comb += self.tag_error.eq(PageError.TUPLE_LENGTH)
            with m.Elif(external & (self.left >= 2) & (word[8:16] != 18)):
                m.d.comb += self.tag_error.eq(PageError.TUPLE_EXTERNAL)
            with m.Elif(
                (~first[0] & ((self.left < 4) | word[18:].any() | (word[2:18] < 4)))
                | (self.left < self.length.size)
            ):
                m.d.comb += self.tag_error.eq(PageError.TUPLE_LENGTH)
