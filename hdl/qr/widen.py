"""Bounds of the errors under new weights, from an anchor's segment: no row is read."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.utils import exact_log2

from ...models.numerics.formats import float32
from ...models.qr.bounds import EMPTY, LARGE_POWER, SLACK_POWER
from ...models.qr.config import FitPlan
from ...models.qr.schedule import ADD, FLOOR, MUL, WIDEN_SHARED
from ..arith.pipeline import Pipeline, Unpacked
from ..modules import Parts
from .numbers import Floor, operation


class Widen:
    """Adds to a module the bounds for all rows of a segment of labels, by the three sums of Claim 2 in `models.qr.bounds`.

    Golden: `models.qr.bounds.widen_bounds`. The bounds are there `models.qr.schedule.widen_latency(n_max)` cycles after `start`.
    WIDEN_SHARED columns share an adder, both bounds share one. A segment may start when the one before is there.

    * `start`: the inputs are there, and stay until the bounds are.
    * `job` (`solved_shape(n_max)`): its weights, new and those of its anchor's pass, are +0 beyond the
      model's columns.
    * `score`: of a `Dot` unit, which takes `dot_w` and `dot_x` while `uses` is high: in the cycles
      `models.qr.schedule.WIDEN_TURNS`.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, start, job, score):
        self.config, self.parts, self.start = config, parts, start
        self.columns, self.segment, self.offsets = (
            job.kept.length + 1,
            job.anchor.segment,
            job.head.offsets,
        )
        self.w, self.anchor = job.weights, job.anchor.weights
        n, pipe = config.n_max, Pipeline(m)
        # 1 and 0 where the segment never had a row
        self.err_min, self.err_max = Signal(signed(33)), Signal(signed(33))
        # `valid`: the bounds may be used: no score reaches 2**30
        self.valid, self.uses = Signal(), Signal()
        self.dot_w = Signal(data.ArrayLayout(32, n))
        self.dot_x = Signal(data.ArrayLayout(signed(9), n))
        begun, terms = self._terms(m, pipe)
        self._meet(m, pipe, terms, down=begun[WIDEN_SHARED + 1], size=begun[2 * WIDEN_SHARED + 1])
        total = score
        # the sums come in turn, and so do their bounds: first the upper one, with the size, then the lower one
        sized = begun[2 * WIDEN_SHARED + 2]  # the size's operands are in the dot unit
        tree = MUL + (n - 1).bit_length() * ADD
        m.d.comb += self.uses.eq(begun[WIDEN_SHARED + 1] | begun[WIDEN_SHARED + 2] | sized)
        down = pipe.delay(sized, tree + 1, name="down")
        earlier = pipe.delay(total, WIDEN_SHARED + 1, name="earlier")
        slack = pipe.wire(
            _scaled(Mux(down, pipe.delay(total, 1, name="size"), total)), name="slack"
        )
        signed_slack = Cat(slack[:-1], slack[-1] ^ down)
        bound = operation(self.parts, m, "bound", "add", earlier, signed_slack)
        below = self.parts.instance(m, "bound_floor", "qr_floor", Floor, a=bound)
        fits = ~Unpacked(total, float32).nan & (
            total[:31] < (float32.bias + LARGE_POWER << float32.fraction_bits)
        )
        wait = tree + ADD + FLOOR + 1  # from the size's turn in the dot unit to both bounds
        ready = pipe.delay(sized, wait, name="ready")
        fits = pipe.delay(fits, ADD + FLOOR + 1, name="fits")
        floor = pipe.delay(below["o"], 1, name="above").as_signed()
        inexact = pipe.delay(below["inexact"], 1, name="not_whole")
        least = self.segment.least
        ceiling = (floor + inexact).as_signed()
        fall = below["o"].as_signed()
        rise = Mux((least + floor >= 0) | (ceiling > 0), ceiling, 0)
        drop = Mux((least > 0) | (fall < 0), fall, 0)
        with m.If(ready):
            empty = self.segment.err_min == EMPTY
            m.d.sync += [
                self.err_min.eq(Mux(empty, 1, self.segment.err_min - rise)),
                self.err_max.eq(Mux(empty, 0, self.segment.err_max - drop)),
                self.valid.eq(fits | empty),
            ]

    def _terms(self, m, pipe):
        """Return w - anchor, later |w| + |anchor|, and `start` from when a column's first sum is there, a cycle later each.

        Turns of the adders: differences of their columns 0, 1, …, a gap while these stand, then the sizes of columns 1, 2, …, 0. All differences are there
        with `begun[WIDEN_SHARED]` and the cycle after, all sizes with `begun[2 * WIDEN_SHARED + 1]`.
        """
        n = self.config.n_max
        shared = WIDEN_SHARED
        turn = Signal(range(2 * shared + 1))
        column = turn[: exact_log2(shared)]
        with m.If(turn == 2 * shared):
            m.d.sync += turn.eq(0)
        with m.Elif(self.start | (turn != 0)):
            m.d.sync += turn.eq(turn + 1)
        begun = [pipe.delay(self.start, 1 + ADD, name="begun")]
        for k in range(1, 2 * shared + 3):
            begun.append(pipe.delay(begun[-1], 1, name=f"begun{k}_"))
        terms, none = Signal(data.ArrayLayout(32, n), reset_less=True), [Const(0, 32)] * shared
        for number, first in enumerate(range(0, n, shared)):
            count = min(shared, n - first)
            turns = [[*of][first : first + count] for of in (self.w, self.anchor)]
            new, old = (
                pipe.delay(Array([*of, *none][:shared])[column], 1, name=f"{name}{number}_")
                for name, of in zip(("new", "old"), turns, strict=True)
            )
            sizes = pipe.delay(turn >= shared, 1, name=f"sizes{number}_")
            one, other = Cat(new[:-1], new[-1] & ~sizes), Cat(old[:-1], ~old[-1] & ~sizes)
            term = operation(self.parts, m, f"sum{number}", "add", one, other)
            for k in range(count):
                with m.If(begun[k] | begun[shared + (k or shared)]):
                    m.d.sync += terms[first + k].eq(term)
        return begun, terms

    def _meet(self, m, pipe, terms, *, down, size):
        """Give the terms to the dot unit with the box's ends: those that make the sum greatest, `down`: least, `size`: the greater ones in size."""
        x_there = Signal(self.dot_x.shape(), reset_less=True)
        m.d.comb += self.dot_x.eq(x_there)
        m.d.comb += self.dot_w.eq(pipe.delay(terms.as_value(), 1, name="w_there"))
        for k in range(self.config.n_max):
            low, high = Const(1, signed(9)), Const(1, signed(9))
            if k:
                inside, offset = k < self.columns, self.offsets[k - 1]
                low, high = (
                    pipe.wire(Mux(inside, box[k - 1] - offset, 0), signed(9), name=f"{name}{k}")
                    for name, box in (("low", self.segment.low), ("high", self.segment.high))
                )
            x = Unpacked(terms[k], float32)
            rises = ~x.nan & (x.zero | ~x.sign)  # delta >= 0
            size_low, size_high = (
                pipe.wire(Mux(end < 0, -end, end), signed(9), name=f"{name}_size{k}")
                for name, end in (("low", low), ("high", high))
            )
            most = Mux(size_low > size_high, size_low, size_high)
            m.d.sync += x_there[k].eq(Mux(size, most, Mux(rises ^ down, high, low))[:9].as_signed())


def _scaled(code: Value) -> Value:
    """A code that is not negative, times 2**-19: subnormal results are 0; infinities and NaN are anything, nothing is published then."""
    exponent = code[float32.fraction_bits : -1]
    scaled = Cat(code[: float32.fraction_bits], (exponent - SLACK_POWER)[:8], Const(0, 1))
    return Mux(exponent > SLACK_POWER, scaled, 0)[:32]
