"""Least squares over a table's own values: beside rational arithmetic, and beside SciPy's and scikit-learn's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from penstock.host.least_squares import Fit
from testbench.least_squares import fitted
from testbench.rational import least_squares

Columns = Sequence[np.ndarray]


def check(
    found: Fit,
    columns: Columns,
    minimum_norm: bool = False,
    each: np.ndarray | None = None,
    ridge: float = 0.0,
) -> float:
    """The weights are as near to the exact ones as the fit says; return the largest difference, times spreads (with penalties).
    `each`: weights of the rows."""
    rows = [[Fraction(v) for v in row] for row in zip(*(c.tolist() for c in columns), strict=True)]
    observations = None if each is None else [Fraction(w) for w in each.tolist()]
    bias, weights = least_squares(rows, minimum_norm, observations, Fraction(ridge))
    off = [
        abs(Fraction(w) - exact) for w, exact in zip(found.weights.tolist(), weights, strict=True)
    ]
    assert all(o <= Fraction(most) for o, most in zip(off, found.error.tolist(), strict=True))
    assert abs(Fraction(found.bias) - bias) <= Fraction(found.bias_error)
    spread = found.lengths / math.sqrt(found.total or 1)
    return max(float(o) * s for o, s in zip(off, spread, strict=True)) if len(off) else 0.0


def table(seed: int, rows: int = 60) -> list[np.ndarray]:
    """Columns of all types, any scale, near 0 or far from it, the last ones nearly equal."""
    source = np.random.default_rng(seed)
    x = [
        source.standard_normal(rows) * 10.0 ** source.integers(-30, 30),
        source.integers(0, 2, rows),
        (1 << 62) + source.integers(0, 10**6, rows) + (1 << 61),
        1_600_000_000_000 + source.integers(0, 10**10, rows),
        1e12 + source.standard_normal(rows) * 10.0 ** source.integers(0, 5),
        np.float32(source.standard_normal(rows)).astype(np.float64),
    ]
    x.append(x[5] + 10.0 ** -source.integers(0, 5) * source.standard_normal(rows))
    scaled = [(v - v.mean()) / v.std() for v in (c.astype(np.float64) for c in x)]
    y = np.sum(scaled, axis=0) + source.standard_normal(rows)
    return [c.astype(np.int64) if c.dtype.kind in "iu" else c for c in (*x, y)]


@pytest.mark.parametrize("limbs", [None, 1, 2, 3])
def test_weights_are_those_of_rational_arithmetic(limbs: int | None) -> None:
    how = set()
    for seed in range(4):
        columns = table(seed)
        found = fitted(columns, limbs)
        how.add(found.preconditioner)
        assert found.condition_scaled < 1e6
        assert check(found, columns) < 1e-9
    assert how == {"host", "sums"} if limbs == 1 else how == {"sums"}


@pytest.mark.parametrize("reach", [0, 1e6])
def test_a_bias_near_zero(reach: float) -> None:
    """Where columns are standardised, the means' own rounding is all that the bias is off by."""
    for seed in range(4):
        source = np.random.default_rng(seed)
        x = source.standard_normal((2, 100))
        x[0, 0] += reach
        x -= x.mean(axis=1, keepdims=True)
        y = 3 * x[0] + source.standard_normal(100)
        columns = [*x, y - y.mean()]
        check(fitted(columns), columns)
        each = np.where(np.arange(100), source.random(100) + 0.5, 1e-9)
        check(fitted(columns, weights=each), columns, each=each)


def test_whole_numbers_are_solved_exactly() -> None:
    source = np.random.default_rng(1)
    columns = [source.integers(-(1 << 40), 1 << 40, 50) for _ in range(6)]
    found = fitted(columns)
    rows = [[Fraction(v) for v in row] for row in np.array(columns).T.tolist()]
    assert found.preconditioner == "none"
    assert found.weights.tolist() == [float(w) for w in least_squares(rows)[1]]
    check(found, columns)


