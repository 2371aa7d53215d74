"""The solver of method `givens`: rows rotated into a float32 factor, rank rule, both triangular solves, several jobs interleaved."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.schedule import VECTORING
from ..arith.pipeline import Pipeline
from ..modules import Parts, Submodules
from ..stream.passing import passed_on
from .back_substitution import BackSubstitution
from .factor_writer import FactorWriter, factor_shape
from .givens_context import Kind
from .givens_issue import Issue, start_shape
from .rotation import RowRing, VectorUnit
from .solver import solution_shape
from .vectoring import Vectoring

__all__ = ["Givens", "factor_row_shape", "new_row_shape", "side_column_shape"]


def factor_row_shape(n_max):
    """A row of a memo's factor: d_k, then u_kj for j > k; float32 codes."""
    return data.ArrayLayout(32, n_max)


def new_row_shape(n_max):
    """A row to be folded: bytes minus offsets (9 bits, two's complement); or the `end` of a job's."""
    return data.StructLayout({"a": data.ArrayLayout(9, n_max - 1), "end": 1})


def side_column_shape():
    """A column of a right side: its value, and the limit that its pivot must exceed (float32 codes). With the `last` one h (float32 code)."""
    return data.StructLayout({"value": 32, "limit": 32, "h": 32, "last": 1})


