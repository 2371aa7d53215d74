"""The memo's c and AᵀA brought up to date: its words plus what the job's changes add."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.job import Sums
from ...models.qr.layout import ENTRY_BYTES
from .normal_equations import entries_shape, right_hand_side_shape

__all__ = ["Merge"]


class Merge(wiring.Component):
    """Adds a `NormalEquationAccumulator`'s sums to the words of a memo's parts c and AᵀA, in the layout of `models.qr.image.pack_memo`; without a memo to none.

    A word accepted in cycle t is offered in cycle t + 2; one word a cycle. A job of w words (8 bytes a column, columns (columns + 1) / 2 entries, each part
    in whole words) occupies it w + 1 cycles, the command included. No combinational path from `o.ready` to anything but `i.ready`, `chunk` and `command.ready`.

    Golden: `models.qr.image.pack_memo` of the job's new memo.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

    Members
    -------
    command : In(stream.Signature({columns, fresh}))
        A job whose sums the `NormalEquationAccumulator` offers. `fresh`: there is no memo, and no words come.
    i : In(stream.Signature(8 * bus_bytes))
        Words of c (with sums `incremental`), then of AᵀA.
    chunk : Out, right_hand_side : In, entries : In
        To the `NormalEquationAccumulator`'s ports of these names.
    o : Out(stream.Signature({data, gram, last}))
        New words; `gram`: of AᵀA, `last`: the job's last one. The `NormalEquationAccumulator`'s bank may be given back when that is taken.
    """

    def __init__(self, config: FitPlan, *, src_loc_at=0):
        self.config = config
        bus, n = config.bus_bytes, config.n_max
        self.chunks = -(-(n * (n + 1) // 2) // (bus // ENTRY_BYTES))
        super().__init__({
            "command": In(stream.Signature(data.StructLayout({"columns": range(n + 1), "fresh": 1}))), "i": In(stream.Signature(8 * bus)),
            "chunk": Out(range(max(self.chunks, 2))), "right_hand_side": In(right_hand_side_shape(bus)), "entries": In(entries_shape(bus)),
            "o": Out(stream.Signature(data.StructLayout({"data": 8 * bus, "gram": 1, "last": 1})))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        bus, n = self.config.bus_bytes, self.config.n_max
        each = bus // ENTRY_BYTES
        words = [Array([max(-(-8 * k // bus), 1) - 1 for k in range(n + 1)]), Array([max(-(-(k * (k + 1) // 2) // each), 1) - 1 for k in range(n + 1)])]
        active, columns, fresh, gram = Signal(), Signal(range(n + 1)), Signal(), Signal()
        number, final = Signal.like(self.chunk), Signal()
        valid, advance, take = Signal(), Signal(), Signal()      # of stage 1
        anew = Signal()                                          # the word is the accumulator's sum alone
        held, held_number = Signal(8 * bus, reset_less=True), Signal.like(self.chunk)
        held_gram, held_last = Signal(), Signal()
        out = Signal(8 * bus, reset_less=True)
        m.d.comb += [
            final.eq(number == Mux(gram, words[1][columns], words[0][columns])),
            advance.eq(~self.o.valid | self.o.ready),
            anew.eq(fresh | (~gram if self.config.sums is Sums.SCAN else 0)),
            self.i.ready.eq(active & ~anew & advance), take.eq(active & (anew | self.i.valid) & advance),
            self.command.ready.eq(~active), self.o.p.data.eq(out), self.chunk.eq(Mux(advance, number, held_number))]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [active.eq(1), columns.eq(self.command.p.columns), fresh.eq(self.command.p.fresh), gram.eq(0), number.eq(0)]
        with m.If(take):
            m.d.sync += [number.eq(Mux(final, 0, number + 1)), gram.eq(gram ^ final)]
            with m.If(final & gram):
                m.d.sync += active.eq(0)
        with m.If(advance):
            m.d.sync += [valid.eq(take), held.eq(Mux(anew, 0, self.i.payload)), held_number.eq(number), held_gram.eq(gram), held_last.eq(final & gram)]

        sums, entries = [], []
        for place in range(bus // 8):
            sums.append((held.word_select(place, 64).as_signed() + self.right_hand_side[place])[:64])
        # places behind the triangle's last entry stay 0
        triangle = Array([k * (k + 1) // 2 for k in range(n + 1)])
        beyond = Signal(range(-2 * each, 2 * n * n + 2))
        m.d.comb += beyond.eq(triangle[columns] - held_number * each)
        width = 8 * ENTRY_BYTES
        for place in range(each):
            entry = (held.word_select(place, width).as_signed() + self.entries[place])[:width]
            entries.append(Mux(place < beyond, entry, 0)[:width])
        first = Signal(range(n + 1))                             # columns of c before this word
        m.d.comb += first.eq(held_number * (bus // 8))
        sums = [Mux(first + place < columns, value, 0)[:64] for place, value in enumerate(sums)]
        with m.If(advance):
            m.d.sync += [self.o.valid.eq(valid), out.eq(Mux(held_gram, Cat(entries), Cat(sums))), self.o.p.gram.eq(held_gram),
                         self.o.p.last.eq(held_last & valid)]
        return m
