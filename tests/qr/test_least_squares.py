"""Weights from exact sums: those of rational arithmetic, rounded once; rank, condition and bounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.models.qr.columns import add_rows, initial_totals
from penstock.models.qr.least_squares import ExactFit, Rounding, fit_exactly
from testbench.rational import least_squares

BITS = 8


def fitted(rows: np.ndarray, minimum_norm: bool = False) -> ExactFit:
    return fit_exactly(add_rows(initial_totals(rows), rows), minimum_norm)


def columns(seed: int, rows: int, features: int, spread: float = 1.0) -> np.ndarray:
    """Random integers, of which later columns are nearly sums of the first two where `spread` is
    small."""
    source = np.random.default_rng(seed)
    x = source.standard_normal((rows, features))
    if features > 2:
        x[:, 2:] = x[:, :1] + x[:, 1:2] + spread * x[:, 2:]
    y = x @ source.uniform(-2, 2, features) + source.standard_normal(rows)
    return np.rint(
        np.column_stack([x, y]) * 5000 + source.integers(-50000, 50000, features + 1)
    ).astype(np.int64)


@pytest.mark.parametrize("spread", [1, 1e-2, 3e-4])
def test_condition_is_that_of_the_scaled_columns(spread: float) -> None:
    rows = columns(5, 400, 5, spread)
    x = rows[:, :-1] - rows[:, :-1].mean(axis=0)
    assert fitted(rows).condition == pytest.approx(
        np.linalg.cond(x / np.linalg.norm(x, axis=0)), rel=1e-6
    )


def test_the_condition_of_nearly_equal_columns_has_its_digits() -> None:
    """Where float64 has lost the smallest eigenvalue."""
    rows = np.zeros((1 << 12, 3), dtype=np.int64)
    source = np.random.default_rng(1)
    rows[:, 0] = source.integers(-(1 << 16), 1 << 16, len(rows))
    rows[:, 1] = rows[:, 0]
    rows[7, 1] += 1
    x = [row[:2] - rows[:, :2].mean(axis=0) for row in rows]
    assert fitted(rows).condition == pytest.approx(np.linalg.cond(np.array(x)), rel=1e-3)


def test_dependent_columns_say_on_which() -> None:
    rows = columns(7, 50, 5)
    rows[:, 1] = 77
    rows[:, 3] = 2 * rows[:, 0] - 3 * rows[:, 2] + 5
    found = fitted(rows)
    constant, sum_ = found.dependent
    assert found.kept == (0, 2, 4) and found.rank == 3
    assert (constant.column, constant.factors, constant.constant) == (1, (), 77)
    assert (sum_.column, sum_.factors, sum_.constant) == (3, ((0, 2), (2, -3)), 5)
    assert found.weights[1] == found.weights[3] == 0
    less = fitted(rows[:, [0, 2, 4, 5]])
    assert found.weights[[0, 2, 4]].tolist() == less.weights.tolist()


def test_no_rows() -> None:
    nothing = initial_totals(np.zeros((0, 4), dtype=np.int64))
    found = fit_exactly(nothing)
    assert found.rank == 0 and found.weights.tolist() == [0, 0, 0] and found.bias(BITS) == 0
    assert len(found.dependent) == 3 and found.condition == 1


def test_many_columns() -> None:
    """63 features, with the largest sums."""
    source = np.random.default_rng(2)
    rows = source.integers(-(1 << 16), 1 << 16, (300, 64))
    best = np.linalg.lstsq(
        np.column_stack([np.ones(300), rows[:, :-1]]).astype(float),
        rows[:, -1].astype(float),
        rcond=None,
    )[0]
    assert np.allclose(fitted(rows).weights, best[1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_for_any_rounding(seed: int) -> None:
    """Weights of the unrounded values, in rational arithmetic, are within the bounds; they are not vacuous."""
    source = np.random.default_rng(seed)
    real = columns(seed, 60, 3, 0.3) / 64 + source.uniform(-0.5, 0.5, (60, 4)) / 64
    rows = np.rint(real).astype(np.int64)
    left = real - rows
    rounding = Rounding(np.abs(left).max(axis=0), np.linalg.norm(left, axis=0))
    found = fitted(rows)
    bounds, bias = found.bounds(rounding)
    exact_bias, exact = least_squares([[Fraction(float(v)) for v in row] for row in real])
    off = np.abs(found.weights - [float(w) for w in exact])
    assert (off <= bounds).all() and abs(found.bias(0) - float(exact_bias)) <= bias
    assert bounds.max() / 200 < off.max()


def test_rounding_that_hides_the_rank_has_no_bound() -> None:
    rows = columns(9, 60, 2)
    rows[:, 1] = rows[:, 0] + (np.arange(60) == 5)
    half = np.full(3, 0.5)
    bounds, bias = fitted(rows).bounds(Rounding(half, half * 60**0.5))
    assert np.isinf(bounds).all() and np.isinf(bias)
    bounds, bias = fitted(rows).bounds(Rounding(half * 0, half * 0))
    assert np.isfinite(bounds).all() and bias == 0
