"""Judges of a refit: float64 least squares, and Python's integers."""

from __future__ import annotations

import numpy as np

from penstock.models.qr.job import Fit, Job

__all__ = ["as_least_squares", "exact"]


def as_least_squares(job: Job, fit: Fit) -> None:
    """The largest error of the rows is that of float64 least squares of them."""
    a = np.column_stack([np.ones(len(job.rows)), job.rows.astype(float) - job.offsets])
    b = job.target_labels()
    weights = np.linalg.lstsq(a, b.astype(float), rcond=None)[0]
    best, found = (np.abs(b - a @ w).max() for w in (weights, fit.values.astype(float)))
    assert abs(found - best) <= 0.01 * best


def exact(job: Job, fit: Fit) -> None:
    """The memo's integers are those of Python's own arithmetic over the rows."""
    columns = [[1] * len(job.rows)] + [
        [int(x) - int(o) for x in job.rows[:, j]] for j, o in enumerate(job.offsets)
    ]
    labels = [int(b) for b in job.target_labels()]
    memo = fit.memo
    for i, left in enumerate(columns):
        assert memo.sums[i] == sum(left) and memo.squares[i] == sum(x * x for x in left)
        assert memo.right_hand_side[i] == sum(b * x for b, x in zip(labels, left, strict=True))
        if memo.gram is not None:
            for j in range(i, len(columns)):
                assert memo.gram[i, j] == sum(x * y for x, y in zip(left, columns[j], strict=True))
