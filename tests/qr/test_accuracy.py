"""Weights after a thousand random batches of inserts and deletes: as near as float64 least squares of the live rows, `gram`'s sums those of Python's integers.

Where `givens` cannot take rows out of its factor a group is trained afresh, as `host.learned_index` does.
"""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.workloads.groups import Group, keys
from penstock.models.errors import HardwareError
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit, Label, Method
from penstock.models.qr.shell import FitError
from testbench.qr_least_squares import as_least_squares, exact


def run(config: FitPlan, rows: int, batches: int, most: int, every: int, seed: int) -> None:
    """Random batches on one group; the fit is compared after every `every`-th, the integers at the end."""
    source = np.random.default_rng(seed)
    length = config.n_max - 1
    group = Group(config, keys(source, rows, length, 62, 48), density=0.5)
    job = group.full()
    full = 0
    for number in range(batches):
        fit = refit(job, config)
        if isinstance(fit, HardwareError):
            assert fit.code is FitError.QR_DOWNDATE
            job = group.full()
            fit = refit(job, config)
        assert isinstance(fit, Fit)
        group.take(fit)
        full += job.memo is None
        if number % every == every - 1:
            as_least_squares(job, fit)
        if number + 1 == batches:
            exact(job, fit)
            break
        count = len(group.rows)
        come, go = (int(source.integers(0, most + 1)) for _ in range(2))
        kind = number % 3  # rows come, rows go, both
        doomed = np.sort(
            source.choice(count, min(go, max(count - rows // 2, 0)) if kind else 0, replace=False)
        )
        job = group.batch(keys(source, come if kind != 1 else 0, length, 62, 48), doomed)
    assert full < batches * 0.25


CASES = [(Method.GRAM, Label.RANK), (Method.GRAM, Label.SLOT), (Method.GIVENS, Label.RANK)]


@pytest.mark.parametrize(("method", "target"), CASES)
def test_hundred_batches(method: Method, target: Label) -> None:
    run(FitPlan(n_max=12, method=method, target=target), 300, 100, 12, 20, 7)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(500, 9), (5000, 33)], ids=["500 x 9", "5000 x 33"])
@pytest.mark.parametrize(("method", "target"), CASES)
def test_thousand_batches(method: Method, target: Label, shape: tuple[int, int]) -> None:
    rows, columns = shape
    config = FitPlan(n_max=columns, method=method, target=target)
    run(config, rows, 1000, 50 if rows == 5000 else 20, 50, 11)
