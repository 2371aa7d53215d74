"""A group's rows in their places, for passes over all of them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.job import Label
from ..stream.passing import passed_on
from ..stream.queue import Buffer
from .barrel import shifted_right
from .dot import row_shape
from .row_requests import stride_choice, strides

__all__ = ["Rows", "rows_shape"]


def rows_shape(n_max, row_units):
    """Rows of neighbouring places; `last`: the pass ends with them, `disorder`: a live row was less than the one before it, here or earlier in the pass."""
    return data.StructLayout(
        {"rows": data.ArrayLayout(row_shape(n_max), row_units), "last": 1, "disorder": 1}
    )


class Rows(wiring.Component):
    """Rows of a pass from bus words as `models.qr.image.pack_rows` lays them out: strides of a power of two, beside them a bit a place.

    A word of rows accepted in cycle t is offered from cycle t + 2 on, `row_units` rows (as many as a word has, if those are fewer) a cycle. Words follow
    each other without a gap. Labels are places (target `slot`), or how many live rows lie before (`rank`; then every place holds a row, and all are compared).

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.
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

    def __init__(self, config: FitPlan, *, units: int | None = None):
        self.config, self.units = config, config.row_units if units is None else units
        n, bus = config.n_max, 8 * config.bus_bytes
        super().__init__(
            {
                "command": In(
                    stream.Signature(data.StructLayout({"length": range(n), "span": 32}))
                ),
                "offsets": In(data.ArrayLayout(8, n - 1)),
                "bits": In(stream.Signature(bus)),
                "words": In(stream.Signature(bus)),
                "o": Out(stream.Signature(rows_shape(n, self.units))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if self.config.bus_bytes < max(4, 1 << (self.config.n_max - 2).bit_length()):
            raise ValueError(
                f"a bus word of {self.config.bus_bytes} bytes does not hold a row of {self.config.n_max} columns"
            )
        m.submodules.out = self.out = Buffer(rows_shape(self.config.n_max, self.units))
        m.d.comb += passed_on(self.out.o, self.o)

        self._registers(m)
        self._advance(m)
        self._judge(m)
        return m

    def _registers(self, m):
        """What is left of the words of rows and of bits."""
        self.next_label = Signal(32)
        self.active = Signal()
        self.length = Signal(range(self.config.n_max), reset_less=True)
        self.left = Signal(32, reset_less=True)
        self.label = Signal(31, reset_less=True)
        self.choices = strides(self.config.bus_bytes)
        self.choice = Signal(range(max(len(self.choices), 2)))  # of the stride
        self.rest = Signal(8 * self.config.bus_bytes)  # the word without the rows that go
        self.word, self.word_left = (
            Signal(8 * self.config.bus_bytes, reset_less=True),
            Signal(range(self.config.bus_bytes + 1)),
        )  # and how many of its rows are left
        self.bits_word, self.bits_left = (
            Signal(8 * self.config.bus_bytes, reset_less=True),
            Signal(range(8 * self.config.bus_bytes + 1)),
        )
        self.each, self.holds = (
            Signal(range(self.units + 1)),
            Signal(range(self.config.bus_bytes + 1)),
        )  # rows a cycle, rows of a word
        self.count = Signal(range(self.units + 1))
        self.go = Signal()
        self.word_ends = Signal()
        self.bits_end = Signal()
        # what is asked of the three counts, a cycle ahead: any left, no more than the rows of a cycle
        self.some, self.some_word, self.some_bits, self.last, self.last_word, self.last_bits = (
            Signal(name=name)
            for name in ("some_left", "some_word", "some_bits", "last", "last_word", "last_bits")
        )

    def _advance(self, m):
        """Rows and bits leave their words; new words come."""
        with m.Switch(self.choice):
            for k, stride in enumerate(self.choices):
                with m.Case(k):
                    m.d.comb += [
                        self.holds.eq(self.config.bus_bytes // stride),
                        self.each.eq(min(self.units, self.config.bus_bytes // stride)),
                        self.rest.eq(
                            self.word[
                                8 * stride * min(self.units, self.config.bus_bytes // stride) :
                            ]
                        ),
                    ]
        m.d.comb += [
            self.count.eq(Mux(self.left < self.each, self.left, self.each)),
            self.out.i.valid.eq(self.active & self.some_word & self.some_bits),
            self.go.eq(self.out.i.valid & self.out.i.ready),
            self.word_ends.eq(self.last_word | self.last),
            self.bits_end.eq(self.last_bits | self.last),
            self.words.ready.eq(
                self.active
                & (~self.some_word | (self.go & self.word_ends))
                & Mux(self.go, ~self.last, self.some)
            ),
            self.bits.ready.eq(
                self.active
                & (~self.some_bits | (self.go & self.bits_end))
                & Mux(self.go, ~self.last, self.some)
            ),
            self.command.ready.eq(~self.active),
            self.out.i.p.last.eq(self.last),
        ]
        twice = self.each << 1
        m.d.sync += [
            self.last.eq(Mux(self.go, self.left <= twice, self.left <= self.each)),
            self.last_word.eq(Mux(self.go, self.word_left <= twice, self.word_left <= self.each)),
            self.last_bits.eq(Mux(self.go, self.bits_left <= twice, self.bits_left <= self.each)),
        ]
        bits_rest = shifted_right(m, self.bits_word, self.each, 1)
        with m.If(self.go):
            m.d.sync += [
                self.word.eq(self.rest),
                self.bits_word.eq(bits_rest),
                self.word_left.eq(Mux(self.word_ends, 0, self.word_left - self.each)),
                self.label.eq(self.next_label),
                self.bits_left.eq(Mux(self.bits_end, 0, self.bits_left - self.each)),
                self.left.eq(self.left - self.count),
            ]
            m.d.sync += [
                self.some.eq(~self.last),
                self.some_word.eq(~self.word_ends),
                self.some_bits.eq(~self.bits_end),
            ]
            with m.If(self.last):
                m.d.sync += self.active.eq(0)
        with m.If(self.words.valid & self.words.ready):
            m.d.sync += [
                self.word.eq(self.words.payload),
                self.word_left.eq(self.holds),
                self.some_word.eq(1),
                self.last_word.eq(self.holds <= self.each),
            ]
        with m.If(self.bits.valid & self.bits.ready):
            m.d.sync += [
                self.bits_word.eq(self.bits.payload),
                self.bits_left.eq(8 * self.config.bus_bytes),
                self.some_bits.eq(1),
                self.last_bits.eq(0),
            ]

    def _judge(self, m):
        """Which places hold rows, their labels and their order."""
        previous = Signal(8 * (self.config.n_max - 1), reset_less=True)
        any_row = Signal()
        wrong = Signal()
        before = previous
        any_before = any_row
        disorder = wrong
        dense = self.config.target is Label.RANK
        lives = Const(0, 1)
        for k in range(self.units):
            row = self.out.i.p.rows[k]
            raw = Signal(8 * (self.config.n_max - 1), name=f"raw{k}")
            with m.Switch(self.choice):
                for number, stride in enumerate(self.choices):
                    with m.Case(number):
                        m.d.comb += raw.eq(
                            self.word[8 * stride * k : 8 * stride * (k + 1)]
                            if stride * (k + 1) <= self.config.bus_bytes
                            else 0
                        )
            values = [
                Mux(j < self.length, raw.word_select(j, 8), 0)[:8]
                for j in range(self.config.n_max - 1)
            ]
            use = Signal(name=f"use{k}")
            m.d.comb += [
                use.eq((k < self.count) & self.bits_word[k]),
                row.use.eq(use),
                row.label.eq(self.label + (lives if dense else k)),
                row.a[0].eq(1),
            ]
            lives = lives + use
            for j, value in enumerate(values):
                m.d.comb += row.row[j].eq(value)
                with m.If(j < self.length):
                    m.d.comb += row.a[1 + j].eq(value - self.offsets[j])
            number = Signal(8 * (self.config.n_max - 1), name=f"number{k}")
            m.d.comb += number.eq(Cat(*reversed(values)))
            seen = (k < self.count) if dense else use
            disorder = disorder | (seen & any_before & (number < before))
            before, any_before = Mux(seen, number, before), any_before | seen
        m.d.comb += [
            self.out.i.p.disorder.eq(disorder),
            self.next_label.eq(self.label + (lives if dense else self.each)),
        ]
        with m.If(self.go):
            m.d.sync += [previous.eq(before), any_row.eq(any_before), wrong.eq(disorder)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.active.eq(1),
                self.length.eq(self.command.p.length),
                self.left.eq(self.command.p.span),
                self.label.eq(0),
                any_row.eq(0),
                wrong.eq(0),
                self.some.eq(1),
                self.some_word.eq(0),
                self.some_bits.eq(0),
            ]
            m.d.sync += self.choice.eq(stride_choice(self.command.p.length, self.config.bus_bytes))
