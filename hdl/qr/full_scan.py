"""All rows of a group as records: of a full job, or where ranks have changed."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from .descriptor import first_code
from .records import record_shape
from .rows import Rows

__all__ = ["FullScan"]


class FullScan:
    """Adds a pass over all rows to a module: a place a cycle; then an item with `end`, whose `code` is QR_DESCRIPTOR where a full
    job's rows were not as many as it says, QR_ORDER where rows were out of order. Each row adds
    its label times itself to c, in a full job it comes as well. Label `slot`: a place without a row changes nothing.

    Times as those of `Rows` with one row a cycle; the `end` follows the last place at once. A group without places gives the `end` in the cycle after
    `begins`. Golden: `models.qr.normal_equations.sum_all_rows`.

    Parameters
    ----------
    job, begins
        A pass over the rows of this descriptor's job begins, for which `ready` has to be high.
    offsets
        As of `Rows`.
    intake
        Words of `bits` and of `rows`.

    Attributes
    ----------
    ready : a pass begins when the one before it has ended
    o : stream.Signature(record_shape(n_max))
    """

    def __init__(self, m: Module, config: FitPlan, job, begins, offsets, intake):
        rows = Rows(m, config, "full_scan", 1, offsets, intake.bits, intake.rows)
        self.ready = Signal()
        self.o = stream.Signature(record_shape(config.n_max)).create(path=("scanned",))
        active, ends = Signal(), Signal()
        wrong, full, missing = Signal(), Signal(), Signal(24)
        some, record, row = job.span != 0, self.o.p, rows.o.p.rows[0]
        m.d.comb += [
            rows.command.p.length.eq(job.length),
            rows.command.p.span.eq(job.span),
            self.ready.eq(~active & rows.command.ready),
            rows.command.valid.eq(begins & ~active & some),
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
        with m.If(begins):
            m.d.sync += [
                active.eq(1),
                ends.eq(~some),
                wrong.eq(0),
                full.eq(job.flags[0]),
                missing.eq(job.rows),
            ]
