"""Back substitution of method `givens`: u once more, read by columns, and z."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ..index import index_range
from .givens_context import Kind
from .givens_issue import operation_shape
from .rotation import slot_shape

__all__ = ["BackSubstitution"]


class BackSubstitution(wiring.Component):
    """Operands of the steps of back substitution, in the order of columns from lane 0; the weights.

    Element (k, j) of u lies in bank (j - k - 1) mod `lanes` (as it leaves the vector units): `lanes` neighbours of a row are written at once, and
    `lanes` neighbours of a column read at once.

    Members
    -------
    take, take_operation, take_slot, take_values : In
        Lanes of a column's row of u that goes out.
    d, d_context, d_column, d_value; z, z_context, z_column, z_value : In
        As `Vectoring` gives them.
    read, data, done : In(slot_shape(config)), result : In
        Of the unit that does back substitution.
    columns, h, kept : In
        Of the contexts.
    u, z_o, factor : Out
        Operands, with `data`.
    ended, ended_context : Out
        A job's weights are in `weights` from the next cycle on.
    weights : Out(ArrayLayout(32, n_max))
    out_address, out_column_address : In, out_en : In(1), out_values, out_d : Out
        Port of the way out.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        n = config.n_max
        count = config.contexts
        lanes = config.lanes
        which = index_range(count)
        slot = slot_shape(config)
        values = data.ArrayLayout(32, lanes)
        self.groups, self.words = -(-(n - 1) // lanes), -(-n // lanes)
        self.depth = count * n * self.groups
        super().__init__(
            {
                "take": In(1),
                "take_operation": In(operation_shape(config)),
                "take_slot": In(slot["slot"].shape),
                "take_values": In(values),
                **{
                    f"{name}{part}": In(shape)
                    for name in ("d", "z")
                    for part, shape in (
                        ("", 1),
                        ("_context", which),
                        ("_column", range(n)),
                        ("_value", 32),
                    )
                },
                "read": In(slot),
                "data": In(slot),
                "done": In(slot),
                "result": In(values),
                "columns": In(data.ArrayLayout(range(n + 1), count)),
                "h": In(data.ArrayLayout(32, count)),
                "kept": In(data.ArrayLayout(n, count)),
                "u": Out(values),
                "z_o": Out(values),
                "factor": Out(32),
                "ended": Out(1),
                "ended_context": Out(which),
                "weights": Out(data.ArrayLayout(32, n)),
                "out_address": In(index_range(self.depth)),
                "out_column_address": In(index_range(count * n)),
                "out_en": In(1),
                "out_values": Out(values),
                "out_d": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, self.lanes = self.config, self.config.lanes
        self.n = config.n_max
        self.count = config.contexts
        self.word_of, self.lane_of = (
            Array([k // self.lanes for k in range(self.n)]),
            Array([k % self.lanes for k in range(self.n)]),
        )

        self._take(m)
        self._addresses(m)

        self._operands(m)
        self._results(m)
        return m

    def _take(self, m):
        """u as it goes out, a cycle after it was read."""
        self.taking, taken = Signal(), Signal.like(self.take_operation)
        self.address, self.values = Signal(index_range(self.depth)), Signal.like(self.take_values)
        m.d.sync += [
            self.taking.eq(self.take),
            taken.eq(self.take_operation),
            self.values.eq(self.take_values),
            self.address.eq(
                (self.take_operation.context * self.n + self.take_operation.column) * self.groups
                + self.take_slot
            ),
        ]

    def _addresses(self, m):
        """Step j's slot has columns k = lanes · word + lane, the greatest first."""
        operation = self.read.operation
        back = operation.kind == Kind.BACK
        above = Signal(range(self.n))  # j - 1
        self.word = Signal(range(self.words))
        self.rest = Signal(range(self.lanes)) if self.lanes > 1 else Signal(1)
        self.base = Signal(range(-self.lanes * self.groups, 2 * self.depth + self.n))
        m.d.comb += [
            above.eq(operation.column - 1),
            self.rest.eq(self.lane_of[above]),
            self.word.eq(Mux(back, self.word_of[above] - self.read.slot, self.read.slot)),
            self.base.eq(
                (operation.context * self.n + above) * self.groups
                - self.read.slot * (self.lanes * self.groups - 1)
            ),
        ]
        self.z_address = (
            Signal(range(self.count * self.words)) if self.count * self.words > 1 else Signal(1)
        )
        m.d.comb += self.z_address.eq(operation.context * self.words + self.word)
        m.submodules.pivots = pivots = Memory(
            shape=unsigned(32), depth=max(self.count * self.n, 2), init=[]
        )
        pivot_write, pivot_read = pivots.write_port(), pivots.read_port()
        m.d.comb += [
            pivot_write.en.eq(self.d),
            pivot_write.addr.eq(self.d_context * self.n + self.d_column),
            pivot_write.data.eq(self.d_value),
            pivot_read.addr.eq(self.out_column_address),
            pivot_read.en.eq(self.out_en),
            self.out_d.eq(pivot_read.data),
        ]

    def _operands(self, m):
        """The lanes put in the order of k; z as the first half of the solve left it."""
        # data: the lanes put in the order of k; z as the solve's first half left it or as the last step did
        rest_here = Signal.like(self.rest)
        word_here = Signal.like(self.word)
        use_first = Signal()
        here = self.data.operation
        m.d.sync += [rest_here.eq(self.rest), word_here.eq(self.word)]
        m.d.comb += use_first.eq((here.kind == Kind.BACK) & here.last)
        columns = Array([self.columns[c] for c in range(self.count)])[here.context]
        banks, self.work_writes = [], []
        for bank in range(self.lanes):
            m.submodules[f"u{bank}"] = memory = Memory(
                shape=unsigned(32), depth=max(self.depth, 2), init=[]
            )
            write = memory.write_port()
            read = memory.read_port()
            out = memory.read_port()
            here_address = Signal(index_range(self.depth), name=f"address{bank}")
            m.d.comb += [
                write.en.eq(self.taking),
                write.addr.eq(self.address),
                write.data.eq(self.values[bank]),
                here_address.eq(
                    self.base
                    - bank * self.groups
                    + Mux(self.rest < bank, self.lanes * self.groups - 1, 0)
                ),
                read.addr.eq(here_address),
                read.en.eq(1),
                out.addr.eq(self.out_address),
                out.en.eq(self.out_en),
                self.out_values[bank].eq(out.data),
            ]
            banks.append(read.data)
        firsts, works = [], []
        for lane in range(self.lanes):
            m.submodules[f"first{lane}"] = first = Memory(
                shape=unsigned(32), depth=max(self.count * self.words, 2), init=[]
            )
            m.submodules[f"work{lane}"] = work = Memory(
                shape=unsigned(32), depth=max(self.count * self.words, 2), init=[]
            )
            first_write = first.write_port()
            first_read = first.read_port()
            work_write = work.write_port()
            work_read = work.read_port()
            m.d.comb += [
                first_read.addr.eq(self.z_address),
                first_read.en.eq(1),
                work_read.addr.eq(self.z_address),
                work_read.en.eq(1),
                first_write.en.eq(self.z & (self.lane_of[self.z_column] == lane)),
                first_write.addr.eq(self.z_context * self.words + self.word_of[self.z_column]),
                first_write.data.eq(self.z_value),
            ]
            self.work_writes.append(work_write)
            firsts.append(first_read.data)
            works.append(work_read.data)
            at_end = (here.kind == Kind.FINAL) & (word_here * self.lanes + lane == columns - 1)
            m.d.comb += [
                self.u[lane].eq(
                    Array([banks[(r - lane) % self.lanes] for r in range(self.lanes)])[rest_here]
                ),
                self.z_o[lane].eq(Mux(use_first | at_end, firsts[lane], works[lane])),
            ]
        self.last_z = [Signal(32, name=f"last_z{c}") for c in range(self.count)]
        m.d.comb += self.factor.eq(
            Mux(
                here.kind == Kind.BACK,
                Array(self.last_z)[here.context],
                Array([self.h[c] for c in range(self.count)])[here.context],
            )
        )

    def _results(self, m):
        """z and weights."""
        # results
        done, operation = self.done, self.done.operation
        above_done, word_done = (
            Signal(range(self.n)),
            Signal(range(self.words)) if self.words > 1 else Signal(1),
        )
        is_back = done.some & (operation.kind == Kind.BACK)
        is_final = done.some & (operation.kind == Kind.FINAL)
        m.d.comb += [
            above_done.eq(operation.column - 1),
            word_done.eq(
                Mux(operation.kind == Kind.BACK, self.word_of[above_done] - done.slot, done.slot)
            ),
        ]
        for lane, write in enumerate(self.work_writes):
            m.d.comb += [
                write.en.eq(is_back & (word_done * self.lanes + lane < operation.column)),
                write.addr.eq(operation.context * self.words + word_done),
                write.data.eq(self.result[lane]),
            ]
        newest = Array([self.result[lane] for lane in range(self.lanes)])[self.lane_of[above_done]]
        for c in range(self.count):
            with m.If(self.z & (self.z_context == c)):
                m.d.sync += self.last_z[c].eq(self.z_value)
            with m.If(is_back & (done.slot == 0) & (operation.context == c)):
                m.d.sync += self.last_z[c].eq(newest)
        kept = Array([self.kept[c] for c in range(self.count)])[operation.context]
        for k in range(self.n):
            with m.If(is_final & (done.slot == k // self.lanes)):
                m.d.sync += self.weights[k].eq(Mux(kept[k], self.result[k % self.lanes], 0))
        with m.If(is_final & (done.slot == 0)):  # columns that the model has not
            for k in range(self.lanes, self.n):
                m.d.sync += self.weights[k].eq(0)
        m.d.comb += [self.ended.eq(is_final & done.final), self.ended_context.eq(operation.context)]
