"""The vector runner: order, latencies, widths, reuse of a build."""

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from testbench.vectors import run_vectors


class Sum(wiring.Component):
    a: In(32)
    b: In(64)
    late: Out(33)
    now: Out(64)
    soon: Out(8)

    def elaborate(self, platform):
        m = Module()
        held = Signal(33)
        m.d.sync += [held.eq(self.a + self.b[:32]), self.late.eq(held), self.soon.eq(self.a)]
        m.d.comb += self.now.eq(~self.b)
        return m


def test_outputs_line_up_with_operands():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 1 << 32, 100_000), rng.integers(0, 1 << 64, 100_000, dtype=np.uint64)
    got = run_vectors(
        Sum(), {"a": a, "b": b}, ["late", "now", "soon"], {"late": 2, "now": 0, "soon": 1}
    )
    assert (
        np.array_equal(got["late"], a + (b & np.uint64(0xFFFF_FFFF)).astype(np.int64))
        and got["late"].dtype == np.int64
    )
    assert np.array_equal(got["now"], ~b) and got["now"].dtype == np.uint64
    assert np.array_equal(got["soon"], a & 255)
    again = run_vectors(Sum(), {"a": a, "b": 5}, ["late"], 2)
    assert np.array_equal(again["late"], a + 5)
    assert len(run_vectors(Sum(), {"a": a[:1]}, ["late"], 2)["late"]) == 1 and not len(
        run_vectors(Sum(), {"a": a[:0]}, ["late"], 2)["late"]
    )
