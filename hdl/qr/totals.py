"""Sums of method `givens`: what a job's rows add to c = Aᵀb, to the column sums and to the sums of squares; the memo's brought up to date; right sides."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.schedule import CONVERT, DIV, FLOOR
from ..arith.pipeline import Pipeline
from ..arith.unit import unit
from ..modules import Parts, Submodules
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .gearbox import Gearbox
from .givens import side_column_shape
from .numbers import Floor, as_float32
from .records import record_shape
from .solver import _scaled

__all__ = ["Refresh", "Totals"]

_WIDE = 64


class Totals(wiring.Component):
    """Adds up the records of one job after the other, a record a cycle; while one job's sums are read, the next job's grow.

    Golden: differences of `models.qr.normal_equations.update_sums` to the memo.

    Members
    -------
    i : In(stream.Signature(record_shape(n_max)))
    done : Out(stream.Signature({live, code}))
        Offered while a finished job's sums can be read, from 3 cycles after its end on; taking it frees them.
    part, column : In
        Which sum is wanted: of c (0), of a column (1), of its squares (2).
    value : Out(signed(64))
        It, in the same cycle.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(record_shape(config.n_max))),
                "done": Out(stream.Signature(data.StructLayout({"live": signed(25), "code": 8}))),
                "part": In(2),
                "column": In(range(config.n_max)),
                "value": Out(signed(_WIDE)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        record, n = self.i.p, self.config.n_max
        full = Signal()
        live = Signal(signed(25))
        settled = Signal(data.StructLayout({"live": signed(25), "code": 8}))
        closing = Signal(2)  # the end's way through the products
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(~closing.any() & ~(record.end & full)),
            self.done.valid.eq(full),
            self.done.payload.eq(settled),
        ]
        m.d.sync += closing.eq(Cat(taken & record.end, closing[0]))
        with m.If(taken):
            m.d.sync += live.eq(live + record.live)
            with m.If(record.end):
                m.d.sync += [
                    live.eq(0),
                    settled.live.eq(live + record.live),
                    settled.code.eq(record.code),
                ]
        with m.If(self.done.valid & self.done.ready):
            m.d.sync += full.eq(0)
        with m.If(closing[1]):
            m.d.sync += full.eq(1)
        value, sign = Signal(signed(32)), Signal(signed(2))
        m.d.sync += [value.eq(Mux(taken, record.value, 0)), sign.eq(Mux(taken, record.sign, 0))]
        parts: list[list[Value]] = [[], [], []]
        for k in range(n):
            a = Signal(signed(9), name=f"a{k}")
            m.d.sync += a.eq(record.a[k])
            for part, (width, term) in enumerate(
                (
                    (_WIDE, a * value),
                    (34, Mux(sign == 0, 0, Mux(sign < 0, -a, a))),
                    (42, Mux(sign == 0, 0, Mux(sign < 0, -(a * a), a * a))),
                )
            ):
                product, held, kept = (
                    Signal(signed(bits), name=f"{name}{part}_{k}")
                    for name, bits in (("product", len(term)), ("held", width), ("kept", width))
                )
                total = Signal(signed(width), name=f"total{part}_{k}")
                m.d.sync += product.eq(term)
                m.d.comb += total.eq(held + product)
                m.d.sync += held.eq(Mux(closing[1], 0, total))
                with m.If(closing[1]):
                    m.d.sync += kept.eq(total)
                parts[part].append(kept)
        m.d.comb += self.value.eq(Array([Array(part)[self.column] for part in parts])[self.part])
        return m


