"""A vector unit: rotation lanes with the rows of u, and the rows on their way, of the columns that are its own."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.config import FitPlan
from ...models.qr.rotations import PLACES, RING
from ...models.qr.schedule import ADD, MUL
from ..arith.pipeline import Pipeline, leading_zeros
from ..arith.unit import unit
from ..index import index, index_range
from ..modules import Parts, Submodules
from .givens_context import Kind
from .givens_issue import operation_shape

__all__ = ["RowRing", "VectorUnit", "slot_shape"]

_MINUS_ONE = Const(float32.const(-1.0), 32)


def slot_shape(config):
    """A slot of an operation: `lanes` lanes of it, the first ones in slot 0; `final`: its last one."""
    most = -(-config.n_max // config.lanes)
    return data.StructLayout(
        {"some": 1, "operation": operation_shape(config), "slot": range(most + 1), "final": 1}
    )


class VectorUnit(wiring.Component):
    """`lanes` lanes of 3 multipliers, an adder and a subtracter: u' = c u + s x, x' = x - x_k u.

    Element j of column k's row of u, and of a row that waits before the column, lies at j - k - 1: in the lane of this number's remainder by `lanes`. So a
    rotation takes as few slots as it can, and x' goes to the next unit one lane lower, its first element to the vectoring unit.

    Members
    -------
    go : In(1), operation : In, slots : In
        An operation whose first operands are to be read in the next cycle.
    c, s, head, keep, skip : In
        Of the operation whose first operands are there (`data.slot` 0).
    load : In(ArrayLayout(32, lanes))
        With a LOAD's slots, as their operands are there.
    row : In(ArrayLayout(32, lanes)), rows : In(1)
        Operands from outside instead of a row that waits before the column: the first column's.
    u, z, factor : In
        Operands of back substitution: u, z, and what u is multiplied by.
    read, data : Out(slot_shape(config))
        Slots whose addresses, whose data are there in this cycle.
    done : Out(slot_shape(config)), result : Out(ArrayLayout(32, lanes))
        Slots that are done: x' (z of back substitution).
    u_o : Out(ArrayLayout(32, lanes))
        u, with `data`.
    next : In(slot_shape(config)), next_values : In
        `done` and `result` of the unit before.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        lanes, slot = data.ArrayLayout(32, config.lanes), slot_shape(config)
        super().__init__(
            {
                "go": In(1),
                "operation": In(operation_shape(config)),
                "slots": In(slot["slot"].shape),
                "c": In(32),
                "s": In(32),
                "head": In(32),
                "keep": In(1),
                "skip": In(1),
                "load": In(lanes),
                "row": In(lanes),
                "rows": In(1),
                "u": In(lanes),
                "z": In(lanes),
                "factor": In(32),
                "read": Out(slot),
                "data": Out(slot),
                "done": Out(slot),
                "result": Out(lanes),
                "u_o": Out(lanes),
                "next": In(slot),
                "next_values": In(lanes),
            }
        )

    def _unit(self, m, label, op, a, b):
        return self.parts.instance(m, label, f"{op}_float32", lambda: unit(op, float32), a=a, b=b)[
            "o"
        ]

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self.n, self.vectors = self.config.n_max, self.config.vectors
        self.row_count = -(-self.n // self.vectors)
        self.groups = -(-(self.n - 1) // self.config.lanes)
        # the row of this unit's memories
        self.own = Array([k // self.vectors for k in range(self.n)])

        self._addresses(m)
        self._lanes(m)

        self._results(m)
        return m

    def _addresses(self, m):
        """The slots of an operation, and where its elements lie."""
        left = Signal.like(self.slots)
        with m.If(self.go):
            m.d.sync += [
                self.read.some.eq(1),
                self.read.operation.eq(self.operation),
                self.read.slot.eq(0),
                left.eq(self.slots),
            ]
        with m.Elif(self.read.some):
            m.d.sync += [self.read.slot.eq(self.read.slot + 1), left.eq(left - 1)]
            with m.If(self.read.final):
                m.d.sync += self.read.some.eq(0)
        m.d.comb += self.read.final.eq(left == 1)
        m.d.sync += self.data.eq(self.read)
        operation, slot = self.read.operation, self.read.slot
        home = Signal(range(self.row_count * self.config.contexts))
        m.d.comb += home.eq(operation.context * self.row_count + self.own[operation.column])
        place = Mux(operation.kind == Kind.ROW, operation.place[:2], PLACES)
        self.u_address, self.x_address = (
            Signal(range(self.row_count * self.config.contexts * self.groups)),
            Signal(range(4 * self.row_count * self.config.contexts * self.groups)),
        )
        m.d.comb += [
            self.u_address.eq(home * self.groups + slot),
            self.x_address.eq((home * 4 + place) * self.groups + slot),
        ]

    def _lanes(self, m):
        """The operands: what turns comes with the first slot."""
        # the operands: what turns comes with the first slot and is held for the others
        kind, self.here = Kind(self.data.operation.kind), self.data
        first = self.here.slot == 0
        self.turn = {}
        for name, value in (
            ("c", self.c),
            ("s", self.s),
            ("head", Mux((kind == Kind.BACK) | (kind == Kind.FINAL), self.factor, self.head)),
            ("keep", self.keep),
            ("skip", self.skip),
        ):
            held = Signal(len(value), name=f"{name}_held")
            now = self.pipe.wire(Mux(first, value, held), name=f"{name}_now")
            m.d.sync += held.eq(now)
            self.turn[name] = now
        self.result_u = []
        self.u_memories = []
        self.x_memories = []
        self.late = MUL + ADD + 1  # from operands' data to results
        for lane in range(self.config.lanes):
            m.submodules[f"u{lane}"] = u_memory = Memory(
                shape=unsigned(32),
                depth=self.row_count * self.config.contexts * self.groups,
                init=[],
            )
            m.submodules[f"x{lane}"] = x_memory = Memory(
                shape=unsigned(32),
                depth=4 * self.row_count * self.config.contexts * self.groups,
                init=[],
            )
            u_read, x_read = u_memory.read_port(), x_memory.read_port()
            self.u_memories.append(u_memory.write_port())
            self.x_memories.append(x_memory.write_port())
            m.d.comb += [
                u_read.addr.eq(self.u_address),
                u_read.en.eq(1),
                x_read.addr.eq(self.x_address),
                x_read.en.eq(1),
            ]
            u = self.pipe.wire(Mux(self.here.operation.blank, 0, u_read.data), name=f"u_here{lane}")
            x = self.pipe.wire(
                Mux(self.rows & (self.here.operation.column == 0), self.row[lane], x_read.data),
                name=f"x_here{lane}",
            )
            m.d.comb += self.u_o[lane].eq(u)
            a1, b1, a2, b2, a3, b3, minuend = (
                Signal(32, name=f"{name}_{lane}")
                for name in ("c", "u", "s", "x", "head", "under", "minuend")
            )
            m.d.sync += [signal.eq(0) for signal in (a1, b1, a2, b2, a3, b3)]
            m.d.sync += minuend.eq(x)
            with m.Switch(kind):
                with m.Case(Kind.ROW), m.If(~self.turn["skip"]):
                    m.d.sync += [
                        a1.eq(self.turn["c"]),
                        b1.eq(u),
                        a2.eq(self.turn["s"]),
                        b2.eq(x),
                        a3.eq(self.turn["head"]),
                        b3.eq(u),
                    ]
                with m.Case(Kind.SIDE), m.If(self.turn["keep"]):
                    m.d.sync += [a3.eq(self.turn["head"]), b3.eq(u)]
                with m.Case(Kind.LOAD):
                    m.d.sync += minuend.eq(self.load[lane])
                with m.Case(Kind.DROP):
                    m.d.sync += minuend.eq(u)
                with m.Case(Kind.BACK):
                    m.d.sync += minuend.eq(self.z[lane])
                    with m.If(self.here.operation.flag):
                        m.d.sync += [a3.eq(self.turn["head"]), b3.eq(self.u[lane])]
                with m.Case(Kind.FINAL):
                    m.d.sync += minuend.eq(self.z[lane])
                    if lane == 0:
                        with m.If(self.here.operation.flag & first):
                            m.d.sync += [a3.eq(self.turn["head"]), b3.eq(_MINUS_ONE)]
            cu, sx, hu = (
                self._unit(m, f"{name}{lane}", "mul", a, b)
                for name, a, b in (("cu", a1, b1), ("sx", a2, b2), ("hu", a3, b3))
            )
            self.result_u.append(self._unit(m, f"add{lane}", "add", cu, sx))
            m.d.comb += self.result[lane].eq(
                self._unit(
                    m,
                    f"sub{lane}",
                    "sub",
                    self.pipe.delay(minuend, MUL, name=f"waiting{lane}_"),
                    hu,
                )
            )

    def _results(self, m):
        """u to its own memory, rows that move on to the next unit."""
        # results: u to its own memory, x' to the next unit's
        m.d.comb += self.done.eq(self.pipe.delay(self.data.as_value(), self.late, name="done"))
        turned = self.pipe.delay(
            ~self.turn["skip"] | self.here.operation.blank, self.late, name="turned"
        )
        done, loads = self.done, self.done.operation.kind == Kind.LOAD
        address = Signal.like(self.u_address)
        m.d.comb += address.eq(
            (done.operation.context * self.row_count + self.own[done.operation.column])
            * self.groups
            + done.slot
        )
        for lane, write in enumerate(self.u_memories):
            m.d.comb += [
                write.en.eq(done.some & (loads | ((done.operation.kind == Kind.ROW) & turned))),
                write.addr.eq(address),
                write.data.eq(Mux(loads, self.result[lane], self.result_u[lane])),
            ]
        come = self.next
        base = Signal(range(4 * self.row_count * self.config.contexts * self.groups))
        target = Signal(range(self.n + 1))
        moves = (
            come.some
            & Cat(come.operation.kind == kind for kind in (Kind.ROW, Kind.SIDE, Kind.DROP)).any()
            & ~come.operation.last
        )
        m.d.comb += [
            target.eq(come.operation.column + 1),
            base.eq(
                (
                    (
                        come.operation.context * self.row_count
                        + Array([*(k // self.vectors for k in range(self.n)), 0])[target]
                    )
                    * 4
                    + Mux(come.operation.kind == Kind.SIDE, PLACES, come.operation.to)
                )
                * self.groups
                + come.slot
            ),
        ]
        for lane, write in enumerate(self.x_memories):
            m.d.comb += [
                write.en.eq(moves & (come.slot != 0) if lane == self.config.lanes - 1 else moves),
                write.addr.eq(base - 1 if lane == self.config.lanes - 1 else base),
                write.data.eq(self.next_values[(lane + 1) % self.config.lanes]),
            ]


class RowRing(wiring.Component):
    """New rows and right sides of all contexts, before the first column.

    Members
    -------
    write : In(1), context, place : In, row : In(ArrayLayout(signed(9), n_max - 1))
        A row comes: bytes minus offsets.
    side, side_context, side_column, side_value : In
        A column of a right side comes.
    read, data : In(slot_shape(config))
        Of the unit that has the first column.
    o : Out(ArrayLayout(32, lanes))
        With `data`.
    freed : Out(1), freed_context : Out
        A row's last lanes have been read.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        which, slot = index_range(config.contexts), slot_shape(config)
        super().__init__(
            {
                "write": In(1),
                "context": In(which),
                "place": In(index_range(RING)),
                "row": In(data.ArrayLayout(9, config.n_max - 1)),
                "side": In(1),
                "side_context": In(which),
                "side_column": In(range(config.n_max)),
                "side_value": In(32),
                "read": In(slot),
                "data": In(slot),
                "o": Out(data.ArrayLayout(32, config.lanes)),
                "freed": Out(1),
                "freed_context": Out(which),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        n = config.n_max
        groups = -(-(n - 1) // lanes)
        m.submodules.rows = rows = Memory(
            shape=unsigned(9 * (n - 1)), depth=RING * config.contexts, init=[]
        )
        write, read = rows.write_port(), rows.read_port()
        operation = self.read.operation
        is_row = (operation.kind == Kind.ROW) & (operation.column == 0)
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.context * RING + self.place),
            write.data.eq(self.row.as_value()),
            read.en.eq(1),
            read.addr.eq(operation.context * RING + operation.place),
            self.freed.eq(self.read.some & self.read.final & is_row),
            self.freed_context.eq(operation.context),
        ]
        offset = Signal(range(n))
        lane_of = index(lanes, name="lane_of")
        group_of = index(groups, name="group_of")
        m.d.comb += [
            offset.eq(self.side_column - 1),
            lane_of.eq(Array([k % lanes for k in range(n)])[offset]),
            group_of.eq(Array([k // lanes for k in range(n)])[offset]),
        ]
        for lane in range(lanes):
            m.submodules[f"side{lane}"] = side = Memory(
                shape=unsigned(32), depth=groups * config.contexts, init=[]
            )
            side_write, side_read = side.write_port(), side.read_port()
            m.d.comb += [
                side_write.en.eq(self.side & (self.side_column != 0) & (lane_of == lane)),
                side_write.addr.eq(self.side_context * groups + group_of),
                side_write.data.eq(self.side_value),
                side_read.en.eq(1),
                side_read.addr.eq(operation.context * groups + self.read.slot),
            ]
            small = Signal(9, name=f"small{lane}")
            with m.Switch(self.data.slot):
                for group in range(groups):
                    if group * lanes + lane < n - 1:
                        with m.Case(group):
                            m.d.comb += small.eq(read.data.word_select(group * lanes + lane, 9))
            m.d.comb += self.o[lane].eq(
                Mux(self.data.operation.kind == Kind.ROW, _small_float(small), side_read.data)
            )
        return m


def _small_float(value: Value) -> Value:
    """float32 of an integer of 9 bits in two's complement."""
    sign = value[8]
    size = Mux(sign, -value.as_signed(), value)[:9]
    zeros, some = leading_zeros(Cat(Const(0, 7), size))  # 16 bits
    exponent = float32.bias + 8 - zeros
    fraction = (size << zeros)[:9][:8]
    return Mux(some, Cat(Const(0, 15), fraction, exponent[:8], sign), 0)[:32]
