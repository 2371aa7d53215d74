"""models/pim/layout: what no device beats, in numbers of the kernel alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.models.bound import Machine
from penstock.models.memory import FixedLatency
from penstock.models.pim.config import PimConfig
from penstock.models.pim.layout import COLUMNS, Layout
from penstock.targets import target_named

MEMORY = FixedLatency(3, 16)


@pytest.mark.parametrize(("format", "size", "factor"), [("mx8", 1, 7), ("float16", 2, 11)])
@pytest.mark.parametrize(
    ("mode", "read", "products"),
    [
        ("update", 3 * 64 * 40 + 5 * 3 * 64, 3 * 5 * 3 * 64 * 40),
        ("score", 3 * 64 * 40 + 5 * 3 * 64, 5 * 3 * 64 * 40),
        ("attend", 3 * 64 * 40 + 5 * 3 * 40, 5 * 3 * 64 * 40),
    ],
)
def test_what_no_device_beats(
    format: str, size: int, factor: int, mode: str, read: int, products: int
) -> None:
    """Five tokens of three heads of 64 by 40, on a part whose look-up tables multiply."""
    part = replace(target_named("small"), dsp=0)
    layout = Layout(PimConfig(format=format), ((mode, True),), 64, 40, 3, 5)
    words = size * read // part.bus_bytes
    factors = (factor, factor, False)
    expected = Machine.of(part, MEMORY, words, [(products, [factors])], 5)
    assert layout.machine_bound(part, MEMORY) == expected
    assert expected != Machine.of(
        part, MEMORY, words, [(products, [(factor + 1, factor, False)])], 5
    )


@pytest.mark.parametrize(("mode", "chunks"), [("update", 3), ("score", 3), ("attend", 2)])
def test_rows_of_a_bank(mode: str, chunks: int) -> None:
    """A head's columns fill one bank of a pair, those of a cache that is attended both."""
    assert Layout(PimConfig(), ((mode, True),), 64, 3 * COLUMNS, 1, 1).chunks == chunks
