"""Units of columns: whatever the values, integers hold them, exactly where any can."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.dsl.qr.units import Unit, typical_limbs, unit_of

INTS = {
    "bool": ([0, 1, 1], Unit(0, 0, 1, True)),
    "epoch": ([1_600_000_000_000, 1_600_000_000_000 + 86_400_000], Unit(10, 1_562_542_188, 1, True)),
    "ids": ([(1 << 63) - 1, (1 << 63) - 5], Unit(0, (1 << 63) - 3, 1, True)),
    "thousands": ([-12_345_000, 131_072 * 64_000], Unit(0, 4_188_131_500, 2, True)),
    "equal": ([-7, -7], Unit(0, -7, 1, True)),
}  # fmt: skip


@pytest.mark.parametrize("name", INTS)
def test_whole_numbers(name: str) -> None:
    values, expected = INTS[name]
    assert unit_of(np.array(values, dtype=np.int64)) == expected


def test_any_column() -> None:
    source = np.random.default_rng(1)
    seen = set()
    for _ in range(400):
        scale, far = 10.0 ** source.integers(-300, 290), 10.0 ** source.integers(-3, 12)
        numbers = (source.standard_normal(9) + source.choice([0, far])) * scale
        if source.random() < 0.5:
            numbers = np.ldexp(
                np.rint(np.ldexp(numbers, -int(np.log2(scale)) + 6)), int(np.log2(scale)) - 6
            )
        if source.random() < 0.3:
            whole = source.integers(-(1 << 62), 1 << 62, 9) >> int(source.integers(0, 60))
            numbers = whole << int(source.integers(0, 2))
        limbs = [None, None, 1, 2, 3][source.integers(5)]
        unit = unit_of(numbers, limbs)
        seen.add((unit.limbs, unit.exact))
        step, exact = Fraction(2) ** unit.shift, True
        assert numbers.dtype == np.float64 or unit.shift >= 0
        assert -(1 << 63) <= unit.offset < 1 << 63 and unit.limbs == (limbs or unit.limbs)
        for value in numbers.tolist():
            q = round(Fraction(value) / step) - unit.offset
            assert abs(q) <= 1 << 17 * unit.limbs - 1
            exact = exact and (q + unit.offset) * step == value
        assert not unit.exact or exact
    assert len(seen) == 6


def test_nothing_is_known() -> None:
    assert unit_of(np.array([np.nan, np.inf])) == Unit(0, 0, 1, True)
    assert unit_of(np.array([0.0, np.nan, 0.0])) == Unit(0, 0, 1, True)
    assert [typical_limbs(name) for name in ("bool", "int2", "int4", "float8")] == [1, 1, 2, 2]
