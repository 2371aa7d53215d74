"""The solver of method `givens`: rows rotated into a float32 factor and out of it, rank rule, both triangular solves."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.programs import GIVENS, Kind
from ...models.qr.schedule import ADD, DIV, MUL, STEP
from ...models.qr.stages import ROTATIONS
from ..apart import APART
from ..arith.pipeline import Pipeline, Unpacked, leading_zeros
from ..index import index, index_range
from ..modules import Parts
from ..named import named
from ..ram import ram
from ..stream.passing import fields
from .control import Control, Sequencer
from .numbers import MINUS_ONE, NOTHING, ONE, lane, operation
from .solver import above, scaled, solution_shape

#: exponent of `models.qr.factor.SHRINKS`
_SHRINKS = 8


def start_shape(n_max, jobs):
    """A job: its columns, its number among those in flight, whether it has no factor yet."""
    return data.StructLayout({"columns": range(n_max + 1), "job": range(max(jobs, 2)), "fresh": 1})


def row_shape(n_max):
    """A row: `a`: 1, bytes minus offsets (9 bits); `gone`: it is taken out of the factor, else folded in. Or the `end` of a job's rows."""
    return data.StructLayout({"a": data.ArrayLayout(signed(9), n_max), "gone": 1, "end": 1})


def factor_shape(config):
    """A word of a new factor: by columns u_kj for k < j, then d_j, float32, zeros at the end."""
    return data.StructLayout(
        {"data": 8 * config.bus_bytes, "job": range(max(config.jobs, 2)), "last": 1}
    )


@dataclass(frozen=True)
class _Lanes:
    """Registers of the lanes: lane k has place k, or bit k. Letters are those of `models.qr.factor`."""

    d: list[Signal]  # the factor's diagonal
    pivot: list[Signal]  # d' of this wave
    s: list[Signal]  # e, then s
    c: list[Signal]  # c; for the triangular solves 1 / d
    delta: list[Signal]  # weight of the row that the lane has met
    head: list[Signal]  # entry k of that row
    y: list[Signal]  # y_k, then z_k
    limit: list[Signal]  # the column is kept if d is above this
    live: Signal  # there is a row in the lane
    turned: Signal  # the row of this wave turns the factor's row
    keep: Signal  # the column is kept


@dataclass(frozen=True)
class _Wave:
    """Registers of the wave that goes through the lanes."""

    first: Signal  # the first lane in use
    siding: Signal  # the job's rows have gone: the right side moves
    drops: Signal  # the first lane's column is not kept: its row of the factor goes on to the lanes behind
    waited: Signal  # the right side waited for such a row
    dropped: Signal  # there has been such a row
    short: Signal  # nothing is turned: the right side moves alone
    parity: Signal  # which half of the rows' memories is read
    last: Signal  # the first lane in use is the job's last one
    above: Signal  # of the first lane: d is above its limit
    held: Signal  # a row waits for the next wave
    ended: Signal  # no more rows of this job come
    some: Signal  # the job has a row
    solves: Signal  # no wave, but the triangular solves


@dataclass(frozen=True)
class _State:
    """What the parts of the solver share."""

    config: FitPlan
    job: Any  # `start_shape`: the job that is solved
    row: Any  # `row_shape`: the row that enters lane 0 with the next wave
    lanes: _Lanes
    wave: _Wave
    column_comes: Signal  # a column of the memo's factor is written
    column_in: Signal  # which one
    entry_goes: Signal  # an entry of the new factor is read
    column_out: Signal  # its column
    all_gone: Signal  # it is the last one


