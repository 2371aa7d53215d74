"""hdl/qr/widen: bounds bit for bit the golden's, over random segments and weights."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Signal

from penstock.hdl.modules import Submodules
from penstock.hdl.qr.bounds import solved_shape
from penstock.hdl.qr.dot import Dot
from penstock.hdl.qr.widen import Widen
from penstock.models.numerics.formats import float32
from penstock.models.qr.arith import codes
from penstock.models.qr.bounds import EMPTY, widen_bounds
from penstock.models.qr.job import Anchor
from penstock.models.qr.schedule import widen_latency
from testbench.pysim import simulate
from testbench.qr_cases import slot_plan


def test_segments():
    n = 6
    config = slot_plan(n_max=n, gram_lanes=21)
    source, cases, top, dot = np.random.default_rng(1), [], Module(), Dot(n)
    start, job = Signal(), Signal(solved_shape(n))
    inputs_of = {
        "length": job.kept.length,
        "segment": job.anchor.segment,
        "offsets": job.head.offsets,
        "w": job.weights,
        "anchor": job.anchor.weights,
    }
    dut = Widen(top, config, Submodules(), start, job, dot.o)
    for number in range(90):
        columns = int(source.integers(2, n + 1))
        scale = source.choice([1e-40, 1e-3, 1.0, 30.0, 1e6, 1e9])
        old = (source.normal(0, 1, columns) * scale).astype(np.float32)
        new = old + (
            source.normal(0, 1, columns) * scale * source.choice([0, 1e-6, 1e-2, 1])
        ).astype(np.float32)
        new[source.random(columns) < 0.2] = 0
        if number % 50 == 7:
            new[0] = np.inf if number % 100 == 7 else np.nan
        low, high = np.sort(source.integers(0, 256, (2, columns - 1)).astype(np.uint8), axis=0)
        errors = np.sort(source.integers(-5000, 5000, 2))
        least = int(source.choice([0, 0, 3, 1000, 1 << 20]))
        if number % 40 == 3:
            errors, least, low, high = (EMPTY, -EMPTY), EMPTY, low * 0 + 255, high * 0
        offsets = source.integers(0, 256, columns - 1).astype(np.uint8)
        anchor = Anchor(codes(old), int(errors[0]), int(errors[1]), least, low, high)
        with np.errstate(all="ignore"):
            expected = widen_bounds(anchor, codes(new), offsets)
        pad = [0] * (n - columns)
        cases.append(
            (
                {
                    "length": columns - 1,
                    "segment": {
                        "err_min": int(errors[0]),
                        "err_max": int(errors[1]),
                        "least": least,
                        "low": [*map(int, low), *pad],
                        "high": [*map(int, high), *pad],
                    },
                    "offsets": [*map(int, offsets), *pad],
                    "w": [*codes(new).tolist(), *pad],
                    "anchor": [*codes(old).tolist(), *pad],
                },
                expected,
            )
        )
    late, found = widen_latency(n), 0

    async def bench(ctx):
        nonlocal found
        for inputs, expected in cases:
            for name, value in inputs.items():
                ctx.set(inputs_of[name], value)
            ctx.set(start, 1)
            await ctx.tick()
            ctx.set(start, 0)
            await ctx.tick().repeat(late - 1)
            assert ctx.get(dut.valid) == (expected is not None)
            if expected is not None:
                assert (ctx.get(dut.err_min), ctx.get(dut.err_max)) == expected
                found += 1

    top.submodules += dot
    # the unit is someone else's while it is not in use: ones, times 100
    top.d.comb += [
        dot.w.eq(
            Mux(dut.uses, dut.dot_w.as_value(), Cat(Const(float32.one, 32) for _ in range(n)))
        ),
        dot.x.eq(Mux(dut.uses, dut.dot_x.as_value(), Cat(Const(100, 9) for _ in range(n)))),
    ]
    simulate(top, bench)
    assert 40 < found < 90
