"""Sums over products of a table's columns: exact integers of 64 bits that outlive the run."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...models.qr.columns import BITS_MAX, Columns
from ...models.qr.table_config import UNIT_BYTES
from ..arith.pipeline import Pipeline
from ..index import index

__all__ = ["TableSums", "values_shape"]

#: bits of a value less its offset
_WIDTH = BITS_MAX + 1
_BITS = 8 * UNIT_BYTES


def values_shape(columns):
    """A row's features and label less their offsets; `minus`: it goes."""
    return data.StructLayout({"values": data.ArrayLayout(signed(_WIDTH), columns.n), "minus": 1})


class TableSums(wiring.Component):
    """Adds a aᵀ of each row, a = (1, values), to the sums that were loaded, or takes it from them.

    Golden: `models.qr.columns.added` and `taken`. Lane p has one multiplier of 18 × 18 bits, and holds the sums p, p + gram_lanes, … of the upper triangle,
    packed by columns. A row accepted in cycle t occupies the lanes in cycles t + 1 to t + `row_cycles`, in the last of which the next one is accepted; its sums
    can be read from cycle t + `row_cycles` + 3 on.

    Parameters
    ----------
    columns
        `models.qr.Columns`.

    Members
    -------
    i : In(stream.Signature(values_shape(columns)))
    load : In(1), sum : In(64)
        The next sum, in their order from the reset on; behind the last one as many of anything as make slots * gram_lanes. One a cycle; they are in place two
        cycles later.
    read : In(1), o : Out(64)
        The next sum is wanted, likewise; `o` has it in the next cycle.
    """

    def __init__(self, columns: Columns, *, src_loc_at=0):
        self.columns = columns
        super().__init__({"i": In(stream.Signature(values_shape(columns))), "load": In(1), "sum": In(_BITS), "read": In(1), "o": Out(_BITS)},
                         src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        columns, lanes, slots = self.columns, self.columns.gram_lanes, self.columns.slots
        # the row stays in registers while the lanes go through their slots
        busy, minus, slot, last = Signal(), Signal(), index(slots, name="slot"), Signal()
        a = [Const(1, signed(_WIDTH)), *(Signal(signed(_WIDTH), name=f"a{k + 1}", reset_less=True) for k in range(columns.n))]
        m.d.comb += [last.eq(slot == slots - 1), self.i.ready.eq(~busy | last)]
        with m.If(busy):
            m.d.sync += slot.eq(Mux(last, 0, slot + 1))
        with m.If(self.i.ready):
            m.d.sync += [busy.eq(self.i.valid), minus.eq(self.i.p.minus), *(value.eq(self.i.p.values[k]) for k, value in enumerate(a[1:]))]

        # sums go in and out through a chain that passes all lanes' sums of a slot
        chain = [Signal(_BITS, name=f"chain{p}", reset_less=True) for p in range(lanes)]
        places = [(i, j) for j in range(columns.n + 1) for i in range(j + 1)]
        filled, full = index(lanes, name="filled"), Signal()
        into, out, left = index(slots, name="into"), index(slots, name="out"), index(lanes, name="left")
        m.d.sync += full.eq(0)
        with m.If(self.load):
            m.d.sync += filled.eq(filled + 1)
            with m.If(filled == lanes - 1):
                m.d.sync += [filled.eq(0), full.eq(1)]
        with m.If(full):
            m.d.sync += into.eq(Mux(into == slots - 1, 0, into + 1))
        first = Signal()
        m.d.comb += first.eq(left == 0)
        with m.If(self.read):
            m.d.sync += left.eq(Mux(left == lanes - 1, 0, left + 1))
            with m.If(left == lanes - 1):
                m.d.sync += out.eq(Mux(out == slots - 1, 0, out + 1))
        reads, fresh = Signal(), Signal()
        m.d.sync += [reads.eq(self.read), fresh.eq(first)]

        s = pipe.rank(busy=busy, minus=minus, slot=slot)
        t = pipe.rank(busy=s.busy, minus=s.minus, slot=s.slot)
        kept = []
        for p in range(lanes):
            left_value, right = (Signal(signed(_WIDTH), name=f"{side}{p}", reset_less=True) for side in ("left", "right"))
            with m.Switch(slot):
                for number, (i, j) in enumerate(places[p::lanes]):
                    with m.Case(number):
                        m.d.sync += [left_value.eq(a[i]), right.eq(a[j])]
            product = Signal(signed(2 * _WIDTH), name=f"product{p}", reset_less=True)
            m.d.sync += product.eq(left_value * right)
            change = Signal(signed(_BITS), name=f"change{p}")
            m.d.comb += change.eq(product ^ Cat([t.minus] * (2 * _WIDTH)).as_signed())    # the missing 1 is the sum's carry
            kept.append(self._lane(m, p, full, chain[p], into, t, change, Mux(s.busy, s.slot, out)))
        for p in range(lanes):
            after = chain[p + 1] if p + 1 < lanes else self.sum
            with m.If(self.load):
                m.d.sync += chain[p].eq(after)
            with m.Elif(reads):
                # what has left makes room for the next ones
                m.d.sync += chain[p].eq(Mux(fresh, kept[p + 1], chain[p + 1]) if p + 1 < lanes else 0)
        m.d.comb += self.o.eq(Mux(fresh, kept[0], chain[0]))
        return m

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
        m.d.comb += [read.addr.eq(at), read.en.eq(1), write.addr.eq(Mux(full, into, t.slot)), write.en.eq(full | t.busy),
                     write.data.eq(Mux(full, given, read.data + change + t.minus))]
        return read.data
