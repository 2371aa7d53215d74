"""Least squares over numeric columns: sums as Python's integers have them, refits equal to fits of all rows, weights as float64 least squares has them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.numerics.formats import Fixed
from penstock.models.qr.columns import (
    BITS_MAX,
    ROWS_MAX,
    Columns,
    add_rows,
    first_beyond,
    initial_totals,
    solve,
)

WIDE = Fixed(5, BITS_MAX - 5)


def table(seed: int, rows: int, features: int, fmt: Fixed = WIDE) -> np.ndarray:
    source = np.random.default_rng(seed)
    x = source.standard_normal((rows, features)) * source.uniform(
        0.1, 3, features
    ) + source.uniform(-2, 2, features)
    y = x @ source.uniform(-1, 1, features) + 0.3 + 0.1 * source.standard_normal(rows)
    return fmt.to_integers(fmt.encode(np.column_stack([x, y])))


def test_extreme_rows_do_not_overflow() -> None:
    """The largest products, at the largest number of rows, as the sums would have them."""
    top = (1 << BITS_MAX - 1) - 1
    rows = np.tile(np.array([[top, -top - 1, top]]), (1 << 10, 1))
    rows[0] = [-top - 1, top, -top - 1]
    totals = add_rows(initial_totals(rows[:1]), rows)  # offsets at one end, rows at the other
    most = int(np.abs(totals.sums).max())
    assert most == (2 * top + 1) ** 2 * ((1 << 10) - 1)
    assert most * (ROWS_MAX >> 10) < 1 << 63 and (2 * top + 1).bit_length() <= 17
    with pytest.raises(ValueError, match="more than the sums hold"):
        add_rows(type(totals)(totals.offsets, ROWS_MAX, totals.sums), rows[:1])


@pytest.mark.parametrize("features", [1, 5, 20, 63])
def test_weights_are_those_of_least_squares(features: int) -> None:
    rows = table(features, 2000, features)
    found = solve(add_rows(initial_totals(rows), rows), WIDE)
    a = np.column_stack([np.ones(len(rows)), rows[:, :-1] * 2.0**-WIDE.fraction_bits])
    b = rows[:, -1] * 2.0**-WIDE.fraction_bits
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    assert (
        np.allclose(found.values, best, rtol=0, atol=1e-4 * np.abs(best).max()) and found.mask.all()
    )
    left = [float(np.square(b - a @ w).sum()) for w in (found.values, best)]
    assert left[0] <= left[1] * (1 + 1e-6)


def test_collinear_and_constant_columns_have_no_weight() -> None:
    rows = table(5, 300, 4)
    rows[:, 2] = 77
    rows[:, 3] = rows[:, 0] - 5
    found = solve(add_rows(initial_totals(rows), rows), WIDE)
    assert found.mask.tolist() == [True, True, True, False, False] and not found.values[3:].any()
    nothing = initial_totals(rows)
    assert not solve(nothing, WIDE).values.any()


def test_rows_too_far_from_their_offsets() -> None:
    offsets = np.array([1 << 30, -(1 << 20)])
    least, most = offsets - (1 << 17), offsets + (1 << 17) - 1
    fine = np.array([least, most, offsets])
    assert first_beyond(offsets, fine) is None and first_beyond(offsets, fine[:0]) is None
    for at, value in ((0, least[0] - 1), (1, most[1] + 1), (1, -(1 << 31)), (0, 0)):
        rows = np.concatenate([fine, fine])
        rows[4, at] = value
        assert first_beyond(offsets, rows) == (4, at)


def test_configurations() -> None:
    assert Columns(11, "fixed:9,9").wide and not Columns(11, "fixed:9,8").wide
    for lanes in (1, 10, 78):
        config = Columns(11, "fixed:8,8", lanes)
        assert config.products == 78 and config.row_cycles == -(-78 // lanes)
    for wrong in (
        {"n": 1},
        {"n": 65},
        {"format_name": "float32"},
        {"gram_lanes": 79},
    ):
        with pytest.raises(ValueError, match=r"no such engine|values are fixed point"):
            Columns(**{"n": 11, **wrong})  # type: ignore[arg-type]
