"""What statisticians ask of a fit, beside statsmodels; and fits after a thousand refits, beside Python's integers and fresh fits."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from penstock.dsl.qr.units import unit_of
from penstock.host.least_squares import Options, Rows, Sums, fit
from penstock.models.qr import columns as c
from testbench.least_squares import fitted, sums_of

#: up to this condition number float64's own statistics are a judge
_MOST = 1e6


def _table(seed: int) -> list[np.ndarray]:
    """Columns of several types and scales, the label last."""
    source = np.random.default_rng(seed)
    rows, features = int(source.integers(20, 200)), int(source.integers(1, 8))
    x = [source.standard_normal(rows) * 10.0 ** source.integers(-2, 3) for _ in range(features)]
    x[0] = x[0] + 10.0 ** source.integers(0, 3)
    if features > 1:
        x[1] = source.integers(0, 2, rows)
    if features > 2:
        x[2] = x[0] + source.standard_normal(rows) * x[0].std() / 10 ** source.integers(0, 3)
    y = sum((v - v.mean()) / (v.std() or 1) for v in x) + source.standard_normal(rows)
    return [*x, np.asarray(y)]


@pytest.mark.parametrize("kind", ["plain", "through 0", "weighted"])
def test_statistics_are_those_of_statsmodels(kind: str) -> None:
    judged = 0
    for seed in range(60):
        columns = _table(seed)
        x, y = np.column_stack(columns[:-1]).astype(np.float64), columns[-1]
        weights = None
        if kind == "weighted":
            weights = np.random.default_rng(seed).uniform(0.1, 3, len(y))
        intercept = kind != "through 0"
        found = fitted(columns, weights=weights, intercept=intercept)
        if found.condition > _MOST:
            continue
        judged += 1
        a = sm.add_constant(x, has_constant="add") if intercept else x
        judge = (sm.OLS(y, a) if weights is None else sm.WLS(y, a, weights)).fit()
        own = found.statistics()
        for name, of in (
            ("coef", "params"),
            ("std_err", "bse"),
            ("t", "tvalues"),
            ("p", "pvalues"),
        ):
            one, other = np.asarray(own[name]), getattr(judge, of)
            # a small p-value has the error of t times t
            far = 1e-8 * (1 + np.asarray(own["t"]) ** 2 if name == "p" else 1)
            size = np.abs(other) if name != "coef" else np.abs(other) + judge.bse
            assert (np.abs(one - other) <= far * size).all(), (seed, name)
        if kind != "through 0" or a.std(axis=0).all():
            assert own["r2"] == pytest.approx(judge.rsquared, rel=1e-8), seed
        if weights is None:
            assert own["condition"] == pytest.approx(judge.condition_number, rel=1e-8), seed
        assert own["rss"] == pytest.approx(judge.ssr, rel=1e-8)
    assert judged >= 50


def test_a_thousand_refits() -> None:
    """Rows come and go, the means drift, a column gets another unit: the sums are Python's integers', refined weights those of a fresh fit."""
    source = np.random.default_rng(28)
    count, features, units, totals, anew = 12_000, 4, None, None, 0
    drift = np.cumsum(source.standard_normal((count, features)), axis=0) * [0, 0.01, 1, 1e3]
    x = source.standard_normal((count, features)) * [1, 0.1, 7, 1e4] + drift
    x[count // 2 :, 3] *= 1e5  # the sensor was exchanged
    table = np.column_stack([x, x @ [1, -2, 0.3, 1e-4] + source.standard_normal(count)])
    first = last = 0

    def in_units(rows: np.ndarray) -> np.ndarray:
        assert units is not None
        return np.column_stack(
            [
                np.rint(np.ldexp(v, -u.shift)).astype(np.int64)
                for v, u in zip(rows.T, units, strict=True)
            ]
        )

    for number in range(1000):
        come = int(source.integers(0, 12)) if number else 100
        go = int(source.integers(0, 12)) if last - first > 100 else 0
        kept = table[first + go : last + come]
        ranges = (
            []
            if units is None or totals is None
            else zip(kept.T, units, totals.offsets.tolist(), strict=True)
        )
        fits = units is not None and all(
            (np.abs(np.rint(np.ldexp(v, -u.shift)) - o) < 1 << 17 * u.limbs).all()
            for v, u, o in ranges
        )
        if not fits:  # as the host does for a row out of range: units of the rows that are there
            units, anew = [unit_of(v, 2) for v in kept.T], anew + 1
            made = c.Columns(tuple(u.limbs for u in units), 1)
            totals = c.initial_totals(made, [u.shift for u in units], [u.offset for u in units])
            totals = c.add_rows(totals, in_units(kept))
        else:
            assert totals is not None
            totals = c.add_rows(totals, in_units(table[last : last + come]))
            totals = c.remove_rows(totals, in_units(table[first : first + go]))
        first, last = first + go, last + come
        if c.needs_recentring(totals):
            totals = c.recentre(totals)
        q = np.column_stack([np.ones(len(kept), np.int64), in_units(kept) - totals.offsets]).astype(
            object
        )
        assert (totals.joined == q.T @ q).all()
        if number % 10 == 0 or not fits:
            sums = Sums(totals.joined, totals.offsets.tolist(), totals.shifts.tolist(), [False] * 5)
            own = fit(sums, Rows(list(kept.T)), Options())
            fresh_units = [unit_of(v) for v in kept.T]
            fresh = fit(sums_of(list(kept.T), fresh_units), Rows(list(kept.T)), Options())
            size = np.abs(fresh.weights * fresh.lengths).max()
            assert (np.abs(own.weights - fresh.weights) * fresh.lengths <= 1e-9 * size).all(), (
                number
            )
    assert 2 <= anew < 100
