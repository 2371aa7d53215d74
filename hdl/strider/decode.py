"""The decode stage of a walker: what the bytes of a window mean, and what is wrong with them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...models.errors import ErrorCode
from ...models.heap import page as p
from ...models.heap.schema import TYPES
from ...models.strider.machine import ARRAY_HEADER, PAGE_FIELDS, TUPLE_FIELDS

__all__ = ["PLACE_BITS", "Decoder", "Kind", "place_bits", "tag_layout"]

#: bits of an address within a page, sums of addresses and lengths included
PLACE_BITS = 20


def place_bits(config):
    """Bits of an address within the page and all that is added to it."""
    return PLACE_BITS if config.fixed is None else config.fixed.place_bits


class Kind(enum.Enum, shape=4):
    """What a window was read for."""

    NONE = 0
    PAGE = 1        #: page header
    POINTERS = 2    #: line pointers
    HEADER = 3      #: tuple header
    BITS = 4        #: null bitmap
    PROBE = 5       #: the byte where padding or an array with a 1-byte header may be
    ARRAY = 6       #: an array's header
    VALUE = 7       #: header of a variable-length value
    DATA = 8        #: values for the tuple buffer
    INSERT = 9      #: a constant for the tuple buffer


def tag_layout(config):
    """What accompanies a window from its issue to the tuple buffer.

    `code` is an error found at the issue. `commit` completes a tuple in slot `slot` (whose beats start at `base`), `end` a page. `skip`
    counts a tuple left out. `fits` says whether the tuple is long enough for (short header, long header, whole short array, whole long
    array) of an array, or for (any, 2, 4) bytes of a value's header.
    """
    widest = max(config.elements(name) for name in config.types)
    return data.StructLayout({
        "valid": 1, "kind": Kind, "part": 3, "final": 1, "code": 8, "line": 13, "slot": range(config.slots),
        "base": range(config.slots * config.beats), "commit": 1, "end": 1, "skip": 1,
        "type": 3, "count": range(widest + 1), "half": 1, "beat": 16, "lane": 8, "value": 32, "big": 1, "unaligned": 1, "fits": 4})


class Decoder(wiring.Component):
    """Checks windows and keeps what they say. Everything it keeps is visible in the cycle after `tag`; `code` belongs to `tag`.

    Members
    -------
    tag : In(tag_layout(config)), window : In(8 * bus_bytes)
        A window and what it was read for.
    all, columns, need : In
        Configuration: every tuple is visible; columns of the schema; attributes that the dense part needs.
    offset, length : In
        The tuple whose header is read.
    place, end : In(place_bits(config))
        Address of the value whose header is read; end of the tuple.
    valid : Out(1), code : Out(8)
        `tag` counts (nothing before it was in error); its error or 0. `halted` follows an error.
    pointers, header, bits, array, value : Out(1)
        A valid window of this kind; `header` with the header's last part, `array` with its first.
    short : Out(1)
        With `array`: the varlena header is one byte long.
    size : Out(16), again : Out(1)
        With `value`: its length; whether what was read is padding instead.
    """

    def __init__(self, config, *, src_loc_at=0):
        self.config = config
        self.places = places = place_bits(config)
        super().__init__({
            "tag": In(tag_layout(config)), "window": In(8 * config.bus_bytes), "all": In(1), "columns": In(11), "need": In(16),
            "offset": In(15), "length": In(15), "place": In(places), "end": In(places),
            "valid": Out(1), "code": Out(8), "halted": Out(1),
            "pointers": Out(1), "header": Out(1), "bits": Out(1), "array": Out(1), "value": Out(1), "short": Out(1), "size": Out(16), "again": Out(1),
            # kept
            "flags": Out(16), "lower": Out(16), "upper": Out(16), "special": Out(16), "version": Out(16),
            "natts": Out(11), "nulls": Out(1), "data": Out(places), "invisible": Out(1), "fault": Out(8), "dense": Out(1),
            "odd": Out(1), "padded": Out(1)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        tag = self.tag
        m.d.comb += [self.valid.eq(tag.valid & ~self.halted), self.code.eq(tag.code)]
        with m.If(self.valid & (self.code != 0)):
            m.d.sync += self.halted.eq(1)
        good = self.valid & (tag.code == 0)
        for name, kind in (("pointers", Kind.POINTERS), ("bits", Kind.BITS), ("value", Kind.VALUE)):
            m.d.comb += getattr(self, name).eq(good & (tag.kind == kind))
        m.d.comb += [self.header.eq(good & (tag.kind == Kind.HEADER) & tag.final), self.array.eq(good & (tag.kind == Kind.ARRAY) & (tag.part == 0))]
        self._page(m, good)
        self._header(m, good)
        self._array(m, good)
        self._value(m, good)
        return m

    def _fields(self, m, good, kind, count, wanted):
        """Assemble `wanted` (name -> (byte, bits)) from the parts of `count` bytes; return values that hold with the last part."""
        bus = self.config.bus_bytes
        parts = -(-count // bus)
        held = Signal(8 * bus * (parts - 1))
        if parts > 1:
            with m.If(good & (self.tag.kind == kind) & ~self.tag.final):
                m.d.sync += held.eq(Cat(held[8 * bus:], self.window))
        whole = Cat(held, self.window)
        return {name: whole[8 * at:8 * at + bits] for name, (at, bits) in wanted.items()}

    def _page(self, m, good):
        first, count = PAGE_FIELDS
        places = {"flags": 10, "lower": 12, "upper": 14, "special": 16, "version": 18}
        values = self._fields(m, good, Kind.PAGE, count, {name: (at - first, 16) for name, at in places.items()})
        with m.If(good & (self.tag.kind == Kind.PAGE) & self.tag.final):
            m.d.sync += [getattr(self, name).eq(value) for name, value in values.items()]

    def _header(self, m, good):
        _, count = TUPLE_FIELDS
        fields = self._fields(m, good, Kind.HEADER, count, {"natts": (0, 11), "mask": (2, 16), "hoff": (4, 8)})
        natts, mask, hoff = fields["natts"], fields["mask"], fields["hoff"]

        def has(bits):
            return (mask & bits) != 0

        undecided, invisible = Signal(), Signal()
        locked = (mask & (p.HEAP_XMAX_IS_MULTI | p.HEAP_XMAX_EXCL_LOCK | p.HEAP_XMAX_KEYSHR_LOCK)) == p.HEAP_XMAX_EXCL_LOCK
        with m.If(self.all):
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
        nulls = mask[0]
        least = p.TUPLE_BITMAP + Mux(nulls, (natts + 7) >> 3, 0)
        fault = Signal(8)
        with m.If(undecided):
            m.d.comb += fault.eq(ErrorCode.TUPLE_VISIBILITY)
        with m.Elif(natts > self.columns):
            m.d.comb += fault.eq(ErrorCode.TUPLE_NATTS)
        with m.Elif((hoff[:3] != 0) | (hoff < least) | (hoff > self.length)):
            m.d.comb += fault.eq(ErrorCode.TUPLE_HEADER)
        with m.If(self.header):
            m.d.sync += [self.natts.eq(natts), self.nulls.eq(nulls), self.data.eq(self.offset + hoff), self.invisible.eq(invisible),
                         self.fault.eq(Mux(invisible, 0, fault)), self.dense.eq(~nulls & (natts >= self.need))]

    def _array(self, m, good):
        tag, bus = self.tag, self.config.bus_bytes
        first = self.window[:8]
        kept = Signal()
        m.d.comb += self.short.eq(Mux(tag.part == 0, first[0], kept))
        with m.If(good & (tag.kind == Kind.PROBE)):
            m.d.sync += self.odd.eq(first[0])
            with m.If((first != 0) & (tag.big | ~first[0])):
                m.d.comb += self.code.eq(ErrorCode.ARRAY_SHAPE)
                with m.If(first == p.VARATT_EXTERNAL):
                    m.d.comb += self.code.eq(ErrorCode.TUPLE_EXTERNAL)
                with m.Elif(first[0] & ~tag.fits[0]):
                    m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)
        with m.If(good & (tag.kind == Kind.ARRAY)):
            m.d.sync += kept.eq(self.short)
            # the header that the array should have, both kinds
            wide = tag.type == 5
            fixed = [1, 0, Mux(wide, TYPES["float8"].oid, TYPES["float4"].oid)]
            length = Signal(16)
            m.d.comb += length.eq(Mux(wide, tag.value >> 3, tag.value >> 2))
            words = [Signal(32, name=f"word{k}") for k in range(5)]
            m.d.comb += [word.eq(value) for word, value in zip(words, [*fixed, length, 1], strict=True)]
            total = Signal(32)
            brief = Signal(8)
            m.d.comb += [total.eq((tag.value[:self.places] + (p.ARRAY_DATA + 4)) << 2),
                         brief.eq(((tag.value[:self.places] + (p.ARRAY_DATA + 1)) << 1) | 1)]
            padding = 8 * (-(-ARRAY_HEADER // bus) * bus)
            expected = [Signal(padding, name=name) for name in ("expected_long", "expected_short")]
            m.d.comb += [expected[0].eq(Cat(total, *words)), expected[1].eq(Cat(brief, *words))]
            wrong = Signal(2)
            for kind, header in enumerate((ARRAY_HEADER, ARRAY_HEADER - 3)):
                parts = []
                for k in range(-(-ARRAY_HEADER // bus)):
                    count = 8 * max(0, min(bus, header - k * bus))
                    parts.append((tag.part == k) & (self.window[:count] != expected[kind][8 * k * bus:8 * k * bus + count]))
                m.d.comb += wrong[kind].eq(Cat(parts).any())
            with m.If((tag.part == 0) & ((first == p.VARATT_EXTERNAL) | (first[:2] == 2))):
                m.d.comb += self.code.eq(ErrorCode.TUPLE_EXTERNAL)
            with m.Elif((tag.part == 0) & ~Mux(self.short, tag.fits[0], tag.fits[1])):
                m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)
            with m.Elif(Mux(self.short, wrong[1] | tag.big, wrong[0])):
                m.d.comb += self.code.eq(ErrorCode.ARRAY_SHAPE)
            with m.Elif(tag.final & ~Mux(self.short, tag.fits[2], tag.fits[3])):
                m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)

    def _value(self, m, good):
        tag = self.tag
        first, word = self.window[:8], self.window[:32]
        m.d.comb += [self.again.eq(tag.unaligned & ~first[0]), self.size.eq(word[2:18])]
        huge = word[18:].any()
        with m.If(self.value):
            m.d.sync += self.padded.eq(self.again)
            with m.If(self.again):
                with m.If(first != 0):
                    m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)
            with m.Else():
                with m.If(first == p.VARATT_EXTERNAL):
                    m.d.comb += self.size.eq(p.VARATT_EXTERNAL_SIZE)
                    with m.If(~tag.fits[1]):
                        m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)
                    with m.Elif(word[8:16] != 18):
                        m.d.comb += self.code.eq(ErrorCode.TUPLE_EXTERNAL)
                with m.Elif(first[0]):
                    m.d.comb += self.size.eq(first >> 1)
                with m.Elif(~tag.fits[2] | huge | (word[2:18] < 4)):
                    m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)
                with m.If(((first != p.VARATT_EXTERNAL) | (tag.fits[1] & (word[8:16] == 18))) & (self.place + self.size > self.end)):
                    m.d.comb += self.code.eq(ErrorCode.TUPLE_LENGTH)
