"""All rows of a group as records: of a full job, or where ranks have changed."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ..stream.passing import passed_on
from .descriptor import first_code
from .records import record_shape
from .rows import Rows

__all__ = ["FullScan"]


class FullScan(wiring.Component):
    """A pass over all rows, a place a cycle; then an item with `end`, whose `code` is QR_DESCRIPTOR where a full
    job's rows were not as many as it says, QR_ORDER where rows were out of order. Each row adds
    its label times itself to c, in a full job it comes as well. Label `slot`: a place without a row changes nothing.

    Times as those of `Rows` with one row a cycle; the `end` follows the last place at once. A group without places gives the `end` in the cycle after the
    command. Golden: `models.qr.normal_equations.sum_all_rows`.

    Members
    -------
    command, offsets, bits, words
        As of `Rows`, but `span` may be 0. `full`: there is no memo, and so many `rows`.
    o : Out(stream.Signature(record_shape(n_max)))
    """

    def __init__(self, config: FitPlan):
        self.config = config
        self.rows = Rows(config, units=1)
        n, bus = config.n_max, 8 * config.bus_bytes
        super().__init__(
            {
                "command": In(
                    stream.Signature(
                        data.StructLayout({"length": range(n), "span": 32, "full": 1, "rows": 24})
                    )
                ),
                "offsets": In(data.ArrayLayout(8, n - 1)),
                "bits": In(stream.Signature(bus)),
                "words": In(stream.Signature(bus)),
                "o": Out(stream.Signature(record_shape(n))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = self.rows
        active, ends = Signal(), Signal()
        wrong, full, missing = Signal(), Signal(), Signal(24)
        some, record, row = self.command.p.span != 0, self.o.p, rows.o.p.rows[0]
        m.d.comb += [
            rows.command.p.length.eq(self.command.p.length),
            rows.command.p.span.eq(self.command.p.span),
            rows.offsets.eq(self.offsets),
            *passed_on(self.bits, rows.bits),
            *passed_on(self.words, rows.words),
            # a pass begins when the one before it has ended
            self.command.ready.eq(~active & rows.command.ready),
            rows.command.valid.eq(self.command.valid & ~active & some),
            self.o.valid.eq(ends | rows.o.valid),
            rows.o.ready.eq(self.o.ready & ~ends),
        ]
        with m.If(ends):
            faults = (
                (full & (missing != 0), FitError.QR_DESCRIPTOR.value),
                (wrong, FitError.QR_ORDER.value),
            )
            m.d.comb += [record.end.eq(1), record.code.eq(first_code(faults))]
        with m.Else():
            m.d.comb += [
                record.value.eq(Mux(row.use, row.label, 0)),
                record.sign.eq(row.use & full),
                *(record[name].eq(row[name]) for name in ("label", "a", "row")),
            ]
        with m.If(rows.o.valid & rows.o.ready):
            m.d.sync += [
                ends.eq(rows.o.p.last),
                wrong.eq(rows.o.p.disorder),
                missing.eq(missing - row.use),
            ]
        with m.If(ends & self.o.ready):
            m.d.sync += [ends.eq(0), active.eq(0)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                active.eq(1),
                ends.eq(~some),
                wrong.eq(0),
                full.eq(self.command.p.full),
                missing.eq(self.command.p.rows),
            ]
        return m
