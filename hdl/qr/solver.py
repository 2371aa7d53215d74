"""Elimination of a Gram matrix and both triangular solves, several jobs interleaved."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.schedule import ADD, DIV, MUL, STEP
from ..apart import APART
from ..arith.pipeline import Pipeline, Unpacked
from ..arith.unit import unit
from ..index import index
from ..modules import Parts, Submodules

__all__ = ["Solver", "load_shape", "solution_shape"]

_NOTHING = Const(0x80000000, 32)                                 # -0: -0 - (a · -b) is a · b, whatever its sign
_MINUS_ONE = Const(float32.const(-1.0), 32)
#: exponent of `models.qr.factor.TOLERANCE`
_TOLERANCE = 16


class Kind(enum.Enum, shape=3):
    """A task; see `models.qr.schedule.gram_tasks`."""

    LOAD = 0
    SCALE = 1
    ROW = 2
    BACK = 3
    FINAL = 4


def load_shape(n_max, jobs):
    """A row of a job's matrix, float32 codes: entries (i, row) for i up to `row` = 0 … columns - 1, then (`side`) the right side and h."""
    return data.StructLayout({"columns": range(n_max + 1), "row": range(n_max + 1), "side": 1, "h": 32, "job": range(max(jobs, 2)),
                              "values": data.ArrayLayout(32, n_max)})


def solution_shape(n_max, jobs):
    """A job's weights, and the mask of columns that have one."""
    return data.StructLayout({"job": range(max(jobs, 2)), "mask": n_max, "weights": data.ArrayLayout(32, n_max)})