class Givens:
    """Adds to the engine's module what takes jobs from factor, new rows and right side to weights and new factor, one after the other.

    Golden: `models.qr.factor.fold`, `full_rank` and `solve`, h added to the bias. Its steps are `models.qr.programs`, its cycles `models.qr.solver`.
    Lane k has row k of the factor, and the row that column k turns next, each in a memory of its own. An operation's results are written `STEP` - 1 cycles
    after its issue; rows go to the next lane's memory, into the half that the next wave reads.

        wave      1        2        3        4
        lane 0    row 0    row 1    row 2
        lane 1             row 0    row 1    row 2
        lane 2                      row 0    row 1

    * `start` (`stream.Signature(start_shape(n_max, jobs))`): jobs. What follows comes in the same order.
    * `factors` (`stream.Signature({data, end}), stream.Signature(factor_shape(config))`): the first gives
      columns of the memo's factor, u_kj for k < j, then d_j, and an `end` behind them, nothing for a `fresh`
      job; the other takes words of the new factors, always.
    * `i` (`stream.Signature(load_shape(n_max, jobs))`): of each column its sum and sum of squares, then the
      right side.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, start, factors, i):
        # rows, and an `end` behind each job's
        self.rows = stream.Signature(row_shape(config.n_max)).create(path=("folded",))
        # a solution, for one cycle
        self.o, self.o_valid = Signal(solution_shape(config.n_max, config.jobs)), Signal()
        (load, factor), n = factors, config.n_max
        vectors = {
            name: [Signal(32, name=f"{name}{k}", reset_less=True) for k in range(n)]
            for name in "d pivot s c delta head y limit".split()
        }
        lanes = named(_Lanes, **vectors, **dict.fromkeys(("live", "turned", "keep"), n))
        state = named(
            _State,
            config=config,
            job=start.p.shape(),
            row=self.rows.p.shape(),
            lanes=lanes,
            wave=named(_Wave, first=index_range(n)),
            column_in=index_range(n),
            column_out=index_range(n),
        )
        pipe = Pipeline(m)
        steps = _control(m, state, start, load, self.rows, i)
        entries, writes = _memories(pipe, state, i, steps)
        results, done, end = _operate(parts, pipe, state, i.p.h, steps, entries)
        _write_elements(m, state, load, writes, results, (done, end))
        _write_scalars(m, state, results, done, end)
        for k, weight in enumerate(self.o.weights):
            m.d.comb += weight.eq(Mux(lanes.keep[k], results[k], 0))
        m.d.comb += self.o_valid.eq(done[Kind.FINAL])
        m.d.comb += fields(self.o, job=state.job.job, mask=lanes.keep)
        _divide(parts, pipe, state, steps, done[Kind.PIVOT])
        # with the weights: the rows that went could not be taken out of the factor
        self.failed = _judge(pipe, state, i, done[Kind.PIVOT], start.valid & start.ready)
        _give_factor(pipe, state, factor, [u for u, _ in entries])


def _control(m, state, start, load, rows, i):
    """Go through the phases of a job; return the steps of its waves and triangular solves."""
    job, wave = state.job, state.wave
    issue, waving = Signal(), Signal()
    then_solves = wave.siding & wave.last & ~wave.solves
    steps = Sequencer(
        m,
        GIVENS,
        (state.config.n_max, (job.columns - 1)[: len(wave.first)]),
        issue=issue,
        start=Mux(then_solves, Kind.INVERT, Kind.TURN),
        conditions={"short": wave.short},
        first=wave.first,
        running=waving,
    )
    solving = index(STEP, name="solving")  # cycles until the last job's solution is there
    m.d.comb += [
        issue.eq(waving & steps.may),
        wave.last.eq(wave.first == job.columns - 1),
        i.ready.eq(~i.p.side | (issue & (steps.step == Kind.FINAL))),
    ]
    m.d.sync += solving.eq(Mux(solving == 0, 0, solving - 1))
    conditions = {
        "starts": start.valid & (solving == 0),
        "loaded": state.column_comes & (state.column_in == job.columns - 1),
        "known": wave.held | wave.ended,
        "moves": wave.held | (wave.some & ~wave.last),
        "over": steps.over,
        "solves": wave.solves,
        "rows": ~wave.siding,
        "last": wave.last,
        "left": state.all_gone,
        "comes": i.valid & i.p.side,
    }
    control = Control(m, ROTATIONS, conditions)
    now, goes = control.now, control.goes
    m.d.comb += [
        waving.eq(now["WAVE"]),
        start.ready.eq(now["IDLE"] & (solving == 0)),
        load.ready.eq(load.p.end | (now["LOAD"] & ~job.fresh)),
        state.column_comes.eq(now["LOAD"] & (job.fresh | (load.valid & ~load.p.end))),
        rows.ready.eq(now["ROWS"] & ~wave.held & ~wave.ended),
        state.entry_goes.eq(now["OUT"]),
    ]
    with m.If(goes["IDLE"]):
        m.d.sync += solving.eq(STEP - 1)
    _begin_job(m, state, start, rows, goes)
    _begin_wave(m, state, now, goes)
    _end_wave(m, wave, steps.over, goes)
    return steps


def _begin_job(m, state, start, rows, goes):
    """A job, the columns of its factor, and its rows."""
    wave, lanes = state.wave, state.lanes
    with m.If(rows.valid & rows.ready):
        m.d.sync += [
            state.row.eq(rows.payload),
            *fields(wave, held=~rows.p.end, ended=rows.p.end, some=wave.some | ~rows.p.end),
        ]
    with m.If(goes["LOAD"]):
        anew = "held ended some solves siding waited dropped short first".split()
        m.d.sync += [
            state.job.eq(start.payload),
            *fields(wave, **dict.fromkeys(anew, 0)),
            *fields(lanes, live=0, keep=0),
        ]
    with m.If(state.column_comes):
        m.d.sync += state.column_in.eq(Mux(goes["ROWS"], 0, state.column_in + 1))


def _begin_wave(m, state, now, goes):
    """A wave begins with a row, or with the rows that are in the lanes already, or with the right side."""
    wave, lanes = state.wave, state.lanes
    with m.If(now["ROWS"] & goes["WAVE"]):
        m.d.sync += wave.first.eq(Mux(wave.held, 0, wave.first + 1))
        with m.If(wave.held):
            m.d.sync += lanes.live[0].eq(1)
            m.d.sync += lanes.delta[0].eq(Mux(state.row.gone, MINUS_ONE, ONE))
    with m.If(goes["OUT"]):
        m.d.sync += fields(wave, first=0, siding=1)
    with m.If(now["SIDE"] & goes["WAVE"]):
        # what is above its limit is known a cycle after LOOK
        stays = wave.above | wave.last | wave.waited
        m.d.sync += fields(wave, drops=~stays, dropped=wave.dropped | ~stays)
        m.d.sync += wave.short.eq(~wave.dropped & stays)
        with m.If(wave.above & ~wave.waited):
            m.d.sync += lanes.keep.bit_select(wave.first, 1).eq(1)


def _end_wave(m, wave, over, goes):
    with m.If(over):
        m.d.sync += fields(wave, held=0, parity=~wave.parity, drops=0, solves=goes["WAVE"])
        with m.If(goes["LOOK"]):
            m.d.sync += fields(wave, waited=wave.drops, first=wave.first + ~wave.drops)


def _memories(pipe, state, i, steps):
    """A memory for each lane's row of the factor (u) and for the row that it meets (x); lane 0 meets the row that comes, or the right side.

    Return pairs (u, x) by lane: what is read, in the cycle after a step; and the ports that write.
    """
    m, wave, column = pipe.m, state.wave, steps.column
    entries, writes = [], []
    for k in range(state.config.n_max):
        u_write, u = ram(m, f"u{k}", 32, 1 << len(column), attrs=APART)
        x_write, x = ram(m, f"x{k}", 32, 2 << len(column), attrs=APART)
        half = wave.parity ^ (wave.waited & (wave.first == k))
        m.d.comb += [
            u.addr.eq(Mux(state.entry_goes, state.column_out, column)),
            x.addr.eq(Cat(Mux(steps.step == Kind.TURN, k, column)[: len(column)], half)),
        ]
        entries.append((u.data, x.data))
        writes.append((u_write, x_write))
    byte, side = Signal(signed(9), reset_less=True), Signal(32, reset_less=True)
    m.d.sync += byte.eq(Array(state.row.a)[column])
    m.d.sync += side.eq(Array(i.p.values)[column])
    x = pipe.wire(Mux(wave.siding, side, _small_float(byte)), name="entering")
    entries[0] = (entries[0][0], x)
    return entries, writes


def _operate(parts, pipe, state, h, steps, entries):
    """Minuend less product in all lanes. Return what `MUL` + `ADD` + 1 cycles after a task are its results, whether it was of a kind, and the rest of it."""
    m, lanes, wave = pipe.m, state.lanes, state.wave
    task = pipe.rank(
        issue=steps.issue,
        kind=steps.step,
        column=steps.column,
        first=wave.first,
        side=wave.siding,
        drops=wave.drops,
        half=wave.parity,
    )
    scalar = pipe.wire(Array(lanes.y)[task.column], name="scalar")
    results = []
    for k, (u, x) in enumerate(entries):
        with m.If(task.issue & (task.kind == Kind.TURN)):
            m.d.sync += lanes.head[k].eq(x)
            with m.If(task.side & (task.first == k)):
                m.d.sync += lanes.y[k].eq(x)
        products = _products(lanes, k, u, x, scalar)
        products[Kind.FINAL] = (lanes.y[k], Const(0, 32) if k else h, MINUS_ONE)
        others = {
            kind: [(condition, (instead, 0, 0))]
            for kind, (condition, instead) in _alone(lanes, k, u, x, task).items()
        }
        results.append(lane(parts, pipe, k, task.kind, products, others))
    names = ("issue", "kind", "column", "drops", "first", "half")
    end = SimpleNamespace(
        **{n: pipe.delay(getattr(task, n), MUL + ADD + 1, name=f"{n}_end") for n in names}
    )
    return results, {kind: pipe.wire(end.issue & (end.kind == kind)) for kind in Kind}, end


def _products(lanes, k, u, x, scalar):
    """Of a lane by kind of task: from what a product is taken, and its factors."""
    minus = 1 << 31
    return {
        Kind.TURN: (NOTHING, lanes.delta[k], x ^ minus),
        Kind.PIVOT: (lanes.d[k], lanes.s[k], lanes.head[k] ^ minus),
        Kind.REST: (x, lanes.head[k], u),
        Kind.SCALE: (NOTHING, lanes.c[k], u ^ minus),
        Kind.WEIGHT: (NOTHING, lanes.delta[k], lanes.c[k] ^ minus),
        Kind.ADD: (u, lanes.s[k], x ^ minus),
        Kind.UNIT: (NOTHING, lanes.y[k], lanes.c[k] ^ minus),
        Kind.BACK: (lanes.y[k], u, scalar),
    }


def _alone(lanes, k, u, x, task):
    """Of a lane by kind of task: when the product is left out, and what the result then is."""
    kept, known = (lanes.keep >> task.first)[0], (lanes.keep >> task.column)[0]
    here = task.side & (task.first == k)
    return {
        Kind.REST: (here & ~kept, Mux(task.drops, u, x)),
        Kind.WEIGHT: (~lanes.turned[k], Mux(here & task.drops, lanes.d[k], lanes.delta[k])),
        Kind.BACK: (~known | (k >= task.column), lanes.y[k]),
        Kind.FINAL: (~lanes.keep[0], lanes.y[k]),
    }


def _write_elements(m, state, load, writes, results, ended):
    """Results go to their memories: rows to the next lane's, into the half that is not read."""
    (done, end), lanes, comes = ended, state.lanes, state.column_comes
    for k, (u_write, x_write) in enumerate(writes):
        entry = Mux(state.job.fresh, 0, load.p.data.word_select(k, 32))
        changes = (done[Kind.SCALE] | done[Kind.ADD]) & lanes.turned[k]
        m.d.comb += [
            u_write.en.eq(comes | changes),
            u_write.addr.eq(Mux(comes, state.column_in, end.column)),
            u_write.data.eq(Mux(comes, entry, results[k])),
            *fields(x_write, en=done[Kind.REST], addr=Cat(end.column, ~end.half)),
            x_write.data.eq(results[k - 1]),
        ]
        with m.If(comes & (state.column_in == k)):
            m.d.sync += lanes.d[k].eq(entry)


