"""Scalars of rotations: pivots, weights, and what turns them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.rotations import ARRIVE, PLACES
from ...models.qr.schedule import ADD, DIV, MUL, VECTORING
from ..arith.pipeline import Pipeline, Unpacked
from ..arith.unit import unit
from ..index import index_range
from ..modules import Parts, Submodules
from .givens_context import Kind
from .givens_issue import operation_shape

__all__ = ["Vectoring"]

_ONE = Const(float32.one, 32)
_NOTHING = Const(0x80000000, 32)  # -0: x + -0 is x, whatever its sign
#: from an operation's issue to d from memory, to the pivot, to c and s, to the row's weight
_D = 2 + 2 * MUL
_PIVOT = 2 + 2 * MUL + ADD
_TURN = 2 + VECTORING
_WEIGHT = _TURN + 1 + MUL


class Vectoring(wiring.Component):
    """The vectoring unit with its memories: d, the rows' first elements and weights. 3 multipliers, an adder, 2 dividers; an operation a cycle.

    Golden: `models.qr.factor.fold` (`_vector`), the rank rule, and 1 / d_k of `solve`.

    Members
    -------
    i : In(operation_shape(config))
        As it is issued.
    load_d : In(32)
        With a LOAD: d of the row that comes in.
    head, head_context, head_column, head_place, head_value : In
        A row's element of a column has been computed; the operation that wants it was issued two cycles before at the earliest.
    side, side_context, side_column, side_value, side_limit : In
        A column of a right side and the limit of its pivot.
    c, s, head_o, keep, skip : Out
        Of the operation issued 2 + VECTORING cycles ago; `skip`: the row goes on as it was.
    leaves, drops : Out(1)
        As `Issue` takes them.
    kept : Out(ArrayLayout(n_max, contexts))
        Columns kept, by context.
    d, d_context, d_column, d_value : Out
        d of a column whose row of the factor goes out.
    z, z_context, z_column, z_value : Out
        y_k / d_k of a column.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        which, column = index_range(config.contexts), range(config.n_max)
        super().__init__(
            {
                "i": In(operation_shape(config)),
                "load_d": In(32),
                "head": In(1),
                "head_context": In(which),
                "head_column": In(column),
                "head_place": In(range(PLACES + 1)),
                "head_value": In(32),
                "side": In(1),
                "side_context": In(which),
                "side_column": In(column),
                "side_value": In(32),
                "side_limit": In(32),
                "c": Out(32),
                "s": Out(32),
                "head_o": Out(32),
                "keep": Out(1),
                "skip": Out(1),
                "leaves": Out(1),
                "drops": Out(1),
                "kept": Out(data.ArrayLayout(config.n_max, config.contexts)),
                "d": Out(1),
                "d_context": Out(which),
                "d_column": Out(column),
                "d_value": Out(32),
                "z": Out(1),
                "z_context": Out(which),
                "z_column": Out(column),
                "z_value": Out(32),
            }
        )

    def _is(self, stage: int, *kinds: Any) -> Value:
        """Whether the operation at this stage is of one of these kinds."""
        return Cat(self.stages[stage].kind == kind for kind in kinds).any()

    def _cell(self, operation) -> Value:
        """The place of the operation's column among those of all contexts."""
        return operation.context * self.config.n_max + operation.column

    def _unit(self, m, label, op, a, b):
        return self.parts.instance(m, label, f"{op}_float32", lambda: unit(op, float32), a=a, b=b)[
            "o"
        ]

    def _comes(self, operation) -> Value:
        """Whether the element that comes in this cycle is the operation's."""
        place = Mux(operation.kind == Kind.ROW, operation.place[:2], PLACES)
        return (
            self.head
            & (self.head_context == operation.context)
            & (self.head_column == operation.column)
            & (self.head_place == place)
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        shape = operation_shape(self.config)
        self.stages = [self.i]
        for k in range(_WEIGHT):
            stage = Signal(shape, name=f"operation{k + 1}", reset_less=True)
            m.d.sync += stage.eq(self.stages[-1])
            self.stages.append(stage)

        self._head(m)
        self._pivot(m)
        self._hand_on(m, self._turn(m))
        return m

    def _head(self, m):
        """A row's first element and weight."""
        m.submodules.heads = heads = Memory(
            shape=unsigned(32), depth=4 * self.config.n_max * self.config.contexts, init=[]
        )
        head_write = heads.write_port()
        head_read = heads.read_port(transparent_for=(head_write,))
        m.submodules.weights = weights = Memory(
            shape=unsigned(32), depth=4 * self.config.n_max * self.config.contexts, init=[]
        )
        self.weight_write, weight_read = weights.write_port(), weights.read_port()
        m.submodules.firsts = firsts = Memory(
            shape=unsigned(32), depth=self.config.contexts, init=[]
        )
        first_write, first_read = firsts.write_port(), firsts.read_port()
        m.submodules.limits = limits = Memory(
            shape=unsigned(32), depth=self.config.n_max * self.config.contexts, init=[]
        )
        limit_write, self.limit_read = limits.write_port(), limits.read_port()
        m.d.comb += [
            head_read.addr.eq(self._cell(self.i) << 2 | self.i.place[:2]),
            head_read.en.eq(1),
            weight_read.addr.eq(head_read.addr),
            weight_read.en.eq(1),
            first_read.addr.eq(self.i.context),
            first_read.en.eq(1),
            head_write.en.eq(self.head),
            head_write.addr.eq(
                ((self.head_context * self.config.n_max + self.head_column) << 2) + self.head_place
            ),
            head_write.data.eq(self.head_value),
            first_write.en.eq(self.side & (self.side_column == 0)),
            first_write.addr.eq(self.side_context),
            first_write.data.eq(self.side_value),
            limit_write.en.eq(self.side),
            limit_write.addr.eq(self.side_context * self.config.n_max + self.side_column),
            limit_write.data.eq(self.side_limit),
        ]
        entering = self.stages[1].column == 0
        held = self.pipe.rank(
            o=Mux(
                entering,
                Mux(self._is(1, Kind.ROW), _ONE, first_read.data),
                Mux(self._comes(self.stages[1]), self.head_value, head_read.data),
            )
        ).o
        self.x = self.pipe.wire(
            Mux(self._comes(self.stages[2]) & (self.stages[2].column != 0), self.head_value, held),
            name="x_now",
        )
        self.weight = self.pipe.delay(Mux(entering, _ONE, weight_read.data), 1, name="weight")
        self.e = self._unit(m, "mul_e", "mul", self.weight, self.x)
        self.step = self._unit(m, "mul_step", "mul", self.e, self.pipe.delay(self.x, MUL, name="x"))

    def _pivot(self, m):
        """d, as late as the sum wants it, so that a column's pivot is there in time."""
        # d, as late as the sum wants it: a pivot is there when the column's next row needs it
        m.submodules.pivots = pivots = Memory(
            shape=unsigned(32), depth=self.config.n_max * self.config.contexts, init=[]
        )
        self.d_write, d_read = pivots.write_port(), pivots.read_port()
        m.d.comb += [
            d_read.addr.eq(self._cell(self.stages[_D - 2])),
            d_read.en.eq(1),
            self.limit_read.addr.eq(d_read.addr),
            self.limit_read.en.eq(1),
        ]
        loaded = self.pipe.delay(self.load_d, _D - 1, name="load_d")
        self.d_now = self.pipe.delay(
            Mux(
                self._is(_D - 1, Kind.LOAD), loaded, Mux(self.stages[_D - 1].blank, 0, d_read.data)
            ),
            1,
            name="d",
        )
        limit = self.pipe.delay(self.limit_read.data, 1, name="limit")
        keep, some = Signal(), Signal()
        m.d.comb += [keep.eq(_above(self.d_now, limit)), some.eq(_above(self.d_now, Const(0, 32)))]
        self.pivot = self._unit(
            m, "add_pivot", "add", self.d_now, Mux(self._is(_D, Kind.LOAD), _NOTHING, self.step)
        )
        here, out = self.stages[_D], self._is(_D, Kind.SIDE, Kind.KEEP)
        m.d.comb += [
            self.d.eq(here.some & out),
            self.d_context.eq(here.context),
            self.d_column.eq(here.column),
            self.d_value.eq(self.d_now),
            self.drops.eq(
                self.pipe.delay(
                    ~keep & some & ~here.last & self._is(_D, Kind.SIDE),
                    ARRIVE - 1 - _D,
                    name="drops",
                )
            ),
            self.keep.eq(self.pipe.delay(keep, _TURN - _D, name="keep")),
        ]
        for c in range(self.config.contexts):
            with m.If(here.some & self._is(_D, Kind.SIDE) & (here.context == c)):
                m.d.sync += self.kept[c].eq(
                    Mux(
                        here.column == 0,
                        keep,
                        self.kept[c] & ~(1 << here.column) | (keep << here.column),
                    )
                )

    def _turn(self, m):
        """What turns the row; return its cosine."""
        here = self.stages[_PIVOT]
        skip = Signal()
        m.d.comb += skip.eq(Unpacked(self.pivot, float32).zero & self._is(_PIVOT, Kind.ROW))
        m.d.comb += [
            self.d_write.en.eq(
                here.some
                & (
                    self._is(_PIVOT, Kind.LOAD)
                    | (self._is(_PIVOT, Kind.ROW) & (~skip | here.blank))
                )
            ),
            self.d_write.addr.eq(self._cell(here)),
            self.d_write.data.eq(self.pivot),
        ]
        self.old = self.pipe.delay(self.d_now, ADD, name="old_d")
        side = self._is(_PIVOT, Kind.SIDE)
        c = self._unit(
            m, "div_c", "div", Mux(side, _ONE, self.old), Mux(side, self.old, self.pivot)
        )
        s = self._unit(m, "div_s", "div", self.pipe.delay(self.e, MUL + ADD, name="e"), self.pivot)
        m.d.comb += [
            self.c.eq(c),
            self.s.eq(s),
            self.head_o.eq(self.pipe.delay(self.x, VECTORING, name="head_late")),
            self.skip.eq(self.pipe.delay(skip, DIV, name="skip")),
        ]
        return c

    def _hand_on(self, m, turn):
        """The row's weight in the next column; y_k / d_k of the right side."""
        drop = self._is(_TURN, Kind.DROP)
        own = Mux(
            drop,
            self.pipe.delay(self.old, DIV, name="late_d"),
            self.pipe.delay(self.weight, VECTORING, name="late_weight"),
        )
        a = self.pipe.delay(Mux(self._is(_TURN, Kind.SIDE), self.head_o, own), 1, name="a")
        b = self.pipe.delay(Mux(drop | self.skip, _ONE, turn), 1, name="b")
        product = self._unit(m, "mul_weight", "mul", a, b)
        here = self.stages[_WEIGHT]
        m.d.comb += [
            self.weight_write.en.eq(
                here.some & self._is(_WEIGHT, Kind.ROW, Kind.DROP) & ~here.last
            ),
            self.weight_write.addr.eq(((self._cell(here) + 1) << 2) + here.to),
            self.weight_write.data.eq(product),
            self.z.eq(here.some & self._is(_WEIGHT, Kind.SIDE)),
            self.z_context.eq(here.context),
            self.z_column.eq(here.column),
            self.z_value.eq(product),
            self.leaves.eq(
                self.pipe.delay(
                    Unpacked(product, float32).zero, ARRIVE - 1 - _WEIGHT, name="leaves"
                )
            ),
        ]


def _above(a: Value, b: Value) -> Value:
    """Whether a > b, b not negative."""
    x = Unpacked(a, float32)
    return ~x.sign & ~x.nan & ~x.zero & (a > b)