def test_many_columns() -> None:
    """63 features."""
    source = np.random.default_rng(2)
    columns = list(source.integers(-(1 << 33), 1 << 33, (64, 200)))
    best = LinearRegression().fit(np.array(columns[:-1]).T, columns[-1])
    assert np.allclose(fitted(columns).weights, best.coef_, rtol=0, atol=1e-10)


def test_columns_that_the_sums_do_not_resolve() -> None:
    """Nearer to each other than any sum of rounded values tells: what float64 can answer is answered."""
    source = np.random.default_rng(3)
    a, b = source.standard_normal((2, 200))
    columns = [a, a + 1e-11 * b, a + b + source.standard_normal(200)]
    found = fitted(columns)
    assert found.preconditioner == "host" and not found.dependent and found.condition_scaled > 1e10
    check(found, columns)


def _nearly_alike(seed: int) -> list[np.ndarray]:
    """Columns of a condition of 10³ to 10¹¹, with singular values in a row or one that is small alone."""
    source = np.random.default_rng(seed)
    rows, count, small = (
        int(source.choice([8, 12, 30])),
        int(source.integers(2, 6)),
        10.0 ** -source.uniform(3, 11),
    )
    sizes = np.geomspace(1, small, count) if seed % 2 else np.r_[np.ones(count - 1), small]
    turned = [np.linalg.qr(source.standard_normal((n, count)))[0] for n in (rows, count)]
    x = turned[0] * sizes @ turned[1] * 10.0 ** source.integers(-5, 5, count)
    y = x @ source.standard_normal(count)
    return [*x.T, y + source.standard_normal(rows) * 10.0 ** source.integers(-9, 1)]


@pytest.mark.parametrize("limbs", [None, 1, 2, 3])
def test_columns_nearly_alike(limbs: int | None) -> None:
    """As near to the exact weights as is said, and nearer than a QR factorisation in float64, whatever the condition."""
    for seed in range(25):
        columns = _nearly_alike(seed)
        found = fitted(columns, limbs)
        assert not found.dependent
        z = [c - c.mean() for c in columns]
        basis, factor = np.linalg.qr(np.array(z[:-1]).T / np.linalg.norm(z[:-1], axis=1))
        theirs = np.linalg.solve(factor, basis.T @ z[-1]) / np.linalg.norm(z[:-1], axis=1)
        qr = replace(found, weights=theirs, error=np.full(len(theirs), 1e300))
        size = float(np.abs(theirs * found.lengths).max() / math.sqrt(found.total))
        assert check(found, columns) <= check(qr, columns) + 1e-15 * size, seed


DEPENDENT = {
    "exact": [np.arange(50) % 7, np.full(50, 77), np.arange(50) % 11, np.arange(50) ** 2 % 13],
    "real": [np.arange(50) % 7 / 3, np.full(50, 77.1), np.arange(50) % 11 / 7, np.arange(50) ** 2 % 13 / 9],
}  # fmt: skip


@pytest.mark.parametrize("kind", DEPENDENT)
@pytest.mark.parametrize("minimum_norm", [False, True])
def test_dependent_columns_say_on_which(kind: str, minimum_norm: bool) -> None:
    a, constant, b, y = DEPENDENT[kind]
    columns = [a, constant, b, 2 * a - 3 * b + 5, y]
    found = fitted(columns, minimum_norm=minimum_norm)
    assert found.kept == (0, 2) and [d.column for d in found.dependent] == [1, 3]
    one, sum_ = found.dependent
    assert one.factors == () and one.constant == pytest.approx(constant[0])
    assert [k for k, _ in sum_.factors] == [0, 2]
    assert [f for _, f in sum_.factors] == pytest.approx(
        [2, -3]
    ) and sum_.constant == pytest.approx(5)
    x = np.array(columns[:-1]).T.astype(np.float64)
    if minimum_norm:
        wanted = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=1e-9)[0]
        assert np.allclose(found.weights, wanted, rtol=0, atol=1e-9)
    else:
        assert found.weights[1] == found.weights[3] == 0
        less = fitted([a, b, y])
        assert found.weights[[0, 2]] == pytest.approx(less.weights, rel=1e-14)
        assert found.std_err[1][[0, 2]] == pytest.approx(less.std_err[1])


