"""Fits of tables as they are, with default options, beside rational arithmetic on the user's own values and LAPACK's QR."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.load import from_text
from penstock.engines.qr import passes
from penstock.host.sources import Table
from penstock.host.workloads import Changes
from penstock.models.qr.table_config import TableFitPlan
from testbench.raw_tables import RAW, bundled, exact_weights, random_table

KERNEL = from_text("fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n")


@pytest.fixture(autouse=True)
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any engine will do for the golden model: the fastest is not looked for."""

    def plan(graph: Any, columns: Any, walk: Any, *_: Any) -> TableFitPlan:
        return TableFitPlan(columns, walk, 64)

    monkeypatch.setattr(passes, "lower_table", plan)


def _lapack(columns: dict[str, np.ndarray], names: list[str]) -> np.ndarray:
    """The weights that a QR factorisation in float64 gives."""
    rows = np.column_stack([columns[n].astype(np.float64) for n in (*names, "y")])
    rows = rows[np.isfinite(rows).all(axis=1)]
    q, r = np.linalg.qr(np.column_stack([np.ones(len(rows)), rows[:, :-1]]))
    return np.linalg.solve(r, q.T @ rows[:, -1])[1:]


def held(columns: dict[str, np.ndarray]) -> str:
    """Return how a fit ended; anything but right weights, or E844 where the rows do not determine them, fails."""
    exact, names = exact_weights(columns), [n for n in columns if n != "y"]
    table = Table.from_columns(columns)
    options = {"bind": {"x": names}, "on_nan": "skip"}
    try:
        made = ps.compile(KERNEL, "vu9p", table, **options).run(table, changes=Changes(1, 0))
    except ps.KernelError as problem:
        left = np.isfinite([c.astype(np.float64) for c in columns.values()]).all(axis=0).any()
        assert problem.diagnostic.code == ("E844" if left else "E701") and exact is None, problem
        return problem.diagnostic.code
    assert exact is not None and not made.errors and made.fit is not None
    found = [made.result["bias"][0], *made.result["weights"]]
    off = [abs(Fraction(float(w)) - e) for w, e in zip(found, exact, strict=True)]
    assert all(o <= Fraction(float(most)) for o, most in zip(off, made.fit.error, strict=True))
    spreads = [
        np.nanstd((c - c[np.isfinite(c)][0]).astype(np.float64) if c.dtype != bool else c)
        for c in (columns[n] for n in names)
    ]
    scale = (
        max((abs(float(e)) * s for e, s in zip(exact[1:], spreads, strict=True)), default=0) or 1
    )
    worst = max(float(o) * s for o, s in zip(off[1:], spreads, strict=True)) / scale
    if made.fit.condition_scaled <= 1e4:
        assert worst <= 1e-9
    elif made.fit.condition_scaled <= 1e8:
        lapack = _lapack(columns, names)
        theirs = max(
            abs(float(Fraction(float(w)) - e)) * s
            for w, e, s in zip(lapack, exact[1:], spreads, strict=True)
        )
        assert worst * scale <= 4 * theirs + 1e-15 * scale
    return made.fit.preconditioner


BUNDLED = dict(bundled())
QUICK = ("diabetes", "longley", "star98", "copper")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.long) for n in BUNDLED]
)
def test_bundled_tables(name: str) -> None:
    columns = BUNDLED[name]()
    if columns is None:
        pytest.skip("it has no numbers")
    held(columns)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if k % 7 else ()) for k, n in enumerate(RAW)]
)
def test_tables_in_raw_units(name: str) -> None:
    assert held(dict(RAW[name]())) == "sums"


def _drawn(seeds: range) -> None:
    ends: Counter[str] = Counter()
    for seed in seeds:
        try:
            ends[held(random_table(seed))] += 1
        except Exception as problem:
            raise AssertionError(f"seed {seed}") from problem
    print(ends)
    assert {"sums", "E844"} <= ends.keys()


def test_random_tables() -> None:
    _drawn(range(40))


@pytest.mark.long
def test_a_thousand_random_tables() -> None:
    _drawn(range(1000))
