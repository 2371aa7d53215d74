"""A new factor of method `givens` leaves the memories of back substitution as bus words."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ..index import index, index_range
from ..stream.queue import Queue
from .back_substitution import BackSubstitution
from .barrel import shifted_left

__all__ = ["FactorWriter", "factor_shape"]


def factor_shape(config):
    """A word of a new factor: row by row d_k, then u_kj for j > k, float32, zeros at the end."""
    return data.StructLayout({"data": 8 * config.bus_bytes, "job": range(max(config.jobs, 2)), "last": 1})


class FactorWriter(wiring.Component):
    """Reads a finished factor out of `BackSubstitution`'s memories, `lanes` elements a cycle (d with the first ones of its row), and packs it into bus words.

    Twin: `models.qr.factor_writer.FactorWriter`.

    Members
    -------
    goes : In(1), goes_context : In
        A context's factor is complete.
    columns, jobs : In
        Of the contexts.
    address, column_address, en : Out, values, d : In
        To `BackSubstitution`.
    gone : Out(1), gone_context : Out
        All of a context's factor has been read, with this cycle.
    o : Out(stream.Signature(factor_shape(config)))
    """

    def __init__(self, config: FitPlan, back_substitution: BackSubstitution, *, src_loc_at=0):
        self.config, self.groups = config, back_substitution.groups
        n, count = config.n_max, config.contexts
        which = index_range(count)
        super().__init__({
            "goes": In(1), "goes_context": In(which), "columns": In(data.ArrayLayout(range(n + 1), count)),
            "jobs": In(data.ArrayLayout(range(max(config.jobs, 2)), count)), "address": Out(back_substitution.out_address.shape()),
            "column_address": Out(back_substitution.out_column_address.shape()), "en": Out(1), "values": In(data.ArrayLayout(32, config.lanes)), "d": In(32),
            "gone": Out(1), "gone_context": Out(which), "o": Out(stream.Signature(factor_shape(config)))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        n, count, floats = config.n_max, config.contexts, self.config.bus_bytes // 4
        m.submodules.asked = asked = Queue(len(self.goes_context), max(count, 2))
        active, context, columns, job = Signal(), Signal.like(self.goes_context), Signal(range(n + 1)), Signal(range(max(config.jobs, 2)))
        column, slot, behind = Signal(range(n)), index(self.groups + 1, name="slot"), Signal(range(n + 1))     # behind: elements of the row not yet read
        advance, final, row_ends = Signal(), Signal(), Signal()
        m.d.comb += [asked.i.valid.eq(self.goes), asked.i.payload.eq(self.goes_context), asked.o.ready.eq(~active | (final & advance))]
        m.d.comb += [
            self.address.eq((context * n + column) * self.groups + slot), self.column_address.eq(context * n + column), self.en.eq(advance),
            row_ends.eq(behind <= lanes), final.eq(row_ends & (column == columns - 1)), self.gone.eq(active & final & advance), self.gone_context.eq(context)]
        piece, first, size, ends, piece_job = Signal(), Signal(), Signal(range(lanes + 2)), Signal(), Signal.like(job)
        with m.If(advance):
            m.d.sync += [piece.eq(active), first.eq(slot == 0), size.eq(Mux(row_ends, behind, lanes) + (slot == 0)), ends.eq(active & final),
                         piece_job.eq(job), slot.eq(Mux(row_ends, 0, slot + 1))]
            with m.If(row_ends):
                m.d.sync += [column.eq(column + 1), behind.eq((columns - 2 - column)[:len(behind)])]
            with m.Else():
                m.d.sync += behind.eq(behind - lanes)
            with m.If(final):
                m.d.sync += active.eq(0)
        with m.If(asked.o.valid & asked.o.ready):
            here = Array([self.columns[c] for c in range(count)])[asked.o.payload]
            m.d.sync += [active.eq(1), context.eq(asked.o.payload), columns.eq(here), job.eq(Array([self.jobs[c] for c in range(count)])[asked.o.payload]),
                         column.eq(0), slot.eq(0), behind.eq(here - 1)]

        # packing: zeros above the level
        room = floats + 2 * lanes + 2
        held, level, closing, word_job = Signal(32 * room), Signal(range(room + 1)), Signal(), Signal.like(job)
        sends, sent = Signal(), Signal(range(floats + 1))
        m.d.comb += [
            advance.eq((level <= floats + lanes + 1) & ~closing), self.o.valid.eq((level >= floats) | (closing & (level != 0))),
            self.o.p.data.eq(held), self.o.p.job.eq(word_job), self.o.p.last.eq(closing & (level <= floats)), sends.eq(self.o.valid & self.o.ready),
            sent.eq(Mux(sends, Mux(level < floats, level, floats), 0))]
        elements = Cat(self.d, self.values.as_value())
        whole = Signal(32 * (lanes + 1))
        m.d.comb += whole.eq(Mux(first, elements, elements >> 32))
        masked = Cat(Mux(k < size, whole.word_select(k, 32), 0)[:32] for k in range(lanes + 1))
        at, stays, added = Signal(range(room + 1)), Signal(32 * room), Signal(32 * room)
        m.d.comb += [at.eq(level - sent), stays.eq(Mux(sends, held >> (32 * floats), held)), added.eq(shifted_left(m, masked, at, 32, 32 * room))]
        with m.If(advance & piece):
            m.d.sync += [held.eq(stays | added), level.eq(at + size), word_job.eq(piece_job), closing.eq(ends)]
        with m.Else():
            m.d.sync += [held.eq(stays), level.eq(at)]
        with m.If(sends & self.o.p.last):
            m.d.sync += closing.eq(0)
        return m
