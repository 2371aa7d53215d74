# amaranth: UnusedElaboratable=no
"""hdl/qr/givens_core: sequences of jobs, weights, new sums and new factors bit for bit the golden's, full jobs among them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.hdl.qr.givens_core import GivensCore
from penstock.host.workloads.groups import keys, mean_offsets
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.image import pack_changes, pack_rows
from penstock.models.qr.job import Bounds, Job, Label, Method, Sums, Window
from penstock.models.qr.layout import HEAD_BYTES, Size, words
from penstock.models.qr.memo_image import pack_memo
from testbench.qr_cases import jobs_of
from testbench.streams import build_streams, run_streams


def bus_words(data, bus, first=0, count=None):
    at = range(first, len(data) // bus if count is None else first + count)
    return [int.from_bytes(data[k * bus : (k + 1) * bus], "little") for k in at]


def parts(memo, config):
    """Words of a memo's c, of its sums and squares, and of its factor."""
    n, bus = memo.window.columns, config.bus_bytes
    head, right_hand_side, sums, factor = (
        words(HEAD_BYTES + n - 1, bus),
        words(8 * n, bus),
        words(16 * n, bus),
        words(2 * n * (n + 1), bus),
    )
    data = pack_memo(memo, config)
    return (
        bus_words(data, bus, head, right_hand_side),
        bus_words(data, bus, head + right_hand_side, sums),
        bus_words(data, bus, head + right_hand_side + sums, factor),
    )


def full_job(source, number, length, count, slots, same=False):
    rows = keys(source, count, length, 60)
    if same:
        rows[:, -1] = 7
    return Job(
        number,
        Window(0, length),
        mean_offsets(rows),
        rows,
        labels=np.sort(source.choice(3 * count + 1, count, replace=False)) if slots else None,
    )


@pytest.mark.parametrize(
    ("n", "bus", "target"),
    [(6, 32, Label.SLOT), pytest.param(5, 16, Label.RANK, marks=pytest.mark.long)],
)
def test_jobs(n, bus, target):
    slots = target is Label.SLOT
    config = FitPlan(
        n_max=n,
        method=Method.GIVENS,
        target=target,
        sums=Sums.INCREMENTAL if slots else Sums.SCAN,
        bounds=Bounds.WIDENED if slots else Bounds.RESCAN,
        vectors=2,
        lanes=2,
        contexts=3,
        bus_bytes=bus,
        jobs=32,
    )
    source = np.random.default_rng(bus)
    groups = [
        list(jobs_of(config, source, length, 40, [(6, 5), (0, 0), (9, 0), (45, 3), (0, 7)]))
        for length in (n - 1, 3, n - 2)
    ]
    jobs = [group[k] for k in range(min(map(len, groups))) for group in groups]
    for at, (length, count) in (
        (0, (n - 1, 50)),
        (4, (3, 0)),
        (7, (n - 1, 3)),
        (len(jobs), (n - 1, 20)),
    ):
        jobs.insert(at, full_job(source, at, length, count, slots, same=at == 7))
    assert (
        any(len(job.moved) for job in jobs) is slots
        and any(len(job.buried) for job in jobs)
        and len(jobs) >= 12
    )
    fits = [refit(job, config) for job in jobs]
    commands, bits, rows = [], [], []
    for number, job in enumerate(jobs):
        size, full = Size.of(job), job.memo is None
        commands.append(
            {
                "length": job.window.length,
                "inserted": size.inserted,
                "buried": size.buried,
                "removed": size.removed,
                "moved": size.moved,
                "full": full,
                "span": size.places,
                "job": number,
                "solver": 0,
                "offsets": [*map(int, job.offsets), *[0] * (n - 1 - job.window.length)],
            }
        )
        if (full or not slots) and size.places:
            data, tail = pack_rows(job, config), words(-(-size.places // 8), bus)
            rows += bus_words(data[: -tail * bus], bus)
            bits += bus_words(data[-tail * bus :], bus)
    built = build_streams(lambda library: GivensCore(config, library))
    before = [parts(job.memo, config) for job in jobs if job.memo is not None]
    after = [parts(fit.memo, config) for fit in fits]
    given = {
        "command": [built.inputs["command"].const(c).as_bits() for c in commands],
        "bits": bits,
        "rows": rows,
        "changes": [
            word
            for job in jobs
            if job.memo is not None
            for word in bus_words(pack_changes(job, config), bus)
        ],
        "load": [word for *_, factor in before for word in factor],
        "memo": [
            word
            for right_hand_side, sums, _ in before
            for word in (right_hand_side if slots else []) + sums
        ],
    }
    expected = {
        "words": [word for right_hand_side, sums, _ in after for word in right_hand_side + sums],
        "factor": [word for *_, factor in after for word in factor],
    }
    wanted = {
        "o0": len(jobs),
        "report": len(jobs),
        **{name: len(items) for name, items in expected.items()},
    }
    for pace, seed in ((1.0, 1), (0.5, 2), (0.8, 3)):
        _, found = run_streams(built, given, wanted, pace=pace, seed=seed)
        assert [
            built.outputs["words"].from_bits(item).data for item in found["words"].items
        ] == expected["words"]
        new = {}
        for item in map(built.outputs["factor"].from_bits, found["factor"].items):
            new.setdefault(item.job, []).append(item.data)
        assert [new[number] for number in range(len(jobs))] == [factor for *_, factor in after]
        reports = [built.outputs["report"].from_bits(item) for item in found["report"].items]
        assert [(r.job, r.live, r.code) for r in reports] == [
            (number, fit.memo.live - (job.memo.live if job.memo else 0), 0)
            for number, (job, fit) in enumerate(zip(jobs, fits, strict=True))
        ]
        for item in map(built.outputs["o0"].from_bits, found["o0"].items):
            fit = fits[item.job]
            assert item.mask == sum(1 << int(k) for k in np.flatnonzero(fit.mask))
            assert [item.weights[k] for k in range(n)] == [
                *fit.weights.tolist(),
                *[0] * (n - len(fit.weights)),
            ]
