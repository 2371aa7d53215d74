"""Anchors of the jobs under way, kept up to date with their changes as these pass."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data

from ...models.qr.config import FitPlan
from ...models.qr.schedule import dot_latency
from ..arith.pipeline import Pipeline
from .dot import NOTHING, followed, row_shape, segment_shape

__all__ = ["AnchorUpdate"]

_errors_shape = data.StructLayout(dict.fromkeys(NOTHING, 32))


class AnchorUpdate:
    """Includes new and moved rows in the segments of jobs' anchors. Never stalls; golden: `models.qr.bounds.update_anchor`.

    A job's box is there in the cycle of its `end`, its errors dot_latency(n_max) - 1 cycles later; rows of the next job may follow at once.

    Attributes
    ----------
    dot_w, dot_x, guess
        To a dot unit, and what it predicts, dot_latency(n_max) - 2 cycles later: it is to be free in the cycles of rows.
    """

    def __init__(self, config: FitPlan):
        n = self.n = config.n_max
        self.dot_w = Signal(data.ArrayLayout(32, n))
        self.dot_x = Signal(data.ArrayLayout(signed(9), n))
        self.guess = Signal(31)

    def follow(self, m: Module, intake, core, kept, anchor):
        """Add the anchors to the engine's module.

        Parameters: `intake`: anchors as they come, and jobs that begin, whose changes come from the next cycle on; `core`: changes, and their end;
        `kept`: `FitEngine._kept`; `anchor`: that of the job whose turn has come.
        """
        pipe, late, came = Pipeline(m), dot_latency(self.n) - 1, intake.anchor
        record, segment = core.record, segment_shape(self.n)
        box_shape = data.StructLayout({end: segment[end].shape for end in ("low", "high")})

        def part(shape, whole):
            found = Signal(shape)
            m.d.comb += [found[name].eq(whole[name]) for name, _ in shape]
            return found

        arrived = intake.anchor_valid, intake.slot
        errors = part(_errors_shape, came.segment)
        weights, _ = kept("of_anchors", came.weights.shape(), *arrived, came.weights)
        _, before = kept("of_errors", _errors_shape, *arrived, errors)
        read = before.read_port(domain="comb")
        w, job = Signal.like(self.dot_w, reset_less=True), Signal.like(intake.slot)
        begin, row = Signal(segment, name="begin"), Signal(row_shape(self.n), name="row")
        with m.If(intake.begins):
            m.d.sync += [w.eq(came.weights), job.eq(intake.slot)]
        known = data.View(_errors_shape, read.data)
        m.d.comb += [
            self.dot_w.eq(w),
            self.dot_x.eq(record.a),
            row.use.eq(1),
            *(row[name].eq(record[name]) for name in ("label", "a", "row")),
            read.addr.eq(pipe.delay(intake.slot, late, name="begun")),
            *(begin[name].eq(known[name]) for name in NOTHING),
            *(begin[end].eq(came.segment[end]) for end in ("low", "high")),
        ]
        valid, ends = core.record_valid & record.came, core.record_valid & record.end
        found = followed(m, pipe, intake.begins, begin, valid, [row], [self.guess])
        ended = pipe.delay(ends, late, name="ended"), pipe.delay(job, late, name="whose")
        boxes, _ = kept("followed_boxes", box_shape, ends, job, part(box_shape, found))
        errors, _ = kept("followed_errors", _errors_shape, *ended, part(_errors_shape, found))
        m.d.comb += anchor.weights.as_value().eq(weights)
        for shape, now in ((box_shape, boxes), (_errors_shape, errors)):
            held = data.View(shape, now)
            m.d.comb += [anchor.segment[name].eq(held[name]) for name, _ in shape]
