"""Whole kernels, drawn at random, compiled, and judged by what knows no plan.

Fixed point: plain Python integers, bit for bit. Floats: between the bounds that the stated errors leave, and
`interp` in float64 is there as well. Hypothesis prints a case that differs, shrunk: it belongs into `testbench.kernels.kept`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, seed, settings

from penstock.dsl.analytics import interp
from penstock.dsl.core.load import from_text
from penstock.models.memory import FixedLatency
from penstock.models.numerics.formats import Fixed, Float
from penstock.models.numerics.functions import FUNCTIONS, error_bound
from testbench.kernels.arithmetic import Bounds, Integers, Undecided
from testbench.kernels.drawn import FIXED, FLOATS, Case, cases, refusals
from testbench.kernels.kept import KEPT
from testbench.kernels.meaning import train


@cache
def unit(format: Fixed) -> Callable[[str, int], int]:
    """The codes of exp and its like, which tests/numerics judge."""
    known: dict[tuple[str, int], int] = {}

    def of(name: str, code: int) -> int:
        if (name, code) not in known:
            known[name, code] = int(
                format.to_integers(format.op(name, code & (1 << format.width) - 1))
            )
        return known[name, code]

    return of


def arithmetic(format: Fixed | Float) -> Any:
    if isinstance(format, Fixed):
        return Integers(format.integer_bits, format.fraction_bits, unit(format))
    errors = {name: error_bound(name, format) for name in FUNCTIONS}
    stated = {name: (bound.ulp, bound.absolute) for name, bound in errors.items()}
    return Bounds(format.fraction_bits, format.smallest_normal, format.max_value, stated)


def judged(case: Case) -> tuple[Any, Any]:
    """Demand that a case's golden result is the judge's; return its design and table."""
    table = case.table()
    with refusals():
        design = case.design(table)
        golden = design.run(table, "golden")
    rules = arithmetic(design.format)
    try:
        expected = train(case.text, dict(case.sizes), rules, case.engine(table))
    except Undecided as reason:
        event(str(reason))
        assume(False)
    assert golden.errors == () and golden.result is not None
    assert (golden.counters["epochs"], golden.counters["converged"]) == (
        expected.epochs,
        expected.converged,
    )
    if isinstance(rules, Integers):
        for name, codes in expected.models.items():
            plain = codes.astype(np.int64) & (1 << design.format.width) - 1
            assert np.array_equal(golden.codes[name], plain.reshape(golden.codes[name].shape)), name
        return design, table
    event(f"comparisons that were undecided: {rules.undecided > 0}")
    found = [golden.result]
    if case.ports == 1:  # several take rows in an order of their own
        values = {
            name: [row[name] for row in case.engine(table).ports[0]] for name in case.variables()
        }
        graph = from_text(case.text).trace(dict(case.sizes))
        reference = interp.run(graph, {name: np.array(rows) for name, rows in values.items()})
        assert (reference.epochs, reference.converged) == (expected.epochs, expected.converged)
        found.append(reference.models)
    for name, ranges in expected.models.items():
        for numbers in found:
            pairs = zip(ranges.ravel(), np.ravel(numbers[name]), strict=True)
            assert all(r.lo <= x <= r.hi for r, x in pairs), name
    return design, table


RUN = settings(
    deadline=None, database=None, print_blob=False, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("case", KEPT)
def test_kept(case: Case) -> None:
    judged(case)


@seed(1)
@settings(RUN, max_examples=250)
@given(cases(FIXED))
def test_fixed(case: Case) -> None:
    judged(case)


@seed(2)
@settings(RUN, max_examples=50)
@given(cases(FLOATS))
def test_floats(case: Case) -> None:
    judged(case)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_many(number: int) -> None:
    """10,000 kernels."""

    @seed(100 + number)
    @settings(RUN, max_examples=500)
    @given(cases(FLOATS if number % 3 == 0 else FIXED))
    def run(case: Case) -> None:
        judged(case)

    run()


MEMORIES = (FixedLatency(3, 8), FixedLatency(20, 4), FixedLatency(1, 2))


def on_hardware(case: Case, backend: str) -> None:
    """Demand that golden = RTL and model = RTL of a case that is judged."""
    design, table = judged(case)
    memory = MEMORIES[case.seed % len(MEMORIES)]
    golden, model = (design.run(table, name, memory=memory) for name in ("golden", "model"))
    rtl = design.run(table, backend, memory=memory)
    assert rtl.errors == () and rtl.codes is not None and golden.codes is not None
    for name, codes in golden.codes.items():
        assert np.array_equal(rtl.codes[name], codes), name
    assert rtl.facts == golden.facts
    assert rtl.cycles == model.cycles
    for count in ("tuples", "groups", "batches", "epochs"):
        assert rtl.counters[count] == model.counters[count], count


def hardware(number: int, count: int, backend: str) -> None:
    @seed(number)
    @settings(RUN, max_examples=count)
    @given(cases(("fixed:8,8", "fixed:4,4", "fixed:1,7", "bfloat16"), rows=9, largest=3, depth=2))
    def run(case: Case) -> None:
        on_hardware(case, backend)

    run()


def test_hardware() -> None:
    hardware(1, 12, "pysim")


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_hardware_many(number: int) -> None:
    """100 kernels, 40 of them as Verilog."""
    hardware(200 + number, 10, "rtl" if number < 4 else "pysim")
