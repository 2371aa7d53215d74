"""Whole fit kernels from their text, on golden, beside rational arithmetic: weights of columns within what the run says, of keys within what float32's
rounding explains; bounds of errors around every live key."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

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

NAMED = ("E607", "E844", "E845")


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
    if random.random() < 0.2:
        options["format"] = random.choice(("fixed:17,0", "fixed:8,9", "fixed:22,10"))
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
        design, made, options, left = _run(random, table, folder)
    except ps.KernelError as problem:
        said = problem.diagnostic
        assert said.code in NAMED, said
        assert any(f"column {name}" in said.message for name in table.columns), said
        return said.code
    if made.errors:
        [error] = made.errors
        assert error.code in (PageError.VALUE_NAN, PageError.VALUE_OVERFLOW) or "format" in options
        if "format" not in options:
            column, _ = design.plan.walk.value_at(error.item)
            assert not all(
                abs(v) < 1e308 for v in table.columns[design.schema.columns[column].name]
            )
        return error.code.name
    every = zip(*(table.columns[n] for n in (*left["names"], "y")), strict=True)
    rows = [[Fraction(float(v)) for v in row] for row in every][left["rows"]]
    solution, policy = made.details["solution"], left["policy"]
    full = rank(rows) == len(left["names"])
    if not solution["values_exact"] and (not full or solution["dropped"]):
        assert policy != "error"
        return "rounded"
    assert full or policy != "error"
    bias, weights = least_squares(rows, policy == "minimum-norm")
    found = [Fraction(w) for w in made.result["weights"].tolist()]
    within = solution["weights_within"] or [float("inf")] * len(found)
    assert solution["values_exact"] <= (max(within) < float("inf"))
    for own, exact, most in zip(found, weights, within, strict=True):
        assert most == float("inf") or abs(own - exact) <= Fraction(most)
    if solution["bias_within"] is not None:
        assert abs(Fraction(float(made.result["bias"][0])) - bias) <= Fraction(
            solution["bias_within"]
        )
    if solution["values_exact"]:
        assert [float(w) for w in weights] == [float(w) for w in found]
        assert [d["column"] for d in solution["dropped"]] == dependent(rows, left["names"])
    return "weights"


def dependent(rows: list[list[Fraction]], names: list[str]) -> list[str]:
    """The columns that those before them determine."""
    ranks = [0, *(rank([[*row[: k + 1], row[-1]] for row in rows]) for k in range(len(names)))]
    return [name for k, name in enumerate(names) if ranks[k] == ranks[k + 1]]


def columns_held(seeds: range, folder: Path) -> None:
    ends: Counter[str] = Counter()
    fitting = solved = 0
    for seed in seeds:
        table = random_fit_table(seed)
        try:
            end = outcome(Random(seed), table, folder)
        except Exception as problem:
            raise AssertionError(f"seed {seed}, {table.kind}") from problem
        ends[end] += 1
        if table.finite and table.full_rank and table.condition <= 1e6 and table.fits:
            fitting, solved = fitting + 1, solved + (end == "weights")
    print(sorted(ends.items()), f"{solved} of {fitting} that fit")
    # the others have a format that does not hold them, or too few rows once some went
    assert solved >= 0.75 * fitting and fitting >= len(seeds) / 4


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
