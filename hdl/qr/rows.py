"""A group's rows in their places, for passes over all of them."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ..index import index
from ..stream.queue import Buffer
from .barrel import shifted_right
from .dot import row_shape
from .row_requests import stride_choice, strides

__all__ = ["Rows", "rows_shape"]


def rows_shape(n_max, row_units):
    """Rows of neighbouring places; `last`: the pass ends with them, `disorder`: a row was less than the one before it, here or earlier in the pass."""
    return data.StructLayout(
        {"rows": data.ArrayLayout(row_shape(n_max), row_units), "last": 1, "disorder": 1}
    )


class Rows:
    """Adds to a module the rows of a pass, from bus words as `models.qr.image.pack_rows` lays them out: strides of a power of two, beside them a bit a place.

    A word of rows accepted in cycle t is offered from cycle t + 2 on, `row_units` rows (as many as a word has, if those are fewer) a cycle. Words follow
    each other without a gap. Labels are places.

    Parameters
    ----------
    name
        Of the buffer behind it.
    units
        Rows a cycle.
    offsets : ArrayLayout(8, n_max - 1)
        Constant from the command to the pass's last rows.
    bits, words : stream.Signature(8 * bus_bytes)
        Words of bits, and of rows. Both must come: a word of bits is needed before the first rows that it is of.

    Attributes
    ----------
    command : stream.Signature({length, span})
        The window's length, and how many places there are, ≥ 1; accepted when the last rows of the pass before have left for the output's buffer.
    o : stream.Signature(rows_shape(n_max, units))
    """

    def __init__(self, m: Module, config: FitPlan, name: str, units: int, offsets, bits, words):
        self.config, self.units, self.offsets = config, units, offsets
        n, bus, asked = config.n_max, config.bus_bytes, {"length": range(config.n_max), "span": 32}
        self.command = stream.Signature(data.StructLayout(asked)).create(path=(name,))
        self.choices = strides(bus)
        m.submodules[name] = self.out = Buffer(rows_shape(n, units))
        self.o = self.out.o
        self.active, self.go = Signal(), Signal()
        self.length, self.choice = Signal(range(n), reset_less=True), index(len(self.choices))
        self.left, self.label = Signal(32, reset_less=True), Signal(31, reset_less=True)
        self.count = Signal(range(self.units + 1))
        # rows of a word, and of a cycle
        self.holds, self.each = Signal(range(bus + 1)), Signal(range(self.units + 1))
        # asked of what is left a cycle ahead: whether any, whether no more than the rows of a cycle
        self.some, self.last = Signal(), Signal()
        self.words_held, self.bits_held = (
            SimpleNamespace(
                stream=source,
                word=Signal(8 * bus, name=f"{name}_word", reset_less=True),
                left=Signal(range(most + 1), name=f"{name}_left"),
                some=Signal(name=f"some_{name}"),
                last=Signal(name=f"last_{name}"),
            )
            for name, source, most in (("words", words, bus), ("bits", bits, 8 * bus))
        )
        self._advance(m)
        self._judge(m)
        self._begin(m)

    def _advance(self, m):
        """Rows and bits leave their words; new words come."""
        bus, rest = self.config.bus_bytes, Signal(8 * self.config.bus_bytes)
        with m.Switch(self.choice):
            for k, stride in enumerate(self.choices):
                each = min(self.units, bus // stride)
                with m.Case(k):
                    m.d.comb += [
                        self.holds.eq(bus // stride),
                        self.each.eq(each),
                        rest.eq(self.words_held.word[8 * stride * each :]),
                    ]
        m.d.comb += [
            self.count.eq(Mux(self.left < self.each, self.left, self.each)),
            self.out.i.valid.eq(self.active & self.words_held.some & self.bits_held.some),
            self.go.eq(self.out.i.valid & self.out.i.ready),
            self.command.ready.eq(~self.active),
            self.out.i.p.last.eq(self.last),
        ]
        ahead = Mux(self.go, self.each << 1, self.each)
        m.d.sync += self.last.eq(self.left <= ahead)
        with m.If(self.go):
            m.d.sync += [
                self.label.eq(self.label + self.each),
                self.left.eq(self.left - self.count),
                self.some.eq(~self.last),
            ]
            with m.If(self.last):
                m.d.sync += self.active.eq(0)
        bits_rest = shifted_right(m, self.bits_held.word, self.each, 1)
        for held, behind, full, ends_at_once in (
            (self.words_held, rest, self.holds, self.holds <= self.each),
            (self.bits_held, bits_rest, 8 * bus, 0),
        ):
            ends = held.last | self.last
            more = Mux(self.go, ~self.last, self.some)
            m.d.comb += held.stream.ready.eq(self.active & (~held.some | (self.go & ends)) & more)
            m.d.sync += held.last.eq(held.left <= ahead)
            with m.If(self.go):
                m.d.sync += [
                    held.word.eq(behind),
                    held.left.eq(Mux(ends, 0, held.left - self.each)),
                    held.some.eq(~ends),
                ]
            with m.If(held.stream.valid & held.stream.ready):
                m.d.sync += [
                    held.word.eq(held.stream.payload),
                    held.left.eq(full),
                    held.some.eq(1),
                    held.last.eq(ends_at_once),
                ]

    def _judge(self, m):
        """Which places hold rows, their labels and their order."""
        n, bus = self.config.n_max, self.config.bus_bytes
        previous = Signal(8 * (n - 1), reset_less=True)
        self.any_row, self.wrong = Signal(), Signal()
        before, any_before = previous, self.any_row
        disorder = self.wrong
        for k in range(self.units):
            row = self.out.i.p.rows[k]
            raw = Signal(8 * (n - 1), name=f"raw{k}")
            with m.Switch(self.choice):
                for choice, stride in enumerate(self.choices):
                    with m.Case(choice):
                        here = self.words_held.word[8 * stride * k : 8 * stride * (k + 1)]
                        m.d.comb += raw.eq(here if stride * (k + 1) <= bus else 0)
            use = Signal(name=f"use{k}")
            m.d.comb += [
                use.eq((k < self.count) & self.bits_held.word[k]),
                row.use.eq(use),
                row.label.eq(self.label + k),
                row.a[0].eq(1),
            ]
            for j in range(n - 1):
                with m.If(j < self.length):
                    value = raw.word_select(j, 8)
                    m.d.comb += [row.row[j].eq(value), row.a[1 + j].eq(value - self.offsets[j])]
            number = Signal(8 * (n - 1), name=f"number{k}")
            m.d.comb += number.eq(Cat(*reversed([row.row[j] for j in range(n - 1)])))
            disorder = disorder | (use & any_before & (number < before))
            before, any_before = Mux(use, number, before), any_before | use
        m.d.comb += self.out.i.p.disorder.eq(disorder)
        with m.If(self.go):
            m.d.sync += [previous.eq(before), self.any_row.eq(any_before), self.wrong.eq(disorder)]

    def _begin(self, m):
        empty = (self.any_row, self.wrong, self.label, self.words_held.some, self.bits_held.some)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.active.eq(1),
                self.some.eq(1),
                self.length.eq(self.command.p.length),
                self.left.eq(self.command.p.span),
                self.choice.eq(stride_choice(self.command.p.length, self.config.bus_bytes)),
                *(flag.eq(0) for flag in empty),
            ]
