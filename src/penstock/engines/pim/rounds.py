"""The closed form of `models.pim.rounds`, quickly: the same cycles from C++ (`rounds.cpp`), which g++ compiles once."""

from __future__ import annotations

import ctypes
from dataclasses import astuple
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.models.pim import rounds as specification
from penstock.models.pim.config import PimConfig
from penstock.models.pim.rounds import HARDWARE, MODES, Charges, slots_of, terms, whole
from penstock.sim.native.toolchain import build_plain

__all__ = ["rounds_cycles"]

#: a power of two, above the largest counts and terms that are computed here: no sum of products reaches 2³¹
_MOST = 1 << 13


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build_plain("pim-rounds", Path(__file__).parent / "rounds.cpp")))
    pointer, many = ctypes.c_void_p, ctypes.c_int64
    library.penstock_pim_rounds.restype = ctypes.c_int32
    library.penstock_pim_rounds.argtypes = [pointer, many, many, *[pointer] * 4]
    return library


@lru_cache(maxsize=64)
def _terms(config: PimConfig, charges: Charges) -> NDArray[np.int32] | None:
    """The terms as C++ takes them; None where they are too large for it."""
    found = [
        *astuple(terms(config)),
        *(slots_of(config, mode, charges.drain) for mode in MODES),
    ]
    return None if max(map(abs, found)) >= _MOST else np.array(found, dtype=np.int32)


def rounds_cycles(
    config: PimConfig,
    mode: ArrayLike,
    registers: ArrayLike,
    reads: ArrayLike,
    charges: Charges = HARDWARE,
) -> NDArray[np.int64]:
    """Return `models.pim.rounds.rounds_cycles`.

    Raises ValueError as that does, BuildError where there is no g++.
    """
    given = whole(mode, registers, reads)
    if len({array.shape for array in given}) > 1:
        given = [np.asarray(array, order="C") for array in np.broadcast_arrays(*given)]
    found, cycles = _terms(config, charges), np.empty(given[0].shape, dtype=np.int64)
    if found is None or _library().penstock_pim_rounds(
        found.ctypes.data,
        _MOST,
        cycles.size,
        *(array.ctypes.data for array in given),
        cycles.ctypes.data,
    ):
        return specification.rounds_cycles(config, mode, registers, reads, charges)
    return cycles
