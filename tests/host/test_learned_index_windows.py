"""Windows of keys, where groups are cut, and that a key's own guess is near what the engine predicts."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np

from penstock.host.learned_index.trainer import Model
from penstock.host.learned_index.windows import common, common_prefixes, cut, features, window_of
from penstock.models.qr.arith import codes
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit, Job, Window


def test_windows() -> None:
    assert [
        common(a, b)
        for a, b in (
            (b"", b""),
            (b"", b"a"),
            (b"abc", b"abd"),
            (b"ab", b"abc"),
            (b"a\0", b"a"),
            (b"x", b"y"),
        )
    ] == [0, 0, 2, 2, 1, 0]
    rng = random.Random(5)
    keys = sorted({bytes(rng.choices(b"\0ab", k=rng.randrange(8))) for _ in range(500)})
    assert common_prefixes(keys).tolist() == [0] + [common(a, b) for a, b in pairwise(keys)]
    tall = [b"a" * 2000, b"a" * 2000 + b"\0", b"b"]
    assert common_prefixes(tall).tolist() == [0, 2000, 0]
    assert features([b"abc", b"a", b""], Window(1, 3)).tolist() == [
        [98, 99, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]
    assert features([], Window(1, 3)).shape == (0, 3)
    assert (
        window_of(4, 9, -1, 63) == Window(4, 6)
        and window_of(4, 9, 3, 63) == Window(3, 7)
        and window_of(4, 9, 1, 63) == Window(4, 6)
    )
    assert window_of(4, 90, -1, 15) == Window(4, 15) and window_of(0, 0, -1, 15) == Window(0, 1)


def test_cut() -> None:
    rng = np.random.default_rng(3)
    for total in (0, 1, 9, 50, 500):
        prefixes = rng.integers(0, 12, total)
        starts = cut(prefixes, smallest=8, forward=12, backward=4, bytes_=5, largest=32)
        sizes = np.diff([*starts, total])
        assert (
            starts[:1] == ([0] if total else []) and (sizes[:-1] >= 8).all() and (sizes <= 32).all()
        )


def test_guess_is_near_the_engine() -> None:
    rng = np.random.default_rng(8)
    for n in (2, 5, 17, 64):
        for scale in (1e-3, 1.0, 1e4):
            keys = [rng.bytes(int(rng.integers(0, n + 3))) for _ in range(200)]
            rows = features(keys, Window(1, n - 1))
            weights = (rng.standard_normal(n) * scale).astype(np.float32)
            model = Model(made(weights, rng.integers(0, 256, n - 1).astype(np.uint8), rows))
            exact = model.predict(keys)
            for key, position in zip(keys, exact.tolist(), strict=True):
                assert model.near <= position - model.guess(key) <= model.far
    odd = Model(
        made(np.array([np.inf, 1.0], dtype=np.float32), np.zeros(1, dtype=np.uint8), rows[:, :1])
    )
    assert odd.guess(b"ab") == odd.predict([b"ab"])[0] == 2**31 - 1


def made(weights: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> Fit:
    """A fit of those weights, with bounds 0."""
    config = FitPlan(n_max=64)
    fit = refit(Job(0, Window(1, rows.shape[1]), offsets, rows[:1]), config)
    assert isinstance(fit, Fit)
    return replace(fit, weights=codes(weights), err_min=0, err_max=0)
