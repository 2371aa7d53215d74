"""Which operation the solver of method `givens` issues in a cycle."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.rotations import ARRIVE, PLACES, RING
from ...models.qr.schedule import STEP
from ..arith.pipeline import Pipeline
from ..index import index, index_range
from ..stream.queue import Queue
from .givens_context import Context, Kind, encoded

__all__ = ["Issue", "operation_shape", "start_shape"]


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

    def __init__(self, config: FitPlan):
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
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self._tables(m)
        self._events(m)

        self.contexts = [Context(self, c) for c in range(self.config.contexts)]
        for context in self.contexts:
            context.choose(m)
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
        self.later = Signal.like(self.o)
        m.d.comb += self.later.eq(self.pipe.delay(self.o.as_value(), STEP - 1, name="freed"))
        self.arrives = Signal.like(self.o)
        m.d.comb += self.arrives.eq(
            self.pipe.delay(self.later.as_value(), ARRIVE - STEP, name="arrives")
        )
        self.arriving = Kind(self.arrives.kind)

        self.busy = [index(self.table[-1] + 1, name=f"busy{v}") for v in range(self.config.vectors)]
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

    def rest(self, columns: Value, column: Value) -> Value:
        """Slots of the columns behind this one."""
        return Array(self.table)[(columns - 1 - column)[: len(columns)]]

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
            self.load_slots.eq(self.rest(columns_here, self.load_column)),
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
                encoded(picked["onehot"]),
            )
        )
        context = Signal(index_range(self.config.contexts), name="picked_context")
        m.d.comb += context.eq(Mux(self.loads, self.newest, encoded(self.chosen)))
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
                here.reset(m)
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
            here.issued(m, self.chosen[c], self.loads & (self.newest == c), self.load_column)
        m.d.comb += [
            self.goes.eq(Cat(c.goes for c in self.contexts).any()),
            self.goes_context.eq(self.arrives.context),
        ]

    def _tables(self, m):
        """Cycles of a vector unit for so many lanes' work (0 … n_max)."""
        lanes = self.config.lanes
        self.table = [-(-count // lanes) for count in range(self.config.n_max + 1)]
        self._slots = [Signal(range(self.table[-1] + 1), name="slots_like")]


def _of_unit(column, unit, vectors, n):
    """Whether this column is the unit's."""
    return Array([k % vectors == unit for k in range(n)])[column]


def _one_of(m: Module, chosen: Value, values: list[Value], name: str) -> Signal:
    """The value that belongs to the one bit."""
    result = Signal(len(values[0]), name=name)
    total: Value = Mux(chosen[0], values[0], 0)
    for k, value in enumerate(values[1:], 1):
        total = total | Mux(chosen[k], value, 0)
    m.d.comb += result.eq(total)
    return result
