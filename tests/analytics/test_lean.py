"""Lean plans: Striders with their program built in give the same results, errors and cycles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.api import Design, compile
from penstock.dsl.analytics.plan import Choices
from penstock.host.sources import Table

LOGISTIC = Path(__file__).parents[2] / "examples" / "logistic.py"
COLUMNS = {"plain": ("x0", "x1", "x2"), "array": ("x",), "behind a text": ("x0", "x1", "x2")}


def table(kind: str, rows: int = 60) -> Table:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.float32)
    if kind == "plain":
        columns = {"y": y, **{f"x{k}": x[:, k] for k in range(3)}}
    elif kind == "array":
        columns = {"y": y, "x": x}
    else:
        columns = {
            "name": [("t" * int(n)) for n in rng.integers(0, 200, size=rows)],
            "y": y,
            **{f"x{k}": x[:, k] for k in range(3)},
        }
    return Table.from_columns(columns, "lean", page_size=1024)


def lean(kind: str, fmt: str) -> tuple[Design, Table]:
    data = table(kind)
    bindings = {"x": COLUMNS[kind], "y": ("y",)}
    choices = Choices(lanes=1, threads=1, walkers=2)
    design = compile(LOGISTIC, "small", data, fmt, bindings=bindings, choices=choices)
    return replace(
        design, plan=replace(design.plan, lean=True, window_latency=5 if kind == "array" else 4)
    ), data


@pytest.mark.parametrize(
    "kind,fmt",
    [
        pytest.param("plain", "fixed:8,8", marks=pytest.mark.long),
        ("array", "bfloat16"),
        ("behind a text", "fixed:8,8"),
    ],
)
def test_same_results_and_cycles(kind: str, fmt: str) -> None:
    design, data = lean(kind, fmt)
    golden, rtl = design.run(data, "golden"), design.run(data, "rtl")
    assert golden.codes is not None and rtl.codes is not None
    assert all(np.array_equal(golden.codes[name], rtl.codes[name]) for name in golden.codes)
    assert rtl.cycles == design.run(data, "model").cycles


def test_same_errors() -> None:
    design, data = lean("array", "bfloat16")
    rng = np.random.default_rng(11)
    for _ in range(25):
        pages = data.pages.copy()
        for _ in range(int(rng.integers(1, 4))):
            pages[int(rng.integers(len(pages))), int(rng.integers(pages.shape[1]))] = rng.integers(
                256
            )
        broken = Table(data.schema, pages)
        golden, rtl = design.run(broken, "golden", epochs=1), design.run(broken, "rtl", epochs=1)
        assert golden.errors == rtl.errors
        if golden.codes is not None:
            assert all(np.array_equal(golden.codes[name], rtl.codes[name]) for name in golden.codes)
