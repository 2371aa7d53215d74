"""MurmurHash3 of integers against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from penstock.models.rows.hashing import murmur3


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_four_bytes(seed: int) -> None:
    values = np.random.default_rng(seed).integers(-(2**31), 2**31, 1_000_000).astype(np.int32)
    values[:3] = 0, -(2**31), 2**31 - 1
    assert np.array_equal(murmur3(values, seed, 4), murmurhash3_32(values, seed))


def test_eight_bytes() -> None:
    values = np.random.default_rng(8).integers(-(2**63), 2**63 - 1, 5_000)
    expected = [murmurhash3_32(v.astype("<i8").tobytes(), 9) for v in values]
    assert np.array_equal(murmur3(values, 9, 8), expected)


def test_known() -> None:
    assert murmur3(np.array(12345), 7, 4) == 785460780
    with pytest.raises(ValueError, match="4 or 8 bytes, not 2"):
        murmur3(np.array(1), 7, 2)
