"""The engine's float32 on NumPy numbers against `models.numerics` on codes, operation by operation, and the factors written out in codes."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.numerics.formats import float32
from penstock.models.qr import arith
from penstock.models.qr.factor import TOLERANCE, eliminate, fold, solve

F = float32


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_operations(name):
    source = np.random.default_rng(1)
    a, b = source.integers(0, 1 << 32, (2, 50_000))
    b[:20_000] = np.clip(a[:20_000] + source.integers(-3, 4, 20_000), 0, (1 << 32) - 1)
    operation = getattr(arith, name)
    assert np.array_equal(
        arith.codes(operation(arith.numbers(a), arith.numbers(b))), F.op(name, a, b)
    )
    for x, y in zip(a[:300], b[:300], strict=True):
        assert int(arith.codes(operation(arith.numbers(x)[()], arith.numbers(y)[()]))) == int(
            F.op(name, x, y)
        )


def test_dot_does_not_depend_on_padding():
    source = np.random.default_rng(2)
    for n in range(1, 65):
        a, b = source.standard_normal((2, n)).astype(np.float32)
        wide_a, wide_b = np.zeros((2, 64), dtype=np.float32)
        wide_a[:n], wide_b[:n] = a, b
        level = [int(x) for x in F.mul(arith.codes(wide_a), arith.codes(wide_b))]
        while len(level) > 1:
            level = [int(F.add(x, y)) for x, y in zip(level[0::2], level[1::2], strict=True)]
        assert int(arith.codes(arith.dot(a, b))) == level[0]


def test_labels():
    scores = np.array(
        [-5, -0.0, 0.99, 1, 7.5, 2.0**31, np.inf, -np.inf, np.nan, 2.0**31 - 128], dtype=np.float32
    )
    assert arith.to_label(scores).tolist() == [
        0,
        0,
        0,
        1,
        7,
        2**31 - 1,
        2**31 - 1,
        0,
        0,
        2**31 - 128,
    ]


@pytest.mark.parametrize("scale", [1.0, 1e-18, 1e-22, 1e18, 1e-30])
def test_fold_in_codes(scale):
    source = np.random.default_rng(3)
    n = 5
    rows = arith.numbers(
        arith.codes(
            (
                source.standard_normal((20, n)) * scale * 10.0 ** source.integers(-6, 6, (20, n))
            ).astype(np.float32)
        )
    )
    rows[::3, 1] = 0
    d, u = np.zeros(n, dtype=np.float32), np.zeros((n, n), dtype=np.float32)
    fold(d, u, rows)
    dc, uc = [0] * n, [[0] * n for _ in range(n)]
    for row in arith.codes(rows):
        x, delta = [int(v) for v in row], F.one
        for k in range(n):
            e = F.mul(delta, x[k])
            pivot = F.add(dc[k], F.mul(e, x[k]))
            if F.is_zero(pivot):
                continue
            c, s, head = F.div(dc[k], pivot), F.div(e, pivot), x[k]
            for j in range(k + 1, n):
                old, ahead = uc[k][j], x[j]
                uc[k][j] = int(F.add(F.mul(c, old), F.mul(s, ahead)))
                x[j] = int(F.sub(ahead, F.mul(head, old)))
            dc[k], delta = int(pivot), F.mul(delta, c)
            if F.is_zero(delta):
                break
    assert arith.codes(d).tolist() == dc and arith.codes(u).tolist() == uc


def test_eliminate_and_solve_in_codes():
    source = np.random.default_rng(4)
    for n in (1, 2, 5, 8):
        a = source.integers(-255, 256, (30, n))
        if n > 4:
            a[:, 3] = a[:, 0] + a[:, 1]
        gram, right = np.triu(a.T @ a), source.integers(-(10**9), 10**9, n)
        d, u, keep = eliminate(gram)
        g = [[int(F.encode(float(v))) for v in row] for row in gram]
        limit = [F.mul(arith.codes(TOLERANCE), g[k][k]) for k in range(n)]
        kept = []
        for k in range(n):
            if not F.decode(F.gt(g[k][k], limit[k])):
                assert not keep[k]
                continue
            kept.append(k)
            t = F.div(F.one, g[k][k])
            row = {j: int(F.mul(g[k][j], t)) for j in range(k + 1, n)}
            for i in range(k + 1, n):
                for j in range(i, n):
                    g[i][j] = int(F.sub(g[i][j], F.mul(row[i], g[k][j])))
            assert (
                keep[k]
                and arith.codes(d)[k] == g[k][k]
                and arith.codes(u)[k, k + 1 :].tolist() == list(row.values())
            )
        y = [int(F.encode(float(v))) if keep[k] else 0 for k, v in enumerate(right)]
        uc = arith.codes(u)
        for k in kept:
            for j in range(k + 1, n):
                y[j] = int(F.sub(y[j], F.mul(uc[k, j], y[k])))
        z = {k: int(F.mul(y[k], F.div(F.one, arith.codes(d)[k]))) for k in kept}
        for j in reversed(kept):
            for k in kept:
                if k < j:
                    z[k] = int(F.sub(z[k], F.mul(uc[k, j], z[j])))
        assert arith.codes(solve(d, u, keep, arith.from_integer(right))).tolist() == [
            z.get(k, 0) for k in range(n)
        ]
