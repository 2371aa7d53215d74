"""The float64 reference against updates written out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.dsl.analytics import interp
from penstock.dsl.core.load import from_text, load_kernel

EXAMPLES = Path(__file__).parents[3] / "examples"


def sigmoid(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


@pytest.mark.parametrize("rows", [1, 15, 16, 40])
def test_logistic(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(rows, 5)), (rng.random(rows) < 0.5).astype(float)
    w = np.zeros(5)
    for _ in range(10):
        for first in range(0, rows, 16):
            part = slice(first, first + 16)
            w = w - 0.1 * ((sigmoid(x[part] @ w) - y[part])[:, None] * x[part]).sum(0)
    trained = interp.train(load_kernel(EXAMPLES / "logistic.py").trace(d=5), {"x": x}, {"y": y})
    np.testing.assert_allclose(trained["w"], w, rtol=1e-12)


def test_lrmf() -> None:
    rng = np.random.default_rng(1)
    m, n, k = 10, 6, 2
    graph = load_kernel(EXAMPLES / "lrmf.py").trace(m=m, n=n, k=k)
    r, mask = rng.normal(size=(m, n)), (rng.random((m, n)) < 0.7).astype(float)
    P = np.random.default_rng(1).uniform(-0.5, 0.5, (m, k))
    Q = np.random.default_rng(2).uniform(-0.5, 0.5, (n, k))
    for _ in range(3):
        for first in range(0, m, 4):
            dP, dQ = np.zeros_like(P), np.zeros_like(Q)
            for i in range(first, min(first + 4, m)):
                error = mask[i] * (Q @ P[i] - r[i])
                dP[i] += error @ Q
                dQ += np.outer(error, P[i])
            P, Q = P - 0.05 * dP, Q - 0.05 * dQ
    trained = interp.train(graph, {"u": np.eye(m), "mask": mask}, {"r": r}, epochs=3)
    np.testing.assert_allclose(trained["P"], P, rtol=1e-12)
    np.testing.assert_allclose(trained["Q"], Q, rtol=1e-12)


def test_one_tuple_at_a_time() -> None:
    graph = from_text(
        "kernel f(x: input[d], y: output, w: model[d])\n w <- w - 0.1 * (w @ x - y) * x\n epochs 2"
    ).trace(d=3)
    rng = np.random.default_rng(2)
    x, y, w = rng.normal(size=(9, 3)), rng.normal(size=9), np.zeros(3)
    for _ in range(2):
        for a, b in zip(x, y, strict=True):
            w = w - 0.1 * (w @ a - b) * a
    np.testing.assert_allclose(interp.train(graph, {"x": x}, {"y": y})["w"], w, rtol=1e-13)


def test_merges_over_the_epoch_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "kernel f(x: input[2, 3], w: model[2, 3], a: model, b: model)\n w <- merge(x)\n"
    text += ' a <- merge(max(x), op="max")\n b <- merge(min(x), op="min")'
    graph = from_text(text).trace()
    x = np.random.default_rng(3).normal(size=(50, 6))
    monkeypatch.setattr(interp, "_CHUNK", 40)
    trained = interp.train(graph, {"x": x})
    np.testing.assert_allclose(trained["w"], x.sum(0).reshape(2, 3), rtol=1e-13)
    assert (trained["a"], trained["b"]) == (x.max(), x.min())


def test_product_merge() -> None:
    graph = from_text('kernel f(x: input, w: model)\n w <- w + merge(x, 4, op="*")').trace()
    x = np.arange(1.0, 11.0)
    assert interp.train(graph, {"x": x})["w"] == 24 + 5 * 6 * 7 * 8 + 90


def test_until_is_tested_after_the_last_batch() -> None:
    text = "kernel f(x: input, w: model)\n step = merge(w - x, 4)\n w <- w - 0.2 * step\n until abs(step) < 0.01\n epochs 100"
    graph = from_text(text).trace()
    done = interp.run(graph, {"x": np.ones(4)})
    w, epochs = 0.0, 0
    while True:
        step = 4 * (w - 1)
        w, epochs = w - 0.2 * step, epochs + 1
        if abs(step) < 0.01:
            break
    assert done.converged
    assert done.epochs == epochs
    np.testing.assert_allclose(done.models["w"], w)
    assert interp.run(graph, {"x": np.ones(4)}, epochs=2).converged is False


def test_until_sees_the_model_that_the_batch_began_with() -> None:
    text = "kernel f(x: input, w: model)\n w <- w + merge(x, 4)\n until w > 3\n epochs 100"
    done = interp.run(from_text(text).trace(), {"x": np.ones(4)})
    assert (done.epochs, done.models["w"]) == (2, 8)


def test_model_averaging() -> None:
    text = "kernel f(x: input[d], w: model[d])\n w <- merge(w - 0.5 * (w - x), 4) / 4"
    x = np.random.default_rng(4).normal(size=(8, 3))
    w = np.zeros(3)
    for part in (x[:4], x[4:]):
        w = (w - 0.5 * (w - part)).mean(0)
    np.testing.assert_allclose(
        interp.train(from_text(text).trace(d=3), {"x": x})["w"], w, rtol=1e-13
    )


@pytest.mark.parametrize(
    ("expression", "function"),
    [
        ("sum(a * b, axis=1)", lambda a, b, v: (a * b).sum(1)),
        ("a @ v", lambda a, b, v: a @ v),
        ("w0 @ a", lambda a, b, v: np.ones(2) @ a),
        ("(a @ b.T) @ w0", lambda a, b, v: (a @ b.T) @ np.ones(2)),
        ("sum(a + v, axis=0)", lambda a, b, v: (a + v).sum(0)),
        ("sum(v[:, None] * w0[None, :], axis=0)", lambda a, b, v: np.outer(v, np.ones(2)).sum(0)),
        ("norm(outer(v, v), axis=0)", lambda a, b, v: np.linalg.norm(np.outer(v, v), axis=0)),
        ("prod(a, axis=1)", lambda a, b, v: a.prod(1)),
        ("max(where(a < b, a, b), axis=0)", lambda a, b, v: np.minimum(a, b).max(0)),
        (
            "gaussian(v) - tanh(v) / exp(v) + log(abs(v)) * sqrt(v * v)",
            lambda a, b, v: np.exp(-v * v) - np.tanh(v) / np.exp(v) + np.log(abs(v)) * abs(v),
        ),
        (
            "(v < 0) + (v >= 0) * 2 + (v <= 1) + (v > 1)",
            lambda a, b, v: (v < 0) + (v >= 0) * 2.0 + 1,
        ),
        ("sigmoid(1e6 * v) - sigmoid(-1e6 * v)", lambda a, b, v: np.sign(v)),
    ],
)
def test_operations(expression: str, function: Any) -> None:
    rng = np.random.default_rng(5)
    a, b, v = rng.normal(size=(7, 2, 3)), rng.normal(size=(7, 2, 3)), rng.normal(size=(7, 3))
    expected = sum(function(*row) for row in zip(a, b, v, strict=True))
    size = expected.shape[0]
    header = (
        f"kernel f(a: input[2, 3], b: input[2, 3], v: input[3], w: model[{size}], w0: model[2])\n"
    )
    text = f"{header} w <- merge({expression})\n w0 <- w0\n init w0 = 1"
    trained = interp.train(from_text(text).trace(), {"a": a, "b": b, "v": v})
    np.testing.assert_allclose(trained["w"], expected, rtol=1e-12)


def test_wrong_tables() -> None:
    graph = load_kernel(EXAMPLES / "logistic.py").trace(d=5)
    with pytest.raises(ValueError, match="different numbers of rows"):
        interp.train(graph, {"x": np.ones((3, 5))}, {"y": np.ones(4)})
    assert interp.train(graph, {"x": np.ones((0, 5))}, {"y": np.ones(0)})["w"].tolist() == [0] * 5
