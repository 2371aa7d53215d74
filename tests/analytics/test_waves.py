"""Batches that are computed together give what they give one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.models.analytics import golden


@ps.kernel(init={"E": ps.uniform(-1, 1, seed=1), "b": ps.uniform(-1, 1, seed=2), "s": 0.5})
def mixed(
    i: ps.Index["n"],
    j: ps.Index["n"],
    x: ps.Input,
    E: ps.Model["n", 2],
    b: ps.Model["n"],
    s: ps.Model["n"],
):
    return (
        E.at[i].add(x * E[j] - b[i]).at[j].max(-x),
        b.at[j].set(x - b[j]),
        s.at[(i + j) % len(s)].subtract(x * 0.3),
    )


@ps.kernel(init={"b": ps.uniform(-1, 1, seed=2)})
def moved(i: ps.Index["n"], j: ps.Index["n"], x: ps.Input, b: ps.Model["n"]):
    """A row is only read, or only written, by a tuple: what is read is written by others before and after."""
    return b.at[i].set(b[j] + x)


def compare(kernel: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether some batches went together."""
    rng = np.random.default_rng(seed)
    n, rows = int(rng.integers(2, 14)), int(rng.integers(1, 50))
    table: dict[str, Any] = {name: rng.integers(0, n, rows) for name in "ij"}
    table["x"] = rng.integers(-8, 9, rows) / 8
    kernel.set_batch(int(rng.integers(1, 4)), kernel.name_span)
    format = ["float32", "fixed:3,6"][seed % 2]
    more: dict[str, Any] = {"dims": {"n": n}, "epochs": 2, "on_overflow": "saturate"}
    design = ps.compile(kernel, "small", table, format, **more)
    steps = []

    def counted(plan: Any, found: Any, asked: Any) -> Any:
        steps.append([*together(plan, found, asked)])
        return steps[-1]

    together = golden.together
    with monkeypatch.context() as patch:
        patch.setattr(golden, "together", counted)
        run = design.run(table)
        patch.setattr(golden, "together", lambda plan, found, asked: found)
        alone = design.run(table)
    for name, codes in alone.codes.items():
        assert np.array_equal(run.codes[name], codes), (seed, name)
    assert run.counters == alone.counters
    return any(batch.count > 1 for batch in steps[0])


@pytest.mark.parametrize("kernel", [mixed, moved])
def test_together(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = [compare(kernel, seed, monkeypatch) for seed in range(12)]
    assert sum(joined) > 3
