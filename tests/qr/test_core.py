"""hdl/qr/core: sequences of jobs, weights and new sums bit for bit the golden's."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from penstock.hdl.qr.core import Core
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.image import pack_changes, pack_rows
from penstock.models.qr.job import Bounds, Label, Sums
from penstock.models.qr.layout import HEAD_BYTES, Size, row_stride, words
from penstock.models.qr.memo_image import pack_memo
from testbench.pysim import drain, feed, simulate
from testbench.qr_cases import jobs_of


def bus_words(data, bus, first=0, count=None):
    at = range(first, len(data) // bus if count is None else first + count)
    return [int.from_bytes(data[k * bus : (k + 1) * bus], "little") for k in at]


def sums_words(memo, config, scans=False):
    n, bus = memo.window.columns, config.bus_bytes
    of_c = words(8 * n, bus)
    return bus_words(
        pack_memo(memo, config),
        bus,
        words(HEAD_BYTES + n - 1, bus) + of_c * scans,
        of_c * (not scans) + words(n * (n + 1) // 2, bus // 5),
    )


def rows_words(job, config):
    """Words of rows, and of their bits."""
    data, bus = pack_rows(job, config), config.bus_bytes
    found = bus_words(data, bus)
    of_rows = words(Size.of(job).places * row_stride(job.window.length), bus)
    return found[:of_rows], found[of_rows:]


SLOTS = {"target": Label.SLOT, "sums": Sums.INCREMENTAL, "bounds": Bounds.WIDENED}


@pytest.mark.parametrize(
    ("lanes", "bus", "pace", "options"),
    [(15, 64, 1.0, SLOTS), (12, 32, 0.7, SLOTS), (6, 16, 0.8, {})],
)
def test_jobs(lanes, bus, pace, options):
    config = FitPlan(
        n_max=5, gram_lanes=lanes, bus_bytes=bus, lanes=5, contexts=2, jobs=16, **options
    )
    scans = config.sums is Sums.SCAN
    source = np.random.default_rng(bus)
    # jobs of several groups in turn, as many windows
    groups = [
        list(jobs_of(config, source, length, 40, [(6, 5), (0, 0), (9, 0)])) for length in (4, 2)
    ]
    jobs = [group[k] for k in range(min(map(len, groups))) for group in groups]
    assert (scans or any(len(job.moved) for job in jobs)) and any(len(job.gone) for job in jobs)
    fits = [refit(job, config) for job in jobs]
    dut = Core(config)
    commands = []
    for number, job in enumerate(jobs):
        size = Size.of(job)
        commands.append(
            {
                "length": job.window.length,
                "inserted": size.inserted,
                "buried": size.buried,
                "removed": size.removed,
                "moved": size.moved,
                "full": 0,
                "span": size.places,
                "job": number,
                "offsets": [*map(int, job.offsets), *[0] * (4 - job.window.length)],
            }
        )
    expected = [word for fit in fits for word in sums_words(fit.memo, config)]
    taken, reports, found, accepted = [], [], {}, []

    async def watch(ctx):
        for _ in range(5000):
            *_, report_valid, report, valid, o = await ctx.tick().sample(
                dut.report_valid, dut.report, dut.o0_valid, dut.o0
            )
            if report_valid:
                reports.append((report.job, report.live, report.code))
            if valid:
                found[o.job] = (o.mask, [o.weights[k] for k in range(5)])
            if len(found) == len(jobs):
                return
        raise AssertionError("did not finish")

    every = [rows_words(job, config) for job in jobs] if scans else []
    fed = (
        (dut.changes, [bus_words(pack_changes(job, config), bus) for job in jobs]),
        (dut.memo, [sums_words(job.memo, config, scans) for job in jobs]),
        (dut.rows, [rows for rows, _ in every]),
        (dut.bits, [bits for _, bits in every]),
    )
    simulate(
        dut,
        feed(dut.command, commands, accepted),
        *(
            feed(stream, chain.from_iterable(words), pace=pace, seed=seed)
            for seed, (stream, words) in enumerate(fed[: 4 if scans else 2])
        ),
        drain(dut.words, len(expected), taken, pace=pace, seed=5),
        watch,
    )
    assert [item.data for _, item in taken] == expected
    assert reports == [
        (number, fit.memo.live - job.memo.live, 0)
        for number, (job, fit) in enumerate(zip(jobs, fits, strict=True))
    ]
    for number, fit in enumerate(fits):
        mask, weights = found[number]
        assert mask == sum(1 << int(k) for k in np.flatnonzero(fit.mask))
        assert weights == [*fit.weights.tolist(), *[0] * (5 - len(fit.weights))]
    if pace == 1:
        assert accepted[1] - accepted[0] == Size.of(jobs[0]).records + 4