class Solver(wiring.Component):
    """Weights of jobs whose exact sums come as float32 rows. One task a cycle: a row that is there and has room
    is taken; else the oldest job whose next task may start goes first.

    Golden: `models.qr.factor.eliminate` and `solve`. Twin in cycles: `models.qr.solver.alone` over `models.qr.schedule.gram_tasks`.

    Row j of a context's memory holds the entries (i, j), i <= j, of the matrix; elimination of column k turns entry (k, j) into u_kj. The right side is one row
    more: elimination makes y of it, and its entry k becomes z_k = y_k / d_k. All tasks are results = minuend - a · b over the lanes, STEP cycles from
    issue to the next task that may read them:

    * LOAD: minuend the row that came; a · b = 0.
    * SCALE k: u_k = column k (collected from the rows as they pass) · 1 / d_k.
    * ROW j of column k: entries i > k less u_ki · g_kj; entry k is scaled. A column that is not kept changes nothing.
    * BACK j: z_i less u_ij · z_j, i < j.
    * FINAL: z_0 and h.

    Each pivot goes into the divider as soon as its row passes, STEP + DIV cycles before its SCALE.

    Parameters
    ----------
    config
        `models.qr.FitPlan` of method `gram` with at least n_max `lanes`.

    Members
    -------
    i : In(stream.Signature(load_shape(n_max, jobs)))
        Jobs one after the other.
    o : Out(solution_shape(n_max, jobs)), o_valid : Out(1)
        A solution, for one cycle, STEP - 1 cycles after its last task's issue.

    Raises
    ------
    ValueError
        Fewer lanes than columns.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None, *, src_loc_at=0):
        if config.lanes < config.n_max:
            raise ValueError(f"the solver takes a row a cycle: {config.lanes} lanes are less than {config.n_max} columns")
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        super().__init__({"i": In(stream.Signature(load_shape(n, jobs))), "o": Out(solution_shape(n, jobs)), "o_valid": Out(1)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        n, count = self.config.n_max, self.config.contexts
        pipe = Pipeline(m)
        columns_of, h_of, job_of = ([Signal(s, name=f"{name}{c}", reset_less=True) for c in range(count)] for name, s in
                                    (("columns", range(n + 1)), ("h", 32), ("job", range(max(self.config.jobs, 2)))))
        keep_of, t_of, scale_of = ([Signal(s, name=f"{name}{c}", reset_less=True) for c in range(count)] for name, s in (("keep", n), ("t", 32), ("scale", 32)))
        issue, context, kind, column, row, side, closes = self._issue(m, columns_of)

        # cycle 1: memories' data, operands
        task = pipe.rank(issue=issue, context=context, kind=kind.as_value(), column=column, row=row, side=side, closes=closes,
                         load=self.i.p.values.as_value())
        kind1 = Kind(task.kind)
        rows, vectors, pivots = [], [], []
        writes = []
        for i in range(n):
            sets = []
            for name, depth, address in (("row", count << len(row), Cat(Mux(side, n, row), context)), ("vector", count, context), ("pivot", count, context)):
                # STEP cycles lie between the task that writes a word and the one that wants it
                m.submodules[f"{name}{i}"] = memory = Memory(shape=unsigned(32), depth=depth, init=[], attrs=APART)
                read, write = memory.read_port(), memory.write_port()
                m.d.comb += [read.addr.eq(address), read.en.eq(1)]
                sets.append((read.data, write))
            (row_data, row_write), (vector_data, vector_write), (pivot_data, pivot_write) = sets
            rows.append(row_data)
            vectors.append(vector_data)
            pivots.append(pivot_data)
            writes.append((row_write, vector_write, pivot_write))
        back = kind1 == Kind.BACK
        scalar = pipe.wire(Array([Mux(back, v, r) for v, r in zip(vectors, rows, strict=True)])[Mux(back, task.row, task.column)], name="scalar")
        here = {name: pipe.wire(Array(values)[task.context], name=f"{name}_here")
                for name, values in (("keep", keep_of), ("t", t_of), ("scale", scale_of), ("h", h_of), ("job", job_of), ("columns", columns_of))}
        kept = pipe.wire((here["keep"] >> Mux(back, task.row, task.column))[0], name="kept")
        for c in range(count):
            with m.If(task.issue & (kind1 == Kind.SCALE) & (task.context == c)):
                m.d.sync += scale_of[c].eq(t_of[c])
        results = []
        for i in range(n):
            a, b, minuend = (Signal(32, name=f"{name}{i}", reset_less=True) for name in ("a", "b", "minuend"))
            m.d.sync += [a.eq(0), b.eq(0), minuend.eq(rows[i])]
            with m.Switch(kind1):
                with m.Case(Kind.LOAD):
                    m.d.sync += minuend.eq(task.load.word_select(i, 32))
                with m.Case(Kind.SCALE):
                    m.d.sync += [a.eq(pivots[i]), b.eq(here["t"] ^ (1 << 31)), minuend.eq(_NOTHING)]
                with m.Case(Kind.ROW):
                    with m.If(kept & (task.column < i)):
                        m.d.sync += [a.eq(vectors[i]), b.eq(scalar)]
                    with m.If(task.column == i):
                        m.d.sync += minuend.eq(_NOTHING)
                        with m.If(kept):
                            m.d.sync += [a.eq(scalar), b.eq(here["scale"] ^ (1 << 31))]
                with m.Case(Kind.BACK):
                    m.d.sync += minuend.eq(vectors[i])
                    with m.If(kept & (task.row > i)):
                        m.d.sync += [a.eq(rows[i]), b.eq(scalar)]
                with m.Case(Kind.FINAL):
                    m.d.sync += minuend.eq(vectors[i])
                    if i == 0:
                        with m.If(kept):
                            m.d.sync += [a.eq(here["h"]), b.eq(_MINUS_ONE)]
            product = self.parts.instance(m, f"mul{i}", "mul_float32", lambda: unit("mul", float32), a=a, b=b)["o"]
            waiting = pipe.delay(minuend, MUL, name=f"waiting{i}_")
            results.append(self.parts.instance(m, f"sub{i}", "sub_float32", lambda: unit("sub", float32), a=waiting, b=product)["o"])

        # the write cycle: results go to their memories
        late = MUL + ADD + 1
        end = {name: pipe.delay(value, late, name=f"{name}_end") for name, value in
               (("issue", task.issue), ("context", task.context), ("kind", task.kind), ("column", task.column), ("row", task.row), ("side", task.side),
                ("closes", task.closes), ("keep", here["keep"]), ("job", here["job"]), ("columns", here["columns"]))}
        done = Kind(end["kind"])
        of_rows = (done == Kind.LOAD) | (done == Kind.ROW)
        for i, (row_write, vector_write, _) in enumerate(writes):
            m.d.comb += [
                row_write.en.eq(end["issue"] & of_rows), row_write.addr.eq(Cat(Mux(end["side"], n, end["row"]), end["context"])),
                row_write.data.eq(results[i]), vector_write.data.eq(results[i]), vector_write.addr.eq(end["context"]),
                vector_write.en.eq(end["issue"] & ((done == Kind.SCALE) | (done == Kind.BACK) | end["closes"])),
                self.o.weights[i].eq(Mux(end["keep"][i], results[i], 0))]
        m.d.comb += [self.o_valid.eq(end["issue"] & (done == Kind.FINAL)), self.o.job.eq(end["job"]), self.o.mask.eq(end["keep"])]

        # one cycle later: the next column's entry of this row; its pivot
        following = Mux(done == Kind.LOAD, 0, end["column"] + 1)
        s = pipe.rank(some=end["issue"] & of_rows & ~end["side"], pivot=end["row"] == following, value=Array(results)[following], context=end["context"],
                      row=end["row"])
        for i, (_, _, pivot_write) in enumerate(writes):
            m.d.comb += [pivot_write.en.eq(s.some & (s.row == i)), pivot_write.addr.eq(s.context), pivot_write.data.eq(s.value)]
        m.submodules.limits = limits = Memory(shape=unsigned(32), depth=count << len(row), init=[], attrs=APART)
        limit_write, limit = limits.write_port(), limits.read_port()
        m.d.comb += [limit_write.en.eq(task.issue & (kind1 == Kind.LOAD) & ~task.side), limit_write.addr.eq(Cat(task.row, task.context)),
                     limit_write.data.eq(_scaled(Array([task.load.word_select(i, 32) for i in range(n)])[task.row])), limit.en.eq(1),
                     limit.addr.eq(Cat(end["row"], end["context"]))]
        passes = pipe.wire(_above(s.value, limit.data), name="passes")
        reciprocal = self.parts.instance(m, "div", "div_float32", lambda: unit("div", float32), a=Const(float32.one, 32), b=s.value)["o"]
        arrives, whose = pipe.delay(s.some & s.pivot, DIV, name="arrives"), pipe.delay(s.context, DIV, name="whose")
        for c in range(count):
            with m.If(s.some & s.pivot & (s.context == c)):
                m.d.sync += keep_of[c].eq(keep_of[c] & ~(1 << s.row) | (passes << s.row))
            with m.If(arrives & (whose == c)):
                m.d.sync += t_of[c].eq(reciprocal)
            with m.If(task.issue & (kind1 == Kind.LOAD) & (task.context == c) & (task.row == 0) & ~task.side):
                m.d.sync += keep_of[c].eq(0)
        with m.If(issue & (kind == Kind.LOAD)):
            for c in range(count):
                with m.If(context == c):
                    m.d.sync += [columns_of[c].eq(self.i.p.columns), h_of[c].eq(self.i.p.h), job_of[c].eq(self.i.p.job)]
        return m

    def _issue(self, m: Module, columns_of: list[Signal]) -> tuple[Value, ...]:
        """The contexts' next tasks, and which is issued: whether any, its context, kind, column, row, whether of the right side, whether the last of that."""
        n, count = self.config.n_max, self.config.contexts
        active, loading = Signal(count), Signal()
        kinds = [Signal(Kind, name=f"kind{c}", reset_less=True) for c in range(count)]
        columns, rows = [index(n + 1, name=f"column{c}") for c in range(count)], [index(n + 1, name=f"row{c}") for c in range(count)]
        sides = [Signal(name=f"side{c}") for c in range(count)]
        waits, divides = [index(STEP, name=f"wait{c}") for c in range(count)], [index(STEP + DIV, name=f"divide{c}") for c in range(count)]
        older = [Signal(count, name=f"older{c}", reset_less=True) for c in range(count)]       # contexts that came before
        newest = index(count, name="newest")
        may = Signal(count)
        for c in range(count):
            m.d.comb += may[c].eq(active[c] & (kinds[c] != Kind.LOAD) & (waits[c] == 0) & ((kinds[c] != Kind.SCALE) | (divides[c] == 0)))
            m.d.sync += [waits[c].eq(Mux(waits[c] == 0, 0, waits[c] - 1)), divides[c].eq(Mux(divides[c] == 0, 0, divides[c] - 1))]
        chosen = Signal(count)
        m.d.comb += [chosen[c].eq(may[c] & ~(may & older[c]).any()) for c in range(count)]
        # the rows of a job that comes: it is the newest one
        free, place = Signal(count), index(count, name="place")
        m.d.comb += [free.eq(~active), place.eq(newest)]
        with m.If(~loading):
            for c in reversed(range(count)):
                with m.If(free[c]):
                    m.d.comb += place.eq(c)
        loads = Signal()
        m.d.comb += [self.i.ready.eq(loading | free.any()), loads.eq(self.i.valid & self.i.ready)]
        context = index(count, name="context")
        m.d.comb += context.eq(place)
        for c in range(count):
            with m.If(chosen[c] & ~loads):
                m.d.comb += context.eq(c)
        task = {"kind": Signal(Kind, name="task_kind"), "column": index(n + 1, name="task_column"), "row": index(n + 1, name="task_row"),
                "side": Signal(name="task_side"), "closes": Signal(name="task_closes")}
        with m.If(~loads):
            for c in range(count):
                with m.If(chosen[c]):
                    m.d.comb += [task["kind"].eq(kinds[c]), task["column"].eq(columns[c]), task["row"].eq(rows[c]), task["side"].eq(sides[c])]
                    m.d.comb += task["closes"].eq((kinds[c] == Kind.ROW) & sides[c] & (columns[c] == columns_of[c] - 1))
                    self._advance(m, columns_of[c], kinds[c], columns[c], rows[c], sides[c], waits[c], divides[c], active[c])
        with m.Else():
            m.d.comb += [task["row"].eq(self.i.p.row), task["side"].eq(self.i.p.side)]
        with m.If(loads):
            m.d.sync += [loading.eq(~self.i.p.side), newest.eq(place)]
            for c in range(count):
                with m.If(place == c):
                    m.d.sync += active[c].eq(1)
                    with m.If(~loading):
                        m.d.sync += [older[c].eq(active), kinds[c].eq(Kind.LOAD), divides[c].eq(STEP + DIV - 1)]
                    with m.If(self.i.p.side):
                        m.d.sync += [kinds[c].eq(Kind.SCALE), columns[c].eq(0), waits[c].eq(STEP - 1)]
                with m.Elif(~loading):
                    m.d.sync += older[c].bit_select(place, 1).eq(0)
        return (may.any() | loads, context, task["kind"], task["column"], task["row"], task["side"], task["closes"])

    def _advance(self, m, size, kind, column, row, side, wait, divide, active):
        """A context's task has been issued: the next one."""
        m.d.sync += wait.eq(STEP - 1)
        with m.Switch(kind):
            with m.Case(Kind.SCALE):
                m.d.sync += [kind.eq(Kind.ROW), row.eq(column + 1), side.eq(column == size - 1)]
            with m.Case(Kind.ROW):
                with m.If((row == column + 1) & ~side):
                    m.d.sync += divide.eq(STEP + DIV - 1)
                with m.If(~side):
                    m.d.sync += [row.eq(row + 1), side.eq(row == size - 1), wait.eq(0)]
                with m.Elif(column == size - 1):
                    m.d.sync += [kind.eq(Mux(size == 1, Kind.FINAL, Kind.BACK)), row.eq(size - 1), side.eq(0)]
                with m.Else():
                    m.d.sync += [kind.eq(Kind.SCALE), column.eq(column + 1), side.eq(0)]
            with m.Case(Kind.BACK):
                m.d.sync += row.eq(row - 1)
                with m.If(row == 1):
                    m.d.sync += [kind.eq(Kind.FINAL), column.eq(0)]
            with m.Case(Kind.FINAL):
                m.d.sync += active.eq(0)


def _scaled(code: Value) -> Value:
    """A code of 0 or of a number of at least 1, times `TOLERANCE`."""
    return Mux(Unpacked(code, float32).zero, 0, code - (_TOLERANCE << float32.fraction_bits))[:32]


def _above(a: Value, b: Value) -> Value:
    """Whether a > b, b not negative."""
    x = Unpacked(a, float32)
    return ~x.sign & ~x.nan & ~x.zero & (a > b)
