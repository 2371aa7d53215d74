"""Kernels with rows as their field writes them, each against a NumPy program of its own, to float64's rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

import penstock as ps
from penstock.dsl.analytics import interp

RNG = np.random.default_rng(30)


def trained(kernel: Any, columns: dict[str, Any], **dims: int) -> dict[str, np.ndarray]:
    assert kernel.check() == []
    return interp.train(kernel.trace(**dims), columns)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@ps.kernel(
    batch=8, epochs=2, init={"P": ps.uniform(-0.1, 0.1, seed=1), "Q": ps.uniform(-0.1, 0.1, seed=2)}
)
def biased(
    u: ps.Index["m"],
    i: ps.Index["n"],
    r: ps.Output,
    P: ps.Model["m", "k"],
    Q: ps.Model["n", "k"],
    b: ps.Model["m"],
    c: ps.Model["n"],
    rate: ps.Meta = 0.05,
    decay: ps.Meta = 0.02,
):
    error = r - (b[u] + c[i] + ps.sum(P[u] * Q[i]))
    return (
        P.at[u].add(rate * (error * Q[i] - decay * P[u])),
        Q.at[i].add(rate * (error * P[u] - decay * Q[i])),
        b.at[u].add(rate * (error - decay * b[u])),
        c.at[i].add(rate * (error - decay * c[i])),
    )


def test_biased_factors() -> None:
    u, i, r = RNG.integers(0, 9, 99), RNG.integers(0, 7, 99), RNG.normal(size=99)
    P = np.random.default_rng(1).uniform(-0.1, 0.1, (9, 3))
    Q = np.random.default_rng(2).uniform(-0.1, 0.1, (7, 3))
    b, c = np.zeros(9), np.zeros(7)
    for first in [*range(0, 99, 8)] * 2:
        s, t, e = (column[first : first + 8] for column in (u, i, r))
        e = e - (b[s] + c[t] + np.sum(P[s] * Q[t], axis=1))
        p = 0.05 * (e[:, None] * Q[t] - 0.02 * P[s])
        q = 0.05 * (e[:, None] * P[s] - 0.02 * Q[t])
        x, y = 0.05 * (e - 0.02 * b[s]), 0.05 * (e - 0.02 * c[t])
        for table, rows, step in ((P, s, p), (Q, t, q), (b, s, x), (c, t, y)):
            np.add.at(table, rows, step)
    found = trained(biased, {"u": u, "i": i, "r": r}, m=9, n=7, k=3)
    for name, table in {"P": P, "Q": Q, "b": b, "c": c}.items():
        assert np.allclose(found[name], table, rtol=1e-12, atol=0), name


@ps.kernel(batch=4, init={"E": ps.uniform(-1, 1, seed=1), "W": ps.uniform(-1, 1, seed=2), "v": 0.5})
def pooled(
    c: ps.Index["n", 5],
    x: ps.Input["d"],
    y: ps.Output,
    E: ps.Model["n", "k"],
    W: ps.Model["k", "d"],
    v: ps.Model["k"],
    rate: ps.Meta = 0.1,
):
    bag = ps.sum(E[c], axis=0)
    dense = W @ x
    hidden = ps.where(dense > 0, dense, 0)
    error = ps.sigmoid(ps.sum(v * (bag + hidden))) - y
    back = error * v
    return (
        E.at[c].subtract(rate * back),
        W - rate * ps.merge(ps.outer(back * (dense > 0), x), 4),
        v - rate * ps.merge(error * (bag + hidden), 4),
    )


def test_bags_beside_a_dense_layer() -> None:
    rows = 30
    c = np.ma.array(RNG.integers(0, 12, (rows, 5)), mask=RNG.random((rows, 5)) < 0.3)
    x, y = RNG.normal(size=(rows, 3)), RNG.integers(0, 2, rows)
    E = np.random.default_rng(1).uniform(-1, 1, (12, 2))
    W = np.random.default_rng(2).uniform(-1, 1, (2, 3))
    v = np.full(2, 0.5)
    for first in range(0, rows, 4):
        part = slice(first, first + 4)
        bag = (E[c.data[part]] * ~c.mask[part, :, None]).sum(axis=1)
        dense = x[part] @ W.T
        total = bag + np.maximum(dense, 0)
        error = sigmoid(total @ v) - y[part]
        back = error[:, None] * v
        at, place = np.nonzero(~c.mask[part])
        np.subtract.at(E, c.data[part][at, place], 0.1 * back[at])
        W = W - 0.1 * ((back * (dense > 0)).T @ x[part])
        v = v - 0.1 * error @ total
    found = trained(pooled, {"c": c, "x": x, "y": y}, n=12, d=3, k=2)
    for name, table in {"E": E, "W": W, "v": v}.items():
        assert np.allclose(found[name], table, rtol=1e-10, atol=1e-12), name


@ps.kernel(batch=3, init={"V": ps.uniform(-0.5, 0.5, seed=4)})
def machine(
    c: ps.Index["n", 6],
    y: ps.Output,
    V: ps.Model["n", "k"],
    w: ps.Model["n"],
    bias: ps.Model,
    rate: ps.Meta = 0.1,
):
    total = ps.sum(V[c], axis=0)
    pairs = 0.5 * ps.sum(total * total - ps.sum(V[c] * V[c], axis=0))
    error = ps.sigmoid(bias + ps.sum(w[c]) + pairs) - y
    return (
        V.at[c].subtract(rate * error * (total[None, :] - V[c])),
        w.at[c].subtract(rate * error),
        bias - rate * ps.merge(error, 3),
    )


def test_factorisation_machine() -> None:
    c, y = RNG.integers(0, 20, (40, 6)), RNG.integers(0, 2, 40)
    V, w, bias = np.random.default_rng(4).uniform(-0.5, 0.5, (20, 2)), np.zeros(20), 0.0
    for first in range(0, 40, 3):
        rows = c[first : first + 3]
        total = V[rows].sum(axis=1)
        pairs = 0.5 * (total**2 - (V[rows] ** 2).sum(axis=1)).sum(axis=1)
        error = sigmoid(bias + w[rows].sum(axis=1) + pairs) - y[first : first + 3]
        step = 0.1 * error[:, None, None] * (total[:, None] - V[rows])
        np.subtract.at(V, rows, step)
        np.subtract.at(w, rows, np.broadcast_to(0.1 * error[:, None], rows.shape))
        bias -= 0.1 * error.sum()
    found = trained(machine, {"c": c, "y": y}, n=20, k=2)
    for name, table in {"V": V, "w": w, "bias": bias}.items():
        assert np.allclose(found[name], table, rtol=1e-10, atol=1e-13), name


@ps.kernel(init={"A": ps.uniform(-0.5, 0.5, seed=5), "B": ps.uniform(-0.5, 0.5, seed=6)})
def words(
    w: ps.Index["n"],
    near: ps.Index["n"],
    far: ps.Index["n", 4],
    A: ps.Model["n", "k"],
    B: ps.Model["n", "k"],
    rate: ps.Meta = 0.1,
):
    yes = rate * (1 - ps.sigmoid(ps.sum(A[w] * B[near])))
    no = -rate * ps.sigmoid(B[far] @ A[w])
    return (
        A.at[w].add(yes * B[near] + ps.sum(no[:, None] * B[far], axis=0)),
        B.at[near].add(yes * A[w]).at[far].add(no[:, None] * A[w][None, :]),
    )


def test_skip_gram() -> None:
    w, near, far = RNG.integers(0, 9, 50), RNG.integers(0, 9, 50), RNG.integers(0, 9, (50, 4))
    A = np.random.default_rng(5).uniform(-0.5, 0.5, (9, 3))
    B = np.random.default_rng(6).uniform(-0.5, 0.5, (9, 3))
    for a, b, c in zip(w, near, far, strict=True):
        yes = 0.1 * (1 - sigmoid(A[a] @ B[b]))
        no = -0.1 * sigmoid(B[c] @ A[a])
        left, right = yes * B[b] + no @ B[c], [yes * A[a], no[:, None] * A[a]]
        A[a] += left
        np.add.at(B, b, right[0])
        np.add.at(B, c, right[1])
    found = trained(words, {"w": w, "near": near, "far": far}, n=9, k=3)
    for name, table in {"A": A, "B": B}.items():
        assert np.allclose(found[name], table, rtol=1e-10, atol=1e-13), name


@ps.kernel
def bayes(
    label: ps.Index["k"],
    word: ps.Index["n", 8],
    seen: ps.Model["cells"],
    of: ps.Model["k"],
    many: ps.Model["k"],
):
    return (
        seen.at[label * 10 + word].add(1),
        of.at[label].add(1),
        many.at[label].add(ps.count(word)),
    )


def test_naive_bayes() -> None:
    label = RNG.integers(0, 3, 40)
    word = np.ma.array(RNG.integers(0, 10, (40, 8)), mask=RNG.random((40, 8)) < 0.4)
    found = trained(bayes, {"label": label, "word": word}, k=3, n=10, cells=30)
    for k in range(3):
        own = word[label == k]
        assert found["of"][k] == len(own) and found["many"][k] == own.count()
        counts = np.bincount(own.compressed(), minlength=10)
        assert np.array_equal(found["seen"][10 * k : 10 * k + 10], counts)
