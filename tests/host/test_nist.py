"""The eleven linear sets of NIST's Statistical Reference Datasets (public domain): digits of coefficients and standard errors beside LAPACK's.

Data that float64 rounds have another solution than the certified one. LAPACK may come nearer to that by luck, as it does for `filip` on some processors:
then the exact solution of the rounded data says how many digits there are.

data/nist.json has data and certified values as NIST gives them (https://www.itl.nist.gov/div898/strd/lls/lls.shtml).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from scipy.linalg import qr, solve_triangular

from testbench.least_squares import fitted

SETS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "nist.json").read_text()
)


def digits(found: np.ndarray, certified: np.ndarray) -> float:
    """The digits that the worst of some numbers has; of a certified 0 as many as it has zeros."""
    scale = np.where(certified == 0, 1, np.abs(certified))
    away = np.abs(found - certified) / scale
    return float(min(15, -np.log10(max(away.max(), 1e-16))))


def exactly(a: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and standard errors of least squares in fractions, each rounded once."""
    x, label = (
        fmpq_mat(*m.shape, [fmpq(*v.as_integer_ratio()) for v in m.ravel().tolist()])
        for m in (a, y[:, None])
    )
    inverse = (x.transpose() * x).inv()
    found = inverse * x.transpose() * label
    left = label - x * found
    rest = (left.transpose() * left)[0, 0] / (x.nrows() - x.ncols())
    each = range(x.ncols())
    coef = [int(v.p) / int(v.q) for v in (found[i, 0] for i in each)]
    spread = [int(v.p) / int(v.q) for v in (rest * inverse[i, i] for i in each)]
    return np.array(coef), np.sqrt(spread)


@pytest.mark.parametrize("name", SETS)
def test_digits(name: str) -> None:
    data = SETS[name]
    y, intercept = np.array(data["y"]), data.get("intercept", True)
    x = [np.array(column) ** k for column in data["x"] for k in range(1, data["degree"] + 1)]
    found = fitted([*x, y], intercept=intercept)
    assert not found.dependent
    said = found.statistics()
    a = np.column_stack([np.ones(len(y)), *x] if intercept else x)
    q, r = qr(a, mode="economic")
    best = solve_triangular(r, q.T @ y)
    variance = np.square(y - a @ best).sum() / (len(y) - a.shape[1])
    errors = np.sqrt(variance) * np.linalg.norm(solve_triangular(r, np.eye(len(r))), axis=1)
    exact = exactly(a, y)
    for k, (what, lapack) in enumerate((("coef", best), ("std_err", errors))):
        certified = np.array(data[what])
        there = min(digits(lapack, certified) - 0.5, digits(exact[k], certified) - 0.01)
        assert digits(said[what], certified) >= there
