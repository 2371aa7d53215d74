"""Least squares over numeric columns: sums as Python's integers have them, refits equal to fits of all rows, the device's weights as float64 has them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.qr.columns import (
    ROWS_MAX,
    Columns,
    Totals,
    add_rows,
    initial_totals,
    needs_recentring,
    recentre,
    remove_rows,
    solve,
)


def table(seed: int, rows: int, features: int, bits: int = 16) -> np.ndarray:
    source = np.random.default_rng(seed)
    x = source.standard_normal((rows, features)) * source.uniform(0.1, 1, features)
    y = x @ source.uniform(-1, 1, features) + 0.3 + 0.1 * source.standard_normal(rows)
    values = np.column_stack([x, y])
    return np.rint(np.ldexp(values / np.abs(values).max(axis=0), bits)).astype(np.int64)


def empty(limbs: tuple[int, ...], offsets: list[int] | None = None) -> Totals:
    return initial_totals(Columns(limbs, 1), [0] * len(limbs), offsets or [0] * len(limbs))


def joined(rows: np.ndarray, offsets: list[int]) -> np.ndarray:
    a = np.column_stack([np.ones(len(rows), np.int64), rows]).astype(object)
    a[:, 1:] -= np.array(offsets, dtype=object)
    return a.T @ a


def test_extreme_rows_do_not_overflow() -> None:
    """The largest products, at the largest number of rows, as the sums would have them."""
    limbs = (3, 1, 2)
    low = np.array([[-1 << 17 * n for n in limbs], [(1 << 17 * n) - 1 for n in limbs]])
    rows = np.tile(low, (1 << 9, 1))
    totals = add_rows(empty(limbs), rows)
    assert (totals.joined == joined(rows, [0, 0, 0])).all()
    assert int(np.abs(totals.sums).max()) * (ROWS_MAX >> 10) < 1 << 63
    many = Totals(totals.columns, totals.shifts, totals.offsets, totals.sums * 0 + ROWS_MAX)
    with pytest.raises(ValueError, match="more than the sums hold"):
        add_rows(many, rows[:1])


@pytest.mark.parametrize("seed", range(5))
def test_refits_are_fits_of_the_rows_that_are_left(seed: int) -> None:
    """Rows in and out, means that wander, offsets that follow them: the sums are Python's integers'."""
    source = np.random.default_rng(seed)
    limbs = tuple(source.integers(1, 4, 4).tolist())
    middle = [int(source.integers(-(1 << 60), 1 << 60)) for _ in limbs]
    rows = np.array([source.integers(-(1 << 17 * n - 1), 1 << 17 * n - 1, 400) for n in limbs]).T
    rows = np.sort(rows, axis=0) + np.array(middle)  # they drift
    totals, first, last, moved = empty(limbs, middle), 0, 0, 0
    for _ in range(40):
        more = int(source.integers(0, 20))
        gone = int(source.integers(0, last - first + 1)) if source.random() < 0.3 else 0
        totals = add_rows(totals, rows[last : last + more])
        last = min(last + more, len(rows))
        totals = remove_rows(totals, rows[first : first + gone])
        first += gone
        if needs_recentring(totals):
            totals, moved = recentre(totals), moved + 1
            assert not needs_recentring(totals)
        assert totals.rows == last - first
        assert (totals.joined == joined(rows[first:last], totals.offsets.tolist())).all()
    assert moved


@pytest.mark.parametrize("features", [1, 5, 20, 63])
@pytest.mark.parametrize("limbs", [1, 2])
def test_the_devices_weights_are_those_of_least_squares(features: int, limbs: int) -> None:
    rows = table(features, 2000, features, 17 * limbs - 1)
    totals = add_rows(empty((limbs,) * (features + 1)), rows)
    found = solve(totals)
    a = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    best = np.linalg.lstsq(a, rows[:, -1].astype(float), rcond=None)[0]
    values = found.values(totals)
    assert np.allclose(values[1:], best[1:], rtol=0, atol=2e-4 * np.abs(best[1:]).max())
    assert found.mask.all()


def test_collinear_and_constant_columns_have_no_weight() -> None:
    rows = table(5, 300, 4)
    rows[:, 2] = 77
    rows[:, 3] = rows[:, 0] - rows[:, 1]
    totals = add_rows(empty((1,) * 5), rows)
    found = solve(totals)
    assert found.mask.tolist() == [True, True, True, False, False]
    assert (found.values(totals)[3:] == 0).all()


def test_no_rows() -> None:
    totals = empty((1, 2))
    assert not solve(totals).mask.any() and not solve(totals).values(totals).any()


def test_what_there_is_not() -> None:
    for limbs, lanes in (((1,), 1), ((1,) * 65, 1), ((1, 1), 0), ((1, 1), 7)):
        with pytest.raises(ValueError, match="no such engine"):
            Columns(limbs, lanes)
    for limbs in ((0, 1), (4, 1)):
        with pytest.raises(ValueError, match="1 to 3 limbs"):
            assert Columns(limbs, 1).format
