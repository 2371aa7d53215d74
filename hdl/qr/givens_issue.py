"""Which operation the solver of method `givens` issues in a cycle."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.rotations import ARRIVE, BACK, PLACES, RING
from ...models.qr.schedule import STEP
from ..arith.pipeline import Pipeline
from ..index import index, index_range
from ..stream.queue import Queue

__all__ = ["Issue", "Kind", "operation_shape", "start_shape"]


class Kind(enum.Enum, shape=3):
    """An operation of a column (of step j: `BACK`)."""

    ROW = 0  # a row is rotated
    LOAD = 1  # the column's row of u comes in
    SIDE = 2  # the right side passes
    KEEP = 3  # the column's row of u goes out
    DROP = 4  # the column's row of u becomes a row for the next column
    BACK = 5
    FINAL = 6


class State(enum.Enum, shape=3):
    """See `models.qr.rotations.State`."""

    SIDE = 0
    FLIES = 1
    KEEPS = 2
    LEAVES = 3
    DROPS = 4
    BACK = 5
    ENDS = 6


def start_shape(n_max, jobs):
    """A job: its columns, its number among those in flight, whether it has no factor yet."""
    return data.StructLayout({"columns": range(n_max + 1), "job": range(max(jobs, 2)), "fresh": 1})


def operation_shape(config):
    """What is issued. `place`: of the row that is read (column 0: in the ring), `to`: before the next column. `blank`: the column's row of u is 0 so far.
    `last`: of the model's columns. `flag` (BACK): column j is kept.
    """
    return data.StructLayout(
        {
            "some": 1,
            "kind": 3,
            "context": index_range(config.contexts),
            "column": range(config.n_max),
            "place": index_range(RING),
            "to": range(PLACES),
            "blank": 1,
            "last": 1,
            "flag": 1,
        }
    )


class Issue(wiring.Component):
    """Twin of `models.qr.rotations.Rotations`; what the model calls an event comes from the units.

    Members
    -------
    start : In(stream.Signature(start_shape(n_max, jobs)))
        Jobs in order; their factors, rows and right sides come in the same order.
    load_valid : In(1), load_taken : Out(1), load_group : Out
        A row of a factor waits; its last lanes are taken; which lanes are wanted in this cycle.
    row_valid, row_end : In(1), row_ready : Out(1), row_context, row_place : Out
        A new row (or the end of a job's) and where it goes.
    side_valid, side_last : In(1), side_ready : Out(1), side_context : Out
        A column of the right side and where it goes.
    leaves : In(1)
        Of the rotation issued `ARRIVE` - 1 cycles ago: nothing is left of its row.
    drops : In(1)
        Of the right side's operation issued `ARRIVE` - 1 cycles ago: the column is to be folded into those below.
    keep : In(ArrayLayout(n_max, contexts))
        Columns kept.
    freed, freed_context; ended, ended_context; gone, gone_context : In
        A row's place in the ring is free; a job's weights are there; its factor has gone out.
    goes : Out(1), goes_context : Out
        A context's factor is to go out.
    o : Out(operation_shape(config))
    columns, jobs : Out
        Of the contexts.
    """

    def __init__(self, config: FitPlan, *, src_loc_at=0):
        self.config = config
        n, count = config.n_max, config.contexts
        which = index_range(count)
        self.groups = -(-(n - 1) // config.lanes)
        super().__init__(
            {
                "start": In(stream.Signature(start_shape(n, config.jobs))),
                "load_valid": In(1),
                "load_taken": Out(1),
                "load_group": Out(index_range(self.groups)),
                "row_valid": In(1),
                "row_end": In(1),
                "row_ready": Out(1),
                "row_context": Out(which),
                "row_place": Out(index_range(RING)),
                "side_valid": In(1),
                "side_last": In(1),
                "side_ready": Out(1),
                "side_context": Out(which),
                "leaves": In(1),
                "drops": In(1),
                "keep": In(data.ArrayLayout(n, count)),
                **{name: In(1) for name in ("freed", "ended", "gone")},
                **{f"{name}_context": In(which) for name in ("freed", "ended", "gone")},
                "goes": Out(1),
                "goes_context": Out(which),
                "o": Out(operation_shape(config)),
                "columns": Out(data.ArrayLayout(range(n + 1), count)),
                "jobs": Out(data.ArrayLayout(range(max(config.jobs, 2)), count)),
            },
            src_loc_at=1 + src_loc_at,
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self._tables(m)
        self._events(m)

        self.contexts = [
            self._context(
                m,
                c,
                self.later,
                self.arrives,
                self.arriving,
                self.units_free,
                self.take_busy,
                self.busy[-1],
            )
            for c in range(self.config.contexts)
        ]
        self.may = Signal(self.config.contexts)
        m.d.comb += self.may.eq(Cat(c.may for c in self.contexts))
        self.older = [
            Signal(self.config.contexts, name=f"older{c}") for c in range(self.config.contexts)
        ]
        self.chosen = Signal(self.config.contexts)

        self._load_choice(m)
        self._operation(m)

        self._load_groups(m)
        self._start_jobs(m)

        self._rows_in(m)
        return m

    def _events(self, m):
        """A column may be rotated again; a row or the right side arrives; units are free."""
        # events: a column may be rotated again; a row or the right side arrives
        self.later = Signal.like(self.o)
        m.d.comb += self.later.eq(self.pipe.delay(self.o.as_value(), STEP - 1, name="freed"))
        self.arrives = Signal.like(self.o)
        m.d.comb += self.arrives.eq(
            self.pipe.delay(self.later.as_value(), ARRIVE - STEP, name="arrives")
        )
        self.arriving = Kind(self.arrives.kind)

        self.busy = [
            index(self._table[-1] + 1, name=f"busy{v}") for v in range(self.config.vectors)
        ]
        self.take_busy, self.load_busy = (
            index(self.groups + 1, name="take_busy"),
            index(self.groups + 1, name="load_busy"),
        )
        for timer in (*self.busy, self.take_busy, self.load_busy):
            with m.If(timer != 0):
                m.d.sync += timer.eq(timer - 1)
        self.units_free = Signal(self.config.n_max)
        m.d.comb += self.units_free.eq(
            Cat(self.busy[k % self.config.vectors] == 0 for k in range(self.config.n_max))
        )

    def _load_choice(self, m):
        """A row of a factor comes before all else."""
        # a row of a factor comes before all else; then the oldest context
        self.loading = Signal()
        self.newest = index(self.config.contexts, name="newest")
        self.load_column = index(self.config.n_max, name="load_column")
        columns_here = Signal(range(self.config.n_max + 1))
        self.load_last = Signal()
        self.load_slots = Signal.like(self._slots[0])
        load_unit = Signal()
        self.loads = Signal()
        m.d.comb += [
            columns_here.eq(
                Array([self.columns[c] for c in range(self.config.contexts)])[self.newest]
            ),
            self.load_last.eq(self.load_column == columns_here - 1),
            self.load_slots.eq(self._rest(columns_here, self.load_column)),
            load_unit.eq((self.units_free >> self.load_column)[0]),
            self.loads.eq(
                self.loading
                & self.load_valid
                & (self.load_busy == 0)
                & (self.load_last | load_unit)
            ),
            *(
                self.chosen[c].eq(self.may[c] & ~self.loads & ~(self.may & self.older[c]).any())
                for c in range(self.config.contexts)
            ),
        ]

    def _operation(self, m):
        """The operation that is issued."""
        picked = {
            name: _one_of(
                m, self.chosen, [getattr(c, name) for c in self.contexts], f"picked_{name}"
            )
            for name in ("kind", "onehot", "place", "to", "last", "flag", "slots", "blank", "back")
        }
        column = Signal(range(self.config.n_max), name="picked_column")
        m.d.comb += column.eq(
            Mux(
                self.chosen.any()
                & ((picked["kind"] == Kind.BACK.value) | (picked["kind"] == Kind.FINAL.value)),
                picked["back"],
                _encoded(picked["onehot"]),
            )
        )
        context = Signal(index_range(self.config.contexts), name="picked_context")
        m.d.comb += context.eq(Mux(self.loads, self.newest, _encoded(self.chosen)))
        slots = Signal.like(self._slots[0], name="slots")
        m.d.comb += [
            slots.eq(Mux(self.loads, self.load_slots, picked["slots"])),
            self.o.some.eq(self.loads | self.chosen.any()),
            self.o.kind.eq(Mux(self.loads, Kind.LOAD, picked["kind"])),
            self.o.context.eq(context),
            self.o.column.eq(Mux(self.loads, self.load_column, column)),
            self.o.place.eq(picked["place"]),
            self.o.to.eq(picked["to"]),
            self.o.blank.eq(picked["blank"]),
            self.o.last.eq(Mux(self.loads, self.load_last, picked["last"])),
            self.o.flag.eq(picked["flag"]),
        ]
        steps_back = (picked["kind"] == Kind.BACK.value) | (picked["kind"] == Kind.FINAL.value)
        unit_used = [
            (self.loads & (_of_unit(self.load_column, v, self.config.vectors, self.config.n_max)))
            | (
                ~self.loads
                & self.chosen.any()
                & Mux(
                    steps_back,
                    v == self.config.vectors - 1,
                    (
                        picked["onehot"]
                        & sum(1 << k for k in range(v, self.config.n_max, self.config.vectors))
                    ).any(),
                )
            )
            for v in range(self.config.vectors)
        ]
        for v, used in enumerate(unit_used):
            with m.If(used & (slots != 0)):
                m.d.sync += self.busy[v].eq(slots - 1)
        with m.If(
            self.chosen.any()
            & ~self.loads
            & ((picked["kind"] == Kind.SIDE.value) | (picked["kind"] == Kind.KEEP.value))
        ):
            m.d.sync += self.take_busy.eq(slots - 1)

    def _load_groups(self, m):
        """A factor's row: its lanes are taken one group a cycle."""
        group = Signal.like(self.load_group)
        m.d.comb += [
            self.load_group.eq(Mux(self.loads, 0, group)),
            self.load_taken.eq(Mux(self.loads, self.load_slots <= 1, self.load_busy == 1)),
        ]
        with m.If(self.loads):
            m.d.sync += [
                group.eq(1),
                self.load_busy.eq(Mux(self.load_slots == 0, 0, self.load_slots - 1)),
                self.load_column.eq(self.load_column + 1),
            ]
            with m.If(self.load_last):
                m.d.sync += self.loading.eq(0)
        with m.Else():
            m.d.sync += group.eq(group + 1)

    def _start_jobs(self, m):
        """Jobs come and go."""
        free = Signal(self.config.contexts)
        place = index(self.config.contexts, name="start_place")
        starts = Signal()
        m.d.comb += free.eq(~Cat(c.active for c in self.contexts))
        for c in reversed(range(self.config.contexts)):
            with m.If(free[c]):
                m.d.comb += place.eq(c)
        m.submodules.to_fill = self.to_fill = Queue(len(place), max(self.config.contexts, 2))
        m.submodules.to_side = self.to_side = Queue(len(place), max(self.config.contexts, 2))
        m.d.comb += [
            self.start.ready.eq(~self.loading & free.any()),
            starts.eq(self.start.valid & self.start.ready),
            self.to_fill.i.valid.eq(starts),
            self.to_fill.i.payload.eq(place),
            self.to_side.i.valid.eq(starts),
            self.to_side.i.payload.eq(place),
        ]
        with m.If(starts):
            m.d.sync += [
                self.loading.eq(~self.start.p.fresh),
                self.newest.eq(place),
                self.load_column.eq(0),
            ]
        for c, here in enumerate(self.contexts):
            with m.If(starts & (place == c)):
                m.d.sync += self.older[c].eq(~free)
                self._reset(m, c, here)
            with m.Elif(starts):
                m.d.sync += self.older[c].bit_select(place, 1).eq(0)

    def _rows_in(self, m):
        """Rows into the rings, columns of right sides."""
        fill = self.to_fill.o.payload
        held = Array([c.held for c in self.contexts])[fill]
        m.d.comb += [
            self.row_context.eq(fill),
            self.row_place.eq(Array([c.put for c in self.contexts])[fill]),
            self.row_ready.eq(self.to_fill.o.valid & (self.row_end | (held != RING))),
            self.to_fill.o.ready.eq(self.row_valid & self.row_end),
            self.side_context.eq(self.to_side.o.payload),
            self.side_ready.eq(self.to_side.o.valid),
            self.to_side.o.ready.eq(self.side_valid & self.side_last),
        ]
        row_taken = self.row_valid & self.row_ready
        for c, here in enumerate(self.contexts):
            comes = row_taken & ~self.row_end & (fill == c)
            leaves_ring = self.chosen[c] & (here.kind == Kind.ROW.value) & here.onehot[0]
            freed = self.freed & (self.freed_context == c)
            with m.If(here.active):
                m.d.sync += [
                    here.ring.eq(here.ring + comes - leaves_ring),
                    here.held.eq(here.held + comes - freed),
                ]
            with m.If(comes):
                m.d.sync += here.put.eq(here.put + 1)
            with m.If(row_taken & self.row_end & (fill == c)):
                m.d.sync += here.all_in.eq(1)
            with m.If(
                self.side_valid & self.side_ready & self.side_last & (self.side_context == c)
            ):
                m.d.sync += here.side.eq(1)
            self._issued(m, here, self.chosen[c], self.loads & (self.newest == c), self.load_column)
        m.d.comb += [
            self.goes.eq(Cat(c.goes for c in self.contexts).any()),
            self.goes_context.eq(self.arrives.context),
        ]

    def _tables(self, m):
        """Cycles of a vector unit for so many lanes' work (0 … n_max)."""
        lanes = self.config.lanes
        self._table = [-(-count // lanes) for count in range(self.config.n_max + 1)]
        self._slots = [Signal(range(self._table[-1] + 1), name="slots_like")]

    def _rest(self, columns: Value, column: Value) -> Value:
        """Slots of the columns behind this one."""
        return Array(self._table)[(columns - 1 - column)[: len(columns)]]

    def _context(self, m, c, later, arrives, arriving, units_free, take_busy, last_busy):
        """One context's state, and its next operation."""
        n = self.config.n_max
        s = _Context(self.config, c, self._table[-1])
        columns = self.columns[c]
        mine, arrived = Signal(name=f"freed_here{c}"), Signal(name=f"arrived_here{c}")
        at, mask = Signal(n, name=f"freed_at{c}"), Signal(n, name=f"arrived_at{c}")
        step_back = Kind(later.kind)
        m.d.comb += [
            mine.eq(
                later.some
                & (later.context == c)
                & (step_back != Kind.BACK)
                & (step_back != Kind.FINAL)
            ),
            at.eq(Mux(mine, 1 << later.column, 0)),
            arrived.eq(arrives.some & (arrives.context == c)),
            mask.eq(
                Mux(
                    arrived & ~arrives.last & ((arriving == Kind.ROW) | (arriving == Kind.DROP)),
                    2 << arrives.column,
                    0,
                )
            ),
        ]
        s.at, s.mask = at, mask
        stays = [mask.bool() & ~self.leaves & (arrives.to == p) for p in range(PLACES)]
        ends = [mask.bool() & self.leaves & (arrives.to == p) for p in range(PLACES)]
        s.comes, s.ends = ([Mux(flag, mask, 0) for flag in flags] for flags in (stays, ends))

        # rows: the lowest column whose row may go
        taken, room = Signal(n, name=f"taken{c}"), Signal(n, name=f"room{c}")
        anyone = Signal(n, name=f"anyone{c}")
        ready = Signal(n, name=f"ready{c}")
        lowest = Signal(n, name=f"lowest{c}")
        last = Signal(n, name=f"last{c}")
        s.taken = taken
        m.d.comb += [
            taken.eq(s.full[0] | s.full[1] | s.full[2]),
            room.eq((s.tail[0] & ~s.full[0]) | (s.tail[1] & ~s.full[1]) | (s.tail[2] & ~s.full[2])),
            last.eq(Mux(columns == 0, 0, 1 << (columns - 1)[: len(columns)])),
            anyone.eq(s.waits[0] | s.waits[1] | s.waits[2] | (s.ring != 0)),
            ready.eq(anyone & s.free & (units_free | last) & (room >> 1 | last)),
            lowest.eq(ready & (~ready + 1)),
        ]
        w, t = s.waits, s.tail
        first = [
            Signal(n, name=f"first{c}_{p}") for p in range(PLACES)
        ]  # the place that is next, by column
        m.d.comb += [
            first[p].eq(w[p] & (t[p] | (t[q] & ~w[q] & ~w[r]) | (t[r] & ~w[r])))
            for p, q, r in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
        ]
        s.first = first

        # the right side
        state, where = s.state, Signal(range(n), name=f"where{c}")
        is_back, is_drop = state == State.BACK, state == State.DROPS
        passes = (state == State.SIDE) | (state == State.KEEPS)
        spot = Signal(n, name=f"spot{c}")
        open_ = Signal(name=f"open{c}")
        behind = Signal(name=f"behind{c}")
        token = Signal(name=f"token{c}")
        m.d.comb += [
            where.eq(Mux(state == State.KEEPS, s.keeps, s.column)),
            spot.eq(1 << where),
            open_.eq((s.free & units_free & spot).any()),
            behind.eq(
                s.side
                & (take_busy == 0)
                & Mux(where == 0, s.all_in & (s.ring == 0), ~(taken & spot).any())
            ),
            token.eq(
                s.active
                & (
                    (passes & open_ & behind)
                    | (is_drop & open_ & (room & (spot << 1)[:n]).any())
                    | (is_back & (s.timer == 0) & (last_busy == 0))
                )
            ),
        ]
        s.token = token
        m.d.comb += s.may.eq(s.active & (token | ready.any()))
        source = Signal(n, name=f"source{c}")  # the operation's column
        m.d.comb += source.eq(Mux(token, spot, lowest))
        rest = Signal.like(s.slots, name=f"rest{c}")
        number = Signal(range(n), name=f"number{c}")
        m.d.comb += [
            number.eq(_encoded(source)),
            rest.eq(self._rest(columns, number)),
            s.onehot.eq(Mux(token & is_back, 0, source)),
            s.back.eq(s.step),
            s.last.eq(Mux(token & is_back, s.step == columns - 1, (source & last).any())),
            s.blank.eq((s.blanks & source).any()),
            s.flag.eq((self.keep[c] >> s.step)[0]),
        ]
        nothing = [(source & first[p]).any() for p in range(PLACES)]
        m.d.comb += [
            s.place.eq(Mux(token, PLACES, Mux(source[0], s.get, Cat(nothing[1], nothing[2])))),
            s.to.eq(Cat(((source << 1)[:n] & t[1]).any(), ((source << 1)[:n] & t[2]).any())),
        ]
        with m.If(~token):
            m.d.comb += [s.kind.eq(Kind.ROW.value), s.slots.eq(rest)]
        with m.Elif(is_back):
            m.d.comb += [
                s.kind.eq(Mux(s.step == 0, Kind.FINAL.value, Kind.BACK.value)),
                s.slots.eq(Array(self._table)[Mux(s.step == 0, columns, s.step)]),
            ]
        with m.Elif(is_drop):
            m.d.comb += [s.kind.eq(Kind.DROP.value), s.slots.eq(rest)]
        with m.Else():
            m.d.comb += [
                s.kind.eq(Mux(state == State.KEEPS, Kind.KEEP.value, Kind.SIDE.value)),
                s.slots.eq(Mux(rest == 0, 1, rest)),
            ]

        # arrivals of the right side
        with m.If(s.timer != 0):
            m.d.sync += s.timer.eq(s.timer - 1)
        side_arrives = arrived & (arriving == Kind.SIDE)
        kept_all = arrived & (arriving == Kind.KEEP) & arrives.last
        dropping = self.drops & ~s.again
        m.d.comb += s.goes.eq(kept_all | (side_arrives & ~dropping & arrives.last & ~s.out))
        with m.If(side_arrives):
            with m.If(dropping):
                m.d.sync += [
                    state.eq(Mux(s.out, State.DROPS, State.KEEPS)),
                    s.keeps.eq(s.column + 1),
                ]
            with m.Elif(arrives.last):
                m.d.sync += [state.eq(State.BACK), s.step.eq(columns - 1), s.timer.eq(0)]
            with m.Else():
                m.d.sync += [state.eq(State.SIDE), s.column.eq(s.column + 1), s.again.eq(0)]
        with m.If(self.gone & (self.gone_context == c)):
            m.d.sync += s.out.eq(1)
            with m.If(state == State.LEAVES):
                m.d.sync += state.eq(State.DROPS)
        with m.If(self.ended & (self.ended_context == c)):
            m.d.sync += s.done.eq(1)
        with m.If(s.out & s.done):
            m.d.sync += s.active.eq(0)
        return s

    def _issued(self, m, s, chosen, loads, load_column):
        """What an issue and the events of a cycle do to a context."""
        n = self.config.n_max
        is_row = Signal()
        m.d.comb += is_row.eq(chosen & ~s.token)
        gone, into = Signal(n), Signal(n)
        drops = chosen & s.token & (s.state == State.DROPS)
        of_column = Mux(chosen, s.onehot, 0) | Mux(loads, 1 << load_column, 0)
        m.d.comb += [
            gone.eq(Mux(is_row, s.onehot, 0)),
            into.eq(Mux(is_row | drops, s.onehot << 1, 0)),
        ]
        with m.If(s.active):
            m.d.sync += [s.free.eq((s.free & ~of_column) | s.at), s.blanks.eq(s.blanks & ~gone)]
            for p in range(PLACES):
                consumed = gone & s.first[p]
                m.d.sync += [
                    s.waits[p].eq((s.waits[p] & ~consumed) | s.comes[p]),
                    s.full[p].eq((s.full[p] & ~consumed & ~s.ends[p]) | (into & s.tail[p])),
                    s.tail[p].eq((s.tail[p] & ~into) | (s.tail[p - 1] & into)),
                ]
        with m.If(is_row & s.onehot[0]):
            m.d.sync += s.get.eq(s.get + 1)
        with m.If(chosen & s.token):
            with m.Switch(s.state):
                with m.Case(State.SIDE):
                    m.d.sync += s.state.eq(State.FLIES)
                with m.Case(State.KEEPS):
                    m.d.sync += s.keeps.eq(s.keeps + 1)
                    with m.If(s.last):
                        m.d.sync += s.state.eq(State.LEAVES)
                with m.Case(State.DROPS):
                    m.d.sync += [s.state.eq(State.SIDE), s.again.eq(1)]
                with m.Case(State.BACK):
                    m.d.sync += [s.timer.eq(BACK - 1), s.step.eq(s.step - 1)]
                    with m.If(s.step == 0):
                        m.d.sync += s.state.eq(State.ENDS)

    def _reset(self, m, c, s):
        """A job begins in this context."""
        fresh = self.start.p.fresh
        m.d.sync += [
            self.columns[c].eq(self.start.p.columns),
            self.jobs[c].eq(self.start.p.job),
            s.active.eq(1),
            s.state.eq(State.SIDE),
            s.column.eq(0),
            s.again.eq(0),
            s.ring.eq(0),
            s.held.eq(0),
            s.put.eq(0),
            s.get.eq(0),
            s.all_in.eq(0),
            s.side.eq(0),
            s.out.eq(0),
            s.done.eq(0),
            s.free.eq(fresh.replicate(self.config.n_max)),
            s.blanks.eq(fresh.replicate(self.config.n_max)),
        ]
        for p in range(PLACES):
            m.d.sync += [s.waits[p].eq(0), s.full[p].eq(0), s.tail[p].eq(-1 if p == 0 else 0)]


class _Context:
    """Signals of one context; vectors have a bit a column."""

    def __init__(self, config, c, most):
        n = config.n_max
        self.active, self.all_in, self.side, self.out, self.done, self.again = (
            Signal(name=f"{name}{c}")
            for name in ("active", "all_in", "side", "out", "done", "again")
        )
        self.state = Signal(State, name=f"state{c}")
        self.column, self.keeps, self.step = (
            index(n, name=f"{name}{c}") for name in ("column", "keeps", "step")
        )
        self.timer = index(BACK, name=f"timer{c}")
        self.ring, self.held = (
            Signal(range(RING + 1), name=f"{name}{c}") for name in ("ring", "held")
        )
        self.put, self.get = (
            Signal(index_range(RING), name=f"{name}{c}") for name in ("put", "get")
        )
        self.free, self.blanks = Signal(n, name=f"free{c}"), Signal(n, name=f"blanks{c}")
        self.waits, self.full, self.tail = (
            [Signal(n, name=f"{name}{c}_{p}") for p in range(PLACES)]
            for name in ("waits", "full", "tail")
        )
        # the next operation
        self.may, self.last, self.flag, self.blank, self.goes = (
            Signal(name=f"{name}{c}") for name in ("may", "next_last", "flag", "blank", "goes")
        )
        self.kind, self.onehot = Signal(3, name=f"kind{c}"), Signal(n, name=f"onehot{c}")
        self.place, self.to = (
            Signal(index_range(RING), name=f"place{c}"),
            Signal(range(PLACES), name=f"to{c}"),
        )
        self.slots, self.back = (
            Signal(range(most + 1), name=f"slots{c}"),
            Signal(range(n), name=f"back{c}"),
        )


def _of_unit(column, unit, vectors, n):
    """Whether this column is the unit's."""
    return Array([k % vectors == unit for k in range(n)])[column]


def _encoded(onehot: Value) -> Value:
    """The place of the one bit."""
    size = len(onehot)
    return Cat(
        Cat(onehot[k] for k in range(size) if k >> bit & 1).any()
        for bit in range(max(1, (size - 1).bit_length()))
    )


def _one_of(m: Module, chosen: Value, values: list[Value], name: str) -> Signal:
    """The value that belongs to the one bit."""
    result = Signal(len(values[0]), name=name)
    total: Value = Mux(chosen[0], values[0], 0)
    for k, value in enumerate(values[1:], 1):
        total = total | Mux(chosen[k], value, 0)
    m.d.comb += result.eq(total)
    return result
