"""Fits over columns of random tables, default options: weights within what the run says of rational arithmetic, or a reason with the column's name."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.host.sources import Table
from testbench.rational import least_squares

TEXT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.psk").write_text(TEXT)


@pytest.mark.long
@pytest.mark.parametrize(("far", "format"), [(0, "fixed:7,10"), (1e6, "fixed:22,10")])
def test_random_tables_on_rtl(far: float, format: str) -> None:
    """One engine each of a narrow and a wide format, for tables of one shape; every third has a value
    that its format does not hold."""
    source, ends = np.random.default_rng(1), Counter[str]()
    design = None
    for seed in range(18):
        units = np.rint(source.standard_normal((80, 3)) * 2000)
        units[:, 2] += units[:, 0] - 2 * units[:, 1]
        values = units / 1024 + np.array([far, -far, 0]) * source.random(3).round(3)
        values = np.rint(values * 1024) / 1024
        if seed % 3 == 1:
            values[int(source.integers(80)), int(source.integers(3))] = [np.nan, np.inf, 1e7][
                seed // 3 % 3
            ]
        table = Table.from_columns(dict(zip(("a", "b", "y"), values.T, strict=True)))
        if design is None:
            design = ps.compile("f.psk", "kcu105", table, format)
        golden, rtl = (design.run(table, backend) for backend in ("golden", "rtl"))
        assert golden.errors == rtl.errors and bool(golden.errors) == (seed % 3 == 1)
        if golden.errors:
            ends[golden.errors[0].code.name] += 1
            continue
        assert all((golden.codes[name] == rtl.codes[name]).all() for name in golden.codes)
        exact = least_squares([[Fraction(v) for v in row] for row in values.tolist()])[1]
        assert rtl.result["weights"].tolist() == [float(w) for w in exact]
        ends["weights"] += 1
    assert ends["weights"] == 12 and len(ends) > 1
