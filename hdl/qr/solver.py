"""Elimination of a Gram matrix and both triangular solves, several jobs interleaved."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

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
from ..named import named
from ..ram import ram
from ..stream.passing import fields
from .control import Sequencer
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


@dataclass(frozen=True)
class _Issued:
    """The task that is issued in this cycle."""

    some: Signal  # there is one
    context: Signal
    task: Any  # its kind, column, row (of LOAD, ROW and BACK) and whether this is the right side
    closes: Signal  # it is the last ROW: the right side has been eliminated


class Solver(wiring.Component):
    """Weights of jobs whose exact sums come as float32 rows. One task a cycle: a row that is there and has room
    is taken; else the oldest job whose next task may start goes first.

    Golden: `models.qr.factor.eliminate` and `solve`. Its program is `models.qr.programs.GRAM`, its cycles `models.qr.solver`.

    Row j of a context's memory holds the entries (i, j), i <= j, of the matrix; elimination of column k turns entry (k, j) into u_kj. The right side is one row
    more: elimination makes y of it, and its entry k becomes z_k = y_k / d_k. Each pivot goes into the divider as soon as its row passes, STEP + DIV cycles
    before its SCALE, for which column k is collected from the rows as they pass.

    * `config`: `models.qr.config.FitPlan` of method `gram`.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        n, jobs = config.n_max, config.jobs
        i, o = stream.Signature(load_shape(n, jobs)), solution_shape(n, jobs)
        # `i`: jobs one after the other. `o`: a solution, for one cycle, STEP - 1 cycles after its
        # last task's issue.
        super().__init__({"i": In(i), "o": Out(o), "o_valid": Out(1)})

    def elaborate(self, platform):
        m, config, i = Module(), self.config, self.i
        pipe, contexts = Pipeline(m), range(config.contexts)
        shapes = {"columns": range(config.n_max + 1), "h": 32, "job": range(max(config.jobs, 2))}
        shapes |= {"keep": config.n_max, "t": 32, "scale": 32}
        # of each context; t: 1 / pivot of the latest column, scale: what t was when its column's SCALE was issued
        of = {
            name: [Signal(shape, name=f"{name}{c}", reset_less=True) for c in contexts]
            for name, shape in shapes.items()
        }
        issued = _issue(m, config, i, of["columns"])
        task = pipe.rank(
            issue=issued.some,
            context=issued.context,
            **{name: Value.cast(issued.task[name]) for name in ("kind", "column", "row", "side")},
            closes=issued.closes,
            load=i.p.values.as_value(),
        )
        here = {
            name: pipe.wire(Array(values)[task.context], name=f"{name}_here")
            for name, values in of.items()
        }
        memories = _memories(m, config, issued)
        results = _results(self.parts, pipe, config.n_max, task, here, memories)
        end = _write(pipe, config, task, here, results, memories)
        m.d.comb += [w.eq(Mux(end.keep[k], results[k], 0)) for k, w in enumerate(self.o.weights)]
        m.d.comb += self.o_valid.eq(end.issue & (end.kind == Kind.FINAL))
        m.d.comb += fields(self.o, job=end.job, mask=end.keep)
        pivot = _pivot(pipe, end, results, memories.pivots)
        limit = _limit(m, config, task, end)
        _keep(pipe, of, pivot, pipe.wire(above(pivot.value, limit), name="passes"))
        _begin(m, of, i, issued, task)
        reciprocal = operation(self.parts, m, "div", "div", ONE, pivot.value)
        arrives = pipe.delay(pivot.some & pivot.is_next, DIV, name="arrives")
        whose = pipe.delay(pivot.context, DIV, name="whose")
        for c in contexts:
            with m.If(arrives & (whose == c)):
                m.d.sync += of["t"][c].eq(reciprocal)
        return m


def _memories(m, config, issued):
    """Return the lanes' memories by name, as `ram` gives them; they are read in the cycle after the issue.

    * rows: the rows of each context's matrix, and behind them the right side
    * vectors: of each context u_k of the column that is eliminated; behind the last ROW y, then z
    * pivots: of each context the next column, collected from the rows as they pass
    """
    n, contexts, row = config.n_max, config.contexts, issued.task.row
    places = {
        "rows": (contexts << len(row), Cat(Mux(issued.task.side, n, row), issued.context)),
        "vectors": (contexts, issued.context),
        "pivots": (contexts, issued.context),
    }
    memories = {}
    for name, (depth, address) in places.items():
        # STEP cycles lie between the task that writes a word and the one that wants it
        memories[name] = [ram(m, f"{name[:-1]}{i}", 32, depth, attrs=APART) for i in range(n)]
        m.d.comb += [read.addr.eq(address) for _, read in memories[name]]
    return SimpleNamespace(**memories)


