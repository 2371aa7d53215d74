"""SIA: the sustained rate of threads and their trainer, by a simulation of its own; and the report."""

from __future__ import annotations

import heapq
import random

import pytest

from penstock.engines.qr import sia
from penstock.models.derating import fullest
from penstock.report.papers import figures
from testbench.command_line import told


def simulated(operation: float, merge: float, fit: float, new: float, beside: bool) -> float:
    """Few groups that wait for twice a refit's keys at most: soon the trainer is behind, or never."""
    source, groups, count = random.Random(1), 40, 150_000
    waiting, ready, merged, fitted = (
        [source.randrange(50) for _ in range(groups)],
        [0.0] * groups,
        0.0,
        0.0,
    )
    clocks = [(0.0, thread) for thread in range(16)]
    for _ in range(count):
        now, thread = heapq.heappop(clocks)
        now += operation
        if source.random() < new:
            group = source.randrange(groups)
            if ready[group] and (ready[group] <= now or waiting[group] >= 100):
                now, ready[group] = max(now, ready[group]), 0.0
                waiting[group] -= 50
            waiting[group] += 1
            if waiting[group] >= 50 and not ready[group]:
                merged = max(merged, now) + merge
                fitted = max(merged, fitted) + fit
                merged, ready[group] = merged if beside else fitted, fitted
        heapq.heappush(clocks, (now, thread))
    return count / clocks[0][0]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("fit", "new"), [(263e-6, 0.64), (28.8e-6, 1.0), (1e-6, 0.05), (1e-6, 1.0)]
)
def test_throughput(fit: float, new: float, beside: bool) -> None:
    found = sia.throughput(1.4e-6, 16e-6, fit, new, beside=beside)
    assert found == pytest.approx(simulated(1.4e-6, 16e-6, fit, new, beside), rel=0.05)


def test_report() -> None:
    out = told("reproduce sia --beside cpu")
    assert all(words in out for words in ("inferred", "not found", "2.60", "3.40", "C, here"))
    assert fullest(sia._design().resources, sia._design().target)[1] <= 0.8
    data = figures("penstock.engines.qr", "sia")
    assert data["index"]["operation"] == pytest.approx(
        1 / 710e3, rel=1e-3
    )  # 710 k operations a second
