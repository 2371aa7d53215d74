"""Scores of whole kernels, drawn at random, compiled, and judged by what knows no plan, as `test_plans` does with what is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, seed, settings

from penstock.dsl.core.scores import evaluate, graph_from_json, graph_to_json
from penstock.engines.score import Scoring
from penstock.scoring import score_design
from testbench.kernels.arithmetic import Integers, Undecided
from testbench.kernels.drawn import FIXED, FLOATS, Case, cases, refusals
from testbench.kernels.meaning import scores

from .test_plans import arithmetic


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


def judged(case: Case) -> None:
    """Demand that golden scores are the judge's, and between its bounds those in float64."""
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
        return
    inputs = {name: np.array([row[name] for row in engine.ports[0]]) for name in scoring.columns}
    reference = evaluate(scoring.kernel.graph, inputs)
    for numbers in (golden.result["s"], reference):
        assert all(r.lo <= x <= r.hi for r, x in zip(expected, numbers, strict=True))
    again = graph_from_json(graph_to_json(scoring.kernel.graph))
    for name, variable in again.variables.items():
        variable.init = models.get(name, 0.0)
    assert np.array_equal(evaluate(again, inputs), reference, equal_nan=True)


RUN = settings(
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@seed(1)
@settings(RUN, max_examples=50)
@given(cases(FIXED, scored=True))
def test_fixed(case: Case) -> None:
    judged(case)


@seed(2)
@settings(RUN, max_examples=50)
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