@pytest.mark.parametrize("scale", [1.0, 2.0**-10, 1e-4, 1e-8, 1e-12, 1e12])
def test_least_weights_where_scales_differ(scale: float) -> None:
    """The first two columns, twice the first, four times the second; or their sum, where it is one of float64."""
    for seed in range(3):
        source = np.random.default_rng(seed)
        a, b = source.standard_normal((2, 50))
        y = a + b + source.standard_normal(50)
        columns = [a, b * scale, 2 * a, 4 * (b * scale), y]
        assert check(fitted(columns, limbs=1, minimum_norm=True), columns, True) < 1e-9
        columns = [a * 64 // 1, b * 64 // 1 / 2**20 + 3]
        columns = [*columns, sum(columns), 2 * columns[0] - columns[1], y]
        assert check(fitted(columns, limbs=1, minimum_norm=True), columns, True) < 1e-6


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_few_rows(rows: int) -> None:
    source = np.random.default_rng(4)
    columns = list(source.standard_normal((4, rows)))
    found = fitted(columns, 2)
    assert found.rank == max(0, rows - 1) and len(found.dependent) == 3 - found.rank
    assert np.isfinite(found.weights).all() and np.isnan(found.std_err[1]).all()


@pytest.mark.parametrize("intercept", [True, False])
def test_statistics_are_those_of_the_formulas(intercept: bool) -> None:
    source = np.random.default_rng(5)
    x = source.standard_normal((80, 4)) + 3
    y = x @ [1, -2, 0, 3] + 7 + source.standard_normal(80)
    found = fitted([*x.T, y], intercept=intercept)
    a = np.column_stack([np.ones(80), x]) if intercept else x
    best = np.linalg.lstsq(a, y, rcond=None)[0]
    left = y - a @ best
    variance = left @ left / (80 - a.shape[1])
    said = found.statistics()
    assert np.allclose(said["coef"], best, rtol=1e-11)
    assert np.allclose(
        said["std_err"], np.sqrt(variance * np.diag(np.linalg.inv(a.T @ a))), rtol=1e-10
    )
    assert said["condition"] == pytest.approx(np.linalg.cond(a), rel=1e-10)
    assert said["rss"] == pytest.approx(left @ left, rel=1e-11)
    total = ((y - y.mean()) ** 2).sum() if intercept else y @ y
    assert said["r2"] == pytest.approx(1 - left @ left / total, rel=1e-11)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("per", ["weight", "sd"])
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_scikit_learns(whole: bool, per: str, intercept: bool) -> None:
    source = np.random.default_rng(6)
    x = source.standard_normal((70, 4)) * [1, 50, 200, 0] + [3, 0, 900, 8.1]  # the last is constant
    y = np.rint(x @ [10, 1, 0.1, 0] + source.standard_normal(70))
    x = np.rint(x) if whole else x
    columns = [c.astype(np.int64) if whole else c for c in (*x.T, y)]
    found = fitted(columns, ridge=2.5, ridge_per=per, intercept=intercept)
    spread = (x.std(axis=0) if intercept else np.sqrt((x**2).mean(axis=0))) if per == "sd" else 1
    spread = np.where(np.greater(spread, 1e-9), spread, 1)
    best = Ridge(alpha=2.5, fit_intercept=intercept, solver="svd").fit(x / spread, y)
    assert np.allclose(found.weights, best.coef_ / spread, rtol=1e-10, atol=1e-13)
    assert not found.dependent
    assert found.bias == pytest.approx(best.intercept_, rel=1e-9, abs=1e-12)
    assert (found.preconditioner == "none") == whole


@pytest.mark.parametrize("limbs", [None, 1, 2, 3])
def test_weights_of_rows(limbs: int | None) -> None:
    """Of any size, beside rational arithmetic and on the way of all fits."""
    how = set()
    for seed in range(3):
        columns, source = table(seed, 40), np.random.default_rng(seed)
        each = 10.0 ** source.integers(-20, 20) * source.lognormal(0, 2, 40)
        found = fitted(columns, limbs, each)
        how.add(found.preconditioner)
        assert check(found, columns, each=each) < 1e-9
        alone = fitted(columns, limbs, each, refine=False)
        assert alone.preconditioner == "none"
        check(alone, columns, each=each)
    assert how <= {"host", "sums"} if limbs == 1 else how == {"sums"}


@pytest.mark.parametrize("far", [1e3, 1e12, 1e18, 1e30])
@pytest.mark.parametrize("weight", [0.0, 1e-40, 1e-24])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_far_and_weighs_little(far: float, weight: float, whole: bool) -> None:
    """It is in no other row's way: neither in the weights nor in the error that is stated."""
    source = np.random.default_rng(11)
    x, noise, each = source.standard_normal(30), source.standard_normal(30), np.ones(30)
    x[3], each[3] = far, weight
    if whole:
        x = np.rint(np.minimum(x * 64, 2.0**62)).astype(np.int64)
    columns = [x, 2 * np.where(each < 1, 0, x) + noise]
    found = fitted(columns, weights=each)
    least = weight * float(x[3]) ** 2 < 1
    assert (
        check(found, columns, each=each) < (1e-13 if least else 1e-9)
        and found.condition_scaled < 10
    )
    assert found.error.max() < (1e-13 if least else 1e-6) and found.bias_error < 1e-13


@pytest.mark.parametrize("scale", [1e-300, 1e-16, 1e-10, 1e-8, 1e-3, 1e10])
@pytest.mark.parametrize("limbs", [None, 1])
def test_ridge_where_scales_differ(scale: float, limbs: int | None) -> None:
    """Penalties make every column one of its own, however small it is."""
    for seed in range(3):
        source = np.random.default_rng(seed)
        a, b, noise = source.standard_normal((3, 40))
        columns = [a, b * scale, a + 1e-3 * noise, a + b + noise]
        each = source.random(40) + 0.5 if seed else None
        found = fitted(columns, limbs, each, ridge=10.0)
        assert not found.dependent
        assert check(found, columns, each=each, ridge=10.0) < 1e-13
        x = np.array(columns[:-1]).T
        roots = np.ones(40) if each is None else np.sqrt(each)
        if scale > 1e-10:  # which a QR factorisation in float64 resolves
            a = np.column_stack([np.ones(40), x]) * roots[:, None]
            assert found.condition == pytest.approx(np.linalg.cond(a), rel=1e-6)
        z = (x - np.average(x, axis=0, weights=each)) * roots[:, None]
        scaled = z / np.abs(z).max(axis=0)
        scaled /= np.linalg.norm(scaled, axis=0)
        assert found.condition_scaled == pytest.approx(np.linalg.cond(scaled), rel=1e-9)
        assert found.error @ found.lengths < 1e-12 and found.bias_error < 1e-13


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("ridge", [1e-30, 1e-300])
def test_a_penalty_that_float64_does_not_see(whole: bool, weighted: bool, ridge: float) -> None:
    """It determines the weights of columns that depend on each other, as exact arithmetic says."""
    source = np.random.default_rng(30)
    x = source.normal(size=(20, 2))
    x = np.rint(100 * x) if whole else x
    columns = [x[:, 0], x[:, 0], 3 * x[:, 1], x[:, 1], x @ [1, 2] + source.normal(size=20)]
    each = source.uniform(0.5, 2, 20) if weighted else None
    found = fitted(columns, None if whole else 2, each, ridge=ridge)
    rows = [[Fraction(v) for v in row] for row in np.column_stack(columns).tolist()]
    observed = None if each is None else [Fraction(w) for w in each.tolist()]
    bias, weights = least_squares(rows, False, observed, Fraction(ridge))
    assert found.dependent == () and [float(w) for w in weights] == found.weights.tolist()
    assert found.bias == float(bias) and found.rank == 4


def test_a_condition_beyond_all_digits() -> None:
    """Columns that differ in one number of 10⁻⁵⁵ and less have weights, and a condition, of their own."""
    for seed in range(12):
        source = np.random.default_rng(seed)
        c, a, y = source.standard_normal((3, 6))
        a[0], b, tiny = 0, a.copy(), 10.0 ** -source.integers(55, 140)
        b[0] = tiny
        found = fitted([c, a, b, y], 2, ridge=1e-300)
        check(found, [c, a, b, y], ridge=1e-300)
        assert 0.1 < found.condition_scaled * tiny < 100


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("ridge", "refine"), [(0, True), (2.5, True), (2.5, False)])
def test_weighted_fits_are_scikit_learns(intercept: bool, ridge: float, refine: bool) -> None:
    source = np.random.default_rng(7)
    x = source.standard_normal((90, 3)) + np.array([0, 5, 50])
    y, each = x @ [1, 2, 3] + source.standard_normal(90), source.uniform(0.1, 3, 90)
    found = fitted([*x.T, y], None, each, intercept=intercept, ridge=ridge, refine=refine)
    best = (
        Ridge(alpha=ridge, fit_intercept=intercept, solver="svd")
        if ridge
        else LinearRegression(fit_intercept=intercept)
    ).fit(x, y, sample_weight=each)
    assert np.allclose(found.weights, best.coef_, rtol=1e-8)
    assert found.bias == pytest.approx(best.intercept_, rel=1e-7, abs=1e-12)
    assert found.preconditioner == ("sums" if refine else "none")


