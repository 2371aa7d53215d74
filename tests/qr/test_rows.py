"""hdl/qr/rows: rows and bits of places from bus words, labels, order; a word's rows at `row_units` a cycle."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.hdl.qr.rows import Rows
from penstock.host.workloads.groups import keys
from penstock.models.qr.image import pack_rows
from penstock.models.qr.job import Job, Window
from penstock.models.qr.layout import row_stride
from testbench.pysim import drain, feed, simulate
from testbench.qr_cases import slot_plan


@pytest.mark.parametrize(
    ("bus", "units", "pace"), [(64, 2, 1.0), (16, 1, 0.7), (16, 4, 1.0), (64, 4, 0.8)]
)
def test_passes(bus, units, pace):
    config = slot_plan(n_max=14, gram_lanes=105, bus_bytes=bus, row_units=units)
    source = np.random.default_rng([bus, units])
    jobs = []
    for number, (length, count, span) in enumerate(
        [(13, 30, 50), (3, 40, 41), (5, 1, 9), (8, 20, 150), (13, 3, 3)]
    ):
        rows = keys(source, count, length)
        if number == 1:
            rows[[9, 10]] = rows[[10, 9]]
        labels = (
            np.sort(source.choice(span - 1, count - 1, replace=False))
            if count > 1
            else np.zeros(0, dtype=np.int64)
        )
        live = source.random(count) < 0.9 if number != 1 else None
        jobs.append(
            Job(
                number,
                Window(0, length),
                source.integers(0, 256, length).astype(np.uint8),
                rows,
                live,
                np.append(labels, span - 1),
            )
        )
    dut, taken, words_taken = Rows(config), [], []
    cut = lambda data: [
        int.from_bytes(data[at : at + bus], "little") for at in range(0, len(data), bus)
    ]
    words, bits, totals = [], [], []
    for job in jobs:
        data, span = pack_rows(job, config), int(job.labels[-1]) + 1
        of_rows = -(-span * row_stride(job.window.length) // bus) * bus
        words += cut(data[:of_rows])
        bits += cut(data[of_rows:])
        each = min(units, bus // row_stride(job.window.length))
        totals.append(-(-span // each))

    async def commander(ctx):
        for number, job in enumerate(jobs):
            for j, offset in enumerate(job.offsets):
                ctx.set(dut.offsets[j], int(offset))
            await feed(
                dut.command, [{"length": job.window.length, "span": int(job.labels[-1]) + 1}]
            )(ctx)
            while len(taken) < sum(totals[: number + 1]):
                await ctx.tick()

    simulate(
        dut,
        commander,
        feed(dut.words, words, words_taken, pace=pace, seed=1),
        feed(dut.bits, bits, pace=pace, seed=2),
        drain(dut.o, sum(totals), taken, pace=pace, seed=3),
    )
    items = iter(taken)
    for number, (job, total) in enumerate(zip(jobs, totals, strict=True)):
        mine = [next(items) for _ in range(total)]
        assert [item.last for _, item in mine] == [0] * (total - 1) + [1]
        each, length = min(units, bus // row_stride(job.window.length)), job.window.length
        found = [item.rows[k] for _, item in mine for k in range(each)]
        live = {
            int(label): row
            for label, row, alive in zip(job.labels, job.rows, job.alive, strict=True)
            if alive
        }
        assert [row.label for row in found if row.use] == sorted(live)
        for row in found:
            if row.use:
                expected = live[row.label].tolist()
                assert [row.row[j] for j in range(13)] == expected + [0] * (13 - length)
                assert [row.a[j] for j in range(14)] == [
                    1,
                    *(b - int(o) for b, o in zip(expected, job.offsets, strict=True)),
                    *[0] * (13 - length),
                ]
        assert mine[-1][1].disorder == (number == 1)
        if pace == 1:
            assert mine[-1][0] - mine[0][0] == total - 1
