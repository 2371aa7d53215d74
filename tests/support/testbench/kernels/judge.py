"""A case's golden result, judged: in fixed point bit for bit, in floats by bounds and beside `interp` in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, event, settings

from penstock.dsl.analytics import interp
from penstock.dsl.core.load import from_text
from penstock.models.numerics.formats import Fixed, Float
from penstock.models.numerics.functions import FUNCTIONS, error_bound

from .arithmetic import Bounds, Integers, Undecided
from .drawn import Case, refusals
from .meaning import train

__all__ = ["RUN", "arithmetic", "judged"]


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
        graph = from_text(case.text).trace(dict(case.sizes))
        reference = interp.run(graph, case.reference(case.engine(table).ports[0]))
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
