"""`--freeze`: rows that stopped changing freeze, tuples of such rows alone are left out, on every backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.engines.analytics import frozen
from penstock.targets import target_named
from testbench.kernels.by_index import LRMF, ratings

TWO = replace(target_named("small"), ports=2)
PULLED = """kernel pulled(a: index[n], b: index[m], x: input, s: model[n], t: model[m])
  s[a] += 0.5 * (x - s[a])
  t[b] += 0.25 * (s[a] - t[b])
  batch {batch}
"""


def _table(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Some rows have one value throughout, and come to rest; others are pulled to and fro."""
    a, b = rng.integers(0, 9, rows).astype(np.int32), rng.integers(0, 5, rows).astype(np.int32)
    x = np.where(a < 6, a / 4, rng.integers(-8, 9, rows) / 4)
    return {"a": a, "b": b, "x": x.astype(np.float32)}


def _judged(table: dict, batch: int, epochs: int, eps: float, window: int) -> tuple[dict, int]:
    """Train in NumPy alone: return the models in units of 1/256, and how many tuples all epochs had."""
    s, t, used = np.zeros(9, int), np.zeros(5, int), 0
    was = s.copy(), t.copy()
    a, b, x = table["a"], table["b"], np.rint(table["x"] * 256).astype(int)
    for epoch in range(epochs):
        if epoch % window == 0:
            if epoch:
                still = abs(s - was[0]) < eps * 256, abs(t - was[1]) < eps * 256
                stays = ~(still[0][a] & still[1][b])
                a, b, x = a[stays], b[stays], x[stays]
            was = s.copy(), t.copy()
        used += len(a)
        for k in range(0, len(a), batch):
            i, j, goal = a[k : k + batch], b[k : k + batch], x[k : k + batch]
            ds, dt = np.rint(0.5 * (goal - s[i])), np.rint(0.25 * (s[i] - t[j]))
            np.add.at(s, i, ds.astype(int))
            np.add.at(t, j, dt.astype(int))
    return {"s": s, "t": t}, used


def _design(
    folder: Path, text: str, table: dict, place: dict[str, str] | None = None, **dims: int
) -> ps.Design:
    (folder / "k.psk").write_text(text)
    choices = ps.Choices(place=place or {})
    return ps.compile(folder / "k.psk", TWO, table, "fixed:8,8", dims=dims, choices=choices)


@pytest.mark.parametrize("batch", [1, 4])
def test_equals_numpy(batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random tables; a defect, the frozen row that is compared with the run's start, is seen."""
    rng, fewer = np.random.default_rng(batch), 0
    for eps, window, epochs in ((0.01, 2, 7), (0.05, 1, 5), (0.3, 3, 6), (1e-9, 1, 3)):
        table = _table(rng, int(rng.integers(1, 40)))
        design = _design(tmp_path, PULLED.format(batch=batch), table, n=9, m=5)
        run = design.run(table, backend="golden", epochs=epochs, freeze=(eps, window))
        codes, used = _judged(table, batch, epochs, eps, window)
        assert run.counters["tuples"] == used
        for name, value in codes.items():
            assert np.array_equal((run.codes[name].ravel() + 32768 & 65535) - 32768, value), name
        fewer += used < epochs * len(table["a"])
    assert fewer > 1
    still = frozen.Frozen._still
    monkeypatch.setattr(frozen.Frozen, "_still", lambda s, now, before: still(s, now, 0 * before))
    table = _table(rng, 40)
    design = _design(tmp_path, PULLED.format(batch=batch), table, n=9, m=5)
    wrong = design.run(table, backend="golden", epochs=6, freeze=(0.05, 1))
    assert wrong.counters["tuples"] != _judged(table, batch, 6, 0.05, 1)[1]


@pytest.mark.parametrize("place", [pytest.param("chip", marks=pytest.mark.long), "memory"])
def test_hardware(place: str, tmp_path: Path) -> None:
    """Cycles of the hardware are the model's over all parts, rows in memory or on the chip; fewer than of the full run."""
    rng = np.random.default_rng(7)
    table = ratings(rng, 14, 8, 5)
    design = _design(
        tmp_path, LRMF + "  batch 4\n", table, dict.fromkeys("PQ", place), m=8, n=5, k=2
    )
    full = design.run(table, backend="model", epochs=3)
    golden, model, run = (
        design.run(table, backend=b, epochs=3, freeze=(0.2, 1))
        for b in ("golden", "model", "pysim")
    )
    assert not run.errors and run.cycles == model.cycles >= model.bound.cycles
    assert run.facts == golden.facts
    assert full.counters["tuples"] > run.counters["tuples"] == golden.counters["tuples"]
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name


@pytest.mark.parametrize(
    ("text", "freeze", "why"),
    [
        ("  s[a] += x", (0, 1), "it is a number above 0 and a whole number from 1, not (0, 1)"),
        ("  s[a] += x", (0.1, 1.5), "from 1, not (0.1, 1.5)"),
        ("  s[a] += x", 3, "from 1, not 3"),
        ("  s[argmin(s)] += x + number(a)", (0.1, 1), "must follow from the table's indices alone"),
        ("  s[a] += x * w\n  w <- w - merge(x, 2)", (0.1, 1), "w is no model of rows"),
    ],
)
def test_refused(text: str, freeze: object, why: str, tmp_path: Path) -> None:
    table = {"a": np.arange(4, dtype=np.int32), "x": np.ones(4, np.float32)}
    dense = ", w: model" if "w" in text else ""
    head = f"kernel k(a: index[n], x: input, s: model[n]{dense})\n"
    design = _design(tmp_path, head + text + "\n", table, n=6)
    with pytest.raises(ps.KernelError) as refused:
        design.run(table, backend="golden", freeze=freeze)
    assert refused.value.diagnostic.code == "E609" and why in refused.value.diagnostic.message
