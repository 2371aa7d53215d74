"""The hardware that makes results of sums, beside the golden one: groups that saturate, vanish, or are wide apart."""

from __future__ import annotations

import numpy as np

from penstock.hdl.pim.mx import MxResults
from penstock.models.pim.unit import MxUnit, Sums
from testbench.pysim import simulate


def test_results_of_sums_with_exponents_far_apart():
    rng, count = np.random.default_rng(5), 24
    shape = (count, 32)
    lead = rng.integers(0, 27, (count, 1)) + rng.integers(-6, 1, shape)
    magnitude = rng.integers(0, 1 << 27, shape) >> np.clip(26 - lead, 0, 27)
    value = np.where(lead < 0, 0, magnitude) * rng.choice([-1, 1], shape)
    value[rng.random(shape) < 0.1] = 0
    value[3], value[4, :16], value[5], value[6] = 0, 0, (1 << 26) - 1, -(1 << 27)
    exponent = rng.integers(0, 512, (count, 1)) + rng.integers(-4, 5, shape)
    exponent = np.clip(exponent, 0, 511)
    exponent[5], exponent[7] = 511, 0
    expected, lost = MxUnit.results(Sums(value.astype(np.int64), exponent.astype(np.int64)))
    assert lost.any() and not lost.all() and not expected[3].any()
    dut = MxResults()

    async def bench(ctx):
        for n in range(count):
            for column in range(32):
                ctx.set(dut.i_sum, int(value[n, column]))
                ctx.set(dut.i_exponent, int(exponent[n, column]))
                ctx.set(dut.i_column, column)
                ctx.set(dut.i_valid, 1)
                await ctx.tick()
                ctx.set(dut.i_valid, 0)
                if column % 3 == n % 3:
                    await ctx.tick().repeat(n % 4 + 1)
            await ctx.tick().repeat(3)  # the fourth rank shows in this cycle
            assert ctx.get(dut.o_code).to_bytes(32, "little") == expected[n].tobytes(), n
            assert ctx.get(dut.o_saturated) == lost[n], n

    simulate(dut, bench)
