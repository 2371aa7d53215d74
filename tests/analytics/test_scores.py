"""Scores of whole kernels, drawn at random, compiled, and judged by what knows no plan, as `test_plans` does with what is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, seed, settings

from penstock.api import compile
from penstock.data.assumed import assume as assumed
from penstock.dsl.core.load import from_text
from penstock.dsl.core.scores import evaluate, graph_from_json, graph_to_json
from penstock.engines.score import Scoring
from penstock.host.sources import Table
from penstock.models.memory import FixedLatency
from penstock.scores.scoring import score_design, score_table
from testbench.kernels.arithmetic import Integers, Undecided
from testbench.kernels.drawn import FIXED, FLOATS, Case, cases, refusals
from testbench.kernels.judge import arithmetic
from testbench.kernels.meaning import scores

from .test_plans import MEMORIES


def drawn(case: Case) -> tuple[Any, Any, Scoring, dict[str, np.ndarray]]:
    """Return the design that scores a case's table, the table, what scores, and the models, drawn at random."""
    table, rng = case.table(), np.random.default_rng(case.seed)
    assume(table.rows)
    with refusals():
        trained = case.design(table)
        models = {name: rng.integers(-48, 49, shape) / 16 for name, shape in trained.shapes.items()}
        scoring = trained.scoring(models)
        options = {"lanes": case.lanes, "threads": case.threads}
        design = score_design(scoring, table, table, **options)
    return design, table, scoring, models


def judged(case: Case) -> tuple[Any, Any]:
    """Demand that golden scores are the judge's, and between its bounds those in float64; return the design and the table."""
    design, table, scoring, models = drawn(case)
    golden = design.run(table, "golden")
    assert golden.errors == () and golden.codes is not None
    rules, engine = arithmetic(design.format), replace(case, ports=1).engine(table)
    try:
        expected = scores(case.text, dict(case.sizes), rules, engine, models)
    except Undecided as reason:
        event(str(reason))
        assume(False)
    codes = golden.codes["s"]
    assert codes.shape == (len(expected),)
    if isinstance(rules, Integers):
        mask = (1 << design.format.width) - 1
        assert codes.tolist() == [int(code) & mask for code in expected]
        return design, table
    inputs = {name: np.array([row[name] for row in engine.ports[0]]) for name in scoring.columns}
    reference = evaluate(scoring.kernel.graph, inputs)
    for numbers in (golden.result["s"], reference):
        assert all(r.lo <= x <= r.hi for r, x in zip(expected, numbers, strict=True))
    again = graph_from_json(graph_to_json(scoring.kernel.graph))
    for name, variable in again.variables.items():
        variable.init = models.get(name, 0.0)
    assert np.array_equal(evaluate(again, inputs), reference, equal_nan=True)
    return design, table


RUN = settings(
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@seed(1)
@settings(RUN, max_examples=30)
@given(cases(FIXED, scored=True))
def test_fixed(case: Case) -> None:
    judged(case)


@seed(2)
@settings(RUN, max_examples=15)
@given(cases(FLOATS, scored=True))
def test_floats(case: Case) -> None:
    judged(case)


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_many(number: int) -> None:
    @seed(100 + number)
    @settings(RUN, max_examples=200)
    @given(cases(FIXED if number % 2 else FLOATS, scored=True))
    def found(case: Case) -> None:
        judged(case)

    found()


def equal(design: Any, table: Any, backend: str, memory: Any, **options: Any) -> int:
    """Demand that golden = hardware and model = hardware; return the cycles."""
    golden, model = (design.run(table, name, memory=memory) for name in ("golden", "model"))
    found = design.run(table, backend, memory=memory, **options)
    assert found.errors == golden.errors == ()
    for name, codes in golden.codes.items():
        assert np.array_equal(found.codes[name], codes), name
    assert found.facts == golden.facts
    if not options.get("stall_percent"):
        assert found.cycles == model.cycles
    for count in ("tuples", "groups", "batches", "epochs"):
        assert found.counters[count] == model.counters[count], count
    assert model.bound.cycles <= model.cycles
    return model.cycles


def hardware(number: int, count: int, backend: str) -> None:
    formats = ("fixed:8,8", "fixed:4,4", "fixed:1,7", "bfloat16")

    @seed(number)
    @settings(RUN, max_examples=count)
    @given(cases(formats, rows=12, largest=3, depth=2, scored=True))
    def found(case: Case) -> None:
        design, table = judged(case)
        equal(design, table, backend, MEMORIES[case.seed % len(MEMORIES)])

    found()


def test_hardware() -> None:
    hardware(1, 4, "pysim")


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_hardware_many(number: int) -> None:
    """100 kernels, 40 of them as Verilog."""
    hardware(200 + number, 10, "rtl" if number < 4 else "pysim")


LINEAR = """kernel linear(x: input[d], y: output, w: model[d])
  w <- w - 0.125 * (sum(w * x) - y) * x
"""


def scored(rows: int, features: int, target: str = "small", **options: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows)
    table = {"x": rng.normal(size=(rows, features)).astype("f4"), "y": rng.normal(size=rows)}
    trained = compile(from_text(LINEAR), target, table)
    scoring = trained.scoring({"w": rng.normal(size=features)})
    held = score_table(scoring, {"x": table["x"]})
    return score_design(scoring, held, held, **options), held


def test_verilog_under_stalls() -> None:
    """A queue that is full holds the groups up: memory that takes a word in 64 cycles, and stalls."""
    design, table = scored(900, 1, threads=4, lanes=1)
    slow = FixedLatency(4, 1)
    equal(design, table, "rtl", slow)
    equal(design, table, "rtl", FixedLatency(20, 8), stall_percent=40, seed=3)


@pytest.mark.long
def test_netlist() -> None:
    design, table = scored(90, 3)
    equal(design, table, "netlist", FixedLatency(20, 8))


@pytest.mark.parametrize(
    ("features", "target"), [(1, "small"), (9, "small"), (54, "small"), (4, "u55c")]
)
def test_bound(features: int, target: str) -> None:
    """At most 1.10 times the bytes in and out, once a run is long enough."""
    design, _ = scored(64, features, target)
    model = design.run(assumed(design.plan.schema, 100_000), "model")
    assert model.cycles <= 1.10 * model.bound.cycles


def test_errors_end_a_run() -> None:
    """A value that does not fit, rows into the table: the same error everywhere, and no score."""
    design, table = scored(300, 2)
    bad = np.random.default_rng(1).normal(size=(300, 2))
    bad[211, 1] = np.nan
    rows = Table.from_columns({"x": bad.astype("f4")}, "table", page_size=table.schema.page_size)
    golden, found = (design.run(rows, name) for name in ("golden", "pysim"))
    assert golden.errors == found.errors and golden.errors[0].line
    assert golden.values is None and found.values is None
