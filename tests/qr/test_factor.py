"""models/qr/factor: rows folded in waves give, bit for bit, what they give one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.qr import arith, factor
from penstock.models.qr.arith import codes


def one_by_one(d, u, rows, weight, first=0):
    """The definition."""
    done = True
    for row in rows:
        x, delta = row.copy(), weight
        for k in range(first, len(d)):
            e, head, old = arith.mul(delta, x[k]), x[k], u[k, k + 1 :].copy()
            pivot = arith.add(d[k], arith.mul(e, head))
            c, s = arith.div(d[k], pivot), arith.div(e, pivot)
            if delta < 0 and head != 0:
                done &= bool(pivot > arith.mul(d[k], factor.SHRINKS))
            if pivot != 0:
                u[k, k + 1 :] = arith.add(arith.mul(c, old), arith.mul(s, x[k + 1 :]))
                d[k], delta = pivot, arith.mul(delta, c)
            x[k + 1 :] = arith.sub(x[k + 1 :], arith.mul(head, old))
            if delta == 0:
                break
    return done


@pytest.mark.parametrize("kind", ["plain", "collinear", "equal", "close", "tiny"])
def test_waves(kind):
    source = np.random.default_rng(len(kind))
    for _ in range(12):
        n, m, first = (
            int(source.integers(2, 20)),
            int(source.integers(1, 60)),
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
        one_by_one(d, u, rows[:3], np.float32(1))
        other_d, other_u = d.copy(), u.copy()
        gone = source.random(m) < 0.3
        done = [
            one_by_one(d, u, rows, weight, first),
            one_by_one(d, u, rows[gone], -weight, first),
        ]
        assert done == [
            factor.fold(other_d, other_u, rows, weight=weight, first=first),
            factor.fold(other_d, other_u, rows[gone], weight=-weight, first=first),
        ]
        assert np.array_equal(codes(d), codes(other_d)) and np.array_equal(
            u.view(np.uint32), other_u.view(np.uint32)
        )


def test_dropped_rows_meet_the_columns_behind():
    d, u = np.float32([4, 0, 3, 2]), np.triu(np.ones((4, 4), dtype=np.float32))
    squares = np.array([1, 1, 1 << 30, 1 << 30])
    left, rows, keep = factor.full_rank(d, u, squares)
    assert keep.tolist() == [True, False, False, False]
    assert left.tolist() == [4, 0, 0, 0] and (rows == np.vstack([u[0], np.eye(4)[1:]])).all()


@pytest.mark.parametrize("rows", [60, 500])
def test_rows_are_taken_out(rows):
    """What is left is the factor of the other rows; a row without which nothing is left of a column stays."""
    source = np.random.default_rng(rows)
    a = np.ones((rows, 9), dtype=np.float32)
    a[:, 1:] = source.integers(-128, 128, (rows, 8))
    d, u = np.zeros(9, dtype=np.float32), np.zeros((9, 9), dtype=np.float32)
    assert factor.fold(d, u, a)
    assert factor.fold(d, u, a[: rows // 2], weight=np.float32(-1))
    r = u.astype(np.float64) + np.eye(9)
    left = a[rows // 2 :].astype(np.float64)
    exact = left.T @ left
    assert np.abs(r.T @ np.diag(d.astype(np.float64)) @ r - exact).max() < 1e-4 * exact.max()
    only = np.zeros((1, 9), dtype=np.float32)
    only[0, 8] = 100
    d[8] = 10_001
    assert not factor.fold(d, u, only, weight=np.float32(-1))
