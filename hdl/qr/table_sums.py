"""Sums over products of a table's columns: exact integers of 64 bits that outlive the run."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.columns import OPERAND as _WIDTH
from ...models.qr.columns import Columns
from ...models.qr.table_config import UNIT_BYTES
from ..arith.pipeline import Pipeline
from ..index import index

__all__ = ["TableSums", "values_shape"]

_BITS = 8 * UNIT_BYTES


def values_shape(columns):
    """A row's factors behind the 1, as `Columns.split` has them; `minus`: it goes."""
    values = data.ArrayLayout(signed(_WIDTH), columns.factors - 1)
    return data.StructLayout({"values": values, "minus": 1})


class TableSums(wiring.Component):
    """Adds a aᵀ of each row, a = (1, values), to the sums that were loaded, or takes it from them.

    Golden: `models.qr.columns.add_rows`, `remove_rows`.
    Lane p has one multiplier of 18 × 18 bits, and holds the sums p, p + gram_lanes, … of the upper triangle,
    packed by columns. A row accepted in cycle t occupies the lanes in cycles t + 1 to t + `row_cycles`, in the last of which the next one is accepted; its sums
    can be read from cycle t + `row_cycles` + 3 on.

    Parameters
    ----------
    columns
        `models.qr.columns.Columns`.

    Members
    -------
    i : In(stream.Signature(values_shape(columns)))
    load : In(1), sum : In(64)
        The next sum, in their order from the reset on; behind the last one as many of anything as make slots * gram_lanes. One a cycle; they are in place two
        cycles later.
    read : In(1), o : Out(64)
        The next sum is wanted, likewise; `o` has it in the next cycle.
    """

    def __init__(self, columns: Columns):
        self.columns = columns
        super().__init__(
            {
                "i": In(stream.Signature(values_shape(columns))),
                "load": In(1),
                "sum": In(_BITS),
                "read": In(1),
                "o": Out(_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self._take_row(m)
        self._chain(m)

        self._lanes(m)
        return m

    def _take_row(self, m):
        """The row stays in registers while the lanes go through their slots."""
        self.busy = Signal()
        self.minus = Signal()
        self.slot = index(self.columns.slots, name="slot")
        last = Signal()
        self.a = [
            Const(1, signed(_WIDTH)),
            *(
                Signal(signed(_WIDTH), name=f"a{k + 1}", reset_less=True)
                for k in range(self.columns.factors - 1)
            ),
        ]
        m.d.comb += [
            last.eq(self.slot == self.columns.slots - 1),
            self.i.ready.eq(~self.busy | last),
        ]
        with m.If(self.busy):
            m.d.sync += self.slot.eq(Mux(last, 0, self.slot + 1))
        with m.If(self.i.ready):
            m.d.sync += [
                self.busy.eq(self.i.valid),
                self.minus.eq(self.i.p.minus),
                *(value.eq(self.i.p.values[k]) for k, value in enumerate(self.a[1:])),
            ]

    def _chain(self, m):
        """Sums go in and out through a chain."""
        # sums go in and out through a chain that passes all lanes' sums of a slot
        self.chain = [
            Signal(_BITS, name=f"chain{p}", reset_less=True) for p in range(self.columns.gram_lanes)
        ]
        self.places = [(i, j) for j in range(self.columns.factors) for i in range(j + 1)]
        filled, self.full = index(self.columns.gram_lanes, name="filled"), Signal()
        self.into = index(self.columns.slots, name="into")
        self.out = index(self.columns.slots, name="out")
        left = index(self.columns.gram_lanes, name="left")
        m.d.sync += self.full.eq(0)
        with m.If(self.load):
            m.d.sync += filled.eq(filled + 1)
            with m.If(filled == self.columns.gram_lanes - 1):
                m.d.sync += [filled.eq(0), self.full.eq(1)]
        with m.If(self.full):
            m.d.sync += self.into.eq(Mux(self.into == self.columns.slots - 1, 0, self.into + 1))
        first = Signal()
        m.d.comb += first.eq(left == 0)
        with m.If(self.read):
            m.d.sync += left.eq(Mux(left == self.columns.gram_lanes - 1, 0, left + 1))
            with m.If(left == self.columns.gram_lanes - 1):
                m.d.sync += self.out.eq(Mux(self.out == self.columns.slots - 1, 0, self.out + 1))
        self.reads, self.fresh = Signal(), Signal()
        m.d.sync += [self.reads.eq(self.read), self.fresh.eq(first)]

    def _lanes(self, m):
        """Products are added up."""
        s = self.pipe.rank(busy=self.busy, minus=self.minus, slot=self.slot)
        t = self.pipe.rank(busy=s.busy, minus=s.minus, slot=s.slot)
        kept = []
        for p in range(self.columns.gram_lanes):
            left_value, right = (
                Signal(signed(_WIDTH), name=f"{side}{p}", reset_less=True)
                for side in ("left", "right")
            )
            with m.Switch(self.slot):
                for number, (i, j) in enumerate(self.places[p :: self.columns.gram_lanes]):
                    with m.Case(number):
                        m.d.sync += [left_value.eq(self.a[i]), right.eq(self.a[j])]
            product = Signal(signed(2 * _WIDTH), name=f"product{p}", reset_less=True)
            m.d.sync += product.eq(left_value * right)
            change = Signal(signed(_BITS), name=f"change{p}")
            # the missing 1 is the sum's carry
            m.d.comb += change.eq(product ^ Cat([t.minus] * (2 * _WIDTH)).as_signed())
            kept.append(
                self._lane(
                    m,
                    p,
                    self.full,
                    self.chain[p],
                    self.into,
                    t,
                    change,
                    Mux(s.busy, s.slot, self.out),
                )
            )
        for p in range(self.columns.gram_lanes):
            after = self.chain[p + 1] if p + 1 < self.columns.gram_lanes else self.sum
            with m.If(self.load):
                m.d.sync += self.chain[p].eq(after)
            with m.Elif(self.reads):
                # what has left makes room for the next ones
                m.d.sync += self.chain[p].eq(
                    Mux(self.fresh, kept[p + 1], self.chain[p + 1])
                    if p + 1 < self.columns.gram_lanes
                    else 0
                )
        m.d.comb += self.o.eq(Mux(self.fresh, kept[0], self.chain[0]))

    def _lane(self, m, p, full, given, into, t, change, at):
        """A lane's sums; return the one of slot `at`, a cycle later."""
        slots = self.columns.slots
        if slots == 1:
            held = Signal(signed(_BITS), name=f"sum{p}", reset_less=True)
            with m.If(full):
                m.d.sync += held.eq(given)
            with m.Elif(t.busy):
                m.d.sync += held.eq(held + change + t.minus)
            return held
        m.submodules[f"lane{p}"] = memory = Memory(shape=signed(_BITS), depth=slots, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            read.addr.eq(at),
            read.en.eq(1),
            write.addr.eq(Mux(full, into, t.slot)),
            write.en.eq(full | t.busy),
            write.data.eq(Mux(full, given, read.data + change + t.minus)),
        ]
        return read.data
