"""hdl/qr/normal_equations: a job's exact sums, both banks; equality with the golden's integers, cycles of the cycle model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Const, Module

from penstock.hdl.qr.normal_equations import NormalEquationAccumulator
from penstock.models.qr.cycles import Work
from penstock.models.qr.golden import update_sums
from penstock.models.qr.image import pack_changes
from penstock.models.qr.layout import Size
from testbench.pysim import feed, simulate
from testbench.qr_cases import jobs_of, slot_plan, unpack_changes

CONFIG = slot_plan(n_max=8, gram_lanes=36, bus_bytes=32)


def items_of(job, config):
    """The items that `Records` gives for the job."""
    size, n = Size.of(job), config.n_max
    records = unpack_changes(pack_changes(job, config), size)
    for r in records:
        a = [1, *(byte - int(offset) for byte, offset in zip(r.row, job.offsets, strict=True))]
        yield {
            "value": r.value,
            "sign": r.sign,
            "label": r.label,
            "came": r.came,
            "a": a + [0] * (n - len(a)),
            "end": 0,
            "code": 0,
        }
    yield {
        "value": 0,
        "sign": 0,
        "label": 0,
        "came": 0,
        "a": [0] * n,
        "end": 1,
        "code": job.group & 0x7F,
    }


async def check(ctx, dut, job):
    """Wait for the job's sums, and compare them with the golden's."""
    n = job.window.columns
    while not ctx.get(dut.done.valid):
        await ctx.tick()
    expected = update_sums(job, job.memo, False)
    assert ctx.get(dut.done.payload) == job.group
    right_hand_side, entries = [], []
    for number in range(dut.chunks):
        ctx.set(dut.chunk, number)
        await ctx.tick()
        right_hand_side += [ctx.get(sum) for sum in dut.right_hand_side]
        entries += [ctx.get(dut.entries[k]) for k in range(dut.each)]
    difference = expected.gram - job.memo.gram
    assert right_hand_side[:n] == (expected.right_hand_side - job.memo.right_hand_side).tolist()
    assert entries[: n * (n + 1) // 2] == [difference[i, j] for j in range(n) for i in range(j + 1)]


@pytest.mark.parametrize(
    ("lanes", "bus", "pace"), [(36, 64, 1.0), (12, 32, 1.0), (6, 32, 0.7), (1, 8, 1.0)]
)
def test_sums(lanes, bus, pace):
    config = replace(CONFIG, gram_lanes=lanes, bus_bytes=bus)
    jobs = list(
        jobs_of(
            config,
            np.random.default_rng(lanes),
            7 if lanes != 12 else 4,
            50,
            [(6, 5), (0, 0), (4, 0), (0, 4), (3, 3)],
        )
    )
    jobs = [replace(job, group=number) for number, job in enumerate(jobs)]
    assert len(jobs) >= 3
    n, top = jobs[0].window.columns, Module()
    dut = NormalEquationAccumulator(top, config, Const(n))
    starts, seen = [], []

    async def feeder(ctx):
        cycle = 0
        for job in jobs:
            accepted = []
            await feed(dut.i, items_of(job, config), accepted, pace=pace, seed=job.group)(ctx)
            starts.append((cycle, cycle + accepted[-1]))
            cycle += accepted[-1] + 1

    async def reader(ctx):
        for job in jobs:
            await check(ctx, dut, job)
            seen.append(job.group)
            ctx.set(dut.done.ready, 1)
            await ctx.tick()
            ctx.set(dut.done.ready, 0)

    simulate(top, feeder, reader)
    assert len(seen) == len(jobs)
    if pace == 1:
        # the first two jobs find both banks free
        for (begin, end), job, wait in zip(starts[:2], jobs, (0, 2), strict=False):
            assert end - begin == Work.plain(Size.of(job), False).sums_cycles(config) + wait
