"""FuseMax's cascade of Einsums in float64: attention in one pass over tiles of keys, with corrections.

Names are the paper's (B and H left out). Source: FuseMax (MICRO 2024); sign and order of PRM are our reading.
"""

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]


def attention(q: _Array, k: _Array, v: _Array, tile: int) -> _Array:
    """Return softmax(q kᵀ) v for q (queries, size), k and v (keys, size), with `tile` keys at a time.

    Raises ValueError where `tile` does not divide the number of keys.
    """
    if tile < 1 or len(k) % tile:
        raise ValueError(f"{len(k)} keys are not tiles of {tile}")
    rm = np.full(len(q), -np.inf)  # running maximum, denominator, numerator times values
    rd, rnv = np.zeros(len(q)), np.zeros((len(q), v.shape[1]))
    for start in range(0, len(k), tile):
        qk = q @ k[start : start + tile].T
        raised = np.maximum(rm, qk.max(axis=1))
        sln = np.exp(qk - raised[:, None])
        prm = np.exp(rm - raised)
        rd = rd * prm + sln.sum(axis=1)
        rnv = rnv * prm[:, None] + sln @ v[start : start + tile]
        rm = raised
    return rnv / rd[:, None]
