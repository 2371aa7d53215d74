"""Whole fit kernels from their text, on golden, beside rational arithmetic: weights of columns within what the run says, of keys within what float32's
rounding explains; bounds of errors around every live key."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engines.qr import columns as engine
from penstock.host.sources import Table
from penstock.host.workloads import Changes
from penstock.models.qr.table_config import TableFitPlan
from penstock.models.strider.errors import PageError
from testbench.fit_tables import FitTable, random_fit_table
from testbench.rational import least_squares, rank
from testbench.searched import searched
from testbench.whole_fits import drawn_keys, key_faults, loaded, spelled


def keys_held(random: Random, folder: Path) -> None:
    made = drawn_keys(random)
    assert (wrong := key_faults(made, *made.run(folder))) == [], (made, wrong)


def test_fits_over_keys(tmp_path: Path) -> None:
    searched(120, lambda random: keys_held(random, tmp_path))


@pytest.mark.long
def test_many_fits_over_keys(tmp_path: Path) -> None:
    searched(3000, lambda random: keys_held(random, tmp_path))


# -- over columns


def _run(random: Random, table: FitTable, folder: Path) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Compile and run a kernel over some of the columns; also return the names and the changes."""
    names = [name for name in table.columns if name != "y"]
    options: dict[str, Any] = {}
    x, y = random.choice((("x", "y"), ("features", "label")))
    if y != "y" or random.random() < 0.4:
        if random.random() < 0.7:
            names = random.sample(names, random.randint(1, len(names)))
        options["bindings"] = {x: names, y: ["y"]}
    size = random.choice(["[d]", f"[{len(names)}]"] + [""] * (len(names) == 1))
    said = {"method": "gram"} if random.random() < 0.3 else {}
    if random.random() < 0.4:
        said["incremental"] = random.random() < 0.5
    text = spelled(random, {x: f"input{size}", y: "output"}, x, y, said)
    if random.random() < 0.3:
        options["limbs"] = random.randint(1, 3)
    total, refits = len(table.rows), random.choice((0, 0, 1, 3))
    new = random.randint(0, max((total - 2) // max(refits, 1), 0)) if refits else 0
    gone = random.randint(0, (total - refits * new) // 2 // max(refits, 1)) if refits else 0
    policy = random.choice(("error", "error", "drop", "minimum-norm"))
    columns = {name: table.columns[name] for name in table.columns}
    given_ = Table.from_columns(columns)
    design = ps.compile(loaded(*text, folder), "vu9p", given_, **options)
    changes = Changes(1, refits, new, gone)
    made = design.run(given_, changes=changes, on_singular=policy)
    left = {"names": names, "rows": slice(refits * gone, None), "policy": policy}
    return design, made, options, left


def outcome(random: Random, table: FitTable, folder: Path) -> str:
    """Return how a fit ended. Anything else than weights within their bounds, or a reason that names a column, fails."""
    try:
        design, made, _, left = _run(random, table, folder)
    except ps.KernelError as problem:
        said = problem.diagnostic
        assert said.code == "E844", said
        assert any(f"column {name}" in said.message for name in table.columns), said
        return said.code
    if made.errors:
        [error] = made.errors
        assert error.code == PageError.VALUE_NAN
        column, _ = design.plan.walk.value_at(error.item)
        assert not np.isfinite(table.columns[design.schema.columns[column].name]).all()
        return error.code.name
    every = zip(*(table.columns[n] for n in (*left["names"], "y")), strict=True)
    rows = [[Fraction(float(v)) for v in row] for row in every][left["rows"]]
    policy, full = left["policy"], rank(rows) == len(left["names"])
    assert full or policy != "error"
    bias, weights = least_squares(rows, policy == "minimum-norm")
    assert made.fit is not None
    if not full and made.fit.preconditioner != "none" and policy == "minimum-norm":
        return "weights"  # their spread over dependent columns has float64's digits
    found = [*made.result["bias"].tolist(), *made.result["weights"].tolist()]
    for own, exact, most in zip(found, (bias, *weights), made.fit.error, strict=True):
        assert abs(Fraction(own) - exact) <= Fraction(float(most))
    if made.fit.preconditioner == "none":
        assert [float(w) for w in weights] == found[1:]
    assert [d["column"] for d in made.fit.dropped] == dependent(rows, left["names"])
    return "weights"


def dependent(rows: list[list[Fraction]], names: list[str]) -> list[str]:
    """The columns that those before them determine."""
    ranks = [0, *(rank([[*row[: k + 1], row[-1]] for row in rows]) for k in range(len(names)))]
    return [name for k, name in enumerate(names) if ranks[k] == ranks[k + 1]]


def columns_held(seeds: range, folder: Path) -> None:
    ends: Counter[str] = Counter()
    for seed in seeds:
        table = random_fit_table(seed)
        try:
            ends[outcome(Random(seed), table, folder)] += 1
        except Exception as problem:
            raise AssertionError(f"seed {seed}, {table.kind}") from problem
    print(sorted(ends.items()))
    assert ends["weights"] >= 0.7 * len(seeds)


@pytest.fixture
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any engine will do for the golden model: the fastest is not looked for."""

    def plan(graph: Any, columns: Any, walk: Any, *_: Any) -> TableFitPlan:
        return TableFitPlan(columns, walk, 64)

    monkeypatch.setattr(engine, "lower_table", plan)


@pytest.mark.usefixtures("planned_at_once")
def test_fits_over_columns(tmp_path: Path) -> None:
    columns_held(range(120), tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("planned_at_once")
def test_many_fits_over_columns(tmp_path: Path) -> None:
    columns_held(range(120, 3000), tmp_path)
