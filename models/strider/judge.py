"""Judges whole tuples by their values: which are left out, which value is the error, what is counted. Visibility is `heap.page.visible_by_hints`.

A tuple's values are judged when all of it was read: what is wrong with its bytes comes first. A NaN
under "skip" leaves the tuple out, whatever else it holds. Else the first value, in the order of
delivery, that its policy does not let pass is the error. Else an index may leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics.policy import InputPolicy, Unfit
from .config import WalkConfig
from .errors import PageError

#: the errors of values that do not fit
CODES = {
    Unfit.OVERFLOW: PageError.VALUE_OVERFLOW,
    Unfit.NAN: PageError.VALUE_NAN,
    Unfit.INDEX: PageError.VALUE_INDEX,
}


@dataclass
class RowCounts:
    """What became of rows and values, up to the end or the error."""

    skipped: int = 0  #: rows left out: invisible, or because of a NULL or a NaN
    nan_rows: int = 0  #: those with a NaN
    saturated: int = 0  #: values of the other rows that became the end of the format's range
    not_finite: int = 0  #: values of them that are no finite numbers and passed
    lost: tuple[str, ...] = ()  #: columns that became one number (see `lost`)
    index_rows: int = 0  #: rows left out because an index names no row
    unseen_rows: int = 0  #: rows left out because a category is not known
    unseen_last: int = 0  #: such rows that have the last row of the model for it

    @property
    def lost_columns(self) -> dict[str, int]:
        """Counters: how many columns were lost, and one for each by its name."""
        return {"lost_columns": len(self.lost)} | {f"lost_columns.{name}": 1 for name in self.lost}

    def add(self, other: RowCounts) -> None:
        """Count what another part of the table has as well."""
        self.skipped += other.skipped
        self.nan_rows += other.nan_rows
        self.saturated += other.saturated
        self.not_finite += other.not_finite
        self.index_rows += other.index_rows
        self.unseen_rows += other.unseen_rows
        self.unseen_last += other.unseen_last


def delivery(walk: WalkConfig) -> NDArray[np.int64]:
    """Return the flat positions that sources fill, in the order of delivery."""
    return np.array([s.position + k for s in walk.in_order for k in range(s.count)], dtype=np.int64)


def verdict(fits: NDArray[np.uint8], policy: InputPolicy) -> tuple[bool, int]:
    """Judge one tuple by how its values fit, in the order of delivery.

    Return whether it is left out, and the index of the value that is an error (-1: none).
    """
    left, first = judge_rows(fits[None, :], policy)
    return bool(left[0]), int(first[0])


def judge_rows(
    fits: NDArray[np.uint8], policy: InputPolicy
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Judge tuples by how their values fit, shape (tuples, values in the order of delivery).

    Return which are left out, and of each the index of the value that is an error (-1: none).
    """
    nan = fits == Unfit.NAN
    left = nan.any(axis=1) if policy.skips else np.zeros(len(fits), np.bool_)
    wrong = fits == Unfit.INDEX
    if not policy.saturates:
        wrong |= fits == Unfit.OVERFLOW
    if policy.on_nan == "error":
        wrong |= nan
    faulty = wrong.any(axis=1) & ~left
    left = left | (_index_left(fits).any(axis=1) & ~faulty)
    first = np.where(faulty, wrong.argmax(axis=1) if fits.shape[1] else 0, -1)
    return left, first.astype(np.int64)


def _index_left(fits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (fits == Unfit.LEFT_INDEX) | (fits == Unfit.LEFT_UNSEEN)


def count_rows(fits: NDArray[np.uint8], left: NDArray[np.bool_], policy: InputPolicy) -> RowCounts:
    """Return the counts of tuples, by how their values fit (tuples, values in the order of delivery) and which are `left` out. Of what
    leaves one out a NaN counts, else its first index."""
    drops, rows = fits[left], fits[~left]
    nan = (drops == Unfit.NAN).any(axis=1) if policy.skips else np.zeros(len(drops), np.bool_)
    rest = drops[~nan]
    first = rest[np.arange(len(rest)), _index_left(rest).argmax(axis=1)] if len(rest) else rest
    return RowCounts(
        skipped=len(drops),
        nan_rows=int(nan.sum()),
        saturated=int((rows == Unfit.OVERFLOW).sum()),
        not_finite=int((rows == Unfit.NAN).sum()),
        index_rows=int((first == Unfit.LEFT_INDEX).sum()),
        unseen_rows=int((first == Unfit.LEFT_UNSEEN).sum()),
    )