def _results(parts, pipe, n, task, here, memories):
    """Minuend less product in all lanes; return the results, `MUL` + `ADD` + 1 cycles after the task."""
    rows, vectors, pivots = (
        [read.data for _, read in ports]
        for ports in (memories.rows, memories.vectors, memories.pivots)
    )
    minus, back = 1 << 31, task.kind == Kind.BACK
    which = Mux(back | (task.kind == Kind.FINAL), task.row, task.column)
    scalar = Array([Mux(back, *pair) for pair in zip(vectors, rows, strict=True)])[which]
    scalar = pipe.wire(scalar, name="scalar")
    t, scale, h = (here[name] for name in ("t", "scale", "h"))
    kept = pipe.wire((here["keep"] >> which)[0], name="kept")
    results = []
    for i, (row, vector) in enumerate(zip(rows, vectors, strict=True)):
        at, behind = task.column == i, task.column < i
        products = {
            Kind.LOAD: (task.load.word_select(i, 32), 0, 0),
            Kind.SCALE: (NOTHING, pivots[i], t ^ minus),
            Kind.ROW: (row, vector, scalar),
            Kind.BACK: (vector, row, scalar),
            Kind.FINAL: (vector, 0, 0) if i else (vector, h, MINUS_ONE),
        }
        others = {
            Kind.ROW: [
                (~(kept & behind), (row, 0, 0)),
                (at, (NOTHING, 0, 0)),
                (at & kept, (NOTHING, scalar, scale ^ minus)),
            ],
            Kind.BACK: [(~(kept & (task.row > i)), (vector, 0, 0))],
            Kind.FINAL: [(~kept, (vector, 0, 0))],
        }
        results.append(lane(parts, pipe, i, task.kind, products, others))
    return results


def _write(pipe, config, task, here, results, memories):
    """Results go to their memories. Return the task that they are of; `of_rows`: they are a row."""
    names = ("issue", "context", "kind", "column", "row", "side", "closes")
    wanted = {name: getattr(task, name) for name in names}
    wanted |= {name: here[name] for name in ("keep", "job", "columns")}
    end = SimpleNamespace(**{
        name: pipe.delay(value, MUL + ADD + 1, name=f"{name}_end") for name, value in wanted.items()
    })  # fmt: skip
    end.of_rows = (end.kind == Kind.LOAD) | (end.kind == Kind.ROW)
    vector = (end.kind == Kind.SCALE) | (end.kind == Kind.BACK) | end.closes
    at = Cat(Mux(end.side, config.n_max, end.row), end.context)
    writes = zip(memories.rows, memories.vectors, results, strict=True)
    for (row_write, _), (vector_write, _), result in writes:
        pipe.m.d.comb += [
            *fields(row_write, en=end.issue & end.of_rows, addr=at, data=result),
            *fields(vector_write, en=end.issue & vector, addr=end.context, data=result),
        ]
    return end


def _pivot(pipe, end, results, pivots):
    """One cycle later: the next column's entry of this row; return it, and whether the row is that of the next pivot (`is_next`)."""
    following = Mux(end.kind == Kind.LOAD, 0, end.column + 1)
    pivot = pipe.rank(
        some=end.issue & end.of_rows & ~end.side,
        is_next=end.row == following,
        value=Array(results)[following],
        context=end.context,
        row=end.row,
    )
    for i, (write, _) in enumerate(pivots):
        pipe.m.d.comb += write.en.eq(pivot.some & (pivot.row == i))
        pipe.m.d.comb += fields(write, addr=pivot.context, data=pivot.value)
    return pivot


