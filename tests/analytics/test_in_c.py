"""Kernels in C, judged by the reference in float64: examples, and kernels drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings

from penstock.dsl.analytics import interp
from penstock.dsl.core.load import from_text, load_kernel
from penstock.dsl.core.operations import ELEMENTWISE
from penstock.engines.analytics import in_c
from penstock.engines.analytics.in_c import InC
from testbench.kernels import meaning
from testbench.kernels.drawn import FLOATS, Case, cases, refusals

EXAMPLES = Path(__file__).parents[2] / "examples"
#: what sums in another order may change, where a change of the inputs by 1e-13 changes less
STATED = 1e-8


def close(a: dict[str, Any], b: dict[str, Any], within: float) -> bool:
    return all(
        np.allclose(a[name], b[name], rtol=within, atol=within, equal_nan=True) for name in b
    )


def test_each_operation_has_its_c_and_a_meaning_in_float64() -> None:
    assert not {*ELEMENTWISE} - {*in_c._EACH}
    functions = {name for name, operation in ELEMENTWISE.items() if not operation.symbol}
    assert not functions - {*meaning._FOLDED}


@pytest.mark.parametrize("name", ["logistic", "svm"])
def test_examples(name: str) -> None:
    graph = load_kernel(EXAMPLES / f"{name}.py").trace(d=37)
    rng = np.random.default_rng(2)
    table = {"x": rng.normal(size=(999, 37)), "y": np.where(rng.random(999) < 0.5, 1.0, 0.0)}
    expected = interp.run(graph, {"x": table["x"]}, {"y": table["y"]}, 2)
    for dtype, within in ((np.float64, 1e-12), (np.float32, 1e-4)):
        compiled = InC(graph, dtype)
        rows = compiled.rows(table)
        for threads in (1, 3):
            found = compiled.run(rows, 2, threads)
            assert (found.epochs, found.converged) == (2, False)
            assert close(found.models, expected.models, within), (dtype, threads)


def judged(case: Case) -> bool:
    """Compare a case; return whether it could be told."""
    graph = from_text(case.text).trace(dict(case.sizes))
    rng = np.random.default_rng(case.seed)
    shapes = case.variables()
    table = {
        name: rng.integers(-48, 49, (case.rows, *shape)) / 16 for name, shape in shapes.items()
    }
    expected = interp.run(graph, table)
    for shift in (1e-13, -1e-13):
        moved = interp.run(graph, {name: v * (1 + shift) + shift for name, v in table.items()})
        if (moved.epochs, moved.converged) != (expected.epochs, expected.converged):
            return False
        if not close(moved.models, expected.models, STATED / 100):
            return False
    compiled = InC(graph, np.float64)
    rows = compiled.rows(table)
    for threads in (1, 2):
        found = compiled.run(rows, threads=threads)
        assert (found.epochs, found.converged) == (expected.epochs, expected.converged)
        assert close(found.models, expected.models, STATED), threads
    return True


def drawn(number: int, count: int) -> None:
    told = 0

    @seed(number)
    @settings(
        deadline=None,
        database=None,
        max_examples=count,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(cases(FLOATS))
    def run(case: Case) -> None:
        nonlocal told
        with refusals():
            sound = judged(case)
        told += sound
        assume(sound)

    run()
    assert told >= count


def test_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # what g++ does with a text is g++'s
    flags = tuple("-O0" if flag == "-O3" else flag for flag in in_c.NATIVE)
    monkeypatch.setattr(in_c, "NATIVE", flags)
    drawn(5, 6)


@pytest.mark.long
def test_many() -> None:
    drawn(6, 60)


def test_not_every_operation_has_c() -> None:
    graph = load_kernel(EXAMPLES / "logistic.py").trace(d=3)
    graph.nodes[-1].op = "gather"
    with pytest.raises(KeyError, match="gather"):
        in_c.source(graph)
