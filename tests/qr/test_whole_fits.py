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
from penstock.engines.qr import passes
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


class _Parts(dict[Any, list[int]]):
    """The rows of each group that have a weight, by its value (None: all), and columns of weights and groups."""

    weights: np.ndarray
    groups: np.ndarray


def _parts(random: Random, table: FitTable, options: dict[str, Any]) -> _Parts:
    """Draw weights and groups, or none, for some options."""
    count, parts = len(table.rows), _Parts()
    weights = [random.choice((0, 1, 2, random.uniform(0.1, 3))) for _ in range(count)]
    groups = [k % random.choice((2, 3)) for k in range(count)]
    random.shuffle(groups)
    if random.random() < 0.25:
        options["group_by"] = "part"
    for k, group in enumerate(groups):
        parts.setdefault(group if "group_by" in options else None, []).append(k)
    if random.random() < 0.3:
        options["sample_weight"] = "each"
        for rows in parts.values():
            weights[rows[0]] = 1.5  # each group has something to fit
            rows[:] = [k for k in rows if weights[k]]
    parts.weights, parts.groups = np.array(weights, float), np.array(groups, int)
    return parts


def _run(random: Random, table: FitTable, folder: Path) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Compile and run a kernel over some of the columns; also return the names and the changes."""
    names = [name for name in table.columns if name != "y"]
    options: dict[str, Any] = {}
    x, y = random.choice((("x", "y"), ("features", "label")))
    if y != "y" or random.random() < 0.4:
        if random.random() < 0.7:
            names = random.sample(names, random.randint(1, len(names)))
        options["bind"] = {x: names, y: ["y"]}
    size = random.choice(["[d]", f"[{len(names)}]"] + [""] * (len(names) == 1))
    said = {"method": "gram"} if random.random() < 0.3 else {}
    if random.random() < 0.4:
        said["incremental"] = random.random() < 0.5
    text = spelled(random, {x: f"input{size}", y: "output"}, x, y, said)
    if random.random() < 0.3:
        options["limbs"] = random.randint(1, 3)
    parts = _parts(random, table, options)
    total, refits = min(map(len, parts.values())), random.choice((0, 0, 1, 3))
    new = random.randint(0, max((total - 2) // max(refits, 1), 0)) if refits else 0
    gone = random.randint(0, (total - refits * new) // 2 // max(refits, 1)) if refits else 0
    policy = random.choice(("error", "error", "drop", "minimum-norm"))
    more = {"sample_weight": ("each", parts.weights), "group_by": ("part", parts.groups)}
    given_ = Table.from_columns(table.columns | dict(more[n] for n in more if n in options))
    design = ps.compile(loaded(*text, folder), "vu9p", given_, **options)
    changes = Changes(1, refits, new, gone)
    made = design.run(given_, changes=changes, on_singular=policy)
    left = {"names": names, "gone": refits * gone, "policy": policy, "parts": parts}
    return design, made, options, left


def outcome(random: Random, table: FitTable, folder: Path) -> str:
    """Return how a fit ended. Anything else than weights within their bounds, or a reason that names a column, fails."""
    try:
        design, made, options, left = _run(random, table, folder)
    except ps.KernelError as problem:
        said = problem.diagnostic
        assert said.code == "E844", said
        assert any(f"column {name}" in said.message for name in table.columns), said
        return said.code
    if made.errors:
        [error] = made.errors
        assert error.code == PageError.VALUE_NAN
        column, _ = design.walk.value_at(error.item)
        assert not np.isfinite(table.columns[design.schema.columns[column].name]).all()
        return error.code.name
    every = zip(*(table.columns[n] for n in (*left["names"], "y")), strict=True)
    rows = [[Fraction(float(v)) for v in row] for row in every]
    parts, fits = left["parts"], getattr(made.fit, "groups", [made.fit])
    for k, (value, fit) in enumerate(zip(sorted(parts), fits, strict=True)):
        kept = parts[value][left["gone"] :]
        assert value is None or fit.group == value
        weights = np.atleast_2d(made.result["weights"])[k]
        each = [Fraction(w) for w in parts.weights[kept].tolist()]
        judged([rows[row] for row in kept], each if "sample_weight" in options else None, fit,
               [made.result["bias"][k], *weights], left)  # fmt: skip
    return "weights"


def judged(rows: list[list[Fraction]], each: Any, fit: Any, found: Any, left: Any) -> None:
    """Hold a fit's weights, the bias first, to those of rational arithmetic; `each`: the rows' weights."""
    policy, full = left["policy"], rank(rows) == len(left["names"])
    assert full or policy != "error"
    bias, weights = least_squares(rows, policy == "minimum-norm", each)
    if not full and fit.preconditioner != "none" and policy == "minimum-norm":
        return  # their spread over dependent columns has float64's digits
    for own, exact, most in zip(found, (bias, *weights), fit.error, strict=True):
        assert abs(Fraction(float(own)) - exact) <= Fraction(float(most))
    if fit.preconditioner == "none":
        assert [float(w) for w in weights] == [float(w) for w in found[1:]]
    assert [d["column"] for d in fit.dropped] == dependent(rows, left["names"])


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

    monkeypatch.setattr(passes, "lower_table", plan)


@pytest.mark.usefixtures("planned_at_once")
def test_fits_over_columns(tmp_path: Path) -> None:
    columns_held(range(120), tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("planned_at_once")
def test_many_fits_over_columns(tmp_path: Path) -> None:
    columns_held(range(120, 3000), tmp_path)
