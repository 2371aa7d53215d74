"""A group's rows in their places, for passes over all of them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.job import Label
from ..stream.queue import Buffer
from .barrel import shifted_right
from .dot import row_shape
from .row_requests import stride_choice, strides

__all__ = ["Rows", "rows_shape"]


def rows_shape(n_max, row_units):
    """Rows of neighbouring places; `last`: the pass ends with them, `disorder`: a live row was less than the one before it, here or earlier in the pass."""
    return data.StructLayout({"rows": data.ArrayLayout(row_shape(n_max), row_units), "last": 1, "disorder": 1})


class Rows(wiring.Component):
    """Rows of a pass from bus words as `models.qr.image.pack_rows` lays them out: strides of a power of two, beside them a bit a place.

    A word of rows accepted in cycle t is offered from cycle t + 2 on, `row_units` rows (as many as a word has, if those are fewer) a cycle. Words follow
    each other without a gap. Labels are places (target `slot`), or how many live rows lie before (`rank`; then every place holds a row, and all are compared).

    Parameters
    ----------
    config
        `models.qr.FitPlan`.
    units
        Rows a cycle, if not `row_units`.

    Members
    -------
    command : In(stream.Signature({length, span}))
        The window's length, and how many places there are, ≥ 1; accepted when the last rows of the pass before have left for the output's buffer.
    offsets : In(ArrayLayout(8, n_max - 1))
        Constant from the command to the pass's last rows.
    bits : In(stream.Signature(8 * bus_bytes)), words : In(stream.Signature(8 * bus_bytes))
        Words of bits, and of rows. Both must come: a word of bits is needed before the first rows that it is of.
    o : Out(stream.Signature(rows_shape(n_max, row_units)))

    Raises
    ------
    ValueError
        A bus word is smaller than a row.
    """

    def __init__(self, config: FitPlan, *, units: int | None = None, src_loc_at=0):
        self.config, self.units = config, config.row_units if units is None else units
        n, bus = config.n_max, 8 * config.bus_bytes
        super().__init__({
            "command": In(stream.Signature(data.StructLayout({"length": range(n), "span": 32}))), "offsets": In(data.ArrayLayout(8, n - 1)),
            "bits": In(stream.Signature(bus)), "words": In(stream.Signature(bus)), "o": Out(stream.Signature(rows_shape(n, self.units)))},
            src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        n, bus, units = self.config.n_max, self.config.bus_bytes, self.units
        if bus < max(4, 1 << (n - 2).bit_length()):
            raise ValueError(f"a bus word of {bus} bytes does not hold a row of {n} columns")
        m.submodules.out = out = Buffer(rows_shape(n, units))
        m.d.comb += [self.o.payload.eq(out.o.payload), self.o.valid.eq(out.o.valid), out.o.ready.eq(self.o.ready)]

        next_label = Signal(32)
        active, length, left, label = Signal(), Signal(range(n), reset_less=True), Signal(32, reset_less=True), Signal(31, reset_less=True)
        choices = strides(bus)
        choice = Signal(range(max(len(choices), 2)))             # of the stride
        rest = Signal(8 * bus)                                   # the word without the rows that go
        word, word_left = Signal(8 * bus, reset_less=True), Signal(range(bus + 1))      # and how many of its rows are left
        bits, bits_left = Signal(8 * bus, reset_less=True), Signal(range(8 * bus + 1))
        each, holds = Signal(range(units + 1)), Signal(range(bus + 1))     # rows a cycle, rows of a word
        count = Signal(range(units + 1))
        go, word_ends, bits_end = Signal(), Signal(), Signal()
        # what is asked of the three counts, a cycle ahead: any left, no more than the rows of a cycle
        some, some_word, some_bits, last, last_word, last_bits = (Signal(name=name) for name in ("some_left", "some_word", "some_bits", "last", "last_word",
                                                                                                   "last_bits"))
        with m.Switch(choice):
            for k, stride in enumerate(choices):
                with m.Case(k):
                    m.d.comb += [holds.eq(bus // stride), each.eq(min(units, bus // stride)), rest.eq(word[8 * stride * min(units, bus // stride):])]
        m.d.comb += [
            count.eq(Mux(left < each, left, each)), out.i.valid.eq(active & some_word & some_bits), go.eq(out.i.valid & out.i.ready),
            word_ends.eq(last_word | last), bits_end.eq(last_bits | last),
            self.words.ready.eq(active & (~some_word | (go & word_ends)) & Mux(go, ~last, some)),
            self.bits.ready.eq(active & (~some_bits | (go & bits_end)) & Mux(go, ~last, some)),
            self.command.ready.eq(~active), out.i.p.last.eq(last)]
        twice = each << 1
        m.d.sync += [last.eq(Mux(go, left <= twice, left <= each)), last_word.eq(Mux(go, word_left <= twice, word_left <= each)),
                     last_bits.eq(Mux(go, bits_left <= twice, bits_left <= each))]
        bits_rest = shifted_right(m, bits, each, 1)
        with m.If(go):
            m.d.sync += [word.eq(rest), bits.eq(bits_rest), word_left.eq(Mux(word_ends, 0, word_left - each)), label.eq(next_label),
                         bits_left.eq(Mux(bits_end, 0, bits_left - each)), left.eq(left - count)]
            m.d.sync += [some.eq(~last), some_word.eq(~word_ends), some_bits.eq(~bits_end)]
            with m.If(last):
                m.d.sync += active.eq(0)
        with m.If(self.words.valid & self.words.ready):
            m.d.sync += [word.eq(self.words.payload), word_left.eq(holds), some_word.eq(1), last_word.eq(holds <= each)]
        with m.If(self.bits.valid & self.bits.ready):
            m.d.sync += [bits.eq(self.bits.payload), bits_left.eq(8 * bus), some_bits.eq(1), last_bits.eq(0)]

        previous, any_row, wrong = Signal(8 * (n - 1), reset_less=True), Signal(), Signal()
        before, any_before, disorder = previous, any_row, wrong
        dense = self.config.target is Label.RANK
        lives = Const(0, 1)
        for k in range(units):
            row = out.i.p.rows[k]
            raw = Signal(8 * (n - 1), name=f"raw{k}")
            with m.Switch(choice):
                for number, stride in enumerate(choices):
                    with m.Case(number):
                        m.d.comb += raw.eq(word[8 * stride * k:8 * stride * (k + 1)] if stride * (k + 1) <= bus else 0)
            values = [Mux(j < length, raw.word_select(j, 8), 0)[:8] for j in range(n - 1)]
            use = Signal(name=f"use{k}")
            m.d.comb += [use.eq((k < count) & bits[k]), row.use.eq(use), row.label.eq(label + (lives if dense else k)), row.a[0].eq(1)]
            lives = lives + use
            for j, value in enumerate(values):
                m.d.comb += row.row[j].eq(value)
                with m.If(j < length):
                    m.d.comb += row.a[1 + j].eq(value - self.offsets[j])
            number = Signal(8 * (n - 1), name=f"number{k}")
            m.d.comb += number.eq(Cat(*reversed(values)))
            seen = (k < count) if dense else use
            disorder = disorder | (seen & any_before & (number < before))
            before, any_before = Mux(seen, number, before), any_before | seen
        m.d.comb += [out.i.p.disorder.eq(disorder), next_label.eq(label + (lives if dense else each))]
        with m.If(go):
            m.d.sync += [previous.eq(before), any_row.eq(any_before), wrong.eq(disorder)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [active.eq(1), length.eq(self.command.p.length), left.eq(self.command.p.span), label.eq(0), any_row.eq(0), wrong.eq(0), some.eq(1),
                         some_word.eq(0), some_bits.eq(0)]
            m.d.sync += choice.eq(stride_choice(self.command.p.length, bus))
        return m