def _write_scalars(m, state, results, done, end):
    """Results go to the lanes' registers; a row goes on to the next lane with its weight, if something is left of it."""
    lanes = state.lanes
    for k, result in enumerate(results):
        before = results[k - 1]
        with m.If(done[Kind.TURN]):
            m.d.sync += lanes.s[k].eq(result)
        with m.If(done[Kind.PIVOT]):
            m.d.sync += lanes.pivot[k].eq(result)
            m.d.sync += lanes.turned[k].eq(lanes.live[k] & ~Unpacked(result, float32).zero)
        with m.If(done[Kind.UNIT] | done[Kind.BACK]):
            m.d.sync += lanes.y[k].eq(result)
        with m.If(done[Kind.WEIGHT]):
            goes = lanes.live[k - 1] | (end.drops & (end.first == k - 1))
            goes = goes & ~Unpacked(before, float32).zero & (state.job.columns != k)
            m.d.sync += [lanes.live[k].eq(goes if k else 0), lanes.delta[k].eq(before)]


def _divide(parts, pipe, state, steps, pivots):
    """c of all lanes, then s, once `pivots` of a wave are there; or 1 / d."""
    m, lanes, first = pipe.m, state.lanes, state.wave.first
    lane, going, second = index(state.config.n_max, name="lane"), Signal(), Signal()
    inverts = steps.issue & (steps.step == Kind.INVERT)
    s = pipe.rank(
        some=going | inverts,
        second=going & second,
        commits=going & ~second,
        lane=Mux(inverts, steps.column, lane),
        a=Mux(inverts, ONE, Mux(second, Array(lanes.s)[lane], Array(lanes.d)[lane])),
        b=Mux(inverts, Array(lanes.d)[steps.column], Array(lanes.pivot)[lane]),
    )
    with m.If(going):
        m.d.sync += lane.eq(lane + 1)
        with m.If(lane == state.job.columns - 1):
            m.d.sync += [lane.eq(first), second.eq(1), going.eq(~second)]
    with m.If(pivots):
        m.d.sync += [lane.eq(first), second.eq(0), going.eq(1)]
    quotient = operation(parts, m, "div", "div", s.a, s.b)
    arrives = {
        name: pipe.delay(getattr(s, name), DIV, name=f"{name}_late")
        for name in ("some", "second", "commits", "lane")
    }
    for k in range(state.config.n_max):
        with m.If(arrives["some"] & (arrives["lane"] == k)):
            with m.If(arrives["second"]):
                m.d.sync += lanes.s[k].eq(quotient)
            with m.Else():
                m.d.sync += lanes.c[k].eq(quotient)
                with m.If(arrives["commits"] & lanes.turned[k]):
                    m.d.sync += lanes.d[k].eq(lanes.pivot[k])


