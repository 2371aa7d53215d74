"""Decays as rates: c = 1 − d as float16 with gradual underflow.

Near 1, the distance to 1 is what counts: it is the time constant. The register of a unit holds rates of 16 bits; MX8's
32 lanes take two registers, and one write of 16 alike codes sets both. Where all rates of 16 lanes are exactly 1, the unit
takes zeros for the old state, whatever the bank holds: a first round needs no zeros there.
"""

import numpy as np
from numpy.typing import NDArray

#: the largest rate
LARGEST = 65504.0
#: the code of the rate 1
ONE = 0x3C00
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def codes(rates: Floats) -> NDArray[np.uint16]:
    """Return the codes of rates, rounded to nearest even; those beyond the range give infinities."""
    with np.errstate(over="ignore"):
        return np.asarray(rates, dtype=np.float64).astype(np.float16).view(np.uint16)


def numbers(held: NDArray[np.uint16]) -> Floats:
    """Return the rates of codes."""
    return np.asarray(held, dtype=np.uint16).view(np.float16).astype(np.float64)


def kept(state: NDArray[np.uint8], held: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Return sub-chunks (…, 32) with zeros where all codes of 16 lanes are those of 1; `held` (…, lanes)."""
    gone = (held == ONE).reshape(*held.shape[:-1], -1, 16).all(axis=-1)
    return np.where(np.repeat(gone, 32 // gone.shape[-1], axis=-1), np.uint8(0), state)


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
