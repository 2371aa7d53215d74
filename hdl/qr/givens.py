"""The solver of method `givens`: rows rotated into a float32 factor and out of it, rank rule, both triangular solves."""

from types import SimpleNamespace

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.programs import GIVENS, Kind
from ...models.qr.schedule import ADD, DIV, MUL, STEP
from ...models.qr.stages import ROTATIONS
from ..apart import APART
from ..arith.pipeline import Pipeline, Unpacked, leading_zeros
from ..index import index
from ..modules import Parts
from ..ram import ram
from ..stream.passing import fields
from .control import Control, Thread
from .numbers import MINUS_ONE, NOTHING, ONE, lane, operation
from .solver import above, scaled, solution_shape

#: exponent of `models.qr.factor.SHRINKS`
_SHRINKS = 8


def start_shape(n_max, jobs):
    """A job: its columns, its number among those in flight, whether it has no factor yet."""
    return data.StructLayout({"columns": range(n_max + 1), "job": range(max(jobs, 2)), "fresh": 1})


def row_shape(n_max):
    """A row to be folded, or to be taken out (`gone`): 1, bytes minus offsets (9 bits); or the `end` of a job's."""
    return data.StructLayout({"a": data.ArrayLayout(signed(9), n_max), "gone": 1, "end": 1})


def factor_shape(config):
    """A word of a new factor: by columns u_kj for k < j, then d_j, float32, zeros at the end."""
    return data.StructLayout(
        {"data": 8 * config.bus_bytes, "job": range(max(config.jobs, 2)), "last": 1}
    )


