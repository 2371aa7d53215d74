"""The cycle model's leaps change nothing, and the loader's and conductor's rules hold at their edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.api import compile
from penstock.dsl.plan import Choices
from penstock.host.sources import Table
from penstock.models.analytics import cycles
from penstock.models.memory import Fixed

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("rows", "features", "target", "memory", "choices", "epochs"), [
    (4000, 54, "small", Fixed(20, 8), Choices(), 1), (4000, 54, "vu9p", Fixed(40, 64), Choices(), 2),
    (2000, 10, "vu9p", Fixed(30, 16), Choices(threads=4, lanes=4), 3),
    (3000, 30, "u55c", Fixed(60, 32), Choices(threads=8, ports=4), 2), (1500, 20, "u55c", Fixed(5, 32), Choices(threads=8, ports=8, walkers=3), 1)])
def test_leap(rows: int, features: int, target: str, memory: Fixed, choices: Choices, epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, features)).astype(np.float32)
    data = Table.from_columns({"id": np.arange(rows, dtype=np.int32), "y": x[:, 0], "x": x}, page_size=8192)
    design = compile(EXAMPLES / "linear.py", target, data, "fixed:8,16", epochs=epochs, choices=choices)
    leapt = design.predict(data, memory=memory)
    monkeypatch.setattr(cycles._Conductor, "_mark", lambda self: None)
    stepped = design.predict(data, memory=memory)
    assert (leapt.cycles, leapt.counters) == (stepped.cycles, stepped.counters)


@pytest.mark.parametrize(("interval", "drain", "start", "earliest", "expected"), [
    (5, 12, 100, 101, 105), (5, 12, 100, 105, 105), (5, 12, 100, 106, 110), (5, 12, 100, 111, 112), (5, 12, 100, 113, 113), (1, 1, 0, 1, 1)])
def test_next_start(interval: int, drain: int, start: int, earliest: int, expected: int) -> None:
    assert cycles._next_start(interval, drain, start, earliest) == expected
