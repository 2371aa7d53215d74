"""The engine of fits over keys against results that an earlier version gave: values bit for bit, and cycles.

frozen.json.xz holds 200 jobs in eight sets (slots and ranks by passes, four widths of the bus): full trainings, rows that come, go and move, and jobs in error,
with the weights (float32, big-endian, hexadecimal), mask, bounds and exact sums of each, and the cycles of each run. A job's memo is that of an earlier job,
named by its run and place. The file is data: it does not follow the code. Eight jobs in error bury a row, which no engine does any more: they are left out,
and so are the cycles of their runs.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Work, run
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Job, Label, Window

SETS = json.loads(lzma.decompress((Path(__file__).parent / "frozen.json.xz").read_bytes()))["sets"]


def _bits(text):
    return np.array([int(bit) for bit in text], dtype=bool)


def _integers(told):
    return None if told is None else np.array(told, dtype=np.int64)


def _job(told, fits):
    """The job of its description; `fits` holds those before it."""

    def rows(name):
        return np.frombuffer(bytes.fromhex(told[name]), dtype=np.uint8).reshape(-1, told["length"])

    names = ("labels", "inserted", "removed_labels", "moved", "moved_from")
    return Job(
        told["group"],
        Window(told["prefix"], told["length"]),
        rows("offsets")[0],
        rows("rows"),
        removed=rows("removed"),
        memo=None if told["memo"] is None else fits[tuple(told["memo"])].memo,
        epoch=told["epoch"],
        limit=told["limit"],
        **{name: _integers(told[name]) for name in names},
    )


def _result(fit):
    """What was frozen of a result."""
    if isinstance(fit, HardwareError):
        return {"error": fit.code.name}
    memo = fit.memo
    return {
        "weights": np.asarray(fit.weights, dtype=">u4").tobytes().hex(),
        "mask": "".join(str(int(kept)) for kept in fit.mask),
        "low": fit.err_min,
        "high": fit.err_max,
        "passed": fit.rescanned,
        "live": memo.rows,
        "squares": memo.squares.tolist(),
        "right_hand_side": memo.right_hand_side.tolist(),
        # the upper triangle, column by column
        "gram": [int(memo.gram[i, j]) for j in range(len(fit.mask)) for i in range(j + 1)],
    }


@pytest.mark.parametrize(
    "frozen", SETS, ids=lambda f: f"{f['plan']['target']}s-{f['plan']['bus_bytes']}"
)
def test_frozen_jobs(frozen):
    # a solver's lanes were an option
    shape = {name: value for name, value in frozen["plan"].items() if name != "lanes"}
    plan = FitPlan(**shape | {"target": Label(shape["target"])})
    memory, fits, timed = FixedLatency(frozen["latency"], frozen["outstanding"]), {}, 0
    for number, told in enumerate(frozen["runs"]):
        kept = [(place, job) for place, job in enumerate(told["jobs"]) if not job["buried"]]
        jobs = [_job(job, fits) for _, job in kept]
        found = [refit(job, plan, place) for (place, _), job in zip(kept, jobs, strict=True)]
        assert [_result(fit) for fit in found] == [job["result"] for _, job in kept]
        fits |= {(number, place): fit for (place, _), fit in zip(kept, found, strict=True)}
        works = [Work.of(job, fit, plan) for job, fit in zip(jobs, found, strict=True)]
        if len(kept) == len(told["jobs"]):
            assert run(plan, works, memory).total == told["cycles"]
            timed += 1
    assert timed >= 4
