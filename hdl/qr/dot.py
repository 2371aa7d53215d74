"""Predictions of rows, and what a pass over rows finds: bounds of the errors, least prediction, the box of bytes."""

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.bounds import EMPTY
from ...models.qr.config import FitPlan
from ...models.qr.schedule import ADD, MUL, dot_latency
from ..arith.pipeline import Pipeline
from ..modules import Parts, Submodules
from .numbers import Floor, Times, operation


class Dot(wiring.Component):
    """Σ w_j · x_j in float32, in the order of `models.qr.arith.dot`. Latency `latency`, II = 1; never stalls."""

    def __init__(self, n: int, parts: Parts | None = None):
        self.n, self.parts = n, parts or Submodules()
        self.latency = MUL + (n - 1).bit_length() * ADD
        w, x = data.ArrayLayout(32, n), data.ArrayLayout(signed(9), n)
        # `w`: codes of float32 numbers, +0 beyond the model's columns. `x`: integers from -255 to
        # 255, 0 beyond the model's columns.
        super().__init__({"w": In(w), "x": In(x), "o": Out(32)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        terms: list[Value] = [
            self.parts.instance(m, f"times{k}", "qr_times", Times, w=self.w[k], x=self.x[k])["o"]
            for k in range(self.n)
        ]
        level = 0
        while len(terms) > 1:
            pairs: list[Value] = []
            for k in range(0, len(terms) - 1, 2):
                label = f"add{level}_{k // 2}"
                pairs.append(operation(self.parts, m, label, "add", terms[k], terms[k + 1]))
            if len(terms) % 2:
                last = terms[-1]  # its partner is +0: the sum is itself, but -0 + +0 = +0
                pairs.append(
                    pipe.delay(Mux(last[:31].any(), last, Const(0, 32)), ADD, name=f"alone{level}_")
                )
            terms, level = pairs, level + 1
        m.d.comb += self.o.eq(terms[0])
        return m


def row_shape(n_max):
    """A row in a pass: `use`: it counts; `a`: 1, bytes minus offsets, 0s; `row`: its bytes; `label`."""
    a, row = data.ArrayLayout(signed(9), n_max), data.ArrayLayout(8, n_max - 1)
    return data.StructLayout({"use": 1, "label": 31, "a": a, "row": row})


def segment_shape(n_max):
    """What a pass finds: see `models.qr.job.Anchor`; `low` and `high` are 255 and 0 where no row was."""
    box = data.ArrayLayout(8, n_max - 1)
    errors = dict.fromkeys(("err_min", "err_max", "least"), signed(32))
    return data.StructLayout({**errors, "low": box, "high": box})


#: `segment_shape` of no rows, all but the box
NOTHING = {"err_min": EMPTY, "err_max": -EMPTY, "least": EMPTY}


def followed(pipe, start, begin, valid, rows, guesses):
    """Keep a segment up to date with rows, one or several in a cycle; return it. Never stalls.

    What rows of cycle t add to the box is there from cycle t + 1 on, what they add to the errors from cycle t + `models.qr.schedule.dot_latency(n_max)` on:
    so a segment begins at the earliest when the one before it has been read. Golden: `models.qr.bounds.pass_over` and `update_anchor`.

    * `start`, `begin` (`segment_shape(n_max)`): before the rows of this cycle the segment holds `begin`: its
      box now, its errors `dot_latency` - 1 cycles later.
    * `valid`, `rows` (lists of `row_shape(n_max)`): rows; those without `use` change nothing.
    * `guesses`: their predictions, `dot_latency` - 2 cycles later.
    """
    n = len(rows[0].a)
    late = dot_latency(n) - 2
    held = Signal(segment_shape(n), reset_less=True)
    starts = pipe.delay(start, late + 1, name="start")
    best = {name: Mux(starts, begin[name], held[name]).as_signed() for name in NOTHING}
    for k, (row, guess) in enumerate(zip(rows, guesses, strict=True)):
        label = pipe.delay(row.label, late, name=f"label{k}_")
        s = pipe.rank(
            use=pipe.delay(valid & row.use, late, name=f"use{k}_"),
            error=(label - guess.as_unsigned()).as_signed()[:32].as_signed(),
            guess=guess,
        )
        better = {
            "err_min": (s.error < best["err_min"], s.error),
            "err_max": (s.error > best["err_max"], s.error),
            "least": (s.guess < best["least"], s.guess),
        }
        for name, (here, value) in better.items():
            now = Mux(s.use & here, value, best[name])
            best[name] = pipe.wire(now, signed(32), name=f"{name}{k}")
    pipe.m.d.sync += [held[name].eq(value) for name, value in best.items()]

    # the box needs no prediction: it is kept at once, and is right for a segment when its errors are
    for j in range(n - 1):
        low, high = (Mux(start, begin[end][j], held[end][j]) for end in ("low", "high"))
        for k, row in enumerate(rows):
            use, byte = valid & row.use, row.row[j]
            low = pipe.wire(Mux(use & (byte < low), byte, low), name=f"low{j}_{k}")
            high = pipe.wire(Mux(use & (byte > high), byte, high), name=f"high{j}_{k}")
        pipe.m.d.sync += [held.low[j].eq(low), held.high[j].eq(high)]
    return held


class Pass:
    """Adds a pass over rows to a module: `row_units` rows a cycle and their segment, as `followed` has it.

    * `start`: with the pass's first rows.
    * `i`: `stream.Signature(rows_shape(n_max, row_units))`
    * `w` (`ArrayLayout(32, n_max)`): weights, for the rows of this cycle.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, start, i, w):
        n, pipe, rows = config.n_max, Pipeline(m), list(i.p.rows)
        scores, guesses = [], []
        # in cycles without rows the first row's dot unit is anyone's: it takes these operands
        self.lent_w = Signal(data.ArrayLayout(32, n))
        self.lent_x = Signal(data.ArrayLayout(signed(9), n))
        for k, row in enumerate(rows):
            weights, x = w.as_value(), row.a.as_value()
            if k == 0:
                weights = Mux(i.valid, weights, self.lent_w.as_value())
                x = Mux(i.valid, x, self.lent_x.as_value())
            score = parts.instance(
                m, f"dot{k}", f"qr_dot{n}", lambda: Dot(n, parts), w=weights, x=x
            )["o"]
            floor = parts.instance(m, f"floor{k}", "qr_floor", Floor, a=score)
            guesses.append(floor["label"])
            scores.append(score)
        # the result of those, and its label `FLOOR` cycles later
        self.score, self.guess = scores[0], guesses[0]
        nothing = Signal(segment_shape(n), name="nothing")
        m.d.comb += [
            *(nothing[name].eq(value) for name, value in NOTHING.items()),
            *(nothing.low[j].eq(255) for j in range(n - 1)),
        ]
        self.nothing, self.o = nothing, followed(pipe, start, nothing, i.valid, rows, guesses)


_errors_shape = data.StructLayout(dict.fromkeys(NOTHING, 32))


class AnchorUpdate:
    """Includes new and moved rows in the segments of jobs' anchors. Never stalls; golden: `models.qr.bounds.update_anchor`.

    A job's box is there in the cycle of its `end`, its errors dot_latency(n_max) - 1 cycles later; rows of the next job may follow at once.
    """

    def __init__(self, config: FitPlan):
        n = self.n = config.n_max
        # to a dot unit, which is to be free in the cycles of rows
        self.dot_w = Signal(data.ArrayLayout(32, n))
        self.dot_x = Signal(data.ArrayLayout(signed(9), n))
        self.guess = Signal(31)  # what it predicts, dot_latency(n_max) - 2 cycles later

    def follow(self, m: Module, intake, core, kept, anchor):
        """Add the anchors to the engine's module.

        Parameters: `intake`: anchors as they come, and jobs that begin, whose changes come from the next cycle on; `core`: changes, and their end;
        `kept`: `FitEngine._kept`; `anchor`: that of the job whose turn has come.
        """
        pipe, late, came = Pipeline(m), dot_latency(self.n) - 1, intake.anchor
        record, segment = core.record, segment_shape(self.n)
        box_shape = data.StructLayout({end: segment[end].shape for end in ("low", "high")})

        def part(shape, source):
            copy = Signal(shape)
            m.d.comb += [copy[name].eq(source[name]) for name, _ in shape]
            return copy

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
        extremes = followed(pipe, intake.begins, begin, valid, [row], [self.guess])
        ended = pipe.delay(ends, late, name="ended"), pipe.delay(job, late, name="whose")
        boxes, _ = kept("followed_boxes", box_shape, ends, job, part(box_shape, extremes))
        errors, _ = kept("followed_errors", _errors_shape, *ended, part(_errors_shape, extremes))
        m.d.comb += anchor.weights.as_value().eq(weights)
        for shape, now in ((box_shape, boxes), (_errors_shape, errors)):
            held = data.View(shape, now)
            m.d.comb += [anchor.segment[name].eq(held[name]) for name, _ in shape]
