"""hdl/qr/merge: records, sums and a memo's words together give the words of the new memo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect

from penstock.hdl.qr.merge import Merge
from penstock.hdl.qr.normal_equations import NormalEquationAccumulator
from penstock.hdl.qr.records import Records
from penstock.models.qr.golden import refit
from penstock.models.qr.image import pack_changes
from penstock.models.qr.layout import HEAD_BYTES, Size, words
from penstock.models.qr.memo_image import pack_memo
from testbench.pysim import drain, feed, simulate
from testbench.qr_cases import jobs_of, slot_plan

CONFIG = slot_plan(n_max=8, gram_lanes=36, bus_bytes=32)


def sums_words(memo, config):
    """The words of a memo's parts c and AᵀA."""
    data, n, bus = pack_memo(memo, config), memo.window.columns, config.bus_bytes
    first = words(HEAD_BYTES + n - 1, bus)
    count = words(8 * n, bus) + words(n * (n + 1) // 2, bus // 5)
    return [
        int.from_bytes(data[at * bus : (at + 1) * bus], "little")
        for at in range(first, first + count)
    ]


@pytest.mark.parametrize(("bus", "length", "pace"), [(64, 7, 1.0), (32, 5, 0.7), (8, 2, 0.8)])
def test_new_memo(bus, length, pace):
    config = replace(CONFIG, bus_bytes=bus)
    jobs = list(
        jobs_of(config, np.random.default_rng(bus), length, 40, [(6, 5), (0, 0), (4, 0), (3, 3)])
    )
    records, accumulator, merge = Records(config), NormalEquationAccumulator(config), Merge(config)
    m = Module()
    m.submodules.records, m.submodules.accumulator, m.submodules.merge = records, accumulator, merge
    connect(m, records.o, accumulator.i)
    m.d.comb += [
        accumulator.chunk.eq(merge.chunk),
        merge.right_hand_side.eq(accumulator.right_hand_side),
        merge.entries.eq(accumulator.entries),
    ]
    changes = [
        int.from_bytes(data[at : at + bus], "little")
        for data in (pack_changes(job, config) for job in jobs)
        for at in range(0, len(data), bus)
    ]
    expected = [sums_words(refit(job, config).memo, config) for job in jobs]
    fresh = [sums_words(refit(replace(job, memo=None), config).memo, config) for job in jobs]
    assert all(len(a) == len(b) for a, b in zip(expected, fresh, strict=True))
    taken, times = [], []

    async def commander(ctx):
        ctx.set(accumulator.columns, length + 1)
        for job in jobs:
            size = Size.of(job)
            for j, offset in enumerate(job.offsets):
                ctx.set(records.offsets[j], int(offset))
            command = {
                "length": length,
                "inserted": size.inserted,
                "buried": size.buried,
                "removed": size.removed,
                "moved": size.moved,
            }
            await feed(records.command, [command])(ctx)
            while not ctx.get(accumulator.done.valid):
                await ctx.tick()
            assert ctx.get(accumulator.done.p.code) == 0
            before = len(taken)
            await feed(merge.command, [{"columns": length + 1, "fresh": 0}])(ctx)
            while len(taken) == before or not taken[-1][1].last:
                await ctx.tick()
            ctx.set(accumulator.done.ready, 1)
            await ctx.tick()
            ctx.set(accumulator.done.ready, 0)
            times.append((taken[before][0], taken[-1][0]))

    simulate(
        m,
        commander,
        feed(records.i, changes, pace=pace, seed=1),
        feed(
            merge.i,
            [word for job in jobs for word in sums_words(job.memo, config)],
            pace=pace,
            seed=2,
        ),
        drain(merge.o, sum(map(len, expected)), taken, pace=pace, seed=3),
    )
    assert [item.data for _, item in taken] == [word for each in expected for word in each]
    assert [item.gram for _, item in taken] == [
        k >= words(8 * (length + 1), bus) for each in expected for k in range(len(each))
    ]
    if pace == 1:
        assert [last - first + 1 for first, last in times] == [len(each) for each in expected]


def test_without_a_memo():
    """The sums of a job alone: every row an insertion."""
    job = next(jobs_of(CONFIG, np.random.default_rng(9), 4, 12, [(3, 0)]))
    full = replace(
        job,
        inserted=np.arange(len(job.rows)),
        moved=np.zeros(0, dtype=np.int64),
        moved_from=np.zeros(0, dtype=np.int64),
    )
    records, accumulator, merge = Records(CONFIG), NormalEquationAccumulator(CONFIG), Merge(CONFIG)
    m = Module()
    m.submodules.records, m.submodules.accumulator, m.submodules.merge = records, accumulator, merge
    connect(m, records.o, accumulator.i)
    m.d.comb += [
        accumulator.chunk.eq(merge.chunk),
        merge.right_hand_side.eq(accumulator.right_hand_side),
        merge.entries.eq(accumulator.entries),
    ]
    data = pack_changes(full, CONFIG)
    expected, taken = sums_words(refit(replace(job, memo=None), CONFIG).memo, CONFIG), []

    async def commander(ctx):
        ctx.set(accumulator.columns, 5)
        for j, offset in enumerate(job.offsets):
            ctx.set(records.offsets[j], int(offset))
        await feed(
            records.command,
            [{"length": 4, "inserted": len(job.rows), "buried": 0, "removed": 0, "moved": 0}],
        )(ctx)
        while not ctx.get(accumulator.done.valid):
            await ctx.tick()
        assert ctx.get(accumulator.done.p.live) == len(job.rows)
        await feed(merge.command, [{"columns": 5, "fresh": 1}])(ctx)

    simulate(
        m,
        commander,
        feed(
            records.i,
            [int.from_bytes(data[at : at + 32], "little") for at in range(0, len(data), 32)],
        ),
        drain(merge.o, len(expected), taken),
    )
    assert [item.data for _, item in taken] == expected
