"""Area of a unit's datapath from synthesis: for each format, ECP5 cells and Yosys' generic cells.

The datapath takes a sub-chunk of 32 bytes each iteration: both products, the sum, rounding, the output's products and
their sum. Float16's is sixteen times that of a number, and the output's; MX8's is one, with stochastic
rounding and without. Registers, results and banks are not in it. Needs pyosys:  pip install pyosys
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Out
from common import Options, Section, main, markdown, versions
from synthesis import cells

from penstock.hdl.pim.float16 import Float16Lane
from penstock.hdl.pim.mx import MxLane


class Number(Float16Lane):
    """One of the sixteen numbers: its product, its difference and its sum."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid = [self.i_valid]
        for _ in range(self.depth):
            valid.append(Signal())
            m.d.sync += valid[-1].eq(valid[-2])
        m.d.comb += self.o_code.eq(self._number(m, 0, valid, self.i_first))
        return m


class Output(Float16Lane):
    """The last four ranks alone: products with q and their sum."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parts = [slice(16 * n, 16 * (n + 1)) for n in range(16)]
        # scores take the sub-chunk as it was fetched
        self._output(m, [Mux(self.i_score, self.i_data[p], self.i_k[p]) for p in parts])
        return m


class Nearest(MxLane):
    """Rounded to nearest alone."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.lane = lane = MxLane(4)
        for name, member in self.signature.members.items():
            outer, inner = getattr(self, name), getattr(lane, name)
            fixed = name in ("i_stochastic", "i_random")
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(0 if fixed else outer)
        return m


#: for each format: numbers of a sub-chunk, and (how many, of what)
FORMATS: dict[str, tuple[int, list[tuple[int, Callable[[], Any]]]]] = {
    "float16": (
        16,
        [(16, Number), (1, Output)],
    ),
    "MX8, to nearest": (32, [(1, lambda: Nearest(4))]),
    "MX8, stochastic": (32, [(1, lambda: MxLane(4))]),
}


def area(options: Options) -> str:
    rows = []
    for name, (numbers, parts) in FORMATS.items():
        ecp5, generic = Counter[str](), 0
        for count, make in parts[:1] if options.quick else parts:
            for cell, many in cells(make(), "ecp5").items():
                ecp5[cell] += count * many
            generic += count * sum(cells(make(), "generic").values())
        lut = ecp5["LUT4"] + 2 * ecp5["CCU2C"]
        row = [name, numbers, f"{lut:,}", f"{ecp5['TRELLIS_FF']:,}", ecp5["MULT18X18D"]]
        rows.append([*row, f"{generic:,}", f"{generic / numbers:,.0f}"])
        if options.quick:
            break
    header = ["format", "numbers", "LUT4", "FF", "DSP", "generic cells", "a number"]
    return f"{markdown(header, rows)}\n\nWith {versions('pyosys', 'amaranth')}."


SECTIONS = [Section("pim-area", False, area)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
