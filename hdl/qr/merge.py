"""The memo's c and AᵀA brought up to date: its words plus what the job's changes add."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.layout import ENTRY_BYTES, entry_counts
from .normal_equations import entries_shape, right_hand_side_shape

__all__ = ["Merge"]


class Merge(wiring.Component):
    """Adds a `NormalEquationAccumulator`'s sums to the words of a memo's parts c and AᵀA, in the layout of `models.qr.memo_image.pack_memo`;
    without a memo to none.

    A word accepted in cycle t is offered in cycle t + 2; one word a cycle. A job of w words (8 bytes a column, entries of AᵀA, each part
    in whole words) occupies it w + 1 cycles, the command included. No combinational path from `o.ready` to anything but `i.ready`, `chunk` and `command.ready`.

    Golden: `models.qr.memo_image.pack_memo` of the job's new memo.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    command : In(stream.Signature({columns, fresh}))
        A job whose sums the `NormalEquationAccumulator` offers. `fresh`: there is no memo, and no words come.
    i : In(stream.Signature(8 * bus_bytes))
        Words of c (not where it comes from a pass), then of AᵀA.
    chunk : Out, right_hand_side : In, entries : In
        To the `NormalEquationAccumulator`'s ports of these names.
    o : Out(stream.Signature({data, gram, last}))
        New words; `gram`: of AᵀA, `last`: the job's last one. The `NormalEquationAccumulator`'s bank may be given back when that is taken.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        bus, n = config.bus_bytes, config.n_max
        self.counts = entry_counts(config)
        self.chunks = -(-self.counts[-1] // (bus // ENTRY_BYTES))
        super().__init__(
            {
                "command": In(
                    stream.Signature(data.StructLayout({"columns": range(n + 1), "fresh": 1}))
                ),
                "i": In(stream.Signature(8 * bus)),
                "chunk": Out(range(max(self.chunks, 2))),
                "right_hand_side": In(right_hand_side_shape(bus)),
                "entries": In(entries_shape(bus)),
                "o": Out(
                    stream.Signature(data.StructLayout({"data": 8 * bus, "gram": 1, "last": 1}))
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.each = self.config.bus_bytes // ENTRY_BYTES
        self.words = [
            Array(
                [
                    max(-(-8 * k // self.config.bus_bytes), 1) - 1
                    for k in range(self.config.n_max + 1)
                ]
            ),
            Array([max(-(-count // self.each), 1) - 1 for count in self.counts]),
        ]
        self.active = Signal()
        self.columns = Signal(range(self.config.n_max + 1))
        self.fresh = Signal()
        self.gram = Signal()
        self.number, self.final = Signal.like(self.chunk), Signal()
        self._words(m)
        self._add(m)
        return m

    def _words(self, m):
        """Words of the memo wait in stage 1."""
        # of stage 1
        self.valid = Signal()
        self.advance = Signal()
        take = Signal()
        anew = Signal()  # the word is the accumulator's sum alone
        self.held, self.held_number = (
            Signal(8 * self.config.bus_bytes, reset_less=True),
            Signal.like(self.chunk),
        )
        self.held_gram, self.held_last = Signal(), Signal()
        self.out = Signal(8 * self.config.bus_bytes, reset_less=True)
        m.d.comb += [
            self.final.eq(
                self.number
                == Mux(self.gram, self.words[1][self.columns], self.words[0][self.columns])
            ),
            self.advance.eq(~self.o.valid | self.o.ready),
            anew.eq(self.fresh | (0 if self.config.incremental else ~self.gram)),
            self.i.ready.eq(self.active & ~anew & self.advance),
            take.eq(self.active & (anew | self.i.valid) & self.advance),
            self.command.ready.eq(~self.active),
            self.o.p.data.eq(self.out),
            self.chunk.eq(Mux(self.advance, self.number, self.held_number)),
        ]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.active.eq(1),
                self.columns.eq(self.command.p.columns),
                self.fresh.eq(self.command.p.fresh),
                self.gram.eq(0),
                self.number.eq(0),
            ]
        with m.If(take):
            m.d.sync += [
                self.number.eq(Mux(self.final, 0, self.number + 1)),
                self.gram.eq(self.gram ^ self.final),
            ]
            with m.If(self.final & self.gram):
                m.d.sync += self.active.eq(0)
        with m.If(self.advance):
            m.d.sync += [
                self.valid.eq(take),
                self.held.eq(Mux(anew, 0, self.i.payload)),
                self.held_number.eq(self.number),
                self.held_gram.eq(self.gram),
                self.held_last.eq(self.final & self.gram),
            ]

    def _add(self, m):
        """Sums of this word, old and new."""
        sums, entries = [], []
        for place in range(self.config.bus_bytes // 8):
            sums.append(
                (self.held.word_select(place, 64).as_signed() + self.right_hand_side[place])[:64]
            )
        # places behind the last entry stay 0
        beyond = Signal(range(-2 * self.each, 2 * self.config.n_max * self.config.n_max + 2))
        m.d.comb += beyond.eq(Array(self.counts)[self.columns] - self.held_number * self.each)
        width = 8 * ENTRY_BYTES
        for place in range(self.each):
            entry = (self.held.word_select(place, width).as_signed() + self.entries[place])[:width]
            entries.append(Mux(place < beyond, entry, 0)[:width])
        first = Signal(range(self.config.n_max + 1))  # columns of c before this word
        m.d.comb += first.eq(self.held_number * (self.config.bus_bytes // 8))
        sums = [
            Mux(first + place < self.columns, value, 0)[:64] for place, value in enumerate(sums)
        ]
        with m.If(self.advance):
            m.d.sync += [
                self.o.valid.eq(self.valid),
                self.out.eq(Mux(self.held_gram, Cat(entries), Cat(sums))),
                self.o.p.gram.eq(self.held_gram),
                self.o.p.last.eq(self.held_last & self.valid),
            ]
