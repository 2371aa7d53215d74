"""The end of each job, in the order of jobs: its bounds, widened or by a pass over its rows, or what was wrong with it."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ...models.qr.job import Bounds as Kind
from ...models.qr.job import Label
from ...models.qr.schedule import dot_latency, widen_latency
from ..index import index_range
from ..modules import Parts, Submodules
from .dot import NOTHING, Pass, segment_shape
from .fetch import slot_shape
from .intake import anchor_shape, head_kept_shape
from .row_requests import pass_shape
from .rows import Rows
from .shift import trend_shape
from .widen import Widen

__all__ = ["Bounds", "outcome_shape", "solved_shape"]


def solved_shape(n_max):
    """All that is known of a job when it has been solved; `anchor`: what its changes have made of the last pass; `report`: from its
    records; `trend`: of its blocks.
    """
    return data.StructLayout({"kept": slot_shape(), "head": head_kept_shape(n_max), "report": data.StructLayout({"live": signed(25), "code": 8}),
                              "trend": trend_shape, "mask": n_max, "weights": data.ArrayLayout(32, n_max), "anchor": anchor_shape(n_max)})


def outcome_shape(n_max):
    """What is to be published of a job; after an error (`code`) nothing else means anything."""
    return data.StructLayout({"code": 8, "err_min": 32, "err_max": 32, "rescanned": 1, "kept": slot_shape(), "live": 32,
                              "offsets": data.ArrayLayout(8, n_max - 1), "mask": n_max, "weights": data.ArrayLayout(32, n_max), "anchor": anchor_shape(n_max)})


class Bounds(wiring.Component):
    """Takes jobs one after the other, of method `gram`; widened bounds of target `slot` or with blocks, one segment.

    Golden: `models.qr.golden.refit` from the weights on. A job that is there in cycle t is looked at in t + 1 and offered in t + 2 after an error or where
    there are no places, else widen_latency + 1 cycles later, unless that calls for a pass. A pass asks for its rows in the next cycle, and is offered
    dot_latency cycles after its last rows.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

    Members
    -------
    ready_next : In(1)
        The next job has been solved, or its descriptor or head was wrong.
    i : In(solved_shape(n_max))
        Of that job, in the cycle after `ready_next` and until it has been offered and taken.
    passing : Out(stream.Signature(pass_shape(n_max))), bits, rows : In(stream.Signature(8 * bus_bytes))
        A pass's request, and its words.
    o : Out(stream.Signature(outcome_shape(n_max)))
    dot_w, dot_x : In, guess : Out(31), uses : Out(1)
        Where bounds are widened: anyone's operands, which the dot unit takes while not `uses`, and the label that it predicts `MUL` + ADD a level + `FLOOR`
        cycles later.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None, *, src_loc_at=0):
        self.config, self.parts = config, parts or Submodules()
        n, bus = config.n_max, 8 * config.bus_bytes
        lent = {"dot_w": In(data.ArrayLayout(32, n)), "dot_x": In(data.ArrayLayout(signed(9), n)), "guess": Out(31), "uses": Out(1)}
        super().__init__((lent if config.bounds is Kind.WIDENED else {}) | {
            "ready_next": In(1), "i": In(solved_shape(n)), "passing": Out(stream.Signature(pass_shape(n))),
            "bits": In(stream.Signature(bus)), "rows": In(stream.Signature(bus)), "o": Out(stream.Signature(outcome_shape(n)))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config, n, job, kept = self.config, self.config.n_max, self.i, self.i.kept
        widens = config.bounds is Kind.WIDENED
        m.submodules.reader = reader = Rows(config)
        m.submodules.sweep = sweep = Pass(config, self.parts)
        latency, widening = dot_latency(n), widen_latency(n, config.blocks > 0)
        left = Signal(index_range(max(latency, widening) + 1))
        disorder, rescanned, none = Signal(), Signal(), Signal()
        for inner, outer in ((reader.bits, self.bits), (reader.words, self.rows)):
            m.d.comb += [inner.payload.eq(outer.payload), inner.valid.eq(outer.valid), outer.ready.eq(inner.ready)]
        fresh = Signal()                                         # the pass's first rows
        m.d.comb += [
            self.passing.p.address.eq(kept.rows_at), self.passing.p.span.eq(kept.span), self.passing.p.length.eq(kept.length),
            reader.command.p.length.eq(kept.length), reader.command.p.span.eq(kept.span), reader.offsets.eq(job.head.offsets), reader.o.ready.eq(1),
            sweep.start.eq(fresh), sweep.valid.eq(reader.o.valid), sweep.w.eq(job.weights),
            *(sweep.begin[name].eq(value) for name, value in NOTHING.items()), *(sweep.begin.low[j].eq(255) for j in range(n - 1)),
            *(getattr(sweep, f"row{k}").eq(reader.o.p.rows[k]) for k in range(config.row_units))]
        with m.If(reader.o.valid):
            m.d.sync += fresh.eq(0)

        # what is published
        o, lost, live = self.o.p, Signal(8), Signal(signed(34))
        m.d.comb += live.eq(job.head.live + job.report.live)
        with m.If(kept.code != 0):
            m.d.comb += lost.eq(kept.code)
        with m.Elif(job.head.code != 0):
            m.d.comb += lost.eq(job.head.code)
        with m.Elif(kept.full & (job.report.live != kept.rows) & (config.target is Label.SLOT)):        # a row without its bit
            m.d.comb += lost.eq(FitError.QR_DESCRIPTOR.value)
        with m.Elif((job.report.code == 0) & ((live < 0) | (live > kept.rows))):       # more went than the memo had
            m.d.comb += lost.eq(FitError.QR_MEMO.value)
        with m.Elif((job.report.code == 0) & (live != kept.rows) & Const(config.needs_live)):      # a tombstone, which c would lack
            m.d.comb += lost.eq(FitError.QR_DESCRIPTOR.value)
        with m.Else():
            m.d.comb += lost.eq(Mux(job.report.code != 0, job.report.code, disorder * FitError.QR_ORDER.value))
        found = Signal(segment_shape(n))
        m.d.comb += [
            o.code.eq(lost), o.rescanned.eq(rescanned), o.kept.eq(kept), o.live.eq(live), o.offsets.eq(job.head.offsets),
            o.mask.eq(job.mask), o.weights.eq(job.weights), found.eq(sweep.o)]
        with m.If(none):
            m.d.comb += [*(found[name].eq(value) for name, value in NOTHING.items()), *(found.low[j].eq(255) for j in range(n - 1)), found.high.eq(0)]
        empty = found.err_min == NOTHING["err_min"]
        m.d.comb += [o.anchor.weights.eq(job.weights), o.anchor.segment.eq(found), o.err_min.eq(Mux(empty, 1, found.err_min)),
                     o.err_max.eq(Mux(empty, 0, found.err_max))]
        enough, tries, begin = Signal(), (~kept.full if widens else Const(0)), Signal()
        if widens:
            m.submodules.widen = widen = Widen(config, self.parts)
            width = widen.err_max - widen.err_min
            m.d.comb += [
                widen.start.eq(begin & tries & (lost == 0)), widen.columns.eq(kept.length + 1), widen.segment.eq(job.anchor.segment),
                widen.offsets.eq(job.head.offsets), widen.w.eq(job.weights), widen.anchor.eq(job.anchor.weights), widen.trend.eq(job.trend),
                sweep.lent_w.as_value().eq(Mux(widen.uses, widen.dot_w.as_value(), self.dot_w.as_value())),
                sweep.lent_x.as_value().eq(Mux(widen.uses, widen.dot_x.as_value(), self.dot_x.as_value())),
                widen.score.eq(sweep.score), self.guess.eq(sweep.guess), self.uses.eq(reader.o.valid | widen.uses),
                enough.eq(widen.valid & (width <= kept.limit))]
            if config.blocks:
                with m.If(o.live != kept.rows):                  # tombstones: ranks are not what blocks say
                    m.d.comb += enough.eq(0)
            with m.If(~rescanned):
                m.d.comb += [o.anchor.eq(job.anchor), o.err_min.eq(widen.err_min), o.err_max.eq(widen.err_max)]

        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += disorder.eq(0)
                with m.If(self.ready_next):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += begin.eq(1)
                m.d.sync += [rescanned.eq(~tries), none.eq(kept.span == 0), left.eq(widening - 2)]
                m.next = "OFFER"
                with m.If(lost == 0):
                    with m.If(kept.span != 0):
                        m.next = "ASK"
                    if widens:
                        with m.If(tries):
                            m.next = "WIDEN"
            if widens:
                with m.State("WIDEN"):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.next = "JUDGE"
                with m.State("JUDGE"):
                    m.d.sync += rescanned.eq(~enough)
                    m.next = "OFFER"
                    with m.If(~enough & (kept.span != 0)):
                        m.next = "ASK"
            with m.State("ASK"):
                # both are at rest: the pass before has ended
                m.d.comb += [self.passing.valid.eq(1), reader.command.valid.eq(1)]
                m.d.sync += fresh.eq(1)
                m.next = "READ"
            with m.State("READ"):
                m.d.sync += left.eq(latency - 2)
                with m.If(reader.o.valid & reader.o.p.last):
                    m.d.sync += disorder.eq(reader.o.p.disorder)
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "WAIT"
        return m
