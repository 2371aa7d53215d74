"""Sums over products of a table's columns: exact integers of 64 bits that outlive the run."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream

from ...models.qr.columns import OPERAND as _WIDTH
from ...models.qr.columns import Columns
from ...models.qr.table_config import UNIT_BYTES
from ..arith.pipeline import Pipeline
from ..index import index
from ..ram import ram
from ..stream.passing import fields

_BITS = 8 * UNIT_BYTES


def values_shape(columns):
    """A row's factors behind the 1, as `Columns.split` has them; `minus`: it goes."""
    values = data.ArrayLayout(signed(_WIDTH), columns.factors - 1)
    return data.StructLayout({"values": values, "minus": 1})


def _operand(name):
    return Signal(signed(_WIDTH), name=name, reset_less=True)


class TableSums:
    """Adds to a module what adds a aᵀ of each row, a = (1, values), to the sums that were loaded, or takes it from them.

    It is no `NormalEquationAccumulator`: that one's sums of a job begin at 0 and leave in bus words beside the next job's, these are loaded, outlive the run
    and pass one converter, a sum a cycle. As one they would cost this engine a converter for each number of a bus word, or that one a cycle for each sum.

    Golden: `models.qr.columns.add_rows`, `remove_rows`.
    Lane p has one multiplier of 18 × 18 bits, and holds the sums p, p + gram_lanes, … of the upper triangle,
    packed by columns. A row accepted in cycle t occupies the lanes in cycles t + 1 to t + `slots`, in the last of which the next one is accepted; its sums
    can be read from cycle t + `slots` + 3 on.

    * `columns`: `models.qr.columns.Columns`.
    """

    def __init__(self, m: Module, columns: Columns):
        self.columns, self.pipe = columns, Pipeline(m)
        self.i = stream.Signature(values_shape(columns)).create(path=("row",))
        # `load`: `sum` is the next one, in their order from the reset on; behind the last one as
        # many of anything as make slots * gram_lanes. One a cycle; they are in place two cycles
        # later. `read`: the next sum is wanted, likewise; `o` has it in the next cycle.
        self.load, self.read = Signal(name="load"), Signal(name="read")
        self.sum, self.o = Signal(_BITS, name="loaded_sum"), Signal(_BITS, name="read_sum")
        self.busy, self.minus = Signal(), Signal()
        self.slot = index(self.columns.slots, name="slot")
        self._take_row(m)
        self._chain(m)
        self._lanes(m)

    def _take_row(self, m):
        """The row stays in registers while the lanes go through their slots."""
        values = [_operand(f"a{k + 1}") for k in range(self.columns.factors - 1)]
        self.a, last = [Const(1, signed(_WIDTH)), *values], self.slot == self.columns.slots - 1
        m.d.comb += self.i.ready.eq(~self.busy | last)
        with m.If(self.busy):
            m.d.sync += self.slot.eq(Mux(last, 0, self.slot + 1))
        with m.If(self.i.ready):
            m.d.sync += [
                *fields(self, busy=self.i.valid, minus=self.i.p.minus),
                *(value.eq(self.i.p.values[k]) for k, value in enumerate(values)),
            ]

    def _chain(self, m):
        """Sums go in and out through a chain that passes all lanes' sums of a slot."""
        lanes, slots = self.columns.gram_lanes, self.columns.slots
        self.chain = [Signal(_BITS, name=f"chain{p}", reset_less=True) for p in range(lanes)]
        self.full, self.reads, self.fresh = Signal(), Signal(), Signal()
        self.into, self.out = index(slots, name="into"), index(slots, name="out")
        filled, left = index(lanes, name="filled"), index(lanes, name="left")
        last_in, last_out = filled == lanes - 1, left == lanes - 1
        m.d.sync += fields(self, full=self.load & last_in, reads=self.read, fresh=left == 0)
        with m.If(self.load):
            m.d.sync += filled.eq(Mux(last_in, 0, filled + 1))
        with m.If(self.read):
            m.d.sync += left.eq(Mux(last_out, 0, left + 1))
        for goes, slot in ((self.full, self.into), (self.read & last_out, self.out)):
            with m.If(goes):
                m.d.sync += slot.eq(Mux(slot == slots - 1, 0, slot + 1))

    def _lanes(self, m):
        """Products are added up."""
        s = self.pipe.rank(busy=self.busy, minus=self.minus, slot=self.slot)
        t = self.pipe.rank(busy=s.busy, minus=s.minus, slot=s.slot)
        places, lanes = [(i, j) for j in range(len(self.a)) for i in range(j + 1)], self.chain
        kept, at = [], Mux(s.busy, s.slot, self.out)
        for p in range(len(lanes)):
            left, right = _operand(f"left{p}"), _operand(f"right{p}")
            with m.Switch(self.slot):
                for number, (i, j) in enumerate(places[p :: len(lanes)]):
                    with m.Case(number):
                        m.d.sync += [left.eq(self.a[i]), right.eq(self.a[j])]
            product = Signal(signed(2 * _WIDTH), name=f"product{p}", reset_less=True)
            change = Signal(signed(_BITS), name=f"change{p}")
            m.d.sync += product.eq(left * right)
            # the missing 1 is the sum's carry
            m.d.comb += change.eq(product ^ Cat([t.minus] * (2 * _WIDTH)).as_signed())
            kept.append(self._lane(m, p, t, change, at))
        for p, sum_ in enumerate(lanes):
            inner = p + 1 < len(lanes)
            with m.If(self.load):
                m.d.sync += sum_.eq(lanes[p + 1] if inner else self.sum)
            with m.Elif(self.reads):
                # what has left makes room for the next ones
                m.d.sync += sum_.eq(Mux(self.fresh, kept[p + 1], lanes[p + 1]) if inner else 0)
        m.d.comb += self.o.eq(Mux(self.fresh, kept[0], lanes[0]))

    def _lane(self, m, p, t, change, at):
        """A lane's sums; return the one of slot `at`, a cycle later."""
        slots, chain = self.columns.slots, self.chain[p]
        if slots == 1:
            held = Signal(signed(_BITS), name=f"sum{p}", reset_less=True)
            with m.If(self.full):
                m.d.sync += held.eq(chain)
            with m.Elif(t.busy):
                m.d.sync += held.eq(held + change + t.minus)
            return held
        write, read = ram(m, f"lane{p}", signed(_BITS), slots)
        m.d.comb += [
            read.addr.eq(at),
            *fields(write, addr=Mux(self.full, self.into, t.slot), en=self.full | t.busy),
            write.data.eq(Mux(self.full, chain, read.data + change + t.minus)),
        ]
        return read.data
