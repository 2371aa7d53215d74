"""Parts of a design: as modules that are written once, and as submodules."""

from __future__ import annotations

import re

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from penstock.hdl.modules import ModuleLibrary, Submodules, module_name
from penstock.hdl.shell import to_verilog
from testbench.pysim import simulate


class Total(wiring.Component):
    """Adds up what comes."""

    made = 0

    def __init__(self):
        Total.made += 1
        super().__init__(
            {"i": In(stream.Signature(4, always_ready=True)), "none": In(0), "o": Out(8)}
        )

    def elaborate(self, platform):
        m = Module()
        with m.If(self.i.valid):
            m.d.sync += self.o.eq(self.o + self.i.payload)
        return m


class Pair(wiring.Component):
    """Two of them; `clear` resets the second."""

    def __init__(self, parts):
        self.parts = parts
        super().__init__({"word": In(4), "clear": In(1), "first": Out(8), "second": Out(8)})

    def elaborate(self, platform):
        m = Module()
        for name, reset in (("first", None), ("second", self.clear)):
            total = self.parts.instance(
                m, name, "total", Total, reset=reset, i__payload=self.word, i__valid=1, none=0
            )
            m.d.comb += getattr(self, name).eq(total["o"])
        return m


def test_written_once():
    Total.made = 0
    library = ModuleLibrary()
    text = to_verilog(Pair(library), library=library)
    assert Total.made == 1 and text.count("module total (") == 1
    first, second = re.findall(r"^  total \S+ +\((.*?)\);", text, re.DOTALL | re.MULTILINE)
    assert ".rst(rst)" in first and ".rst(rst)" not in second and "none" not in first
    again = ModuleLibrary()
    assert text == to_verilog(Pair(again), library=again)


def test_submodules():
    dut = Pair(Submodules())

    async def bench(ctx):
        ctx.set(dut.word, 3)
        await ctx.tick().repeat(4)
        assert (ctx.get(dut.first), ctx.get(dut.second)) == (12, 12)
        ctx.set(dut.clear, 1)
        await ctx.tick()
        assert (ctx.get(dut.first), ctx.get(dut.second)) == (15, 0)

    simulate(dut, bench)


def test_names():
    assert module_name("add", "fixed:8,7") == "add_fixed_8_7"