def _limit(m, config, task, end):
    """Return the rank rule's limit of the row whose results came in the cycle before: of its diagonal entry before any elimination."""
    write, read = ram(m, "limits", 32, config.contexts << len(task.row), attrs=APART)
    m.d.comb += [
        write.en.eq(task.issue & (task.kind == Kind.LOAD) & ~task.side),
        write.addr.eq(Cat(task.row, task.context)),
        write.data.eq(scaled(task.load.bit_select(Cat(Const(0, 5), task.row), 32))),
        read.addr.eq(Cat(end.row, end.context)),
    ]
    return read.data


def _begin(m, of, i, issued, task):
    """What is kept of each context's job when its rows and its SCALE are issued."""
    first = task.issue & (task.kind == Kind.LOAD) & (task.row == 0) & ~task.side
    for c, (keep, scale) in enumerate(zip(of["keep"], of["scale"], strict=True)):
        with m.If(task.issue & (task.kind == Kind.SCALE) & (task.context == c)):
            m.d.sync += scale.eq(of["t"][c])
        with m.If(first & (task.context == c)):
            m.d.sync += keep.eq(0)
        with m.If(issued.some & (issued.task.kind == Kind.LOAD) & (issued.context == c)):
            m.d.sync += [of[name][c].eq(i.p[name]) for name in ("columns", "h", "job")]


def _keep(pipe, of, pivot, passes):
    """The rank rule's verdict on each column."""
    for c, keep in enumerate(of["keep"]):
        with pipe.m.If(pivot.some & pivot.is_next & (pivot.context == c)):
            pipe.m.d.sync += keep.bit_select(pivot.row, 1).eq(passes)


def _issue(m, config, i, columns_of):
    """The contexts' next tasks, and which of them is issued."""
    n, count = config.n_max, config.contexts
    number = index_range(n + 1)
    shape = data.StructLayout({"kind": Kind, "column": number, "row": number, "side": 1})
    issued = named(_Issued, context=index_range(count), task=shape)
    active, may, chosen = (Signal(count, name=x) for x in ("active", "may", "chosen"))
    loading, loads = Signal(), Signal()
    # contexts that came before
    older = [Signal(count, name=f"older{c}", reset_less=True) for c in range(count)]
    # the rows of a job that comes: it is the newest one
    newest, place = index(count, name="newest"), index(count, name="place")
    m.d.comb += [
        place.eq(newest),
        i.ready.eq(loading | ~active.all()),
        loads.eq(i.valid & i.ready),
        issued.some.eq(chosen.any()),
    ]
    for c in reversed(range(count)):
        with m.If(~loading & ~active[c]):
            m.d.comb += place.eq(c)
    for c in range(count):
        columns = Mux(loads, i.p.columns, columns_of[c])
        options = {"issue": chosen[c], "start": Kind.LOAD}
        steps = Sequencer(m, GRAM, (n + 1, columns - 1), **options, conditions={}, name=c)
        loaded, side = steps.step == Kind.LOAD, steps.column == columns
        last = steps.first == columns - 1
        oldest = may[c] & ~(may & older[c]).any()
        m.d.comb += may[c].eq(active[c] & steps.may & ~loaded)
        m.d.comb += chosen[c].eq(Mux(loads, place == c, oldest))
        with m.If(chosen[c]):
            m.d.comb += [
                issued.context.eq(c),
                *fields(issued.task, kind=steps.step, column=steps.first, row=steps.column),
                issued.task.side.eq(side & (loaded | (steps.step == Kind.ROW))),
                issued.closes.eq((steps.step == Kind.ROW) & side & last),
            ]
        with m.If(steps.over):
            m.d.sync += active[c].eq(0)
        with m.If(loads & (place == c)):
            m.d.sync += active[c].eq(1)
            with m.If(~loading):
                m.d.sync += older[c].eq(active)
        with m.Elif(loads & ~loading):
            m.d.sync += older[c].bit_select(place, 1).eq(0)
    with m.If(loads):
        m.d.sync += [loading.eq(~i.p.side), newest.eq(place)]
    return issued


def scaled(code: Value) -> Value:
    """A code of 0 or of a number of at least 1, times `TOLERANCE`."""
    return Mux(Unpacked(code, float32).zero, 0, code - (_TOLERANCE << float32.fraction_bits))[:32]


def above(a: Value, b: Value) -> Value:
    """Whether a > b, b not negative."""
    x = Unpacked(a, float32)
    return ~x.sign & ~x.nan & ~x.zero & (a > b)
