"""hdl/qr/dot: predictions and error bounds, bit for bit as the lookup's own arithmetic, with the cycle model's latency."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.hdl.qr.dot import Dot
from penstock.models.numerics.formats import float32
from penstock.models.qr.arith import codes, dot, numbers
from testbench.operands import mixed_codes
from testbench.pysim import simulate
from testbench.qr_cases import slot_plan

CONFIG = slot_plan(n_max=7, gram_lanes=36)


@pytest.mark.parametrize("n", [5, 8])
def test_dot(n):
    source = np.random.default_rng(n)
    count = 150
    w = np.stack(
        [float32.canonical(mixed_codes(float32, count, 1, k)[0]) for k in range(n)], axis=1
    )
    w[50:] = codes(source.normal(0, 100, (count - 50, n)).astype(np.float32))
    x = source.integers(-255, 256, (count, n)) * (source.random((count, n)) < 0.9)
    dut, seen = Dot(n), []

    async def bench(ctx):
        for t in range(count + dut.latency):
            if t < count:
                ctx.set(dut.w, [int(v) for v in w[t]])
                ctx.set(dut.x, [int(v) for v in x[t]])
            if t >= dut.latency:
                seen.append(ctx.get(dut.o))
            await ctx.tick()

    simulate(dut, bench)
    assert seen == codes(dot(numbers(w), x.astype(np.float32))).tolist()
