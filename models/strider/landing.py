"""What stored values become where they land: codes of the number format, and at some flat positions integers as they are."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..numerics.convert import from_pg, may_be_unfit, numbers_of, unfit
from ..numerics.formats import Codes, Format
from ..numerics.policy import Unfit
from .layout import NUMBERS, Integer

Integers = tuple[Integer, ...]


def _at(places: NDArray[np.int64], integers: Integers) -> list[tuple[NDArray[np.bool_], Integer]]:
    return [(here, i) for i in integers if (here := places == i.position).any()]


def codes(
    element: str,
    raw: NDArray[np.unsignedinteger],
    format: Format,
    places: NDArray[np.int64],
    integers: Integers = (),
) -> Codes:
    """Return the codes of stored values that go to these flat positions: `from_pg`; an integer's is its low bits."""
    codes = from_pg(element, raw, format, places)
    for here, integer in _at(np.broadcast_to(places, codes.shape), integers):
        numbers = numbers_of(element, raw[here].astype(np.uint64)).astype(np.int64)
        if integer.unseen >= 0:
            numbers = np.where(numbers == -1, integer.unseen, numbers)
        codes[here] = numbers & ((1 << format.width) - 1)
    return codes


def fits(
    element: str,
    raw: NDArray[np.unsignedinteger],
    format: Format,
    places: NDArray[np.int64],
    integers: Integers = (),
) -> NDArray[np.uint8]:
    """Return how they fit: `unfit`; of integers what `Integer` says."""
    reasons = unfit(element, raw, format, places)
    for here, integer in _at(np.broadcast_to(places, reasons.shape), integers):
        numbers = numbers_of(element, raw[here].astype(np.uint64))
        beyond = (numbers < 0) | (numbers >= integer.counts)
        wrong = Unfit.LEFT_INDEX if integer.leaves else Unfit.INDEX
        unseen = Unfit.LEFT_UNSEEN if integer.unseen == -1 else Unfit.FITS
        known = (numbers != -1) if integer.unseen != NUMBERS else np.ones_like(beyond)
        reasons[here] = np.where(beyond, np.where(known, wrong, unseen), Unfit.FITS)
    return reasons


def may_end(types: Sequence[str], format: Format, integers: Integers = ()) -> bool:
    """Return whether any value of these types can fail to fit, so that `fits` is needed."""
    return bool(integers) or any(any(may_be_unfit(name, format)) for name in types)
