"""The end of each job, in the order of jobs: its bounds, widened or by a pass over its rows, or what was wrong with it."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data

from ...models.qr.config import FitPlan
from ...models.qr.shell import FitError
from ...models.qr.stages import bounds
from ..modules import Parts
from ..stream.passing import fields
from .control import Control
from .descriptor import first_code
from .dot import NOTHING, Pass, segment_shape
from .fetch import slot_shape
from .group_rows import Rows
from .intake import anchor_shape, head_kept_shape
from .widen import Widen


def solved_shape(n_max):
    """All that is known of a job when it has been solved; `anchor`: what its changes have made of the last pass; `report`: the code of its records;
    `failed`: what was removed could not be taken out of its factor."""
    shapes = {"head": head_kept_shape(n_max), "report": 8, "failed": 1}
    return data.StructLayout({"kept": slot_shape(), **shapes, **_model(n_max)})


def _model(n_max):
    weights = data.ArrayLayout(32, n_max)
    return {"mask": n_max, "weights": weights, "anchor": anchor_shape(n_max)}


def outcome_shape(n_max):
    """What is to be published of a job; after an error (`code`) nothing else means anything."""
    shapes = {"code": 8, "err_min": 32, "err_max": 32, "rescanned": 1, "kept": slot_shape()}
    offsets = data.ArrayLayout(8, n_max - 1)
    return data.StructLayout({**shapes, "offsets": offsets, **_model(n_max)})


class Bounds:
    """Adds the end of jobs to the engine's module, one after the other; bounds of target `slot` are widened.

    Golden: `models.qr.golden.refit` from the weights on. A job that is there in cycle t is looked at in t + 1 and offered in t + 2 after an error or where
    there are no places, else widen_latency + 1 cycles later, unless that calls for a pass. A pass asks for its rows in the next cycle, and is offered
    dot_latency cycles after its last rows.

    * `ready_next`: the next job has been solved, or its descriptor or head was wrong.
    * `job` (`solved_shape(n_max)`): of that job, in the cycle after `ready_next` and until it has been
      offered and taken.
    * `engine`: its `fetch` takes a pass's request, `intake` gives its words, `back` takes outcomes. `update`:
      where bounds are widened, the `AnchorUpdate` that has the dot unit while not `uses`.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, ready_next, job, engine):
        self.config, self.parts, self.update = config, parts, engine.update
        self.ready_next, self.passing = ready_next, engine.fetch.passing
        self.i, self.o = job, engine.back.i
        intake, update = engine.intake, engine.update
        words = intake.pass_bits, intake.pass_rows
        self.reader = Rows(m, config, "pass_rows", config.row_units, job.head.offsets, words)
        self.fresh, rows = Signal(), self.reader.o  # the pass's first rows
        self.sweep = Pass(m, config, parts, self.fresh, rows, job.weights)
        self.disorder, self.rescanned, self.enough = Signal(), Signal(), Signal()
        self.tries = Const(0) if update is None else ~job.kept.full
        # `uses`: the dot unit is used here in this cycle
        self.begin, self.uses = Signal(), Signal()
        self._passes(m)
        self._publish(m)
        if update is not None:
            self._widen(m)
        self._phases(m)

    def _passes(self, m):
        """Rows of a pass go through the dot units."""
        kept = self.i.kept
        m.d.comb += [
            *fields(self.passing.p, address=kept.rows_at, span=kept.span, length=kept.length),
            *fields(self.reader.command.p, length=kept.length, span=kept.span),
            self.reader.o.ready.eq(1),
        ]

    def _publish(self, m):
        self.lost = Signal(8)
        codes = (self.i.kept.code, self.i.head.code, self.i.report)
        faults = [(code != 0, code) for code in codes]
        faults.append((self.i.failed, FitError.QR_DOWNDATE.value))
        faults.append((self.disorder, FitError.QR_ORDER.value))
        m.d.comb += self.lost.eq(first_code(faults))
        segment = Signal(segment_shape(self.config.n_max))
        m.d.comb += [
            *fields(self.o.p, code=self.lost, rescanned=self.rescanned, kept=self.i.kept),
            *fields(self.o.p, offsets=self.i.head.offsets, mask=self.i.mask),
            self.o.p.weights.eq(self.i.weights),
            segment.eq(self.sweep.o),
        ]
        with m.If(self.i.kept.span == 0):
            m.d.comb += segment.eq(self.sweep.nothing)
        empty = segment.err_min == NOTHING["err_min"]
        m.d.comb += [
            *fields(self.o.p.anchor, weights=self.i.weights, segment=segment),
            self.o.p.err_min.eq(Mux(empty, 1, segment.err_min)),
            self.o.p.err_max.eq(Mux(empty, 0, segment.err_max)),
        ]

    def _widen(self, m):
        """Bounds are widened, and kept where they are within the job's limit."""
        start = self.begin & self.tries & (self.lost == 0)
        widen = Widen(m, self.config, self.parts, start, self.i, self.sweep.score)
        width = widen.err_max - widen.err_min
        m.d.comb += [
            self.sweep.lent_w.as_value().eq(
                Mux(widen.uses, widen.dot_w.as_value(), self.update.dot_w.as_value())
            ),
            self.sweep.lent_x.as_value().eq(
                Mux(widen.uses, widen.dot_x.as_value(), self.update.dot_x.as_value())
            ),
            self.update.guess.eq(self.sweep.guess),
            self.uses.eq(self.reader.o.valid | widen.uses),
            self.enough.eq(widen.valid & (width <= self.i.kept.limit)),
        ]
        with m.If(~self.rescanned):
            ends = {"err_min": widen.err_min, "err_max": widen.err_max}
            m.d.comb += fields(self.o.p, anchor=self.i.anchor, **ends)

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
            m.d.sync += self.rescanned.eq(~self.tries)
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
