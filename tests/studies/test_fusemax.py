"""FuseMax: the printed points of its closed form, its buffer, and its cascade beside plain softmax."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.report.papers import figures
from penstock_studies.fusemax.cascade import attention
from penstock_studies.fusemax.closed_form import MODELS, Array
from penstock_studies.fusemax.report import as_printed


def test_printed():
    """BERT's four points, to their digits."""
    data = figures("penstock_studies.fusemax", "fusemax")
    for length, printed in zip(data["lengths"], data["bert"]["FuseMax"], strict=True):
        assert as_printed(Array().seconds(MODELS["BERT"], length), printed) == printed


def test_tile():
    """At long lengths the array works (E + F + 9) / (E + F + 10) of a tile."""
    for size in (64, 128):
        assert Array().tile(size, 1 << 30) == pytest.approx(2 * size + 10)
        assert Array().utilisation(size, 1 << 30) == pytest.approx((2 * size + 9) / (2 * size + 10))


@pytest.mark.parametrize("size", [64, 128])
def test_buffer(size):
    """What a filled buffer holds fits; the next divisor would not."""
    array, length = Array(), 1 << 20
    tiles = length // array.side
    held = array.queries(size, length)
    assert tiles % held == 0

    def taken(n):  # keys and values of a tile; n tiles of queries, results, maxima and denominators
        return 2 * array.side * (2 * size + n * (2 * size + 2))

    assert taken(held) <= array.buffer
    larger = [n for n in range(held + 1, tiles + 1) if tiles % n == 0]
    assert not larger or taken(larger[0]) > array.buffer


def test_lengths():
    with pytest.raises(ValueError, match="multiple of 256, not 1000"):
        Array().seconds(MODELS["BERT"], 1000)


@pytest.mark.parametrize("tile", [1, 4, 12, 48])
def test_cascade(tile):
    """The cascade is attention, whatever the tile and the scale of the scores."""
    draw = np.random.default_rng(tile)
    q, k, v = (draw.standard_normal(size) for size in ((5, 8), (48, 8), (48, 6)))
    for scale in (1.0, 300.0):
        scores = scale * q @ k.T
        weights = np.exp(scores - scores.max(axis=1)[:, None])
        expected = weights / weights.sum(axis=1)[:, None] @ v
        np.testing.assert_allclose(
            attention(scale * q, k, v, tile), expected, rtol=1e-10, atol=1e-12
        )
    with pytest.raises(ValueError, match="not tiles of 5"):
        attention(q, k, v, 5)
