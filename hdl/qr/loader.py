"""From exact sums to the rows that a solver loads: rounded to float32 once, the right side about the labels' mean."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.layout import ENTRY_BYTES, entries, entry_counts
from ...models.qr.schedule import CONVERT, DIV, FLOOR
from ..arith.pipeline import Pipeline
from ..index import index
from ..modules import Parts
from ..stream.passing import fields
from ..stream.queue import Queue
from .gearbox import Gearbox
from .numbers import Floor, as_float32, operation
from .solver import load_shape

#: bits of an entry; words on their way through the converters
_WIDTH, _DEPTH = 8 * ENTRY_BYTES, 2 * CONVERT


class Loader:
    """Adds to the engine's module what takes a job's words of c and AᵀA as they go into the new memo, and gives its rows.

    Golden: `models.qr.golden.right_side`, and entries rounded as `models.qr.factor.eliminate` does. h = trunc(c_0 / rows) is computed while the rows pass; the
    right side comes `MIDDLE` + columns cycles after the last word at the latest.

    Parameters
    ----------
    i : stream.Signature({data, gram, last})
        As `Merge` gives them.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, i):
        self.config, self.parts, self.pipe = config, parts, Pipeline(m)
        n, jobs, bus = config.n_max, config.jobs, config.bus_bytes
        self.i, self.n, number = i, n, range(max(jobs, 2))
        asked = data.StructLayout({"columns": range(n + 1), "job": number})
        # the job whose words come next; accepted when the right side of the one before has been
        # taken
        self.command = stream.Signature(asked).create(path=("load_command",))
        self.o = stream.Signature(load_shape(n, jobs)).create(path=("load_row",))
        self.each, self.per_word = bus // ENTRY_BYTES, bus // 8
        givens, counts = self.config.method is Method.GIVENS, entry_counts(self.config)
        places = entries(self.config.method, self.n)
        self.sums = [places.index((0, k)) for k in range(self.n)]
        self.active, self.columns, self.job = Signal(), Signal(range(n + 1)), Signal(number)
        m.submodules.load_queue = self.queue = Queue(32 * self.each, _DEPTH)
        self.rows = Gearbox(m, "load", self.queue.o, n, count_bits=len(self.columns))
        m.d.comb += [
            self.command.ready.eq(~self.active & self.rows.command.ready),
            self.rows.command.valid.eq(self.command.valid & ~self.active),
            *fields(self.rows.command.p, size=2 if givens else 1, grow=not givens),
            self.rows.command.p.count.eq(self.command.p.columns),
            self.rows.command.p.units.eq(Array(counts)[self.command.p.columns]),
        ]
        self._words_in(m)
        self._mean(m)
        self._right_side(m)
        self._rows_out(m)

    def _words_in(self, m):
        """Words in; entries pass the converters into the queue, which has room for all that are on their way."""
        under_way, word = Signal(range(_DEPTH + 1)), self.i.p.data
        words = -(-entry_counts(self.config)[-1] // self.each), -(-self.n // self.per_word)
        self.number = index(max(words) + 1, name="number")
        taken = Signal()
        arrived = Signal()
        self.entries_come = Signal()
        self.all_in = Signal()
        m.d.comb += [
            self.i.ready.eq(self.active & ~self.all_in & (under_way != _DEPTH)),
            taken.eq(self.i.valid & self.i.ready),
            self.entries_come.eq(taken & self.i.p.gram),
            arrived.eq(self.queue.o.valid & self.queue.o.ready),
        ]
        m.d.sync += under_way.eq(under_way + self.entries_come - arrived)
        integers = (word.word_select(k, _WIDTH).as_signed() for k in range(self.each))
        self.entries = [as_float32(self.parts, m, f"entry{k}", x) for k, x in enumerate(integers)]
        m.d.comb += [
            self.queue.i.valid.eq(self.pipe.delay(self.entries_come, CONVERT, name="entries_come")),
            self.queue.i.payload.eq(Cat(self.entries)),
        ]
        self.kept_c, self.kept_sums = (
            [Signal(signed(bits), name=f"{name}{k}", reset_less=True) for k in range(self.n)]
            for name, bits in (("c", 64), ("sum", 32))
        )
        with m.If(taken):
            of_c = ~self.i.p.gram
            end = of_c & ((self.number + 1) * self.per_word >= self.columns)
            m.d.sync += self.number.eq(Mux(end, 0, self.number + 1))
            m.d.sync += self.all_in.eq(self.i.p.last)
            for k, at in enumerate(self.sums):
                with m.If(self.i.p.gram & (self.number == at // self.each)):
                    m.d.sync += self.kept_sums[k].eq(word.word_select(at % self.each, _WIDTH))
                with m.If(of_c & (self.number == k // self.per_word)):
                    m.d.sync += self.kept_c[k].eq(word.word_select(k % self.per_word, 64))

    def _mean(self, m):
        """h from the first word of entries on, whose first one is the number of rows."""
        first = self.pipe.delay(self.entries_come & (self.number == 0), 1, name="first")
        self.total, self.right_side = Signal(32), Signal(signed(64))
        count = self.pipe.delay(self.entries[0], 1, name="count")
        quotient = operation(self.parts, m, "mean", "div", self.total, count)
        middle = self.parts.instance(m, "mean_floor", "qr_floor", Floor, a=quotient)["label"]
        self.h, self.known = Signal(31, reset_less=True), Signal()
        with m.If(self.pipe.delay(first, CONVERT + DIV + FLOOR, name="first_h")):
            m.d.sync += [self.h.eq(middle), self.known.eq(1)]
        self.h_code = as_float32(self.parts, m, "h", self.h)

    def _right_side(self, m):
        """c - h · sums, one column a cycle, exact; then rounded."""
        self.place, going = Signal(range(self.n + 1)), Signal()
        m.d.comb += going.eq(self.active & self.all_in & self.known & (self.place != self.columns))
        with m.If(going):
            m.d.sync += self.place.eq(self.place + 1)
        c, total = (Array(of)[self.place] for of in (self.kept_c, self.kept_sums))
        s = self.pipe.rank(going=going, place=self.place, c=c, sum=total)
        product = self.h.as_unsigned() * s.sum
        s = self.pipe.rank(going=s.going, place=s.place, c=s.c, product=product)
        difference = (s.c - s.product)[:64].as_signed()
        s = self.pipe.rank(going=s.going, place=s.place, difference=difference)
        # c_0 before there is an h, the right side behind it
        code = as_float32(self.parts, m, "side", self.right_side)
        m.d.comb += self.right_side.eq(Mux(self.known, s.difference, self.kept_c[0]))
        m.d.comb += self.total.eq(code)
        comes = self.pipe.delay(s.going, CONVERT, name="comes")
        where = self.pipe.delay(s.place, CONVERT, name="where")
        self.side = [Signal(32, name=f"side{k}", reset_less=True) for k in range(self.n)]
        self.full = Signal()
        with m.If(comes):
            m.d.sync += self.full.eq(where == self.columns - 1)
            for k in range(self.n):
                with m.If(where == k):
                    m.d.sync += self.side[k].eq(code)

    def _rows_out(self, m):
        """Rows out, the right side last."""
        row, last = Signal(range(self.n + 1)), Signal()
        m.d.comb += [
            last.eq(self.rows.o.p.end),
            self.o.valid.eq(self.rows.o.valid & (~last | self.full)),
            self.rows.o.ready.eq(self.o.ready & (~last | self.full)),
            *fields(
                self.o.p, columns=self.columns, row=row, side=last, h=self.h_code, job=self.job
            ),
        ]
        for k in range(self.n):
            here = self.rows.o.p.data.word_select(k, 32)
            m.d.comb += self.o.p.values[k].eq(Mux(last, self.side[k], here))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += row.eq(row + 1)
            with m.If(last):
                m.d.sync += self.active.eq(0)
        with m.If(self.command.valid & self.command.ready):
            anew = (self.number, self.all_in, self.known, self.place, self.full, row, *self.side)
            m.d.sync += [
                *fields(self, active=1, columns=self.command.p.columns, job=self.command.p.job),
                *(value.eq(0) for value in anew),
            ]
