"""The float64 reference in its corners; what kernels come to is judged in tests/analytics/test_plans.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.dsl.analytics import interp
from penstock.dsl.core.load import from_text, load_kernel

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_merges_over_the_epoch_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "kernel f(x: input[2, 3], w: model[2, 3], a: model, b: model)\n w <- merge(x)\n"
    text += ' a <- merge(max(x), op="max")\n b <- merge(min(x), op="min")'
    graph = from_text(text).trace()
    x = np.random.default_rng(3).normal(size=(50, 6))
    monkeypatch.setattr(interp, "_CHUNK", 40)
    trained = interp.train(graph, {"x": x})
    np.testing.assert_allclose(trained["w"], x.sum(0).reshape(2, 3), rtol=1e-13)
    assert (trained["a"], trained["b"]) == (x.max(), x.min())


def test_wrong_tables() -> None:
    graph = load_kernel(EXAMPLES / "logistic.py").trace(d=5)
    with pytest.raises(ValueError, match="different numbers of rows"):
        interp.train(graph, {"x": np.ones((3, 5))}, {"y": np.ones(4)})
    assert interp.train(graph, {"x": np.ones((0, 5))}, {"y": np.ones(0)})["w"].tolist() == [0] * 5
