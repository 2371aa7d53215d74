"""Fits over columns of random tables, default options: weights within what the run says of rational arithmetic, or a reason with the column's name."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engines.qr import columns as engine
from penstock.host.sources import Table
from penstock.models.qr.table_config import TableFitPlan
from penstock.models.strider.errors import PageError
from testbench.fit_tables import FitTable, random_fit_table
from testbench.rational import least_squares

TEXT = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
NAMED = ("E607", "E844", "E845")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.psk").write_text(TEXT)


@pytest.fixture
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any engine will do for the golden model: the fastest is not looked for."""

    def plan(graph: Any, columns: Any, walk: Any, *_: Any) -> TableFitPlan:
        return TableFitPlan(columns, walk, 64)

    monkeypatch.setattr(engine, "lower_table", plan)


def outcome(table: FitTable, backend: str = "golden") -> str:
    """Fit a table; return how it ended. Anything else than weights within their bounds, or a reason
    that names a column, fails."""
    given = Table.from_columns(table.columns)
    try:
        design = ps.compile("f.psk", "vu9p", given)
        made = design.run(given, backend)
    except ps.KernelError as problem:
        said = problem.diagnostic
        assert said.code in NAMED, said
        assert any(f"column {name}" in said.message for name in table.columns), said
        return said.code
    if made.errors:
        [error] = made.errors
        assert error.code in (PageError.VALUE_NAN, PageError.VALUE_OVERFLOW)
        assert not table.finite
        column, _ = design.plan.walk.value_at(error.item)
        name = design.schema.columns[column].name
        assert not np.isfinite(table.columns[name]).all()
        return error.code.name
    rows = [[Fraction(v) for v in row] for row in table.rows.tolist()]
    bias, weights = least_squares(rows)
    solution = made.details["solution"]
    off = [
        abs(Fraction(w) - e) for w, e in zip(made.result["weights"].tolist(), weights, strict=True)
    ]
    assert all(o <= Fraction(b) for o, b in zip(off, solution["weights_within"], strict=True))
    assert abs(Fraction(float(made.result["bias"][0])) - bias) <= Fraction(solution["bias_within"])
    return "weights"


def sweep(seeds: range) -> None:
    ends: Counter[tuple[str, str]] = Counter()
    fitting = solved = 0
    for seed in seeds:
        table = random_fit_table(seed)
        try:
            end = outcome(table)
        except Exception as problem:
            raise AssertionError(f"seed {seed}, {table.kind}") from problem
        ends[table.kind, end] += 1
        if table.finite and table.full_rank and table.condition <= 1e6 and table.fits:
            fitting, solved = fitting + 1, solved + (end == "weights")
        assert end == "weights" or not (table.finite and table.full_rank and table.fits), seed
    print(sorted(ends.items()), f"{solved} of {fitting} that fit")
    assert solved >= 0.95 * fitting and fitting >= len(seeds) / 4


@pytest.mark.usefixtures("planned_at_once")
def test_random_tables() -> None:
    sweep(range(50))


@pytest.mark.long
@pytest.mark.usefixtures("planned_at_once")
def test_many_random_tables() -> None:
    sweep(range(50, 1050))


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