class Givens(wiring.Component):
    """Jobs from factor, new rows and right side to weights and new factor.

    Golden: `models.qr.factor.fold`, `full_rank` and `solve`, h added to the bias. Twin in cycles: `models.qr.rotations`. An operation a cycle; weights come
    `ARRIVE` cycles and a job's slots after its last operation.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan` of method `givens`.

    Members
    -------
    start : In(stream.Signature(start_shape(n_max, jobs)))
        Jobs. What follows comes in the same order, each job's when its start has been accepted.
    load : In(stream.Signature(factor_row_shape(n_max)))
        Rows of the factor, from the first column's; none for a `fresh` job.
    rows : In(stream.Signature(new_row_shape(n_max)))
        New rows, and an `end` behind each job's.
    side : In(stream.Signature(side_column_shape()))
        Columns of the right side.
    o : Out(solution_shape(n_max, jobs)), o_valid : Out(1)
        A solution, for one cycle.
    factor : Out(stream.Signature(factor_shape(config)))
        Words of the new factors, one job's after the other's, in the order in which they are done.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        super().__init__(
            {
                "start": In(stream.Signature(start_shape(n, jobs))),
                "load": In(stream.Signature(factor_row_shape(n))),
                "rows": In(stream.Signature(new_row_shape(n))),
                "side": In(stream.Signature(side_column_shape())),
                "o": Out(solution_shape(n, jobs)),
                "o_valid": Out(1),
                "factor": Out(stream.Signature(factor_shape(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self.pipe = Pipeline(m)
        self.n = config.n_max
        self.count = config.contexts
        self.lanes = config.lanes
        self.vectors = config.vectors
        m.submodules.issue = self.issue = Issue(config)
        m.submodules.vectoring = self.vectoring = Vectoring(config, self.parts)
        m.submodules.ring = self.ring = RowRing(config)
        m.submodules.back_substitution = self.back = BackSubstitution(config)
        m.submodules.factor_writer = self.writer = FactorWriter(config, self.back)
        self.units = [VectorUnit(config, self.parts) for _ in range(self.vectors)]
        for v, each in enumerate(self.units):
            m.submodules[f"unit{v}"] = each

        self._streams(m)
        self._units(m)

        self._moves(m)
        self._ends(m)
        return m

    def _streams(self, m):
        """Streams in."""
        side_column, self.h = (
            Signal(range(self.n)),
            [Signal(32, name=f"h{c}") for c in range(self.count)],
        )
        side_taken = self.side.valid & self.side.ready
        row_taken = self.rows.valid & self.rows.ready & ~self.rows.p.end
        m.d.comb += [
            *passed_on(self.start, self.issue.start),
            self.issue.load_valid.eq(self.load.valid),
            self.load.ready.eq(self.issue.load_taken),
            self.issue.row_valid.eq(self.rows.valid),
            self.issue.row_end.eq(self.rows.p.end),
            self.rows.ready.eq(self.issue.row_ready),
            self.issue.side_valid.eq(self.side.valid),
            self.issue.side_last.eq(self.side.p.last),
            self.side.ready.eq(self.issue.side_ready),
            self.ring.write.eq(row_taken),
            self.ring.context.eq(self.issue.row_context),
            self.ring.place.eq(self.issue.row_place),
            self.ring.row.eq(self.rows.p.a),
            self.ring.side.eq(side_taken),
            self.ring.side_context.eq(self.issue.side_context),
            self.ring.side_column.eq(side_column),
            self.ring.side_value.eq(self.side.p.value),
            self.vectoring.side.eq(side_taken),
            self.vectoring.side_context.eq(self.issue.side_context),
            self.vectoring.side_column.eq(side_column),
            self.vectoring.side_value.eq(self.side.p.value),
            self.vectoring.side_limit.eq(self.side.p.limit),
        ]
        with m.If(side_taken):
            m.d.sync += side_column.eq(Mux(self.side.p.last, 0, side_column + 1))
            for c in range(self.count):
                with m.If(self.side.p.last & (self.issue.side_context == c)):
                    m.d.sync += self.h[c].eq(self.side.p.h)
        padded = Cat(self.load.payload.as_value()[32:], Const(0, 32 * self.lanes))
        groups = self.issue.groups
        wanted = Signal(32 * self.lanes)
        with m.Switch(self.issue.load_group):
            for group in range(groups):
                with m.Case(group):
                    m.d.comb += wanted.eq(
                        padded[32 * self.lanes * group : 32 * self.lanes * (group + 1)]
                    )
        self.load_late = Signal(data.ArrayLayout(32, self.lanes))
        m.d.comb += [
            self.load_late.eq(self.pipe.delay(wanted, VECTORING + 2, name="load")),
            self.vectoring.i.eq(self.issue.o),
            self.vectoring.load_d.eq(self.load.payload[0]),
        ]

    def _units(self, m):
        """An operation reaches its vector unit when its turn is nearly there."""
        self.go = Signal.like(self.issue.o)
        m.d.comb += self.go.eq(self.pipe.delay(self.issue.o.as_value(), VECTORING, name="go"))
        kind, columns = Kind(self.go.kind), Signal(range(self.n + 1))
        work, slots = Signal(range(self.n + 1)), Signal.like(self.units[0].slots)
        m.d.comb += columns.eq(
            Array([self.issue.columns[c] for c in range(self.count)])[self.go.context]
        )
        with m.Switch(kind):
            with m.Case(Kind.BACK):
                m.d.comb += work.eq(self.go.column)
            with m.Case(Kind.FINAL):
                m.d.comb += work.eq(columns)
            with m.Case(Kind.SIDE, Kind.KEEP):
                m.d.comb += work.eq(Mux(self.go.last, 1, columns - 1 - self.go.column))
            with m.Default():
                m.d.comb += work.eq(columns - 1 - self.go.column)
        m.d.comb += slots.eq(Array([-(-k // self.lanes) for k in range(self.n + 1)])[work])
        steps_back = (kind == Kind.BACK) | (kind == Kind.FINAL)
        own = Array([k % self.vectors for k in range(self.n)])
        for v, each in enumerate(self.units):
            before = self.units[v - 1]
            m.d.comb += [
                each.go.eq(
                    self.go.some
                    & (slots != 0)
                    & Mux(steps_back, v == self.vectors - 1, own[self.go.column] == v)
                ),
                each.operation.eq(self.go),
                each.slots.eq(slots),
                each.c.eq(self.vectoring.c),
                each.s.eq(self.vectoring.s),
                each.head.eq(self.vectoring.head_o),
                each.keep.eq(self.vectoring.keep),
                each.skip.eq(self.vectoring.skip),
                each.load.eq(self.load_late),
                each.next.eq(before.done),
                each.next_values.eq(before.result),
            ]
        m.d.comb += [
            self.units[0].row.eq(self.ring.o),
            self.units[0].rows.eq(1),
            self.ring.read.eq(self.units[0].read),
            self.ring.data.eq(self.units[0].data),
            self.issue.freed.eq(self.ring.freed),
            self.issue.freed_context.eq(self.ring.freed_context),
        ]

    def _moves(self, m):
        """First elements of rows that move on; u that goes out: one unit at a time."""
        heads = [
            each.done.some
            & (each.done.slot == 0)
            & Cat(each.done.operation.kind == k for k in (Kind.ROW, Kind.SIDE, Kind.DROP)).any()
            & ~each.done.operation.last
            for each in self.units
        ]
        takes = [
            each.data.some
            & ((each.data.operation.kind == Kind.SIDE) | (each.data.operation.kind == Kind.KEEP))
            for each in self.units
        ]
        moved = Signal.like(self.go)
        taken = Signal.like(self.go)
        take_slot = Signal.like(self.units[0].data.slot)
        m.d.comb += [
            self.vectoring.head.eq(Cat(heads).any()),
            self.back.take.eq(Cat(takes).any()),
            self.vectoring.head_context.eq(moved.context),
            self.vectoring.head_column.eq(moved.column + 1),
            self.vectoring.head_place.eq(Mux(moved.kind == Kind.SIDE, 3, moved.to)),
            self.back.take_operation.eq(taken),
            self.back.take_slot.eq(take_slot),
        ]
        for each, head, take in zip(self.units, heads, takes, strict=True):
            with m.If(head):
                m.d.comb += [
                    moved.eq(each.done.operation),
                    self.vectoring.head_value.eq(each.result[0]),
                ]
            with m.If(take):
                m.d.comb += [
                    taken.eq(each.data.operation),
                    take_slot.eq(each.data.slot),
                    self.back.take_values.eq(each.u_o),
                ]

    def _ends(self, m):
        """Back substitution and the factor writer."""
        last = self.units[-1]
        m.d.comb += [
            *(
                getattr(self.back, f"{name}{part}").eq(getattr(self.vectoring, f"{name}{part}"))
                for name in ("d", "z")
                for part in ("", "_context", "_column", "_value")
            ),
            self.back.read.eq(last.read),
            self.back.data.eq(last.data),
            self.back.done.eq(last.done),
            self.back.result.eq(last.result),
            self.back.columns.eq(self.issue.columns),
            *(self.back.h[c].eq(self.h[c]) for c in range(self.count)),
            self.back.kept.eq(self.vectoring.kept),
            last.u.eq(self.back.u),
            last.z.eq(self.back.z_o),
            last.factor.eq(self.back.factor),
            self.issue.leaves.eq(self.vectoring.leaves),
            self.issue.drops.eq(self.vectoring.drops),
            self.issue.keep.eq(self.vectoring.kept),
            self.issue.ended.eq(self.back.ended),
            self.issue.ended_context.eq(self.back.ended_context),
            self.issue.gone.eq(self.writer.gone),
            self.issue.gone_context.eq(self.writer.gone_context),
            self.writer.goes.eq(self.issue.goes),
            self.writer.goes_context.eq(self.issue.goes_context),
            self.writer.columns.eq(self.issue.columns),
            self.writer.jobs.eq(self.issue.jobs),
            self.back.out_address.eq(self.writer.address),
            self.back.out_column_address.eq(self.writer.column_address),
            self.back.out_en.eq(self.writer.en),
            self.writer.values.eq(self.back.out_values),
            self.writer.d.eq(self.back.out_d),
            *passed_on(self.writer.o, self.factor),
            self.o.weights.eq(self.back.weights),
        ]
        m.d.sync += [
            self.o_valid.eq(self.back.ended),
            self.o.job.eq(
                Array([self.issue.jobs[c] for c in range(self.count)])[self.back.ended_context]
            ),
            self.o.mask.eq(
                Array([self.vectoring.kept[c] for c in range(self.count)])[self.back.ended_context]
            ),
        ]
