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

__all__ = ["NOTHING", "Dot", "Pass", "row_shape", "segment_shape"]


class Dot(wiring.Component):
    """Σ w_j · x_j in float32, in the order of `models.qr.arith.dot`. Latency `latency`, II = 1; never stalls.

    Members
    -------
    w : In(ArrayLayout(32, n))
        Codes of float32 numbers, +0 beyond the model's columns.
    x : In(ArrayLayout(signed(9), n))
        Integers from -255 to 255, 0 beyond the model's columns.
    o : Out(32)
        Code of the sum.
    """

    def __init__(self, n: int, parts: Parts | None = None):
        self.n, self.parts = n, parts or Submodules()
        self.latency = MUL + (n - 1).bit_length() * ADD
        super().__init__(
            {
                "w": In(data.ArrayLayout(32, n)),
                "x": In(data.ArrayLayout(signed(9), n)),
                "o": Out(32),
            }
        )

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
    return data.StructLayout(
        {
            "use": 1,
            "label": 31,
            "a": data.ArrayLayout(signed(9), n_max),
            "row": data.ArrayLayout(8, n_max - 1),
        }
    )


def segment_shape(n_max):
    """What a pass finds: see `models.qr.job.Anchor`; `low` and `high` are 255 and 0 where no row was."""
    return data.StructLayout(
        {
            "err_min": signed(32),
            "err_max": signed(32),
            "least": signed(32),
            "low": data.ArrayLayout(8, n_max - 1),
            "high": data.ArrayLayout(8, n_max - 1),
        }
    )


#: `segment_shape` of no rows, all but the box
NOTHING = {"err_min": EMPTY, "err_max": -EMPTY, "least": EMPTY}


class Pass(wiring.Component):
    """Takes `row_units` rows a cycle and keeps a segment up to date with them. Never stalls.

    What rows of cycle t add to the errors is in `o` from cycle t + `models.qr.schedule.dot_latency(n_max)` on, the box from cycle t + 1 on: so a segment
    begins at the earliest when the one before it has been read. Golden: `models.qr.bounds.pass_over` and `update_anchor` (target `slot`, one segment).

    Members
    -------
    start : In(1), begin : In(segment_shape(n_max))
        Together with the first rows: what the segment holds before them.
    valid : In(1), row0, row1, … : In(row_shape(n_max))
        Rows; those without `use` change nothing.
    w : In(ArrayLayout(32, n_max))
        Weights, for the rows of this cycle.
    o : Out(segment_shape(n_max))
    lent_w, lent_x : In, score, guess : Out
        In cycles without rows the first row's dot unit is anyone's: it takes these operands. `score` is its result, `guess` the label of that, `FLOOR`
        cycles later.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        n = config.n_max
        rows = {f"row{k}": In(row_shape(n)) for k in range(config.row_units)}
        super().__init__(
            {
                "start": In(1),
                "begin": In(segment_shape(n)),
                "valid": In(1),
                **rows,
                "w": In(data.ArrayLayout(32, n)),
                "o": Out(segment_shape(n)),
                "lent_w": In(data.ArrayLayout(32, n)),
                "lent_x": In(data.ArrayLayout(signed(9), n)),
                "score": Out(32),
                "guess": Out(31),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        n = self.config.n_max
        late = dot_latency(n) - 2  # from a row to its prediction
        errors = self._errors(m, pipe, late)
        start = pipe.delay(self.start, late + 1, name="start")
        begin = pipe.delay(self.begin.as_value(), late + 1, name="begin")
        before, held = Signal(segment_shape(n)), Signal(segment_shape(n), reset_less=True)
        m.d.comb += self.o.eq(held)
        m.d.comb += before.eq(Mux(start, begin, held.as_value()))
        lowest = before.err_min
        highest = before.err_max
        least = before.least
        for k, (use, error, guess) in enumerate(errors):
            lowest = pipe.wire(
                Mux(use & (error < lowest), error, lowest), signed(32), name=f"lowest{k}"
            )
            highest = pipe.wire(
                Mux(use & (error > highest), error, highest), signed(32), name=f"highest{k}"
            )
            least = pipe.wire(
                Mux(use & (guess < least), guess, least), signed(32), name=f"least{k}"
            )
        m.d.sync += [held.err_min.eq(lowest), held.err_max.eq(highest), held.least.eq(least)]

        # the box needs no prediction: it is kept at once, and is right for a segment when its errors are
        for j in range(n - 1):
            low = Mux(self.start, self.begin.low[j], held.low[j])
            high = Mux(self.start, self.begin.high[j], held.high[j])
            for k in range(self.config.row_units):
                row = getattr(self, f"row{k}")
                use, byte = self.valid & row.use, row.row[j]
                low = pipe.wire(Mux(use & (byte < low), byte, low), name=f"low{j}_{k}")
                high = pipe.wire(Mux(use & (byte > high), byte, high), name=f"high{j}_{k}")
            m.d.sync += [held.low[j].eq(low), held.high[j].eq(high)]
        return m

    def _errors(self, m, pipe, late):
        """Of each row unit: whether there is a row, its error and its prediction, `late` cycles after the row."""
        n = self.config.n_max
        errors: list[tuple[Value, Value, Value]] = []
        for k in range(self.config.row_units):
            row = getattr(self, f"row{k}")
            w, x = self.w.as_value(), row.a.as_value()
            if k == 0:
                w = Mux(self.valid, w, self.lent_w.as_value())
                x = Mux(self.valid, x, self.lent_x.as_value())
            score = self.parts.instance(
                m, f"dot{k}", f"qr_dot{n}", lambda: Dot(n, self.parts), w=w, x=x
            )["o"]
            guess = self.parts.instance(m, f"floor{k}", "qr_floor", Floor, a=score)["label"]
            if k == 0:
                m.d.comb += [self.score.eq(score), self.guess.eq(guess)]
            use = pipe.delay(self.valid & row.use, late, name=f"use{k}_")
            label = pipe.delay(row.label, late, name=f"label{k}_")
            s = pipe.rank(
                use=use,
                error=(label - guess.as_unsigned()).as_signed()[:32].as_signed(),
                guess=guess,
            )
            errors.append((s.use, s.error, s.guess))
        return errors
