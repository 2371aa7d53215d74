"""From exact sums to the rows that a solver loads: rounded to float32 once, the right side about the labels' mean."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.layout import ENTRY_BYTES
from ...models.qr.schedule import CONVERT, DIV, FLOOR
from ..arith.convert import pg_converter
from ..arith.pipeline import Pipeline
from ..arith.unit import unit
from ..index import index
from ..modules import Parts, Submodules
from ..stream.queue import Queue
from .gearbox import Gearbox
from .numbers import Floor
from .solver import load_shape

__all__ = ["Loader"]


class Loader(wiring.Component):
    """Takes a job's words of c and AᵀA as they go into the new memo, and gives its rows.

    Golden: `models.qr.golden.right_side`, and entries rounded as `models.qr.factor.eliminate` does. h = trunc(c_0 / rows) is computed while the rows pass; the
    right side comes `MIDDLE` + columns cycles after the last word at the latest.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

    Members
    -------
    command : In(stream.Signature({columns, job}))
        The job whose words come next; accepted when the right side of the one before has been taken.
    i : In(stream.Signature({data, gram, last}))
        As `Merge` gives them.
    o : Out(stream.Signature(load_shape(n_max, jobs)))
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None, *, src_loc_at=0):
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        super().__init__({
            "command": In(stream.Signature(data.StructLayout({"columns": range(n + 1), "job": range(max(jobs, 2))}))),
            "i": In(stream.Signature(data.StructLayout({"data": 8 * config.bus_bytes, "gram": 1, "last": 1}))),
            "o": Out(stream.Signature(load_shape(n, jobs)))}, src_loc_at=1 + src_loc_at)

    def _convert(self, m, label, value):
        """The integer (64 bits) as float32, `CONVERT` cycles later."""
        wide = Signal(signed(64), name=f"{label}_wide")
        m.d.comb += wide.eq(value)
        return self.parts.instance(m, label, "int8_float32", lambda: pg_converter(["int8"], float32), i=wide)["o"]

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        n, bus = self.config.n_max, self.config.bus_bytes
        each, width, per_word = bus // ENTRY_BYTES, 8 * ENTRY_BYTES, bus // 8
        triangle = Array([k * (k + 1) // 2 for k in range(n + 1)])
        active, columns, job = Signal(), Signal(range(n + 1)), Signal(range(max(self.config.jobs, 2)))
        m.submodules.rows = rows = Gearbox(word_units=each, unit_bits=32, chunk_units=n, count_bits=len(columns))
        depth = 2 * CONVERT
        m.submodules.queue = queue = Queue(32 * each, depth)
        m.d.comb += [
            self.command.ready.eq(~active & rows.command.ready), rows.command.valid.eq(self.command.valid & ~active),
            rows.command.p.size.eq(1), rows.command.p.grow.eq(1), rows.command.p.count.eq(self.command.p.columns),
            rows.command.p.units.eq(triangle[self.command.p.columns]),
            rows.i.payload.eq(queue.o.payload), rows.i.valid.eq(queue.o.valid), queue.o.ready.eq(rows.i.ready)]

        # words in; entries pass the converters into the queue, which has room for all that are on their way
        under_way, number = Signal(range(depth + 1)), index(-(-(n * (n + 1) // 2) // min(each, per_word)) + 1, name="number")
        taken, entries_come, arrived, all_in = Signal(), Signal(), Signal(), Signal()
        word = self.i.p.data
        m.d.comb += [self.i.ready.eq(active & ~all_in & (under_way != depth)), taken.eq(self.i.valid & self.i.ready), entries_come.eq(taken & self.i.p.gram)]
        m.d.comb += arrived.eq(queue.o.valid & queue.o.ready)
        m.d.sync += under_way.eq(under_way + entries_come - arrived)
        entries = [self._convert(m, f"entry{k}", word.word_select(k, width).as_signed()) for k in range(each)]
        m.d.comb += [queue.i.valid.eq(pipe.delay(entries_come, CONVERT, name="entries_come")), queue.i.payload.eq(Cat(entries))]
        kept_c = [Signal(signed(64), name=f"c{k}", reset_less=True) for k in range(n)]
        kept_sums = [Signal(signed(32), name=f"sum{k}", reset_less=True) for k in range(n)]
        with m.If(taken):
            m.d.sync += number.eq(number + 1)
            with m.If(self.i.p.gram):
                for k in range(n):
                    with m.If(number == k * (k + 1) // 2 // each):
                        m.d.sync += kept_sums[k].eq(word.word_select(k * (k + 1) // 2 % each, width))
            with m.Else():
                with m.If((number + 1) * per_word >= columns):
                    m.d.sync += number.eq(0)
                for k in range(n):
                    with m.If(number == k // per_word):
                        m.d.sync += kept_c[k].eq(word.word_select(k % per_word, 64))
            m.d.sync += all_in.eq(self.i.p.last)

        # h from the first word of entries on, whose first one is the number of rows
        first = pipe.delay(entries_come & (number == 0), 1, name="first")
        total, right_side = Signal(32), Signal(signed(64))
        quotient = self.parts.instance(m, "div", "div_float32", lambda: unit("div", float32), a=total, b=pipe.delay(entries[0], 1, name="count"))["o"]
        middle = self.parts.instance(m, "floor", "qr_floor", Floor, a=quotient)["label"]
        h, known = Signal(31, reset_less=True), Signal()
        with m.If(pipe.delay(first, CONVERT + DIV + FLOOR, name="first_h")):
            m.d.sync += [h.eq(middle), known.eq(1)]
        h_code = self._convert(m, "h", h)

        # c - h · sums, one column a cycle, exact; then rounded
        place, going = Signal(range(n + 1)), Signal()
        m.d.comb += going.eq(active & all_in & known & (place != columns))
        with m.If(going):
            m.d.sync += place.eq(place + 1)
        s = pipe.rank(going=going, place=place, c=Array(kept_c)[place], sum=Array(kept_sums)[place])
        s = pipe.rank(going=s.going, place=s.place, c=s.c, product=h.as_unsigned() * s.sum)
        s = pipe.rank(going=s.going, place=s.place, difference=(s.c - s.product)[:64].as_signed())
        # c_0 before there is an h, the right side behind it
        code = self._convert(m, "side", right_side)
        m.d.comb += [right_side.eq(Mux(known, s.difference, kept_c[0])), total.eq(code)]
        comes, where = pipe.delay(s.going, CONVERT, name="comes"), pipe.delay(s.place, CONVERT, name="where")
        side, full = [Signal(32, name=f"side{k}", reset_less=True) for k in range(n)], Signal()
        with m.If(comes):
            m.d.sync += full.eq(where == columns - 1)
            for k in range(n):
                with m.If(where == k):
                    m.d.sync += side[k].eq(code)

        # rows out, the right side last
        row, last = Signal(range(n + 1)), Signal()
        m.d.comb += [
            last.eq(rows.o.p.end), self.o.valid.eq(rows.o.valid & (~last | full)), rows.o.ready.eq(self.o.ready & (~last | full)),
            self.o.p.columns.eq(columns), self.o.p.row.eq(row), self.o.p.side.eq(last), self.o.p.h.eq(h_code), self.o.p.job.eq(job)]
        for k in range(n):
            with m.If(last):
                m.d.comb += self.o.p.values[k].eq(side[k])
            with m.Else():
                m.d.comb += self.o.p.values[k].eq(rows.o.p.data.word_select(k, 32))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += row.eq(row + 1)
            with m.If(last):
                m.d.sync += active.eq(0)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [active.eq(1), columns.eq(self.command.p.columns), job.eq(self.command.p.job), number.eq(0), all_in.eq(0), known.eq(0), place.eq(0),
                         full.eq(0), row.eq(0), *(value.eq(0) for value in side)]
        return m
