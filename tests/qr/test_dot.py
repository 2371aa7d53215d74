"""hdl/qr/dot: predictions and error bounds, bit for bit as the lookup's own arithmetic, with the cycle model's latency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.hdl.qr.dot import NOTHING, Dot, Pass
from penstock.models.numerics.formats import float32
from penstock.models.qr.arith import codes, dot, numbers
from penstock.models.qr.bounds import pass_over, update_anchor
from penstock.models.qr.golden import refit
from penstock.models.qr.schedule import dot_latency
from testbench.operands import mixed_codes
from testbench.pysim import simulate
from testbench.qr_cases import jobs_of, slot_plan

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


def segment(anchor, n):
    """A segment of an anchor as hardware keeps it."""
    spare = n - 1 - anchor.low.shape[1]
    return {
        "err_min": int(anchor.err_min[0]),
        "err_max": int(anchor.err_max[0]),
        "least": int(anchor.least[0]),
        "low": [*map(int, anchor.low[0]), *[0] * spare],
        "high": [*map(int, anchor.high[0]), *[0] * spare],
    }


def values(view, length):
    return (
        view.err_min,
        view.err_max,
        view.least,
        [view.low[j] for j in range(length)],
        [view.high[j] for j in range(length)],
    )


@pytest.mark.parametrize("units", [1, 2])
def test_pass(units):
    """Passes over all rows, and the rows of changes included into an anchor, one segment behind the other."""
    config = replace(CONFIG, row_units=units)
    n, length = config.n_max, 5
    dut, late = Pass(config), dot_latency(config.n_max)
    jobs = list(jobs_of(config, np.random.default_rng(units), length, 60, [(8, 5), (0, 0), (6, 9)]))

    def item(job, i, use):
        a = [
            1,
            *(
                int(byte) - int(offset)
                for byte, offset in zip(job.rows[i], job.offsets, strict=True)
            ),
        ]
        return {
            "use": use,
            "label": int(job.labels[i]),
            "a": a + [0] * (n - len(a)),
            "row": [*map(int, job.rows[i]), *[0] * (n - 1 - length)],
        }

    async def run(ctx, weights, begin, items, expected):
        ctx.set(dut.w, [*map(int, weights), *[0] * (n - len(weights))])
        cycles = max(-(-len(items) // units), 1)
        for t in range(cycles):
            ctx.set(dut.valid, 1)
            ctx.set(dut.start, t == 0)
            ctx.set(dut.begin, begin)
            for k in range(units):
                at = t * units + k
                ctx.set(getattr(dut, f"row{k}"), items[at] if at < len(items) else {"use": 0})
            await ctx.tick()
        ctx.set(dut.valid, 0)
        ctx.set(dut.start, 0)
        for _ in range(late - 1):
            await ctx.tick()
        assert values(ctx.get(dut.o), length) == expected

    def flat(anchor):
        return (
            int(anchor.err_min[0]),
            int(anchor.err_max[0]),
            int(anchor.least[0]),
            anchor.low[0].tolist(),
            anchor.high[0].tolist(),
        )

    async def bench(ctx):
        for job in jobs:
            fit = refit(job, config)
            low, high, anchor = pass_over(job, fit.weights)
            empty = {**NOTHING, "low": [255] * (n - 1), "high": [0] * (n - 1)}
            # slots without a live row come too, with any bytes
            items = [item(job, i, True) for i in range(len(job.rows))]
            items.insert(7, {**items[3], "use": 0, "label": 1 << 30})
            assert (low, high) == flat(anchor)[:2]
            await run(ctx, fit.weights, empty, items, flat(anchor))
            come = [i for i in (*job.inserted, *job.moved) if job.alive[i]]
            old = job.memo.anchor
            await run(
                ctx,
                old.weights,
                segment(old, n),
                [item(job, i, True) for i in come],
                flat(update_anchor(old, job)),
            )

    simulate(dut, bench)
