"""Back substitution of method `givens`: u once more, read by columns, and z."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ..index import index_range
from .givens_issue import Kind, operation_shape
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

    def __init__(self, config: FitPlan, *, src_loc_at=0):
        self.config = config
        n, count, lanes = config.n_max, config.contexts, config.lanes
        which, slot, values = index_range(count), slot_shape(config), data.ArrayLayout(32, lanes)
        self.groups, self.words = -(-(n - 1) // lanes), -(-n // lanes)
        self.depth = count * n * self.groups
        super().__init__({
            "take": In(1), "take_operation": In(operation_shape(config)), "take_slot": In(slot["slot"].shape), "take_values": In(values),
            **{f"{name}{part}": In(shape) for name in ("d", "z") for part, shape in (("", 1), ("_context", which), ("_column", range(n)), ("_value", 32))},
            "read": In(slot), "data": In(slot), "done": In(slot), "result": In(values),
            "columns": In(data.ArrayLayout(range(n + 1), count)), "h": In(data.ArrayLayout(32, count)), "kept": In(data.ArrayLayout(n, count)),
            "u": Out(values), "z_o": Out(values), "factor": Out(32), "ended": Out(1), "ended_context": Out(which), "weights": Out(data.ArrayLayout(32, n)),
            "out_address": In(index_range(self.depth)), "out_column_address": In(index_range(count * n)), "out_en": In(1), "out_values": Out(values),
            "out_d": Out(32)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        n, count, groups = config.n_max, config.contexts, self.groups
        word_of, lane_of = Array([k // lanes for k in range(n)]), Array([k % lanes for k in range(n)])

        # u as it goes out, a cycle after it was read
        take, taken = Signal(), Signal.like(self.take_operation)
        address, values = Signal(index_range(self.depth)), Signal.like(self.take_values)
        m.d.sync += [take.eq(self.take), taken.eq(self.take_operation), values.eq(self.take_values),
                     address.eq((self.take_operation.context * n + self.take_operation.column) * groups + self.take_slot)]

        # addresses: step j's slot has columns k = lanes · word + lane, the greatest word first
        operation = self.read.operation
        back = operation.kind == Kind.BACK
        above = Signal(range(n))                                  # j - 1
        word, rest, base = Signal(range(self.words)), Signal(range(lanes)) if lanes > 1 else Signal(1), Signal(range(-lanes * groups, 2 * self.depth + n))
        m.d.comb += [above.eq(operation.column - 1), rest.eq(lane_of[above]), word.eq(Mux(back, word_of[above] - self.read.slot, self.read.slot)),
                     base.eq((operation.context * n + above) * groups - self.read.slot * (lanes * groups - 1))]
        z_address = Signal(range(count * self.words)) if count * self.words > 1 else Signal(1)
        m.d.comb += z_address.eq(operation.context * self.words + word)
        m.submodules.pivots = pivots = Memory(shape=unsigned(32), depth=max(count * n, 2), init=[])
        pivot_write, pivot_read = pivots.write_port(), pivots.read_port()
        m.d.comb += [pivot_write.en.eq(self.d), pivot_write.addr.eq(self.d_context * n + self.d_column), pivot_write.data.eq(self.d_value),
                     pivot_read.addr.eq(self.out_column_address), pivot_read.en.eq(self.out_en), self.out_d.eq(pivot_read.data)]

        # data: the lanes put in the order of k; z as the solve's first half left it or as the last step did
        rest_here, word_here, use_first = Signal.like(rest), Signal.like(word), Signal()
        here = self.data.operation
        m.d.sync += [rest_here.eq(rest), word_here.eq(word)]
        m.d.comb += use_first.eq((here.kind == Kind.BACK) & here.last)
        columns = Array([self.columns[c] for c in range(count)])[here.context]
        banks, work_writes = [], []
        for bank in range(lanes):
            m.submodules[f"u{bank}"] = memory = Memory(shape=unsigned(32), depth=max(self.depth, 2), init=[])
            write, read, out = memory.write_port(), memory.read_port(), memory.read_port()
            here_address = Signal(index_range(self.depth), name=f"address{bank}")
            m.d.comb += [
                write.en.eq(take), write.addr.eq(address), write.data.eq(values[bank]),
                here_address.eq(base - bank * groups + Mux(rest < bank, lanes * groups - 1, 0)), read.addr.eq(here_address), read.en.eq(1),
                out.addr.eq(self.out_address), out.en.eq(self.out_en), self.out_values[bank].eq(out.data)]
            banks.append(read.data)
        firsts, works = [], []
        for lane in range(lanes):
            m.submodules[f"first{lane}"] = first = Memory(shape=unsigned(32), depth=max(count * self.words, 2), init=[])
            m.submodules[f"work{lane}"] = work = Memory(shape=unsigned(32), depth=max(count * self.words, 2), init=[])
            first_write, first_read, work_write, work_read = first.write_port(), first.read_port(), work.write_port(), work.read_port()
            m.d.comb += [first_read.addr.eq(z_address), first_read.en.eq(1), work_read.addr.eq(z_address), work_read.en.eq(1),
                         first_write.en.eq(self.z & (lane_of[self.z_column] == lane)),
                         first_write.addr.eq(self.z_context * self.words + word_of[self.z_column]),
                         first_write.data.eq(self.z_value)]
            work_writes.append(work_write)
            firsts.append(first_read.data)
            works.append(work_read.data)
            at_end = (here.kind == Kind.FINAL) & (word_here * lanes + lane == columns - 1)
            m.d.comb += [self.u[lane].eq(Array([banks[(r - lane) % lanes] for r in range(lanes)])[rest_here]),
                         self.z_o[lane].eq(Mux(use_first | at_end, firsts[lane], works[lane]))]
        last_z = [Signal(32, name=f"last_z{c}") for c in range(count)]
        m.d.comb += self.factor.eq(Mux(here.kind == Kind.BACK, Array(last_z)[here.context], Array([self.h[c] for c in range(count)])[here.context]))

        # results
        done, operation = self.done, self.done.operation
        above_done, word_done = Signal(range(n)), Signal(range(self.words)) if self.words > 1 else Signal(1)
        is_back, is_final = done.some & (operation.kind == Kind.BACK), done.some & (operation.kind == Kind.FINAL)
        m.d.comb += [above_done.eq(operation.column - 1), word_done.eq(Mux(operation.kind == Kind.BACK, word_of[above_done] - done.slot, done.slot))]
        for lane, write in enumerate(work_writes):
            m.d.comb += [write.en.eq(is_back & (word_done * lanes + lane < operation.column)), write.addr.eq(operation.context * self.words + word_done),
                         write.data.eq(self.result[lane])]
        newest = Array([self.result[lane] for lane in range(lanes)])[lane_of[above_done]]
        for c in range(count):
            with m.If(self.z & (self.z_context == c)):
                m.d.sync += last_z[c].eq(self.z_value)
            with m.If(is_back & (done.slot == 0) & (operation.context == c)):
                m.d.sync += last_z[c].eq(newest)
        kept = Array([self.kept[c] for c in range(count)])[operation.context]
        for k in range(n):
            with m.If(is_final & (done.slot == k // lanes)):
                m.d.sync += self.weights[k].eq(Mux(kept[k], self.result[k % lanes], 0))
        with m.If(is_final & (done.slot == 0)):                   # columns that the model has not
            for k in range(lanes, n):
                m.d.sync += self.weights[k].eq(0)
        m.d.comb += [self.ended.eq(is_final & done.final), self.ended_context.eq(operation.context)]
        return m
