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

__all__ = ["Solver", "above", "load_shape", "scaled", "solution_shape"]

_NOTHING = Const(0x80000000, 32)  # -0: -0 - (a · -b) is a · b, whatever its sign
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
    return data.StructLayout(
        {
            "columns": range(n_max + 1),
            "row": range(n_max + 1),
            "side": 1,
            "h": 32,
            "job": range(max(jobs, 2)),
            "values": data.ArrayLayout(32, n_max),
        }
    )


def solution_shape(n_max, jobs):
    """A job's weights, and the mask of columns that have one."""
    return data.StructLayout(
        {"job": range(max(jobs, 2)), "mask": n_max, "weights": data.ArrayLayout(32, n_max)}
    )


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
        `models.qr.config.FitPlan` of method `gram` with at least n_max `lanes`.

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

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        if config.lanes < config.n_max:
            raise ValueError(
                f"the solver takes a row a cycle: {config.lanes} lanes are less than {config.n_max} columns"
            )
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        super().__init__(
            {
                "i": In(stream.Signature(load_shape(n, jobs))),
                "o": Out(solution_shape(n, jobs)),
                "o_valid": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self.columns_of, self.h_of, self.job_of = (
            [Signal(s, name=f"{name}{c}", reset_less=True) for c in range(self.config.contexts)]
            for name, s in (
                ("columns", range(self.config.n_max + 1)),
                ("h", 32),
                ("job", range(max(self.config.jobs, 2))),
            )
        )
        self.keep_of, self.t_of, self.scale_of = (
            [Signal(s, name=f"{name}{c}", reset_less=True) for c in range(self.config.contexts)]
            for name, s in (("keep", self.config.n_max), ("t", 32), ("scale", 32))
        )
        self.issue, self.context, self.kind, column, self.row, self.side, closes = self._issue(
            m, self.columns_of
        )

        # cycle 1: memories' data, operands
        self.task = self.pipe.rank(
            issue=self.issue,
            context=self.context,
            kind=self.kind.as_value(),
            column=column,
            row=self.row,
            side=self.side,
            closes=closes,
            load=self.i.p.values.as_value(),
        )
        self._operands(m)
        self._lanes(m)
        self._write_results(m)

        self._divide_pivots(m)
        self._take_reciprocals(m)
        return m

    def _operands(self, m):
        """Memories' data and operands, a cycle after the issue."""
        self.kind1 = Kind(self.task.kind)
        self.rows = []
        self.vectors = []
        self.pivots = []
        self.writes = []
        for i in range(self.config.n_max):
            sets = []
            for name, depth, address in (
                (
                    "row",
                    self.config.contexts << len(self.row),
                    Cat(Mux(self.side, self.config.n_max, self.row), self.context),
                ),
                ("vector", self.config.contexts, self.context),
                ("pivot", self.config.contexts, self.context),
            ):
                # STEP cycles lie between the task that writes a word and the one that wants it
                m.submodules[f"{name}{i}"] = memory = Memory(
                    shape=unsigned(32), depth=depth, init=[], attrs=APART
                )
                read, write = memory.read_port(), memory.write_port()
                m.d.comb += [read.addr.eq(address), read.en.eq(1)]
                sets.append((read.data, write))
            (row_data, row_write), (vector_data, vector_write), (pivot_data, pivot_write) = sets
            self.rows.append(row_data)
            self.vectors.append(vector_data)
            self.pivots.append(pivot_data)
            self.writes.append((row_write, vector_write, pivot_write))
        back = self.kind1 == Kind.BACK
        self.scalar = self.pipe.wire(
            Array([Mux(back, v, r) for v, r in zip(self.vectors, self.rows, strict=True)])[
                Mux(back, self.task.row, self.task.column)
            ],
            name="scalar",
        )
        self.here = {
            name: self.pipe.wire(Array(values)[self.task.context], name=f"{name}_here")
            for name, values in (
                ("keep", self.keep_of),
                ("t", self.t_of),
                ("scale", self.scale_of),
                ("h", self.h_of),
                ("job", self.job_of),
                ("columns", self.columns_of),
            )
        }
        self.kept = self.pipe.wire(
            (self.here["keep"] >> Mux(back, self.task.row, self.task.column))[0], name="kept"
        )
        for c in range(self.config.contexts):
            with m.If(self.task.issue & (self.kind1 == Kind.SCALE) & (self.task.context == c)):
                m.d.sync += self.scale_of[c].eq(self.t_of[c])

    def _lanes(self, m):
        """Minuend less product in all lanes."""
        self.results = []
        for i in range(self.config.n_max):
            a, b, minuend = (
                Signal(32, name=f"{name}{i}", reset_less=True) for name in ("a", "b", "minuend")
            )
            m.d.sync += [a.eq(0), b.eq(0), minuend.eq(self.rows[i])]
            with m.Switch(self.kind1):
                with m.Case(Kind.LOAD):
                    m.d.sync += minuend.eq(self.task.load.word_select(i, 32))
                with m.Case(Kind.SCALE):
                    m.d.sync += [
                        a.eq(self.pivots[i]),
                        b.eq(self.here["t"] ^ (1 << 31)),
                        minuend.eq(_NOTHING),
                    ]
                with m.Case(Kind.ROW):
                    with m.If(self.kept & (self.task.column < i)):
                        m.d.sync += [a.eq(self.vectors[i]), b.eq(self.scalar)]
                    with m.If(self.task.column == i):
                        m.d.sync += minuend.eq(_NOTHING)
                        with m.If(self.kept):
                            m.d.sync += [a.eq(self.scalar), b.eq(self.here["scale"] ^ (1 << 31))]
                with m.Case(Kind.BACK):
                    m.d.sync += minuend.eq(self.vectors[i])
                    with m.If(self.kept & (self.task.row > i)):
                        m.d.sync += [a.eq(self.rows[i]), b.eq(self.scalar)]
                with m.Case(Kind.FINAL):
                    m.d.sync += minuend.eq(self.vectors[i])
                    if i == 0:
                        with m.If(self.kept):
                            m.d.sync += [a.eq(self.here["h"]), b.eq(_MINUS_ONE)]
            product = self.parts.instance(
                m, f"mul{i}", "mul_float32", lambda: unit("mul", float32), a=a, b=b
            )["o"]
            waiting = self.pipe.delay(minuend, MUL, name=f"waiting{i}_")
            self.results.append(
                self.parts.instance(
                    m, f"sub{i}", "sub_float32", lambda: unit("sub", float32), a=waiting, b=product
                )["o"]
            )

    def _write_results(self, m):
        """The write cycle: results go to their memories."""
        late = MUL + ADD + 1
        self.end = {
            name: self.pipe.delay(value, late, name=f"{name}_end")
            for name, value in (
                ("issue", self.task.issue),
                ("context", self.task.context),
                ("kind", self.task.kind),
                ("column", self.task.column),
                ("row", self.task.row),
                ("side", self.task.side),
                ("closes", self.task.closes),
                ("keep", self.here["keep"]),
                ("job", self.here["job"]),
                ("columns", self.here["columns"]),
            )
        }
        self.done = Kind(self.end["kind"])
        self.of_rows = (self.done == Kind.LOAD) | (self.done == Kind.ROW)
        for i, (row_write, vector_write, _) in enumerate(self.writes):
            m.d.comb += [
                row_write.en.eq(self.end["issue"] & self.of_rows),
                row_write.addr.eq(
                    Cat(
                        Mux(self.end["side"], self.config.n_max, self.end["row"]),
                        self.end["context"],
                    )
                ),
                row_write.data.eq(self.results[i]),
                vector_write.data.eq(self.results[i]),
                vector_write.addr.eq(self.end["context"]),
                vector_write.en.eq(
                    self.end["issue"]
                    & ((self.done == Kind.SCALE) | (self.done == Kind.BACK) | self.end["closes"])
                ),
                self.o.weights[i].eq(Mux(self.end["keep"][i], self.results[i], 0)),
            ]
        m.d.comb += [
            self.o_valid.eq(self.end["issue"] & (self.done == Kind.FINAL)),
            self.o.job.eq(self.end["job"]),
            self.o.mask.eq(self.end["keep"]),
        ]

    def _divide_pivots(self, m):
        """One cycle later: the next column's entry of this row; its pivot goes into the divider."""
        following = Mux(self.done == Kind.LOAD, 0, self.end["column"] + 1)
        self.s = self.pipe.rank(
            some=self.end["issue"] & self.of_rows & ~self.end["side"],
            pivot=self.end["row"] == following,
            value=Array(self.results)[following],
            context=self.end["context"],
            row=self.end["row"],
        )
        for i, (_, _, pivot_write) in enumerate(self.writes):
            m.d.comb += [
                pivot_write.en.eq(self.s.some & (self.s.row == i)),
                pivot_write.addr.eq(self.s.context),
                pivot_write.data.eq(self.s.value),
            ]
        m.submodules.limits = limits = Memory(
            shape=unsigned(32), depth=self.config.contexts << len(self.row), init=[], attrs=APART
        )
        limit_write, limit = limits.write_port(), limits.read_port()
        m.d.comb += [
            limit_write.en.eq(self.task.issue & (self.kind1 == Kind.LOAD) & ~self.task.side),
            limit_write.addr.eq(Cat(self.task.row, self.task.context)),
            limit_write.data.eq(
                scaled(
                    Array([self.task.load.word_select(i, 32) for i in range(self.config.n_max)])[
                        self.task.row
                    ]
                )
            ),
            limit.en.eq(1),
            limit.addr.eq(Cat(self.end["row"], self.end["context"])),
        ]
        self.passes = self.pipe.wire(above(self.s.value, limit.data), name="passes")
        self.reciprocal = self.parts.instance(
            m,
            "div",
            "div_float32",
            lambda: unit("div", float32),
            a=Const(float32.one, 32),
            b=self.s.value,
        )["o"]

    def _take_reciprocals(self, m):
        """What comes out of the divider, and jobs that begin."""
        arrives = self.pipe.delay(self.s.some & self.s.pivot, DIV, name="arrives")
        whose = self.pipe.delay(self.s.context, DIV, name="whose")
        for c in range(self.config.contexts):
            with m.If(self.s.some & self.s.pivot & (self.s.context == c)):
                m.d.sync += self.keep_of[c].eq(
                    self.keep_of[c] & ~(1 << self.s.row) | (self.passes << self.s.row)
                )
            with m.If(arrives & (whose == c)):
                m.d.sync += self.t_of[c].eq(self.reciprocal)
            with m.If(
                self.task.issue
                & (self.kind1 == Kind.LOAD)
                & (self.task.context == c)
                & (self.task.row == 0)
                & ~self.task.side
            ):
                m.d.sync += self.keep_of[c].eq(0)
        with m.If(self.issue & (self.kind == Kind.LOAD)):
            for c in range(self.config.contexts):
                with m.If(self.context == c):
                    m.d.sync += [
                        self.columns_of[c].eq(self.i.p.columns),
                        self.h_of[c].eq(self.i.p.h),
                        self.job_of[c].eq(self.i.p.job),
                    ]

    def _issue(self, m: Module, columns_of: list[Signal]) -> tuple[Value, ...]:
        """The contexts' next tasks, and which is issued: whether any, its context, kind, column, row, whether of the right side, whether the last of that."""
        n, count = self.config.n_max, self.config.contexts
        active, loading = Signal(count), Signal()
        kinds = [Signal(Kind, name=f"kind{c}", reset_less=True) for c in range(count)]
        columns, rows = (
            [index(n + 1, name=f"column{c}") for c in range(count)],
            [index(n + 1, name=f"row{c}") for c in range(count)],
        )
        sides = [Signal(name=f"side{c}") for c in range(count)]
        waits, divides = (
            [index(STEP, name=f"wait{c}") for c in range(count)],
            [index(STEP + DIV, name=f"divide{c}") for c in range(count)],
        )
        # contexts that came before
        older = [Signal(count, name=f"older{c}", reset_less=True) for c in range(count)]
        newest = index(count, name="newest")
        may = Signal(count)
        for c in range(count):
            m.d.comb += may[c].eq(
                active[c]
                & (kinds[c] != Kind.LOAD)
                & (waits[c] == 0)
                & ((kinds[c] != Kind.SCALE) | (divides[c] == 0))
            )
            m.d.sync += [
                waits[c].eq(Mux(waits[c] == 0, 0, waits[c] - 1)),
                divides[c].eq(Mux(divides[c] == 0, 0, divides[c] - 1)),
            ]
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
        task = {
            "kind": Signal(Kind, name="task_kind"),
            "column": index(n + 1, name="task_column"),
            "row": index(n + 1, name="task_row"),
            "side": Signal(name="task_side"),
            "closes": Signal(name="task_closes"),
        }
        with m.If(~loads):
            for c in range(count):
                with m.If(chosen[c]):
                    m.d.comb += [
                        task["kind"].eq(kinds[c]),
                        task["column"].eq(columns[c]),
                        task["row"].eq(rows[c]),
                        task["side"].eq(sides[c]),
                    ]
                    m.d.comb += task["closes"].eq(
                        (kinds[c] == Kind.ROW) & sides[c] & (columns[c] == columns_of[c] - 1)
                    )
                    self._advance(
                        m,
                        columns_of[c],
                        kinds[c],
                        columns[c],
                        rows[c],
                        sides[c],
                        waits[c],
                        divides[c],
                        active[c],
                    )
        with m.Else():
            m.d.comb += [task["row"].eq(self.i.p.row), task["side"].eq(self.i.p.side)]
        with m.If(loads):
            m.d.sync += [loading.eq(~self.i.p.side), newest.eq(place)]
            for c in range(count):
                with m.If(place == c):
                    m.d.sync += active[c].eq(1)
                    with m.If(~loading):
                        m.d.sync += [
                            older[c].eq(active),
                            kinds[c].eq(Kind.LOAD),
                            divides[c].eq(STEP + DIV - 1),
                        ]
                    with m.If(self.i.p.side):
                        m.d.sync += [
                            kinds[c].eq(Kind.SCALE),
                            columns[c].eq(0),
                            waits[c].eq(STEP - 1),
                        ]
                with m.Elif(~loading):
                    m.d.sync += older[c].bit_select(place, 1).eq(0)
        return (
            may.any() | loads,
            context,
            task["kind"],
            task["column"],
            task["row"],
            task["side"],
            task["closes"],
        )

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
                    m.d.sync += [
                        kind.eq(Mux(size == 1, Kind.FINAL, Kind.BACK)),
                        row.eq(size - 1),
                        side.eq(0),
                    ]
                with m.Else():
                    m.d.sync += [kind.eq(Kind.SCALE), column.eq(column + 1), side.eq(0)]
            with m.Case(Kind.BACK):
                m.d.sync += row.eq(row - 1)
                with m.If(row == 1):
                    m.d.sync += [kind.eq(Kind.FINAL), column.eq(0)]
            with m.Case(Kind.FINAL):
                m.d.sync += active.eq(0)


def scaled(code: Value) -> Value:
    """A code of 0 or of a number of at least 1, times `TOLERANCE`."""
    return Mux(Unpacked(code, float32).zero, 0, code - (_TOLERANCE << float32.fraction_bits))[:32]


def above(a: Value, b: Value) -> Value:
    """Whether a > b, b not negative."""
    x = Unpacked(a, float32)
    return ~x.sign & ~x.nan & ~x.zero & (a > b)
