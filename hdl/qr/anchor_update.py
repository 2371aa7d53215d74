"""An anchor's segment kept up to date with a job's changes, as they pass."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.schedule import dot_latency
from ..arith.pipeline import Pipeline
from ..index import index_range
from .dot import row_shape, segment_shape

__all__ = ["AnchorUpdate", "errors_shape"]

errors_shape = data.StructLayout({"err_min": 32, "err_max": 32, "least": 32})


class AnchorUpdate(wiring.Component):
    """Includes new and moved rows in an anchor's segment. Never stalls; golden: `models.qr.bounds.update_anchor`.

    A job's box is there in the cycle of its `end`, its errors `late` = dot_latency(n_max) - 1 cycles later; rows of the next job may follow at once.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    begin : In(1), job : In, w : In(ArrayLayout(32, n_max)), box : In({low, high})
        A job's changes come from the next cycle on: its number, its anchor's weights and box.
    valid : In(1), row : In(row_shape(n_max))
    end : In(1)
        After the job's last row.
    dot_w, dot_x : Out, guess : In(31)
        To a dot unit, and what it predicts, `late` - 1 cycles later: it is to be free in the cycles of rows.
    read : Out, errors : In(errors_shape)
        The anchor's errors before the job are asked for by the job's number, and wanted in the same cycle.
    box_valid : Out(1), box_job : Out, o_box : Out({low, high})
    errors_valid : Out(1), errors_job : Out, o_errors : Out(errors_shape)
    """

    def __init__(self, config: FitPlan):
        self.config = config
        self.late = dot_latency(config.n_max) - 1
        n, number = config.n_max, index_range(config.jobs)
        segment = segment_shape(n)
        self.box_shape = data.StructLayout({name: segment[name].shape for name in ("low", "high")})
        super().__init__(
            {
                "begin": In(1),
                "job": In(number),
                "w": In(data.ArrayLayout(32, n)),
                "box": In(self.box_shape),
                "valid": In(1),
                "row": In(row_shape(n)),
                "end": In(1),
                "dot_w": Out(data.ArrayLayout(32, n)),
                "dot_x": Out(data.ArrayLayout(signed(9), n)),
                "guess": In(31),
                "read": Out(number),
                "errors": In(errors_shape),
                "box_valid": Out(1),
                "box_job": Out(number),
                "o_box": Out(self.box_shape),
                "errors_valid": Out(1),
                "errors_job": Out(number),
                "o_errors": Out(errors_shape),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        n = self.config.n_max
        w, job = Signal(data.ArrayLayout(32, n), reset_less=True), Signal(len(self.job))
        low, high = (
            Signal(self.box.low.shape(), name=name, reset_less=True) for name in ("low", "high")
        )
        m.d.comb += [
            self.box_valid.eq(self.end),
            self.box_job.eq(job),
            self.o_box.low.eq(low),
            self.o_box.high.eq(high),
        ]
        for j in range(n - 1):
            byte = self.row.row[j]
            with m.If(self.begin):
                m.d.sync += [low[j].eq(self.box.low[j]), high[j].eq(self.box.high[j])]
            with m.Elif(self.valid & self.row.use):
                m.d.sync += [
                    low[j].eq(Mux(byte < low[j], byte, low[j])),
                    high[j].eq(Mux(byte > high[j], byte, high[j])),
                ]
        with m.If(self.begin):
            m.d.sync += [w.eq(self.w), job.eq(self.job)]

        late = self.late - 1  # from a row to its prediction
        m.d.comb += [self.dot_w.eq(w), self.dot_x.eq(self.row.a)]
        use = pipe.delay(self.valid & self.row.use, late, name="use")
        label = pipe.delay(self.row.label, late, name="label")
        s = pipe.rank(use=use, error=(label - self.guess)[:32], guess=self.guess)
        # the job's rows follow its `begin`, its `end` follows its rows
        begin = pipe.delay(self.begin, late + 1, name="begin")
        end = pipe.delay(self.end, late + 1, name="end")
        m.d.comb += [
            self.read.eq(pipe.delay(self.job, late + 1, name="job")),
            self.errors_valid.eq(end),
            self.errors_job.eq(pipe.delay(job, late + 1, name="ended")),
        ]
        held = Signal(errors_shape, reset_less=True)
        m.d.comb += self.o_errors.eq(held)
        error, guessed = s.error.as_signed(), s.guess
        with m.If(begin):
            m.d.sync += held.eq(self.errors)
        with m.Elif(s.use):
            m.d.sync += [
                held.err_min.eq(Mux(error < held.err_min.as_signed(), error, held.err_min)),
                held.err_max.eq(Mux(error > held.err_max.as_signed(), error, held.err_max)),
                held.least.eq(
                    Mux(guessed.as_unsigned() < held.least.as_signed(), guessed, held.least)
                ),
            ]
        return m
