"""The solver of method `givens`: rows rotated into a float32 factor, rank rule, both triangular solves, several jobs interleaved."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.schedule import VECTORING
from ..arith.pipeline import Pipeline
from ..modules import Parts, Submodules
from .back_substitution import BackSubstitution
from .factor_writer import FactorWriter, factor_shape
from .givens_issue import Issue, Kind, start_shape
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
        `models.qr.FitPlan` of method `givens`.

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

    def __init__(self, config: FitPlan, parts: Parts | None = None, *, src_loc_at=0):
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        super().__init__({
            "start": In(stream.Signature(start_shape(n, jobs))), "load": In(stream.Signature(factor_row_shape(n))),
            "rows": In(stream.Signature(new_row_shape(n))), "side": In(stream.Signature(side_column_shape())),
            "o": Out(solution_shape(n, jobs)), "o_valid": Out(1), "factor": Out(stream.Signature(factor_shape(config)))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        pipe = Pipeline(m)
        n, count, lanes, vectors = config.n_max, config.contexts, config.lanes, config.vectors
        m.submodules.issue = issue = Issue(config)
        m.submodules.vectoring = vectoring = Vectoring(config, self.parts)
        m.submodules.ring = ring = RowRing(config)
        m.submodules.back_substitution = back = BackSubstitution(config)
        m.submodules.factor_writer = writer = FactorWriter(config, back)
        units = [VectorUnit(config, self.parts) for _ in range(vectors)]
        for v, each in enumerate(units):
            m.submodules[f"unit{v}"] = each

        # streams in
        side_column, h = Signal(range(n)), [Signal(32, name=f"h{c}") for c in range(count)]
        side_taken, row_taken = self.side.valid & self.side.ready, self.rows.valid & self.rows.ready & ~self.rows.p.end
        m.d.comb += [
            issue.start.payload.eq(self.start.payload), issue.start.valid.eq(self.start.valid), self.start.ready.eq(issue.start.ready),
            issue.load_valid.eq(self.load.valid), self.load.ready.eq(issue.load_taken),
            issue.row_valid.eq(self.rows.valid), issue.row_end.eq(self.rows.p.end), self.rows.ready.eq(issue.row_ready),
            issue.side_valid.eq(self.side.valid), issue.side_last.eq(self.side.p.last), self.side.ready.eq(issue.side_ready),
            ring.write.eq(row_taken), ring.context.eq(issue.row_context), ring.place.eq(issue.row_place), ring.row.eq(self.rows.p.a),
            ring.side.eq(side_taken), ring.side_context.eq(issue.side_context), ring.side_column.eq(side_column), ring.side_value.eq(self.side.p.value),
            vectoring.side.eq(side_taken), vectoring.side_context.eq(issue.side_context), vectoring.side_column.eq(side_column),
            vectoring.side_value.eq(self.side.p.value), vectoring.side_limit.eq(self.side.p.limit)]
        with m.If(side_taken):
            m.d.sync += side_column.eq(Mux(self.side.p.last, 0, side_column + 1))
            for c in range(count):
                with m.If(self.side.p.last & (issue.side_context == c)):
                    m.d.sync += h[c].eq(self.side.p.h)
        padded = Cat(self.load.payload.as_value()[32:], Const(0, 32 * lanes))
        groups = issue.groups
        wanted = Signal(32 * lanes)
        with m.Switch(issue.load_group):
            for group in range(groups):
                with m.Case(group):
                    m.d.comb += wanted.eq(padded[32 * lanes * group:32 * lanes * (group + 1)])
        load_late = Signal(data.ArrayLayout(32, lanes))
        m.d.comb += [load_late.eq(pipe.delay(wanted, VECTORING + 2, name="load")), vectoring.i.eq(issue.o), vectoring.load_d.eq(self.load.payload[0])]

        # an operation reaches its vector unit when its turn is nearly there
        go = Signal.like(issue.o)
        m.d.comb += go.eq(pipe.delay(issue.o.as_value(), VECTORING, name="go"))
        kind, columns = Kind(go.kind), Signal(range(n + 1))
        work, slots = Signal(range(n + 1)), Signal.like(units[0].slots)
        m.d.comb += columns.eq(Array([issue.columns[c] for c in range(count)])[go.context])
        with m.Switch(kind):
            with m.Case(Kind.BACK):
                m.d.comb += work.eq(go.column)
            with m.Case(Kind.FINAL):
                m.d.comb += work.eq(columns)
            with m.Case(Kind.SIDE, Kind.KEEP):
                m.d.comb += work.eq(Mux(go.last, 1, columns - 1 - go.column))
            with m.Default():
                m.d.comb += work.eq(columns - 1 - go.column)
        m.d.comb += slots.eq(Array([-(-k // lanes) for k in range(n + 1)])[work])
        steps_back = (kind == Kind.BACK) | (kind == Kind.FINAL)
        own = Array([k % vectors for k in range(n)])
        for v, each in enumerate(units):
            before = units[v - 1]
            m.d.comb += [
                each.go.eq(go.some & (slots != 0) & Mux(steps_back, v == vectors - 1, own[go.column] == v)), each.operation.eq(go), each.slots.eq(slots),
                each.c.eq(vectoring.c), each.s.eq(vectoring.s), each.head.eq(vectoring.head_o), each.keep.eq(vectoring.keep), each.skip.eq(vectoring.skip),
                each.load.eq(load_late), each.next.eq(before.done), each.next_values.eq(before.result)]
        m.d.comb += [
            units[0].row.eq(ring.o), units[0].rows.eq(1), ring.read.eq(units[0].read), ring.data.eq(units[0].data),
            issue.freed.eq(ring.freed), issue.freed_context.eq(ring.freed_context)]

        # first elements of rows that move on; u that goes out: one unit at a time
        heads = [each.done.some & (each.done.slot == 0) & Cat(each.done.operation.kind == k for k in (Kind.ROW, Kind.SIDE, Kind.DROP)).any()
                 & ~each.done.operation.last for each in units]
        takes = [each.data.some & ((each.data.operation.kind == Kind.SIDE) | (each.data.operation.kind == Kind.KEEP)) for each in units]
        moved, taken, take_slot = Signal.like(go), Signal.like(go), Signal.like(units[0].data.slot)
        m.d.comb += [vectoring.head.eq(Cat(heads).any()), back.take.eq(Cat(takes).any()), vectoring.head_context.eq(moved.context),
                     vectoring.head_column.eq(moved.column + 1), vectoring.head_place.eq(Mux(moved.kind == Kind.SIDE, 3, moved.to)),
                     back.take_operation.eq(taken), back.take_slot.eq(take_slot)]
        for each, head, take in zip(units, heads, takes, strict=True):
            with m.If(head):
                m.d.comb += [moved.eq(each.done.operation), vectoring.head_value.eq(each.result[0])]
            with m.If(take):
                m.d.comb += [taken.eq(each.data.operation), take_slot.eq(each.data.slot), back.take_values.eq(each.u_o)]

        # back substitution and the factor writer
        last = units[-1]
        m.d.comb += [
            *(getattr(back, f"{name}{part}").eq(getattr(vectoring, f"{name}{part}")) for name in ("d", "z") for part in ("", "_context", "_column", "_value")),
            back.read.eq(last.read), back.data.eq(last.data), back.done.eq(last.done), back.result.eq(last.result), back.columns.eq(issue.columns),
            *(back.h[c].eq(h[c]) for c in range(count)), back.kept.eq(vectoring.kept), last.u.eq(back.u), last.z.eq(back.z_o), last.factor.eq(back.factor),
            issue.leaves.eq(vectoring.leaves), issue.drops.eq(vectoring.drops), issue.keep.eq(vectoring.kept),
            issue.ended.eq(back.ended), issue.ended_context.eq(back.ended_context), issue.gone.eq(writer.gone), issue.gone_context.eq(writer.gone_context),
            writer.goes.eq(issue.goes), writer.goes_context.eq(issue.goes_context), writer.columns.eq(issue.columns), writer.jobs.eq(issue.jobs),
            back.out_address.eq(writer.address), back.out_column_address.eq(writer.column_address), back.out_en.eq(writer.en),
            writer.values.eq(back.out_values), writer.d.eq(back.out_d),
            self.factor.payload.eq(writer.o.payload), self.factor.valid.eq(writer.o.valid), writer.o.ready.eq(self.factor.ready),
            self.o.weights.eq(back.weights)]
        m.d.sync += [self.o_valid.eq(back.ended), self.o.job.eq(Array([issue.jobs[c] for c in range(count)])[back.ended_context]),
                     self.o.mask.eq(Array([vectoring.kept[c] for c in range(count)])[back.ended_context])]
        return m

