"""The eleven linear sets of NIST's Statistical Reference Datasets (public domain): digits of coefficients and standard errors beside LAPACK's.

Data that float64 rounds have another solution than the certified one. LAPACK may come nearer to that by luck, as it does for `filip` on some processors:
then the exact solution of the rounded data says how many digits there are.

data/nist.json has data and certified values as NIST gives them (https://www.itl.nist.gov/div898/strd/lls/lls.shtml).
"""

from __future__ import annotations

import json
from fractions import Fraction
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
    rows = [[Fraction(v) for v in row] for row in np.column_stack([a, y]).tolist()]
    columns = list(zip(*rows, strict=True))
    n = len(columns) - 1
    sums = [[sum(map(mul, one, other)) for other in columns] for one in columns]
    # [X'X | X'y | 1], by Gauss and Jordan: [1 | coefficients | inverse]
    left = [[*sums[i], *(Fraction(i == j) for j in range(n))] for i in range(n)]
    for i in range(n):
        left[i] = [v / left[i][i] for v in left[i]]
        for j in range(n):
            if j != i:
                left[j] = [u - left[j][i] * v for u, v in zip(left[j], left[i], strict=True)]
    rest = sums[n][n] - sum(left[i][n] * sums[i][n] for i in range(n))
    spread = [float(rest * left[i][n + 1 + i] / (len(rows) - n)) for i in range(n)]
    return np.array([float(left[i][n]) for i in range(n)]), np.sqrt(spread)


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
