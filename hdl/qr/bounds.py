"""The end of each job, in the order of jobs: its bounds, widened or by a pass over its rows, or what was wrong with it."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ...models.qr.stages import bounds
from ..modules import Parts, Submodules
from ..stream.passing import passed_on
from .control import Control
from .descriptor import first_code
from .dot import NOTHING, Pass, segment_shape
from .fetch import slot_shape
from .intake import anchor_shape, head_kept_shape
from .row_requests import pass_shape
from .rows import Rows
from .widen import Widen

__all__ = ["Bounds", "outcome_shape", "solved_shape"]


def solved_shape(n_max):
    """All that is known of a job when it has been solved; `anchor`: what its changes have made of the last pass; `report`: the code of its records;
    `failed`: what was removed could not be taken out of its factor."""
    return data.StructLayout(
        {
            "kept": slot_shape(),
            "head": head_kept_shape(n_max),
            "report": 8,
            "failed": 1,
            "mask": n_max,
            "weights": data.ArrayLayout(32, n_max),
            "anchor": anchor_shape(n_max),
        }
    )


def outcome_shape(n_max):
    """What is to be published of a job; after an error (`code`) nothing else means anything."""
    return data.StructLayout(
        {
            "code": 8,
            "err_min": 32,
            "err_max": 32,
            "rescanned": 1,
            "kept": slot_shape(),
            "offsets": data.ArrayLayout(8, n_max - 1),
            "mask": n_max,
            "weights": data.ArrayLayout(32, n_max),
            "anchor": anchor_shape(n_max),
        }
    )


class Bounds(wiring.Component):
    """Takes jobs one after the other; bounds of target `slot` are widened.

    Golden: `models.qr.golden.refit` from the weights on. A job that is there in cycle t is looked at in t + 1 and offered in t + 2 after an error or where
    there are no places, else widen_latency + 1 cycles later, unless that calls for a pass. A pass asks for its rows in the next cycle, and is offered
    dot_latency cycles after its last rows.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

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

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        n, bus = config.n_max, 8 * config.bus_bytes
        lent = {
            "dot_w": In(data.ArrayLayout(32, n)),
            "dot_x": In(data.ArrayLayout(signed(9), n)),
            "guess": Out(31),
            "uses": Out(1),
        }
        super().__init__(
            (lent if config.incremental else {})
            | {
                "ready_next": In(1),
                "i": In(solved_shape(n)),
                "passing": Out(stream.Signature(pass_shape(n))),
                "bits": In(stream.Signature(bus)),
                "rows": In(stream.Signature(bus)),
                "o": Out(stream.Signature(outcome_shape(n))),
            },
        )

    def elaborate(self, platform):
        m = Module()
        self.widens = self.config.incremental
        m.submodules.reader = self.reader = Rows(self.config)
        m.submodules.sweep = self.sweep = Pass(self.config, self.parts)
        self.disorder, self.rescanned = Signal(), Signal()
        self.none, self.enough = Signal(), Signal()
        self.tries = ~self.i.kept.full if self.widens else Const(0)
        self.begin = Signal()
        self._passes(m)
        self._publish(m)
        self._widen(m)
        self._phases(m)
        return m

    def _passes(self, m):
        """Rows of a pass go through the dot units."""
        for inner, outer in ((self.reader.bits, self.bits), (self.reader.words, self.rows)):
            m.d.comb += passed_on(outer, inner)
        self.fresh = Signal()  # the pass's first rows
        m.d.comb += [
            self.passing.p.address.eq(self.i.kept.rows_at),
            self.passing.p.span.eq(self.i.kept.span),
            self.passing.p.length.eq(self.i.kept.length),
            self.reader.command.p.length.eq(self.i.kept.length),
            self.reader.command.p.span.eq(self.i.kept.span),
            self.reader.offsets.eq(self.i.head.offsets),
            self.reader.o.ready.eq(1),
            self.sweep.start.eq(self.fresh),
            self.sweep.valid.eq(self.reader.o.valid),
            self.sweep.w.eq(self.i.weights),
            *(self.sweep.begin[name].eq(value) for name, value in NOTHING.items()),
            *(self.sweep.begin.low[j].eq(255) for j in range(self.config.n_max - 1)),
            *(
                getattr(self.sweep, f"row{k}").eq(self.reader.o.p.rows[k])
                for k in range(self.config.row_units)
            ),
        ]

    def _publish(self, m):
        """What is published."""
        self.lost = Signal(8)
        codes = (self.i.kept.code, self.i.head.code, self.i.report)
        faults = (
            *((code != 0, code) for code in codes),
            (self.i.failed, FitError.QR_DOWNDATE.value),
            (self.disorder, FitError.QR_ORDER.value),
        )
        m.d.comb += self.lost.eq(first_code(faults))
        found = Signal(segment_shape(self.config.n_max))
        m.d.comb += [
            self.o.p.code.eq(self.lost),
            self.o.p.rescanned.eq(self.rescanned),
            self.o.p.kept.eq(self.i.kept),
            self.o.p.offsets.eq(self.i.head.offsets),
            self.o.p.mask.eq(self.i.mask),
            self.o.p.weights.eq(self.i.weights),
            found.eq(self.sweep.o),
        ]
        with m.If(self.none):
            m.d.comb += [
                *(found[name].eq(value) for name, value in NOTHING.items()),
                *(found.low[j].eq(255) for j in range(self.config.n_max - 1)),
                found.high.eq(0),
            ]
        empty = found.err_min == NOTHING["err_min"]
        m.d.comb += [
            self.o.p.anchor.weights.eq(self.i.weights),
            self.o.p.anchor.segment.eq(found),
            self.o.p.err_min.eq(Mux(empty, 1, found.err_min)),
            self.o.p.err_max.eq(Mux(empty, 0, found.err_max)),
        ]

    def _widen(self, m):
        """Bounds are widened, and kept where they are within the job's limit."""
        if self.widens:
            m.submodules.widen = widen = Widen(self.config, self.parts)
            width = widen.err_max - widen.err_min
            m.d.comb += [
                widen.start.eq(self.begin & self.tries & (self.lost == 0)),
                widen.columns.eq(self.i.kept.length + 1),
                widen.segment.eq(self.i.anchor.segment),
                widen.offsets.eq(self.i.head.offsets),
                widen.w.eq(self.i.weights),
                widen.anchor.eq(self.i.anchor.weights),
                self.sweep.lent_w.as_value().eq(
                    Mux(widen.uses, widen.dot_w.as_value(), self.dot_w.as_value())
                ),
                self.sweep.lent_x.as_value().eq(
                    Mux(widen.uses, widen.dot_x.as_value(), self.dot_x.as_value())
                ),
                widen.score.eq(self.sweep.score),
                self.guess.eq(self.sweep.guess),
                self.uses.eq(self.reader.o.valid | widen.uses),
                self.enough.eq(widen.valid & (width <= self.i.kept.limit)),
            ]
            with m.If(~self.rescanned):
                m.d.comb += [
                    self.o.p.anchor.eq(self.i.anchor),
                    self.o.p.err_min.eq(widen.err_min),
                    self.o.p.err_max.eq(widen.err_max),
                ]

    def _phases(self, m):
        """A job's bounds, one job after the other."""
        conditions = {
            "solved": self.ready_next,
            "lost": self.lost != 0,
            "tries": self.tries,
            "places": self.i.kept.span != 0,
            "enough": self.enough,
            "last": self.reader.o.valid & self.reader.o.p.last,
            "taken": self.o.ready,
        }
        control = Control(m, bounds(self.config), conditions)
        m.d.comb += [
            self.begin.eq(control.now["BEGIN"]),
            # both are at rest: the pass before has ended
            self.passing.valid.eq(control.now["ASK"]),
            self.reader.command.valid.eq(control.now["ASK"]),
            self.o.valid.eq(control.now["OFFER"]),
        ]
        with m.If(self.begin):
            m.d.sync += [self.rescanned.eq(~self.tries), self.none.eq(self.i.kept.span == 0)]
        with m.If(control.now["JUDGE"]):
            m.d.sync += self.rescanned.eq(~self.enough)
        with m.If(control.now["ASK"]):
            m.d.sync += self.fresh.eq(1)
        with m.Elif(self.reader.o.valid):
            m.d.sync += self.fresh.eq(0)
        with m.If(control.now["WAIT"]):
            m.d.sync += self.disorder.eq(0)
        with m.If(control.goes["SETTLE"]):
            m.d.sync += self.disorder.eq(self.reader.o.p.disorder)