def _judge(pipe, state, i, pivots, begins):
    """The rank rule. Return whether, since a job began, rows that went left too little of a pivot."""
    m, lanes, wave = pipe.m, state.lanes, state.wave
    failed = Signal(name="failed")
    with m.If(i.valid & ~i.p.side):
        for k, limit in enumerate(lanes.limit):
            with m.If(i.p.row == k):
                m.d.sync += limit.eq(scaled(i.p.values[1]))
    m.d.sync += wave.above.eq(above(Array(lanes.d)[wave.first], Array(lanes.limit)[wave.first]))
    # d is the old one until its c has come
    short, bits = [], float32.fraction_bits
    for k, d in enumerate(lanes.d):
        least = Mux(d[bits:-1] > _SHRINKS, d - (_SHRINKS << bits), Const(0, 32))[:32]
        some = lanes.live[k] & lanes.delta[k][-1] & ~Unpacked(lanes.head[k], float32).zero
        short.append(some & ~above(lanes.pivot[k], least))
    with m.If(begins):
        m.d.sync += failed.eq(0)
    with m.If(pipe.delay(pivots, 1, name="pivots") & Cat(short).any()):
        m.d.sync += failed.eq(1)
    return failed


def _give_factor(pipe, state, factor, u):
    """The new factor goes, a number a cycle, packed into words."""
    m, column = pipe.m, state.column_out
    each = state.config.bus_bytes // 4
    row, place = index(state.config.n_max, name="out_row"), index(each, name="place")
    m.d.comb += state.all_gone.eq((row == column) & (row == state.job.columns - 1))
    with m.If(state.entry_goes):
        m.d.sync += row.eq(row + 1)
        with m.If(row == column):
            m.d.sync += [row.eq(0), column.eq(column + 1)]
        with m.If(state.all_gone):
            m.d.sync += column.eq(0)
    s = pipe.rank(some=state.entry_goes, last=state.all_gone, diagonal=row == column, row=row)
    word, full = Signal(32 * each, reset_less=True), Signal()
    value = Mux(s.diagonal, Array(state.lanes.d)[s.row], Array(u)[s.row])
    m.d.comb += full.eq(s.last | (place == each - 1))
    m.d.sync += [factor.valid.eq(s.some & full), factor.p.last.eq(s.last)]
    with m.If(s.some):
        m.d.sync += place.eq(Mux(full, 0, place + 1))
        with m.If(place == 0):
            m.d.sync += word.eq(value)
        with m.Else():
            m.d.sync += word.word_select(place, 32).eq(value)
    m.d.comb += [factor.p.data.eq(word), factor.p.job.eq(state.job.job)]


def _small_float(value):
    """An integer from -255 to 255 as float32."""
    size = Mux(value < 0, -value, value)[:8]
    zeros, some = leading_zeros(size)
    fraction = (size << zeros)[:8][:7]
    exponent = (float32.bias + 7 - zeros)[:8]
    return Mux(some, Cat(Const(0, 16), fraction, exponent, value[-1]), 0)
