"""All rows of a group as records: of a full job, or where ranks have changed."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ...models.qr.job import Label
from ..stream.passing import passed_on
from .records import record_shape
from .rows import Rows

__all__ = ["FullScan"]


class FullScan(wiring.Component):
    """A pass over all rows, a place a cycle; then an item with `end`, whose `code` is QR_ORDER where rows were out of order. Each row adds
    its label times itself to c, in a full job it comes as well. Label `slot`: a place without a live row changes nothing.

    Times as those of `Rows` with one row a cycle; the `end` follows the last place at once. A group without places gives the `end` in the cycle after the
    command. Golden: `models.qr.normal_equations.sum_all_rows`.

    Members
    -------
    command, offsets, bits, words
        As of `Rows`, but `span` may be 0. `full`: there is no memo.
    o : Out(stream.Signature(record_shape(n_max)))
    """

    def __init__(self, config: FitPlan):
        self.config = config
        self.rows = Rows(config, units=1)
        n, bus = config.n_max, 8 * config.bus_bytes
        super().__init__(
            {
                "command": In(
                    stream.Signature(data.StructLayout({"length": range(n), "span": 32, "full": 1}))
                ),
                "offsets": In(data.ArrayLayout(8, n - 1)),
                "bits": In(stream.Signature(bus)),
                "words": In(stream.Signature(bus)),
                "o": Out(stream.Signature(record_shape(n))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = self.rows
        self.some = Signal()
        m.d.comb += [
            self.some.eq(self.command.p.span != 0),
            self.rows.command.p.length.eq(self.command.p.length),
            self.rows.command.p.span.eq(self.command.p.span),
            self.rows.offsets.eq(self.offsets),
        ]
        for name in ("bits", "words"):
            inner, outer = getattr(self.rows, name), getattr(self, name)
            m.d.comb += passed_on(outer, inner)
        self._records(m)
        self._end(m)
        return m

    def _records(self, m):
        """A pass begins when the one before it has ended."""
        self.active = Signal()
        self.ends = Signal()
        self.wrong = Signal()
        self.full = Signal()
        self.record, row = self.o.p, self.rows.o.p.rows[0]
        m.d.comb += [
            self.command.ready.eq(~self.active & self.rows.command.ready),
            self.rows.command.valid.eq(self.command.valid & ~self.active & self.some),
            self.o.valid.eq(self.ends | self.rows.o.valid),
            self.rows.o.ready.eq(self.o.ready & ~self.ends),
        ]
        with m.If(self.ends):
            m.d.comb += [
                self.record.end.eq(1),
                self.record.code.eq(self.wrong * FitError.QR_ORDER.value),
            ]
        with m.Else():
            counts = Const(1) if self.config.target is Label.RANK else row.use
            m.d.comb += [
                self.record.value.eq(Mux(counts, row.label, 0)),
                self.record.sign.eq(counts & self.full),
                self.record.live.eq(row.use & self.full),
                self.record.label.eq(row.label),
                self.record.a.eq(row.a),
                self.record.row.eq(row.row),
            ]

    def _end(self, m):
        """The end of the pass."""
        with m.If(self.rows.o.valid & self.rows.o.ready):
            m.d.sync += [self.ends.eq(self.rows.o.p.last), self.wrong.eq(self.rows.o.p.disorder)]
        with m.If(self.ends & self.o.ready):
            m.d.sync += [self.ends.eq(0), self.active.eq(0)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.active.eq(1),
                self.ends.eq(~self.some),
                self.wrong.eq(0),
                self.full.eq(self.command.p.full),
            ]