class Refresh(wiring.Component):
    """A memo's sums brought up to date, one a cycle, in the layout of `models.qr.memo_image.pack_memo`; then the right side for the solver.

    A job of n columns occupies it 3 n cycles and a few, n + 2 + CONVERT + DIV + FLOOR before the squares at least. Golden: `models.qr.golden.right_side`, and
    the limits of `models.qr.factor.full_rank`.

    Members
    -------
    command : In(stream.Signature({columns, fresh}))
        A job whose sums the `Totals` offer. `fresh`: there is no memo, and no words come.
    i : In(stream.Signature(8 * bus_bytes))
        Words of c (where it comes from a pass there are none: it is what the `Totals` have), then of the column sums with the sums of squares behind them.
    part, column : Out, value : In
        To the `Totals`.
    o : Out(stream.Signature({data, gram, last}))
        New words (`gram`: not of c). When the last one is taken the `Totals` may be freed.
    side : Out(stream.Signature(side_column_shape()))
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        n, bus = config.n_max, 8 * config.bus_bytes
        super().__init__(
            {
                "command": In(
                    stream.Signature(data.StructLayout({"columns": range(n + 1), "fresh": 1}))
                ),
                "i": In(stream.Signature(bus)),
                "part": Out(2),
                "column": Out(range(n)),
                "value": In(signed(_WIDE)),
                "o": Out(stream.Signature(data.StructLayout({"data": bus, "gram": 1, "last": 1}))),
                "side": Out(stream.Signature(side_column_shape())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self.n, self.each = self.config.n_max, self.config.bus_bytes // 8
        self.active = Signal()
        self.fresh = Signal()
        self.columns = Signal(range(self.n + 1))
        self.asked = Signal(2)
        m.submodules.cutter = self.cutter = Gearbox(
            word_units=self.each, unit_bits=_WIDE, chunk_units=1, count_bits=len(self.columns) + 1
        )
        m.submodules.out = self.out = Queue(self.o.payload.shape(), 2)
        self.depth = 2 * CONVERT + 8
        m.submodules.waiting = self.waiting = Queue(side_column_shape(), self.depth)
        m.d.comb += [
            self.command.ready.eq(~self.active),
            *passed_on(self.i, self.cutter.i),
            self.cutter.command.valid.eq(self.active & ~self.fresh & (self.asked != 2)),
            self.cutter.command.p.size.eq(1),
            self.cutter.command.p.count.eq(Mux(self.asked == 0, self.columns, self.columns << 1)),
            self.cutter.command.p.units.eq(self.cutter.command.p.count),
            *passed_on(self.out.o, self.o),
            *passed_on(self.waiting.o, self.side),
        ]
        with m.If(self.cutter.command.valid & self.cutter.command.ready):
            m.d.sync += self.asked.eq(self.asked + 1)

        self._sums(m)
        self._mean(m)

        self._side(m)
        return m

    def _sums(self, m):
        """One sum after the other."""
        place = Signal(range(max(self.each, 2)))
        self.known = Signal()
        under_way = Signal(range(self.depth + 1))
        self.take = Signal()
        # none: no word of the memo has this sum
        self.last = Signal()
        whole = Signal()
        none = Signal()
        self.sent, taken = Signal(), self.side.valid & self.side.ready
        m.d.comb += [
            none.eq(self.fresh | ((not self.config.incremental) & (self.part == 0))),
            self.take.eq(
                self.active
                & (none | (self.cutter.o.valid & ~self.cutter.o.p.end))
                & self.out.i.ready
                & ((self.part != 2) | (self.known & (under_way != self.depth)))
            ),
            self.cutter.o.ready.eq(self.cutter.o.p.end | (self.take & ~none)),
            self.last.eq(self.column == self.columns - 1),
            whole.eq((place == self.each - 1) | (self.last & (self.part != 1))),
            self.sent.eq(self.take & (self.part == 2)),
        ]
        m.d.sync += under_way.eq(under_way + self.sent - taken)
        self.new, word = Signal(signed(_WIDE)), Signal(8 * self.config.bus_bytes)
        m.d.comb += self.new.eq(Mux(none, 0, self.cutter.o.p.data.as_signed()) + self.value)
        filled = word | (self.new.as_unsigned() << (place * _WIDE))
        m.d.comb += [
            self.out.i.valid.eq(self.take & whole),
            self.out.i.p.data.eq(filled),
            self.out.i.p.gram.eq(self.part != 0),
            self.out.i.p.last.eq(self.last & (self.part == 2)),
        ]
        with m.If(self.take):
            m.d.sync += [
                word.eq(Mux(whole, 0, filled)),
                place.eq(Mux(whole, 0, place + 1)),
                self.column.eq(Mux(self.last, 0, self.column + 1)),
                self.part.eq(self.part + self.last),
            ]
            with m.If(self.last & (self.part == 2)):
                m.d.sync += self.active.eq(0)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.active.eq(1),
                self.fresh.eq(self.command.p.fresh),
                self.columns.eq(self.command.p.columns),
                self.asked.eq(not self.config.incremental),
                self.part.eq(0),
                self.column.eq(0),
                place.eq(0),
                word.eq(0),
                self.known.eq(0),
            ]

    def _mean(self, m):
        """h as soon as the number of rows is known."""
        first = Signal(signed(_WIDE))
        rows = Signal(signed(_WIDE))
        with m.If(self.take & (self.column == 0)):
            with m.If(self.part == 0):
                m.d.sync += first.eq(self.new)
            with m.If(self.part == 1):
                m.d.sync += rows.eq(self.new)
        begins = self.pipe.delay(
            self.take & (self.column == 0) & (self.part == 1), 1, name="begins"
        )
        quotient = self.parts.instance(
            m,
            "div",
            "div_float32",
            lambda: unit("div", float32),
            a=as_float32(self.parts, m, "total", first),
            b=as_float32(self.parts, m, "count", rows),
        )["o"]
        middle = self.parts.instance(m, "floor", "qr_floor", Floor, a=quotient)["label"]
        self.h = Signal(31)
        with m.If(self.pipe.delay(begins, CONVERT + DIV + FLOOR, name="ends")):
            m.d.sync += [self.h.eq(middle), self.known.eq(1)]
        self.h_code = as_float32(self.parts, m, "h", self.h)

    def _side(self, m):
        """c - h · sums, and the limit, beside the squares."""
        kept = {}
        for name, width, number in (("c", _WIDE, 0), ("sums", 34, 1)):
            m.submodules[f"kept_{name}"] = memory = Memory(
                shape=unsigned(width), depth=self.n, init=[]
            )
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(self.take & (self.part == number)),
                write.addr.eq(self.column),
                write.data.eq(self.new),
                read.addr.eq(self.column),
                read.en.eq(1),
            ]
            kept[name] = read.data.as_signed()
        s = self.pipe.rank(some=self.sent, square=self.new, last=self.last)
        s = self.pipe.rank(
            some=s.some,
            square=s.square,
            last=s.last,
            c=kept["c"],
            product=self.h.as_unsigned() * kept["sums"],
        )
        s = self.pipe.rank(
            some=s.some,
            square=s.square,
            last=s.last,
            difference=(s.c - s.product)[:_WIDE].as_signed(),
        )
        value = as_float32(self.parts, m, "value", s.difference)
        square = as_float32(self.parts, m, "square", s.square)
        m.d.comb += [
            self.waiting.i.valid.eq(self.pipe.delay(s.some, CONVERT, name="comes")),
            self.waiting.i.p.last.eq(self.pipe.delay(s.last, CONVERT, name="last_comes")),
            self.waiting.i.p.value.eq(value),
            self.waiting.i.p.limit.eq(_scaled(square)),
            self.waiting.i.p.h.eq(self.h_code),
        ]
