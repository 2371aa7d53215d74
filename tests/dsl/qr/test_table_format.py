"""The format of a fit over columns: the best one of those that hold all values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.dsl.qr.table_format import Range, TooWide, choose_format


def column(least: float, greatest: float, bits: int | None = None) -> Range:
    return Range("a", least, greatest, bits)


@pytest.mark.parametrize(
    ("ranges", "format"),
    [
        ([column(0, 9, 0)], "fixed:17,0"),
        ([column(-8, 7.5, 1), column(0, 3, 0)], "fixed:16,1"),
        ([column(-1, 1)], "fixed:2,15"),
        ([column(-0.5, 0.5)], "fixed:1,16"),
        # far from 0, and close together
        ([column(199, 201)], "fixed:17,15"),
        ([column(1e9, 1e9 + 3, 0)], "fixed:32,0"),
        # the span of one, how far another lies from 0
        ([column(-1, 1), column(0, 1000)], "fixed:25,7"),
        ([column(-1, 1), column(1e6, 1e6 + 1)], "fixed:21,11"),
        # as small as any format goes
        ([column(0, 1e-9)], "fixed:1,31"),
        ([column(0, 0, 0)], "fixed:17,0"),
        # as wide
        ([column(0, 131_071)], "fixed:32,0"),
    ],
)
def test_formats(ranges: list[Range], format: str) -> None:
    found, tightest = choose_format(ranges)
    assert (tightest is None) == all(r.bits is not None for r in ranges)
    assert found.name == format


@pytest.mark.parametrize(
    ("least", "greatest", "far"),
    [
        (0, 131_072, False),
        (2.0**31, 2.0**31, True),
        (2.0**31 - 0.4, 2.0**31 - 0.4, True),  # rounds to 2**31
        (-1e300, 1e300, False),
    ],
)
def test_none(least: float, greatest: float, far: bool) -> None:
    with pytest.raises(TooWide) as caught:
        choose_format([column(0, 1), column(least, greatest)])
    assert caught.value.column.least == least and caught.value.column.far is far


@pytest.mark.parametrize("seed", range(200))
def test_the_format_holds_every_value_and_none_is_better(seed: int) -> None:
    source = np.random.default_rng(seed)
    ranges = []
    for _ in range(int(source.integers(1, 4))):
        middle = float(source.uniform(-1, 1) * 10.0 ** source.integers(-3, 10))
        half = float(abs(source.standard_normal()) * 10.0 ** source.integers(-9, 5))
        ranges.append(column(middle - half, middle + half))

    def holds(bits: int) -> bool:
        for r in ranges:
            ends = [round(Fraction(v) * 2**bits) for v in (r.least, r.greatest)]
            if ends[1] - ends[0] >= 1 << 17 or max(-ends[0], ends[1]) >= 1 << 31:
                return False
        return True

    try:
        found, _ = choose_format(ranges)
    except TooWide:
        assert not holds(0)
        return
    bits = found.fraction_bits
    assert holds(bits) and (bits == 31 or not holds(bits + 1))
    units = [round(Fraction(v) * 2**bits) for r in ranges for v in (r.least, r.greatest)]
    assert all(-found.top - 1 <= v <= found.top for v in units)
    assert found.width == (17 if all(abs(v) < 1 << 16 for v in units) and bits < 17 else 32)
