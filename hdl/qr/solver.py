"""Elimination of a Gram matrix and both triangular solves, several jobs interleaved."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.programs import GRAM, Kind
from ...models.qr.schedule import ADD, DIV, MUL
from ..apart import APART
from ..arith.pipeline import Pipeline, Unpacked
from ..index import index, index_range
from ..modules import Parts, Submodules
from ..ram import ram
from ..stream.passing import fields
from .control import Thread
from .numbers import MINUS_ONE, NOTHING, ONE, lane, operation

#: exponent of `models.qr.factor.TOLERANCE`
_TOLERANCE = 16


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

    Golden: `models.qr.factor.eliminate` and `solve`. Its program is `models.qr.programs.GRAM`, its cycles `models.qr.solver`.

    Row j of a context's memory holds the entries (i, j), i <= j, of the matrix; elimination of column k turns entry (k, j) into u_kj. The right side is one row
    more: elimination makes y of it, and its entry k becomes z_k = y_k / d_k. Each pivot goes into the divider as soon as its row passes, STEP + DIV cycles
    before its SCALE, for which column k is collected from the rows as they pass.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan` of method `gram`.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        i, o = stream.Signature(load_shape(n, jobs)), solution_shape(n, jobs)
        # `i`: jobs one after the other. `o`: a solution, for one cycle, STEP - 1 cycles after its
        # last task's issue.
        super().__init__({"i": In(i), "o": Out(o), "o_valid": Out(1)})

    def elaborate(self, platform):
        m = Module()
        self.pipe, n, contexts = Pipeline(m), self.config.n_max, range(self.config.contexts)
        shapes = {"columns": range(n + 1), "h": 32, "job": range(max(self.config.jobs, 2))}
        shapes |= {"keep": n, "t": 32, "scale": 32}
        # of each context; scale: what t was when its column's SCALE was issued
        self.of = {
            name: [Signal(shape, name=f"{name}{c}", reset_less=True) for c in contexts]
            for name, shape in shapes.items()
        }
        self.issue, self.context, self.next = self._issue(m)
        # cycle 1: memories' data, operands
        self.task = self.pipe.rank(
            issue=self.issue,
            context=self.context,
            **{name: Value.cast(self.next[name]) for name in ("kind", "column", "row", "side")},
            closes=self.closes,
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
        n, contexts, row = self.config.n_max, self.config.contexts, self.next.row
        self.kind1 = self.task.kind
        places = {
            "row": (contexts << len(row), Cat(Mux(self.next.side, n, row), self.context)),
            "vector": (contexts, self.context),
            "pivot": (contexts, self.context),
        }
        rams = {}
        for name, (depth, address) in places.items():
            # STEP cycles lie between the task that writes a word and the one that wants it
            rams[name] = [ram(m, f"{name}{i}", 32, depth, attrs=APART) for i in range(n)]
            m.d.comb += [read.addr.eq(address) for _, read in rams[name]]
        self.rows, self.vectors, self.pivots = (
            [read.data for _, read in ports] for ports in rams.values()
        )
        self.writes = [[write for write, _ in ports] for ports in zip(*rams.values(), strict=True)]
        back = self.kind1 == Kind.BACK
        which = Mux(back | (self.kind1 == Kind.FINAL), self.task.row, self.task.column)
        both = zip(self.vectors, self.rows, strict=True)
        self.scalar = self.pipe.wire(
            Array([Mux(back, *pair) for pair in both])[which], name="scalar"
        )
        self.here = {
            name: self.pipe.wire(Array(values)[self.task.context], name=f"{name}_here")
            for name, values in self.of.items()
        }
        self.kept = self.pipe.wire((self.here["keep"] >> which)[0], name="kept")
        for c in range(contexts):
            with m.If(self.task.issue & (self.kind1 == Kind.SCALE) & (self.task.context == c)):
                m.d.sync += self.of["scale"][c].eq(self.of["t"][c])

    def _lanes(self, m):
        """Minuend less product in all lanes."""
        self.results, minus = [], 1 << 31
        t, scale, h = (self.here[name] for name in ("t", "scale", "h"))
        for i in range(self.config.n_max):
            row, vector = self.rows[i], self.vectors[i]
            here, behind = self.task.column == i, self.task.column < i
            products = {
                Kind.LOAD: (self.task.load.word_select(i, 32), 0, 0),
                Kind.SCALE: (NOTHING, self.pivots[i], t ^ minus),
                Kind.ROW: (row, vector, self.scalar),
                Kind.BACK: (vector, row, self.scalar),
                Kind.FINAL: (vector, 0, 0) if i else (vector, h, MINUS_ONE),
            }
            others = {
                Kind.ROW: [
                    (~(self.kept & behind), (row, 0, 0)),
                    (here, (NOTHING, 0, 0)),
                    (here & self.kept, (NOTHING, self.scalar, scale ^ minus)),
                ],
                Kind.BACK: [(~(self.kept & (self.task.row > i)), (vector, 0, 0))],
                Kind.FINAL: [(~self.kept, (vector, 0, 0))],
            }
            self.results.append(lane(self.parts, self.pipe, i, self.kind1, products, others))

    def _write_results(self, m):
        """The write cycle: results go to their memories."""
        names = ("issue", "context", "kind", "column", "row", "side", "closes")
        wanted = {name: getattr(self.task, name) for name in names}
        wanted |= {name: self.here[name] for name in ("keep", "job", "columns")}
        self.end = {
            name: self.pipe.delay(value, MUL + ADD + 1, name=f"{name}_end")
            for name, value in wanted.items()
        }
        self.done = self.end["kind"]
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
        m.d.comb += self.o_valid.eq(self.end["issue"] & (self.done == Kind.FINAL))
        m.d.comb += fields(self.o, job=self.end["job"], mask=self.end["keep"])

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
            m.d.comb += pivot_write.en.eq(self.s.some & (self.s.row == i))
            m.d.comb += fields(pivot_write, addr=self.s.context, data=self.s.value)
        depth = self.config.contexts << len(self.next.row)
        limit_write, limit = ram(m, "limits", 32, depth, attrs=APART)
        m.d.comb += [
            limit_write.en.eq(self.task.issue & (self.kind1 == Kind.LOAD) & ~self.task.side),
            limit_write.addr.eq(Cat(self.task.row, self.task.context)),
            limit_write.data.eq(
                scaled(self.task.load.bit_select(Cat(Const(0, 5), self.task.row), 32))
            ),
            limit.addr.eq(Cat(self.end["row"], self.end["context"])),
        ]
        self.passes = self.pipe.wire(above(self.s.value, limit.data), name="passes")
        self.reciprocal = operation(self.parts, m, "div", "div", ONE, self.s.value)

    def _take_reciprocals(self, m):
        """What comes out of the divider, and jobs that begin."""
        arrives = self.pipe.delay(self.s.some & self.s.pivot, DIV, name="arrives")
        whose = self.pipe.delay(self.s.context, DIV, name="whose")
        loads = self.kind1 == Kind.LOAD
        begins = self.task.issue & loads & (self.task.row == 0) & ~self.task.side
        for c in range(self.config.contexts):
            keep, t = self.of["keep"][c], self.of["t"][c]
            with m.If(self.s.some & self.s.pivot & (self.s.context == c)):
                m.d.sync += keep.bit_select(self.s.row, 1).eq(self.passes)
            with m.If(arrives & (whose == c)):
                m.d.sync += t.eq(self.reciprocal)
            with m.If(begins & (self.task.context == c)):
                m.d.sync += keep.eq(0)
            with m.If(self.issue & (self.next.kind == Kind.LOAD) & (self.context == c)):
                m.d.sync += [
                    self.of[name][c].eq(self.i.p[name]) for name in ("columns", "h", "job")
                ]

    def _issue(self, m: Module) -> tuple[Value, ...]:
        """The contexts' next tasks, and which is issued: whether any, its context, and the task."""
        n, count = self.config.n_max, self.config.contexts
        number = index_range(n + 1)
        shape = data.StructLayout({"kind": Kind, "column": number, "row": number, "side": 1})
        active, may, issued = (Signal(count, name=x) for x in ("active", "may", "issued"))
        loading, loads, self.closes = Signal(), Signal(), Signal()
        # contexts that came before
        older = [Signal(count, name=f"older{c}", reset_less=True) for c in range(count)]
        # the rows of a job that comes: it is the newest one
        newest, place, context = (index(count, name=x) for x in ("newest", "place", "context"))
        m.d.comb += [
            place.eq(newest),
            self.i.ready.eq(loading | ~active.all()),
            loads.eq(self.i.valid & self.i.ready),
        ]
        for c in reversed(range(count)):
            with m.If(~loading & ~active[c]):
                m.d.comb += place.eq(c)
        task = Signal(shape, name="task")
        for c in range(count):
            columns = Mux(loads, self.i.p.columns, self.of["columns"][c])
            options = {"issue": issued[c], "start": Kind.LOAD}
            thread = Thread(m, GRAM, (n + 1, columns - 1), **options, conditions={}, name=c)
            loaded, side = thread.step == Kind.LOAD, thread.column == columns
            last = thread.first == columns - 1
            chosen = may[c] & ~(may & older[c]).any()
            m.d.comb += may[c].eq(active[c] & thread.may & ~loaded)
            m.d.comb += issued[c].eq(Mux(loads, place == c, chosen))
            with m.If(issued[c]):
                m.d.comb += [
                    context.eq(c),
                    *fields(task, kind=thread.step, column=thread.first, row=thread.column),
                    task.side.eq(side & (loaded | (thread.step == Kind.ROW))),
                    self.closes.eq((thread.step == Kind.ROW) & side & last),
                ]
            with m.If(thread.over):
                m.d.sync += active[c].eq(0)
            with m.If(loads & (place == c)):
                m.d.sync += active[c].eq(1)
                with m.If(~loading):
                    m.d.sync += older[c].eq(active)
            with m.Elif(loads & ~loading):
                m.d.sync += older[c].bit_select(place, 1).eq(0)
        with m.If(loads):
            m.d.sync += [loading.eq(~self.i.p.side), newest.eq(place)]
        return issued.any(), context, task


def scaled(code: Value) -> Value:
    """A code of 0 or of a number of at least 1, times `TOLERANCE`."""
    return Mux(Unpacked(code, float32).zero, 0, code - (_TOLERANCE << float32.fraction_bits))[:32]


def above(a: Value, b: Value) -> Value:
    """Whether a > b, b not negative."""
    x = Unpacked(a, float32)
    return ~x.sign & ~x.nan & ~x.zero & (a > b)
