"""A change of a row is held back while an earlier one of the same place is in its unit.

Nothing here waits for memory: a tuple waits for its rows in `gate`, a row for its own write-back in `mover`, and several channels are put in order
by `hdl.memory.dealt`.
"""

from collections.abc import Mapping, Sequence

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Pending(wiring.Component):
    """Holds changes back while one of the same place is in its unit: each reads the place as the one before left it. Its cycles are
    `models.analytics.waits`.

    * `widths`: bits of the places of each operation that changes some.
    * `ages`: by (later, first) how many cycles ago a change by `first` was taken, at least and at most, that
      one by `later` waits for. Such operations have their places in one store.
    """

    def __init__(self, widths: Sequence[int], ages: Mapping[tuple[int, int], tuple[int, int]]):
        self.widths, self.ages = widths, ages
        # a change of this place is there; it is taken, and all others are, where nothing is held;
        # else it is there again
        members = {f"there{n}": In(1) for n in range(len(widths))}
        members |= {f"address{n}": In(width) for n, width in enumerate(widths)}
        # `hold`: nothing is taken in this cycle
        super().__init__({**members, "hold": Out(1)})

    def elaborate(self, platform):
        m = Module()
        taken = []
        for n, width in enumerate(self.widths):
            last = max([0, *(most for (_, of), (_, most) in self.ages.items() if of == n)])
            valid = [getattr(self, f"there{n}") & ~self.hold]
            address = [getattr(self, f"address{n}")]
            for age in range(1, last + 1):
                valid.append(Signal(name=f"taken{n}_{age}"))
                address.append(Signal(width, name=f"address{n}_{age}"))
                m.d.sync += [valid[age].eq(valid[age - 1]), address[age].eq(address[age - 1])]
            taken.append((valid, address))
        waits = [
            getattr(self, f"there{later}") & taken[first][0][age] & (place == taken[first][1][age])
            for (later, first), (least, last) in self.ages.items()
            for place in (getattr(self, f"address{later}"),)
            for age in range(least, last + 1)
        ]
        m.d.comb += self.hold.eq(Cat(waits).any())
        return m
