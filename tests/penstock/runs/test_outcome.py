"""What is said where two runs differ: errors, results, facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.models.errors import ErrorCode, ErrorEntry, HardwareError
from penstock.models.strider.errors import PageError
from penstock.runs.outcome import differences, not_compared
from penstock.runs.run import Run

NULL = HardwareError(PageError.TUPLE_NULL, 2, 7)


def run(*errors: HardwareError, codes: Any = None, **facts: Any) -> Run:
    given = None if errors else {"w": np.array([1, 2]) if codes is None else codes}
    return Run("rtl", None, given, None, {}, errors, facts)


@pytest.mark.parametrize(
    "other",
    [
        run(),
        run(HardwareError(PageError.TUPLE_NULL, 2, 8)),
        run(HardwareError(PageError.TUPLE_NULL, 3, 7)),
        run(HardwareError(ErrorCode.BUS_READ, 2, 7)),
    ],
)
def test_errors_are_compared_with_their_places(other: Run) -> None:
    [said] = differences(run(NULL), other)
    assert said.startswith("error: golden TUPLE_NULL at block 2, line pointer 7")


def test_equal_errors_of_a_map_read_from_a_manifest() -> None:
    entry = ErrorEntry.of(PageError.TUPLE_NULL)
    assert differences(run(NULL), run(HardwareError(entry, 2, 7))) == []


def test_results_and_facts() -> None:
    assert differences(run(epochs=3), run(epochs=3)) == []
    assert differences(run(epochs=3), run(epochs=4)) == ["epochs: golden 3, RTL 4"]
    assert len(differences(run(), run(codes=np.array([1, 3])))) == 1
    assert len(differences(run(), run(codes=np.array([1])))) == 1
    assert differences(run(writes=5), run()) == [] and not_compared(run(writes=5), run()) == [
        "writes"
    ]
