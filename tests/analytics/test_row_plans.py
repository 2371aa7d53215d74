"""Whole kernels with rows of models, drawn at random, compiled, and judged by what knows no plan (`test_plans`)."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings

from testbench.kernels.drawn import FIXED, FLOATS
from testbench.kernels.drawn_rows import RowCase, row_cases
from testbench.kernels.judge import RUN, judged


@seed(1)
@settings(RUN, max_examples=60)
@given(row_cases(FIXED, rows=10, largest=5, depth=2))
def test_fixed(case: RowCase) -> None:
    judged(case)


@seed(2)
@settings(RUN, max_examples=24)
@given(row_cases(FLOATS, rows=10, largest=5, depth=2))
def test_floats(case: RowCase) -> None:
    judged(case)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_many(number: int) -> None:
    """10,000 kernels."""

    @seed(100 + number)
    @settings(RUN, max_examples=500)
    @given(row_cases(FLOATS if number % 3 == 0 else FIXED))
    def run(case: RowCase) -> None:
        judged(case)

    run()
