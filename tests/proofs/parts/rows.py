# amaranth: UnusedElaboratable=no
"""Rows of models in memory (hdl.rows): in no kernel's own device, whose part has one memory port. Changes of rows that wait for others."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal
from harness import Bench, Defect, Proof

from penstock.hdl.rows.pending import Pending
from penstock.hdl.rows.unit import RowUnit
from penstock.models.rows.unit import Place, RowTable, RowUnitConfig

__all__ = ["COMPONENTS", "PROOFS"]


def _unit() -> RowUnit:
    tables = RowTable(("P", "b"), (3, 1), 6, 6, (1,)), RowTable(("Q",), (2,), 3, 3)
    places = Place(0, 0, 0, True), Place(3, 1, 1, False)
    config = RowUnitConfig(tables, places, 2, 8, 2, 2, 1, 4)
    return RowUnit(config, address_width=12, beats_width=4)


#: how long a change by each of three operations is in its unit; the first two change one store
_LATE = (3, 1, 2)


def pending() -> Bench:
    b = Bench()
    pairs = [(n, k) for n in (0, 1) for k in (0, 1)] + [(2, 2)]
    dut = b.m.submodules.dut = Pending([2, 2, 2], {(n, k): (1, _LATE[k]) for n, k in pairs})
    place, taken, under_way = b.constant("place", 2), [], []
    for n, late in enumerate(_LATE):
        there, address = getattr(dut, f"there{n}"), getattr(dut, f"address{n}")
        b.d.comb += [there.eq(b.free(f"there{n}")), address.eq(b.free(f"address{n}", 2))]
        stays = there & (address == b.past(address))
        b.assume(f"what {n} has stays while it is held", stays | ~b.past(dut.hold & there))
        left, mine = Signal(range(late + 1), name=f"left{n}"), there & (address == place)
        taken.append(mine & ~dut.hold)
        b.d.sync += left.eq(Mux(taken[n], late, Mux(left != 0, left - 1, 0)))
        under_way.append((left != 0, mine))
    (zero, first), (one, second), (two, third) = under_way
    b.assume("no two change one place at once", ~(first & second))
    ways = ((first | second, zero | one), (third, two))
    for n, (mine, busy) in enumerate(ways):
        b.check(f"store {n}: no change of a place passes another", ~(mine & busy) | dut.hold)
        b.cover(f"store {n}: one waits", mine & busy)
        b.cover(f"store {n}: one follows another", b.past(busy) & mine & ~dut.hold)
    waited = Signal(3)
    b.d.sync += waited.eq(Mux(dut.hold, waited + 1, 0))
    b.check("nothing waits longer than the longest takes", ~dut.hold | (waited < max(_LATE)))
    b.cover("another place goes on at once", Cat(taken).any() & b.past(Cat(taken).any()))
    return b


_PENDING = "hdl.rows.pending"

PROOFS = [
    Proof(
        "hdl.rows.pending.Pending",
        "no change of a row passes an earlier one of it, by the same operation or another; none waits longer than the longest is in its unit",
        pending,
        (
            Defect(_PENDING, "range(least, last + 1)", "range(least, last)"),
            Defect(_PENDING, "address[age].eq(address[age - 1])", "address[age].eq(address[0])"),
            Defect(_PENDING, 'f"there{n}") & ~self.hold]', 'f"there{n}")]'),
        ),
    )
]
COMPONENTS = {"RowUnit": _unit}
