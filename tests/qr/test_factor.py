"""models/qr/factor: rows folded in waves give, bit for bit, what they give one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.qr import factor
from penstock.models.qr.arith import codes


@pytest.mark.parametrize("kind", ["plain", "collinear", "equal", "close", "tiny"])
def test_waves(kind):
    source = np.random.default_rng(len(kind))
    for _ in range(12):
        n, m, first = (
            int(source.integers(2, 20)),
            int(source.integers(4, 60)),
            int(source.integers(2)),
        )
        rows = np.ones((m, n), dtype=np.float32)
        rows[:, 1:] = (
            source.integers(-1, 2, (m, n - 1))
            if kind == "close"
            else source.integers(-255, 256, (m, n - 1))
        )
        if kind == "collinear" and n > 3:
            rows[:, 3] = rows[:, 1] - 2 * rows[:, 2]
        if kind == "equal":
            rows[:] = rows[0]
        if kind == "tiny":
            rows *= np.float32(10.0 ** -source.integers(10, 25))
        weight = (
            np.float32(10.0 ** source.integers(-35, 3)) if source.random() < 0.5 else np.float32(1)
        )
        d, u = np.zeros(n, dtype=np.float32), np.zeros((n, n), dtype=np.float32)
        factor._one_by_one(d, u, rows[:3], np.float32(1))
        other_d, other_u = d.copy(), u.copy()
        met = factor._one_by_one(d, u, rows, weight, first)
        assert factor.fold(other_d, other_u, rows, weight=weight, first=first) == met
        assert np.array_equal(codes(d), codes(other_d)) and np.array_equal(
            u.view(np.uint32), other_u.view(np.uint32)
        )


def test_dropped_rows_meet_the_columns_behind():
    """Unless they weigh nothing; the last one has none behind."""
    d, u = np.float32([4, 0, 3, 2]), np.triu(np.ones((4, 4), dtype=np.float32))
    squares = np.array([1, 1, 1 << 30, 1 << 30])
    left, rows, keep, met = factor.full_rank(d, u, squares)
    assert keep.tolist() == [True, False, False, False] and met == [None, None, 1, 0]
    assert left.tolist() == [4, 0, 0, 0] and (rows == np.vstack([u[0], np.eye(4)[1:]])).all()