@pytest.mark.parametrize("scale", [1e300, 1e155, 1e-170, 1e-200])
def test_statistics_of_labels_far_out(scale: float) -> None:
    """Those that have no unit of the label's are the same."""
    source = np.random.default_rng(12)
    x = source.standard_normal((3, 30))
    y = x[0] + source.standard_normal(30)
    near, far = fitted([*x, y]), fitted([*x, y * scale])
    assert far.r2 == pytest.approx(near.r2, rel=1e-12) and np.isnan(far.rss)
    for name in ("t", "p"):
        assert far.statistics()[name] == pytest.approx(near.statistics()[name], rel=1e-9)


def test_statistics_of_weighted_rows() -> None:
    """As of the rows times the roots of their weights."""
    source = np.random.default_rng(9)
    x, each = source.standard_normal((50, 3)) + 7, source.uniform(0.1, 3, 50)
    y = x @ [1, 2, 3] + source.standard_normal(50)
    a = np.sqrt(each)[:, None] * np.column_stack([np.ones(50), x])
    best = np.linalg.lstsq(a, np.sqrt(each) * y, rcond=None)[0]
    left = np.sqrt(each) * y - a @ best
    for refine in (True, False):
        said = fitted([*x.T, y], None, each, refine=refine).statistics()
        assert np.allclose(said["coef"], best, rtol=1e-7)
        variance = left @ left / 46
        wanted = np.sqrt(variance * np.diag(np.linalg.inv(a.T @ a)))
        assert np.allclose(said["std_err"], wanted, rtol=1e-7)
        assert said["condition"] == pytest.approx(np.linalg.cond(a), rel=1e-7)
        total = each @ (y - np.average(y, weights=each)) ** 2
        assert said["r2"] == pytest.approx(1 - left @ left / total, rel=1e-8)


def test_sums_alone() -> None:
    """Without refinement the stated error has what rounding did."""
    source = np.random.default_rng(8)
    columns = list(source.standard_normal((4, 60)))
    for limbs in (1, 2):
        found = fitted(columns, limbs, refine=False)
        assert 0 < check(found, columns) < found.error.max() < (1e-2 if limbs == 1 else 1e-7)
