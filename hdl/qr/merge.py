"""The memo's c and AᵀA brought up to date: its words plus what the job's changes add."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream

from ...models.qr.config import FitPlan
from ...models.qr.layout import ENTRY_BYTES, entry_counts, words

__all__ = ["Merge"]


class Merge:
    """Adds to the engine's module what adds a `NormalEquationAccumulator`'s sums to the words of a memo's parts c and AᵀA, in the layout of
    `models.qr.memo_image.pack_memo`; without a memo to none.

    A word accepted in cycle t is offered in cycle t + 2; one word a cycle. A job of w words (8 bytes a column, entries of AᵀA, each part
    in whole words) occupies it w + 1 cycles, the command included;
    the next command comes when the last word is taken. No combinational path from `o.ready` to anything but `i.ready`, `chunk` and `command.ready`.

    Golden: `models.qr.memo_image.pack_memo` of the job's new memo.

    Parameters
    ----------
    accumulator
        The `NormalEquationAccumulator`, whose bank may be given back when a job's last word is taken.

    Attributes
    ----------
    command : stream.Signature({columns, fresh})
        A job whose sums the accumulator offers. `fresh`: there is no memo, and no words come.
    i : stream.Signature(8 * bus_bytes)
        Words of c (not where it comes from a pass), then of AᵀA.
    o : stream.Signature({data, gram, last})
        New words; `gram`: of AᵀA, `last`: the job's last one.
    """

    def __init__(self, m: Module, config: FitPlan, accumulator):
        self.config, self.accumulator, self.chunk = config, accumulator, accumulator.chunk
        n, bus, self.counts = config.n_max, config.bus_bytes, entry_counts(config)
        asked = data.StructLayout({"columns": range(n + 1), "fresh": 1})
        word = data.StructLayout({"data": 8 * bus, "gram": 1, "last": 1})
        self.command = stream.Signature(asked).create(path=("merged_job",))
        self.i = stream.Signature(8 * bus).create(path=("merged_word",))
        self.o = stream.Signature(word).create(path=("new_word",))
        self.each = bus // ENTRY_BYTES
        of_c = [max(words(8 * k, bus), 1) - 1 for k in range(n + 1)]
        of_gram = [max(words(count, self.each), 1) - 1 for count in self.counts]
        self.last_words = Array(of_c), Array(of_gram)
        self.active, self.fresh, self.gram = Signal(), Signal(), Signal()
        self.columns, self.number = Signal(range(n + 1)), Signal.like(self.chunk)
        self._words(m)
        self._add(m)

    def _words(self, m):
        """Words of the memo wait in stage 1."""
        bus = 8 * self.config.bus_bytes
        self.valid = Signal()
        self.advance = Signal()
        take = Signal()
        final = Signal()
        anew = Signal()  # the word is the accumulator's sum alone
        self.held, self.held_number = Signal(bus, reset_less=True), Signal.like(self.chunk)
        self.held_gram, self.held_last = Signal(), Signal()
        self.out = Signal(bus, reset_less=True)
        of_c, of_gram = (last[self.columns] for last in self.last_words)
        m.d.comb += [
            final.eq(self.number == Mux(self.gram, of_gram, of_c)),
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
                self.number.eq(Mux(final, 0, self.number + 1)),
                self.gram.eq(self.gram ^ final),
            ]
            with m.If(final & self.gram):
                m.d.sync += self.active.eq(0)
        with m.If(self.advance):
            m.d.sync += [
                self.valid.eq(take),
                self.held.eq(Mux(anew, 0, self.i.payload)),
                self.held_number.eq(self.number),
                self.held_gram.eq(self.gram),
                self.held_last.eq(final & self.gram),
            ]

    def _add(self, m):
        """Sums of this word, old and new."""
        per_word, width = self.config.bus_bytes // 8, 8 * ENTRY_BYTES
        # places behind the last entry stay 0
        beyond = Signal(range(-2 * self.each, 2 * self.config.n_max * self.config.n_max + 2))
        first = Signal(range(self.config.n_max + 1))  # columns of c before this word
        m.d.comb += [
            beyond.eq(Array(self.counts)[self.columns] - self.held_number * self.each),
            first.eq(self.held_number * per_word),
        ]

        def added(here, place, bits, change):
            old = self.held.word_select(place, bits).as_signed()
            return Mux(here, (old + change[place])[:bits], 0)[:bits]

        sums = [
            added(first + k < self.columns, k, 64, self.accumulator.right_hand_side)
            for k in range(per_word)
        ]
        entries = [added(k < beyond, k, width, self.accumulator.entries) for k in range(self.each)]
        with m.If(self.advance):
            m.d.sync += [
                self.o.valid.eq(self.valid),
                self.out.eq(Mux(self.held_gram, Cat(entries), Cat(sums))),
                self.o.p.gram.eq(self.held_gram),
                self.o.p.last.eq(self.held_last & self.valid),
            ]