class Givens:
    """Adds to the engine's module what takes jobs from factor, new rows and right side to weights and new factor, one after the other.

    Golden: `models.qr.factor.fold`, `full_rank` and `solve`, h added to the bias. Its steps are `models.qr.programs`, its cycles `models.qr.solver`.
    Lane k has row k of the factor, and the row that column k turns next, each in a memory of its own. An operation's results are written `STEP` - 1 cycles
    after its issue; rows go to the next lane's memory, into the half that the next wave reads.

    Parameters
    ----------
    start : stream.Signature(start_shape(n_max, jobs))
        Jobs. What follows comes in the same order.
    factors : stream.Signature({data, end}), stream.Signature(factor_shape(config))
        The first gives columns of the memo's factor, u_kj for k < j, then d_j, and an `end` behind them, nothing for a `fresh` job; the other takes
        words of the new factors, always.
    i : stream.Signature(load_shape(n_max, jobs))
        Of each column its sum and sum of squares, then the right side.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, start, factors, i):
        self.config, self.parts, self.start = config, parts, start
        self.i, (self.load, self.factor) = i, factors
        # rows, and an `end` behind each job's
        self.rows = stream.Signature(row_shape(config.n_max)).create(path=("folded",))
        # a solution, for one cycle
        self.o, self.o_valid = Signal(solution_shape(config.n_max, config.jobs)), Signal()
        self.failed = Signal()  # of that: the rows that went could not be taken out
        self.n, self.pipe = self.config.n_max, Pipeline(m)
        vector = lambda name: [
            Signal(32, name=f"{name}{k}", reset_less=True) for k in range(self.n)
        ]
        # of each lane: d, d', e and then s, c or 1 / d, δ, x_k, y_k or z_k; the least d that is kept
        names = ("d", "pivot", "s", "c", "delta", "head", "y", "limit")
        self.of = SimpleNamespace(**{name: vector(name) for name in names})
        # a row is there; it is turned here; the column is kept
        self.live, self.turned, self.keep = Signal(self.n), Signal(self.n), Signal(self.n)
        self.job, self.row = Signal(self.start.p.shape()), Signal(self.rows.p.shape())
        # first lane in use; whether the right side is there; it waits for a row dropped before it, or has waited; some have been dropped; nothing is turned;
        # which half of the rows' memories is read
        flags = "siding drops waited dropped short parity last above held ended some solves".split()
        self.wave = SimpleNamespace(
            first=index(self.n, name="first"), **{name: Signal(name=name) for name in flags}
        )
        # a column of the factor comes; the new one goes
        self.factor_in = SimpleNamespace(some=Signal(), column=index(self.n, name="in_column"))
        self.factor_out = SimpleNamespace(
            some=Signal(), column=index(self.n, name="out_column"), ends=Signal()
        )
        self._control(m)
        self._memories(m)
        self._lanes(m)
        self._write(m)
        self._divide(m)
        self._limits(m)
        self._leave(m)

    def _control(self, m):
        """Which wave comes next."""
        wave, waving, self.issue = self.wave, Signal(name="waving"), Signal(name="issue")
        then_solves = wave.siding & wave.last & ~wave.solves
        self.thread = thread = Thread(
            m,
            GIVENS,
            (self.n, (self.job.columns - 1)[: len(wave.first)]),
            issue=self.issue,
            start=Mux(then_solves, Kind.INVERT, Kind.TURN),
            conditions={"short": wave.short},
            first=wave.first,
            running=waving,
        )
        leaves = index(STEP, name="leaves")  # a solution is on its way
        m.d.comb += [
            self.issue.eq(waving & thread.may),
            wave.last.eq(wave.first == self.job.columns - 1),
            self.i.ready.eq(~self.i.p.side | (self.issue & (thread.step == Kind.FINAL))),
        ]
        m.d.sync += leaves.eq(Mux(leaves == 0, 0, leaves - 1))
        count = self.factor_in.column
        conditions = {
            "starts": self.start.valid & (leaves == 0),
            "loaded": self.factor_in.some & (count == self.job.columns - 1),
            "known": wave.held | wave.ended,
            "moves": wave.held | (wave.some & ~wave.last),
            "over": thread.over,
            "solves": wave.solves,
            "rows": ~wave.siding,
            "last": wave.last,
            "left": self.factor_out.ends,
            "comes": self.i.valid & self.i.p.side,
        }
        control = Control(m, ROTATIONS, conditions)
        now, goes = control.now, control.goes
        m.d.comb += [
            waving.eq(now["WAVE"]),
            self.start.ready.eq(now["IDLE"] & (leaves == 0)),
            self.load.ready.eq(self.load.p.end | (now["LOAD"] & ~self.job.fresh)),
            self.factor_in.some.eq(
                now["LOAD"] & (self.job.fresh | (self.load.valid & ~self.load.p.end))
            ),
            self.rows.ready.eq(now["ROWS"] & ~wave.held & ~wave.ended),
            self.factor_out.some.eq(now["OUT"]),
        ]
        with m.If(goes["IDLE"]):
            m.d.sync += leaves.eq(STEP - 1)
        self._waves(m, now, goes)

    def _waves(self, m, now, goes):
        """What waves begin and end with."""
        wave, count = self.wave, self.factor_in.column
        with m.If(self.rows.valid & self.rows.ready):
            m.d.sync += [
                self.row.eq(self.rows.payload),
                *fields(wave, held=~self.rows.p.end, ended=self.rows.p.end),
                wave.some.eq(wave.some | ~self.rows.p.end),
            ]
        with m.If(goes["LOAD"]):
            flags = (wave.siding, wave.waited, wave.dropped, wave.short, wave.first)
            m.d.sync += [
                self.job.eq(self.start.payload),
                *(flag.eq(0) for flag in (wave.held, wave.ended, wave.some, wave.solves, *flags)),
                *(flag.eq(0) for flag in (self.live, self.keep, self.failed)),
            ]
        with m.If(self.factor_in.some):
            m.d.sync += count.eq(Mux(goes["ROWS"], 0, count + 1))
        with m.If(now["ROWS"] & goes["WAVE"]):
            m.d.sync += wave.first.eq(Mux(wave.held, 0, wave.first + 1))
            with m.If(wave.held):
                m.d.sync += self.live[0].eq(1)
                m.d.sync += self.of.delta[0].eq(Mux(self.row.gone, MINUS_ONE, ONE))
        with m.If(goes["OUT"]):
            m.d.sync += [wave.first.eq(0), wave.siding.eq(1)]
        with m.If(now["SIDE"] & goes["WAVE"]):
            # what is above its limit is known a cycle after LOOK
            stays = wave.above | wave.last | wave.waited
            m.d.sync += fields(wave, drops=~stays, dropped=wave.dropped | ~stays)
            m.d.sync += wave.short.eq(~wave.dropped & stays)
            with m.If(wave.above & ~wave.waited):
                m.d.sync += self.keep.bit_select(wave.first, 1).eq(1)
        with m.If(self.thread.over):
            m.d.sync += [wave.held.eq(0), wave.parity.eq(~wave.parity), wave.drops.eq(0)]
            m.d.sync += wave.solves.eq(goes["WAVE"])
            with m.If(goes["LOOK"]):
                m.d.sync += [wave.waited.eq(wave.drops), wave.first.eq(wave.first + ~wave.drops)]

    def _memories(self, m):
        """Of each lane: row k of the factor, and the row that it meets, in the half that `parity` names; data come a cycle after the issue."""
        turns, column, out = self.thread.step == Kind.TURN, self.thread.column, self.factor_out
        self.u, self.x, self.writes = [], [], []
        for k in range(self.n):
            u_write, u_read = ram(m, f"u{k}", 32, 1 << len(column), attrs=APART)
            x_write, x_read = ram(m, f"x{k}", 32, 2 << len(column), attrs=APART)
            half = self.wave.parity ^ (self.wave.waited & (self.wave.first == k))
            m.d.comb += [
                u_read.addr.eq(Mux(out.some, out.column, column)),
                x_read.addr.eq(Cat(Mux(turns, k, column)[: len(column)], half)),
            ]
            self.u.append(u_read.data)
            self.x.append(x_read.data)
            self.writes.append((u_write, x_write))
        # lane 0 meets the row that comes
        entry, value = Signal(signed(9), reset_less=True), Signal(32, reset_less=True)
        m.d.sync += entry.eq(Array(self.row.a)[self.thread.column])
        m.d.sync += value.eq(Array(self.i.p.values)[self.thread.column])
        self.x[0] = self.pipe.wire(
            Mux(self.wave.siding, value, _small_float(entry)), name="entering"
        )

    def _lanes(self, m):
        """Minuend less product in all lanes; operands a cycle after the issue."""
        task = self.pipe.rank(
            issue=self.issue,
            kind=self.thread.step,
            column=self.thread.column,
            first=self.wave.first,
            side=self.wave.siding,
            drops=self.wave.drops,
            half=self.wave.parity,
        )
        self.task, self.results = task, []
        scalar = self.pipe.wire(Array(self.of.y)[task.column], name="scalar")
        for k in range(self.n):
            x = self.x[k]
            with m.If(task.issue & (task.kind == Kind.TURN)):
                m.d.sync += self.of.head[k].eq(x)
                with m.If(task.side & (task.first == k)):
                    m.d.sync += self.of.y[k].eq(x)
            operands = self._operands(k, scalar)
            self.results.append(lane(self.parts, self.pipe, k, task.kind, *operands))

    def _operands(self, k, scalar):
        """Of a lane: what is multiplied, and from what the product is taken; and where the product is left out, and what the result then is."""
        task, of = self.task, self.of
        x, u = self.x[k], self.u[k]
        minus = 1 << 31
        kept, known = (self.keep >> task.first)[0], (self.keep >> task.column)[0]
        here = task.side & (task.first == k)
        products = {
            Kind.TURN: (NOTHING, of.delta[k], x ^ minus),
            Kind.PIVOT: (of.d[k], of.s[k], of.head[k] ^ minus),
            Kind.REST: (x, of.head[k], u),
            Kind.SCALE: (NOTHING, of.c[k], u ^ minus),
            Kind.WEIGHT: (NOTHING, of.delta[k], of.c[k] ^ minus),
            Kind.ADD: (u, of.s[k], x ^ minus),
            Kind.UNIT: (NOTHING, of.y[k], of.c[k] ^ minus),
            Kind.BACK: (of.y[k], u, scalar),
            Kind.FINAL: (of.y[k], self.i.p.h if k == 0 else Const(0, 32), MINUS_ONE),
        }
        alone = {
            Kind.REST: (here & ~kept, Mux(task.drops, u, x)),
            Kind.WEIGHT: (~self.turned[k], Mux(here & task.drops, of.d[k], of.delta[k])),
            Kind.BACK: (~known | (k >= task.column), of.y[k]),
            Kind.FINAL: (~self.keep[0], of.y[k]),
        }
        return products, {kind: [(out, (instead, 0, 0))] for kind, (out, instead) in alone.items()}

    def _write(self, m):
        """Results go to their places."""
        names = ("issue", "kind", "column", "drops", "first", "half")
        end = {
            name: self.pipe.delay(getattr(self.task, name), MUL + ADD + 1, name=f"{name}_end")
            for name in names
        }
        done = {kind: self.pipe.wire(end["issue"] & (end["kind"] == kind)) for kind in Kind}
        self.pivots, dropping = done[Kind.PIVOT], end["drops"]
        for k, (u_write, x_write) in enumerate(self.writes):
            result, before = self.results[k], self.results[k - 1]
            entry = Mux(self.job.fresh, 0, self.load.p.data.word_select(k, 32))
            changes = (done[Kind.SCALE] | done[Kind.ADD]) & self.turned[k]
            m.d.comb += [
                u_write.en.eq(self.factor_in.some | changes),
                u_write.addr.eq(Mux(self.factor_in.some, self.factor_in.column, end["column"])),
                u_write.data.eq(Mux(self.factor_in.some, entry, result)),
                *fields(x_write, en=done[Kind.REST], addr=Cat(end["column"], ~end["half"])),
                x_write.data.eq(before),
            ]
            with m.If(self.factor_in.some & (self.factor_in.column == k)):
                m.d.sync += self.of.d[k].eq(entry)
            with m.If(done[Kind.TURN]):
                m.d.sync += self.of.s[k].eq(result)
            with m.If(done[Kind.PIVOT]):
                m.d.sync += self.of.pivot[k].eq(result)
                m.d.sync += self.turned[k].eq(self.live[k] & ~Unpacked(result, float32).zero)
            with m.If(done[Kind.UNIT] | done[Kind.BACK]):
                m.d.sync += self.of.y[k].eq(result)
            with m.If(done[Kind.WEIGHT]):
                goes = self.live[k - 1] | (dropping & (end["first"] == k - 1))
                goes = goes & ~Unpacked(before, float32).zero & (self.job.columns != k)
                m.d.sync += [self.live[k].eq(goes if k else 0), self.of.delta[k].eq(before)]
            m.d.comb += self.o.weights[k].eq(Mux(self.keep[k], result, 0))
        m.d.comb += self.o_valid.eq(done[Kind.FINAL])
        m.d.comb += fields(self.o, job=self.job.job, mask=self.keep)

    def _divide(self, m):
        """c of all lanes, then s, behind a wave's PIVOT; or 1 / d."""
        lane, going, second = index(self.n, name="lane"), Signal(), Signal()
        inverts = self.issue & (self.thread.step == Kind.INVERT)
        which = Mux(inverts, self.thread.column, lane)
        s = self.pipe.rank(
            some=going | inverts,
            second=going & second,
            commits=going & ~second,
            lane=which,
            a=Mux(inverts, ONE, Mux(second, Array(self.of.s)[lane], Array(self.of.d)[lane])),
            b=Mux(inverts, Array(self.of.d)[self.thread.column], Array(self.of.pivot)[lane]),
        )
        with m.If(going):
            m.d.sync += lane.eq(lane + 1)
            with m.If(lane == self.job.columns - 1):
                m.d.sync += [lane.eq(self.wave.first), second.eq(1), going.eq(~second)]
        with m.If(self.pivots):
            m.d.sync += [lane.eq(self.wave.first), second.eq(0), going.eq(1)]
        quotient = operation(self.parts, m, "div", "div", s.a, s.b)
        arrives = {
            name: self.pipe.delay(getattr(s, name), DIV, name=f"{name}_late")
            for name in ("some", "second", "commits", "lane")
        }
        for k in range(self.n):
            with m.If(arrives["some"] & (arrives["lane"] == k)):
                with m.If(arrives["second"]):
                    m.d.sync += self.of.s[k].eq(quotient)
                with m.Else():
                    m.d.sync += self.of.c[k].eq(quotient)
                    with m.If(arrives["commits"] & self.turned[k]):
                        m.d.sync += self.of.d[k].eq(self.of.pivot[k])

    def _limits(self, m):
        """The rank rule, and whether rows that went left enough of each pivot."""
        with m.If(self.i.valid & ~self.i.p.side):
            for k in range(self.n):
                with m.If(self.i.p.row == k):
                    m.d.sync += self.of.limit[k].eq(scaled(self.i.p.values[1]))
        m.d.sync += self.wave.above.eq(
            above(Array(self.of.d)[self.wave.first], Array(self.of.limit)[self.wave.first])
        )
        # d is the old one until its c has come
        short = []
        for k in range(self.n):
            d, bits = self.of.d[k], float32.fraction_bits
            least = Mux(d[bits:-1] > _SHRINKS, d - (_SHRINKS << bits), Const(0, 32))[:32]
            some = self.live[k] & self.of.delta[k][-1] & ~Unpacked(self.of.head[k], float32).zero
            short.append(some & ~above(self.of.pivot[k], least))
        with m.If(self.pipe.delay(self.pivots, 1, name="pivots") & Cat(short).any()):
            m.d.sync += self.failed.eq(1)

    def _leave(self, m):
        """The new factor, a number a cycle, packed into words."""
        each = self.config.bus_bytes // 4
        row, place = index(self.n, name="out_row"), index(each, name="place")
        m.d.comb += self.factor_out.ends.eq(
            (row == self.factor_out.column) & (row == self.job.columns - 1)
        )
        with m.If(self.factor_out.some):
            m.d.sync += row.eq(row + 1)
            with m.If(row == self.factor_out.column):
                m.d.sync += [row.eq(0), self.factor_out.column.eq(self.factor_out.column + 1)]
            with m.If(self.factor_out.ends):
                m.d.sync += self.factor_out.column.eq(0)
        out, diagonal = self.factor_out, row == self.factor_out.column
        s = self.pipe.rank(some=out.some, last=out.ends, diagonal=diagonal, row=row)
        word, full = Signal(32 * each, reset_less=True), Signal()
        value = Mux(s.diagonal, Array(self.of.d)[s.row], Array(self.u)[s.row])
        m.d.comb += full.eq(s.last | (place == each - 1))
        m.d.sync += [self.factor.valid.eq(s.some & full), self.factor.p.last.eq(s.last)]
        with m.If(s.some):
            m.d.sync += place.eq(Mux(full, 0, place + 1))
            with m.If(place == 0):
                m.d.sync += word.eq(value)
            with m.Else():
                m.d.sync += word.word_select(place, 32).eq(value)
        m.d.comb += [self.factor.p.data.eq(word), self.factor.p.job.eq(self.job.job)]


def _small_float(value):
    """An integer from -255 to 255 as float32."""
    size = Mux(value < 0, -value, value)[:8]
    zeros, some = leading_zeros(size)
    fraction = (size << zeros)[:8][:7]
    exponent = (float32.bias + 7 - zeros)[:8]
    return Mux(some, Cat(Const(0, 16), fraction, exponent, value[-1]), 0)
