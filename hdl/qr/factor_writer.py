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
    return data.StructLayout(
        {"data": 8 * config.bus_bytes, "job": range(max(config.jobs, 2)), "last": 1}
    )


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

    def __init__(self, config: FitPlan, back_substitution: BackSubstitution):
        self.config, self.groups = config, back_substitution.groups
        n, count = config.n_max, config.contexts
        which = index_range(count)
        super().__init__(
            {
                "goes": In(1),
                "goes_context": In(which),
                "columns": In(data.ArrayLayout(range(n + 1), count)),
                "jobs": In(data.ArrayLayout(range(max(config.jobs, 2)), count)),
                "address": Out(back_substitution.out_address.shape()),
                "column_address": Out(back_substitution.out_column_address.shape()),
                "en": Out(1),
                "values": In(data.ArrayLayout(32, config.lanes)),
                "d": In(32),
                "gone": Out(1),
                "gone_context": Out(which),
                "o": Out(stream.Signature(factor_shape(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, self.lanes = self.config, self.config.lanes
        self.n = config.n_max
        self.count = config.contexts
        self.floats = self.config.bus_bytes // 4
        m.submodules.asked = self.asked = Queue(len(self.goes_context), max(self.count, 2))
        self.active = Signal()
        self.context = Signal.like(self.goes_context)
        self.factor_columns = Signal(range(self.n + 1))
        self.job = Signal(range(max(config.jobs, 2)))
        self._read(m)
        self._pack(m)
        return m

    def _read(self, m):
        """Elements of the row, `lanes` a cycle."""
        # behind: elements of the row not yet read
        column = Signal(range(self.n))
        slot = index(self.groups + 1, name="slot")
        behind = Signal(range(self.n + 1))
        self.advance = Signal()
        final = Signal()
        row_ends = Signal()
        m.d.comb += [
            self.asked.i.valid.eq(self.goes),
            self.asked.i.payload.eq(self.goes_context),
            self.asked.o.ready.eq(~self.active | (final & self.advance)),
        ]
        m.d.comb += [
            self.address.eq((self.context * self.n + column) * self.groups + slot),
            self.column_address.eq(self.context * self.n + column),
            self.en.eq(self.advance),
            row_ends.eq(behind <= self.lanes),
            final.eq(row_ends & (column == self.factor_columns - 1)),
            self.gone.eq(self.active & final & self.advance),
            self.gone_context.eq(self.context),
        ]
        self.piece = Signal()
        self.first = Signal()
        self.size = Signal(range(self.lanes + 2))
        self.ends = Signal()
        self.piece_job = Signal.like(self.job)
        with m.If(self.advance):
            m.d.sync += [
                self.piece.eq(self.active),
                self.first.eq(slot == 0),
                self.size.eq(Mux(row_ends, behind, self.lanes) + (slot == 0)),
                self.ends.eq(self.active & final),
                self.piece_job.eq(self.job),
                slot.eq(Mux(row_ends, 0, slot + 1)),
            ]
            with m.If(row_ends):
                m.d.sync += [
                    column.eq(column + 1),
                    behind.eq((self.factor_columns - 2 - column)[: len(behind)]),
                ]
            with m.Else():
                m.d.sync += behind.eq(behind - self.lanes)
            with m.If(final):
                m.d.sync += self.active.eq(0)
        with m.If(self.asked.o.valid & self.asked.o.ready):
            here = Array([self.columns[c] for c in range(self.count)])[self.asked.o.payload]
            m.d.sync += [
                self.active.eq(1),
                self.context.eq(self.asked.o.payload),
                self.factor_columns.eq(here),
                self.job.eq(Array([self.jobs[c] for c in range(self.count)])[self.asked.o.payload]),
                column.eq(0),
                slot.eq(0),
                behind.eq(here - 1),
            ]

    def _pack(self, m):
        """Zeros above the level."""
        room = self.floats + 2 * self.lanes + 2
        held = Signal(32 * room)
        level = Signal(range(room + 1))
        closing = Signal()
        word_job = Signal.like(self.job)
        sends, sent = Signal(), Signal(range(self.floats + 1))
        m.d.comb += [
            self.advance.eq((level <= self.floats + self.lanes + 1) & ~closing),
            self.o.valid.eq((level >= self.floats) | (closing & (level != 0))),
            self.o.p.data.eq(held),
            self.o.p.job.eq(word_job),
            self.o.p.last.eq(closing & (level <= self.floats)),
            sends.eq(self.o.valid & self.o.ready),
            sent.eq(Mux(sends, Mux(level < self.floats, level, self.floats), 0)),
        ]
        elements = Cat(self.d, self.values.as_value())
        whole = Signal(32 * (self.lanes + 1))
        m.d.comb += whole.eq(Mux(self.first, elements, elements >> 32))
        masked = Cat(
            Mux(k < self.size, whole.word_select(k, 32), 0)[:32] for k in range(self.lanes + 1)
        )
        at = Signal(range(room + 1))
        stays = Signal(32 * room)
        added = Signal(32 * room)
        m.d.comb += [
            at.eq(level - sent),
            stays.eq(Mux(sends, held >> (32 * self.floats), held)),
            added.eq(shifted_left(m, masked, at, 32, 32 * room)),
        ]
        with m.If(self.advance & self.piece):
            m.d.sync += [
                held.eq(stays | added),
                level.eq(at + self.size),
                word_job.eq(self.piece_job),
                closing.eq(self.ends),
            ]
        with m.Else():
            m.d.sync += [held.eq(stays), level.eq(at)]
        with m.If(sends & self.o.p.last):
            m.d.sync += closing.eq(0)
