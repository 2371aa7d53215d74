"""Decays as rates: c = 1 − d as float16 with gradual underflow.

Near 1, the distance to 1 is what counts: it is the time constant. The register of a unit holds rates of 16 bits; MX8's
32 lanes take two registers, and one write of 16 alike codes sets both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST", "beyond", "codes", "lost", "magnitude_and_exponent", "numbers"]

#: the largest rate
LARGEST = 65504.0
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def codes(rates: Floats) -> NDArray[np.uint16]:
    """Return the codes of rates, rounded to nearest even; those beyond the range give infinities."""
    with np.errstate(over="ignore"):
        return np.asarray(rates, dtype=np.float64).astype(np.float16).view(np.uint16)


def numbers(held: NDArray[np.uint16]) -> Floats:
    """Return the rates of codes."""
    return np.asarray(held, dtype=np.uint16).view(np.float16).astype(np.float64)


def magnitude_and_exponent(held: NDArray[np.uint16]) -> tuple[Ints, Ints]:
    """Return magnitudes of 11 bits, signed, and exponents e: the rate is magnitude · 2^(e − 25)."""
    wide = held.astype(np.int64)
    exponent = wide >> 10 & 31
    magnitude = wide & 1023 | np.where(exponent > 0, 1024, 0)
    return np.where(wide >> 15 == 1, -magnitude, magnitude), np.maximum(exponent, 1)


def beyond(rates: Floats) -> NDArray[np.bool_]:
    """Return which rates, rounded, lie beyond the range, ± 65504."""
    return ~np.isfinite(numbers(codes(rates)))


def lost(rates: Floats) -> NDArray[np.bool_]:
    """Return which rates collapse: they are not 0 and become 0, or change by more than one part in a hundred."""
    held = numbers(codes(rates))
    return (rates != 0) & (np.isfinite(held)) & (np.abs(held - rates) > 0.01 * np.abs(rates))
