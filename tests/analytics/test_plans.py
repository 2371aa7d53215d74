"""Whole kernels, drawn at random, compiled, and judged by what knows no plan.

Fixed point: plain Python integers, bit for bit. Floats: between the bounds that the stated errors leave, and
`interp` in float64 is there as well. Hypothesis prints a case that differs, shrunk: it belongs into `testbench.kernels.kept`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, seed, settings

from penstock.models.memory import FixedLatency
from testbench.kernels.drawn import FIXED, FLOATS, Case, cases
from testbench.kernels.judge import RUN, judged
from testbench.kernels.kept import KEPT, ON_HARDWARE


@pytest.mark.parametrize("case", KEPT)
def test_kept(case: Case) -> None:
    judged(case)


@seed(1)
@settings(RUN, max_examples=100)
@given(cases(FIXED))
def test_fixed(case: Case) -> None:
    judged(case)


@seed(2)
@settings(RUN, max_examples=30)
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


@pytest.mark.parametrize("case", ON_HARDWARE)
def test_kept_on_hardware(case: Case) -> None:
    on_hardware(case, "pysim")


def test_hardware() -> None:
    hardware(1, 8, "pysim")


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_hardware_many(number: int) -> None:
    """100 kernels, 40 of them as Verilog."""
    hardware(200 + number, 10, "rtl" if number < 4 else "pysim")
