"""Tables as people have them: those that scikit-learn and statsmodels bundle, tables in raw units, random ones; and exact weights of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq_mat, fmpz_mat
from numpy.typing import NDArray

__all__ = ["RAW", "bundled", "exact_weights", "random_table"]

Columns = Mapping[str, NDArray[Any]]


def exact_weights(columns: Columns) -> list[Fraction] | None:
    """Return bias and weights of the label `y`, in rational arithmetic on the values as they are; None where the rows do not determine
    them all. Rows with NaN are left out. The normal equations with the 1 among the columns, by FLINT."""
    names = [*(name for name in columns if name != "y"), "y"]
    every = np.column_stack([columns[name].astype(np.float64) for name in names])
    kept = np.isfinite(every).all(axis=1)
    scales, a = [Fraction(1)], [np.ones(int(kept.sum()), dtype=object)]
    for name in names:
        values = [Fraction(v) for v in columns[name][kept].tolist()]
        scale = Fraction(max((v.denominator for v in values), default=1))
        scales.append(scale)
        a.append(np.array([int(v * scale) for v in values], dtype=object))
    size = len(names)
    gram = np.array([[int(x @ y) for y in a] for x in a[:size]], dtype=object)
    matrix = fmpz_mat(gram[:, :size].tolist())
    if not len(a[0]) or matrix.rank() < size:
        return None
    solved = fmpq_mat(matrix).solve(fmpq_mat(fmpz_mat([[v] for v in gram[:, size].tolist()])))
    exact = [Fraction(int(solved[k, 0].p), int(solved[k, 0].q)) for k in range(size)]
    return [w * s / scales[-1] for w, s in zip(exact, scales, strict=False)]


def _numeric(frame: Any, label: str) -> dict[str, NDArray[Any]] | None:
    names = [n for n in frame.columns if frame[n].dtype.kind in "biuf" and n != label]
    x = {str(n): frame[n].to_numpy() for n in names}
    y = frame[label].to_numpy()
    return {**x, "y": y} if names and y.dtype.kind in "biuf" else None


def bundled() -> Iterator[tuple[str, Callable[[], dict[str, NDArray[Any]] | None]]]:
    """Yield the bundled numeric tables by name: the last column (or the first of statsmodels' endogenous ones) is the label."""
    from sklearn import datasets

    for name in ("diabetes", "wine", "breast_cancer", "iris", "linnerud"):
        more = {"scaled": False} if name == "diabetes" else {}

        def load(name: str = name, more: dict[str, Any] = more) -> dict[str, NDArray[Any]]:
            found = getattr(datasets, f"load_{name}")(**more)
            y = np.asarray(found.target).reshape(len(found.data), -1)[:, 0]
            return {**{f"c{k}": column for k, column in enumerate(found.data.T)}, "y": y}

        yield name, load
    import statsmodels.datasets as sets

    for name in sorted(dir(sets)):
        if hasattr(getattr(sets, name), "load_pandas"):

            def read(name: str = name) -> dict[str, NDArray[Any]] | None:
                frame = getattr(sets, name).load_pandas()
                label = getattr(frame, "endog_name", None)
                known = isinstance(label, str) and label in frame.data.columns
                label = label if known else frame.data.columns[-1]
                return _numeric(frame.data, label)

            yield name, read


def _raw(make: Callable[[np.random.Generator, int], dict[str, NDArray[Any]]], rows: int) -> Columns:
    source = np.random.default_rng(rows)
    x = make(source, rows)
    near = [(c if c.dtype == bool else c - c.min()).astype(np.float64) for c in x.values()]
    scaled = [(v - v.mean()) / (v.std() or 1) for v in near]
    y = np.sum(
        [w * v for w, v in zip(source.uniform(-2, 2, len(scaled)), scaled, strict=True)], axis=0
    )
    return {**x, "y": y + source.standard_normal(rows)}


_COLUMNS: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "flag": lambda s, n: s.random(n) < 0.3,
    "id": lambda s, n: (1 << 63) - 1 - s.permutation(n),
    "key": lambda s, n: s.integers(0, 1 << 40, n),
    "ms": lambda s, n: 1_700_000_000_000 + s.integers(0, 10**11, n),
    "seconds": lambda s, n: 1.7e9 + s.random(n) * 1e6,
    "price": lambda s, n: np.round(s.lognormal(3, 1, n), 2),
    "revenue": lambda s, n: np.round(s.lognormal(14, 2, n), 2),
    "share": lambda s, n: s.random(n).astype(np.float32),
    "year": lambda s, n: s.integers(1950, 2025, n),
    "latitude": lambda s, n: 47 + s.random(n),
    "pressure": lambda s, n: 101_325 + 200 * s.standard_normal(n),
    "molar": lambda s, n: 1e-9 * s.lognormal(0, 1, n),
    "joules": lambda s, n: 6.6e-34 * s.lognormal(0, 1, n),
    "count": lambda s, n: s.poisson(3, n),
}
_NAMES = tuple(_COLUMNS)
#: tables in raw units, each of five kinds of columns
RAW: dict[str, Callable[[], Columns]] = {
    f"raw{k}": (
        lambda k=k: _raw(
            lambda s, n: {
                name: _COLUMNS[name](s, n)
                for name in (_NAMES[(k + step) % len(_NAMES)] for step in (0, 1, 3, 6, 10))
            },
            40 + 13 * k,
        )
    )
    for k in range(22)
}


def random_table(seed: int) -> dict[str, NDArray[Any]]:
    """Return a random table: offsets up to 10¹², scales of 10⁻³⁰ to 10³⁰, all types, nearly equal or dependent columns, few rows, NaN."""
    source = np.random.default_rng(seed)
    features = int(source.integers(1, 7))
    rows = int(
        source.integers(1, features + 2)
        if source.random() < 0.1
        else source.integers(features + 2, 80)
    )
    x: dict[str, NDArray[Any]] = {}
    for k in range(features):
        kind = source.integers(5)
        values = source.standard_normal(rows)
        if kind == 0:
            column = _COLUMNS[str(source.choice(_NAMES))](source, rows)
        elif kind == 1 and x:
            column = next(iter(x.values())).astype(np.float64)
            column = column + (np.ptp(column) or 1) * 10.0 ** -source.integers(0, 9) * values
        else:
            column = values * 10.0 ** source.integers(-30, 31)
            if kind == 2:
                column = values * 10.0 ** source.integers(-3, 3) + 10.0 ** source.integers(0, 13)
        x[f"c{k}"] = column
    if source.random() < 0.1:
        x["c0"] = x[f"c{features - 1}"] if features > 1 else np.full(rows, 3)
    table = dict(_raw(lambda s, n: x, rows)) if rows > 1 else {**x, "y": np.zeros(rows)}
    if source.random() < 0.2:
        name = str(source.choice([n for n, c in table.items() if c.dtype == np.float64] or ["y"]))
        table[name] = table[name].copy()
        table[name][source.random(rows) < 0.1] = np.nan
    return table
