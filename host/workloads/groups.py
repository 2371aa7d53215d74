"""Groups of keys that come and go, as a host keeps them, and the jobs that refit them."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...models.qr.config import FitPlan
from ...models.qr.job import Fit, Job, Label, Memo, Window


def keys(
    source: np.random.Generator, count: int, length: int, alphabet: int = 256, first: int = 0
) -> NDArray[np.uint8]:
    """Return `count` random rows of `length` bytes from an alphabet, in order (equal ones possible)."""
    return _sorted(source.integers(first, first + alphabet, (count, length)).astype(np.uint8))


def _sorted(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows[np.lexsort(rows.T[::-1])])


def mean_offsets(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return each column's mean, rounded: what a full training takes as the group's offsets."""
    return (
        np.rint(rows.mean(axis=0)).astype(np.uint8)
        if len(rows)
        else np.full(rows.shape[1], 128, dtype=np.uint8)
    )


class Group:
    """A host's group that follows the rules: keeps rows and slots (target `slot`), and makes jobs of batches of changes.

    Slots: a full training spreads the rows evenly at 1 / `density` slots a row; a new row goes into the gap at its place, else the run of rows up to
    the nearest gap moves by one. Where there is no gap left the next job is a full one.
    """

    def __init__(
        self, config: FitPlan, rows: NDArray[np.uint8], number: int = 0, density: float = 0.7
    ) -> None:
        self.config, self.number, self.density = config, number, density
        self.rows = _sorted(rows)
        self.memo: Memo | None = None
        self.offsets = mean_offsets(self.rows)
        self.slots: NDArray[np.int64] | None = None
        self.moves = 0

    @property
    def window(self) -> Window:
        return Window(0, self.rows.shape[1])

    def _spread(self) -> None:
        if self.config.target is Label.SLOT:
            self.slots = (np.arange(len(self.rows)) / self.density).astype(np.int64)

    def full(self) -> Job:
        """The job that trains the group afresh: offsets and slots are chosen anew."""
        self.offsets = mean_offsets(self.rows)
        self._spread()
        return Job(self.number, self.window, self.offsets, self.rows, self.slots)

    def batch(self, new: NDArray[np.uint8], doomed: NDArray[np.int64], limit: int = 1 << 30) -> Job:
        """The job for rows that came and the numbers (in `rows`) of those that went. Without room for a row's slot: a full job."""
        memo = self.memo
        keep = np.ones(len(self.rows), dtype=bool)
        keep[doomed] = False
        gone, old_slots = self.rows[~keep], self.slots
        stacked = np.concatenate([self.rows[keep], new])
        order = np.lexsort(stacked.T[::-1]) if len(stacked) else np.zeros(0, dtype=np.int64)
        at = np.argsort(order)  # where each stacked row ends up
        kept = int(keep.sum())
        inserted = np.sort(at[kept:])
        self.rows = stacked[order]
        job = Job(
            self.number,
            self.window,
            self.offsets,
            self.rows,
            None,
            inserted,
            removed=gone,
            memo=memo,
            epoch=0 if memo is None else memo.epoch,
            limit=limit,
        )
        if old_slots is None or memo is None:
            return job if memo is not None else self.full()
        slots = np.full(len(order), -1, dtype=np.int64)
        slots[at[:kept]] = old_slots[keep]
        before = slots.copy()
        for i in inserted:
            # the host's array has an end
            if not _place(slots, int(i), int(len(slots) / self.density) + 64):
                return self.full()
        self.slots = slots
        moved = np.flatnonzero((before >= 0) & (before != slots))
        self.moves += len(moved)
        return replace(
            job,
            labels=slots,
            removed_labels=old_slots[~keep],
            moved=moved,
            moved_from=before[moved],
        )

    def take(self, fit: Fit) -> None:
        self.memo = fit.memo


def _place(slots: NDArray[np.int64], i: int, capacity: int) -> bool:
    """Give row i a slot between its neighbours that have one; rows without (-1) come later. Moves a run by one where there is no gap."""
    placed = np.flatnonzero(slots >= 0)
    left, right = placed[placed < i][::-1], placed[placed > i]
    low = int(slots[left[0]]) if len(left) else -1
    high = int(slots[right[0]]) if len(right) else capacity
    if high - low > 1:
        slots[i] = low + 1 if not len(right) else high - 1 if not len(left) else (low + high) // 2
        return True
    # after so many neighbours there is room
    gaps_right = np.flatnonzero(np.diff(np.append(slots[right], capacity)) > 1)
    gaps_left = np.flatnonzero(np.diff(np.append(slots[left], -1)) < -1)
    run_right = int(gaps_right[0]) + 1 if len(gaps_right) else len(slots)
    run_left = int(gaps_left[0]) + 1 if len(gaps_left) else len(slots)
    if min(run_right, run_left) == len(slots):
        return False
    if run_right <= run_left:
        slots[right[:run_right]] += 1
        slots[i] = high
    else:
        slots[left[:run_left]] -= 1
        slots[i] = low
    return True
