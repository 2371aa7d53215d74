"""Ranks without a pass: blocks of rows that move together.

Rows lie in `FitPlan.blocks` blocks, runs of neighbours; the memo holds each block's sums of rows, Σ a (its count first). A refit first moves every
block's labels by one number each, and c with them, by that number times the block's sums. What is then left to do is as with slots: rows that came, rows that
went, and the few rows of a block in which a change lies whose label moves by another number than their block's, one record each.

A row's label less all that its block has moved since the last pass over the rows is its *virtual* label: for most rows the label that they had then. What
blocks have moved grows about linearly with the virtual label, as the group grows; widened bounds follow this trend (`bounds.widen_rank_bounds`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .config import FitPlan
from .job import Integers, Job
from .normal_equations import design, old_ranks

__all__ = [
    "BLOCK_BITS",
    "BLOCK_ROWS",
    "MOVE_BITS",
    "TREND_BITS",
    "Frames",
    "Shifts",
    "block_sums",
    "crowded",
    "frames",
    "shifts",
]

#: rows of a block at most: so its sums, of numbers from -255 to 255, have
BLOCK_ROWS = 64
#: bits each
BLOCK_BITS = 15
#: bits of a number by which a block's labels move, and of their sum since the last pass
MOVE_BITS = 16
#: fraction bits of the trend
TREND_BITS = 16


@dataclass(frozen=True)
class Shifts:
    """How a job's labels change, by block.

    Parameters
    ----------
    blocks
        int64 (blocks,): by how much the labels of a block's rows move.
    inserted, removed
        int64: the block of each inserted and each removed row.
    moved, where
        int64: indices into `rows` of old rows whose labels move by another number; their blocks.
    before
        int64 (m,): old labels of `rows`, moved with their block; of inserted rows anything.
    gone
        int64: those of the removed rows.
    """

    blocks: Integers
    inserted: Integers
    removed: Integers
    moved: Integers
    where: Integers
    before: Integers
    gone: Integers


def shifts(job: Job) -> Shifts:
    """Return how the labels of a job with a memo that has blocks change. A row that comes joins the block of the old row before it."""
    assert job.memo is not None and job.memo.blocks is not None
    ends, m = np.cumsum(job.memo.blocks[:, 0]), len(job.rows)
    count = len(ends)
    old = np.ones(m, dtype=np.int64)
    old[job.inserted] = 0
    kept = np.concatenate([[0], np.cumsum(old)])  # old rows that are still there, before row i
    number = kept[:m] + np.searchsorted(
        job.removed_at, np.arange(m), side="right"
    )  # and those that went

    def block(numbers: Integers) -> Integers:
        return np.clip(np.searchsorted(ends, numbers, side="right"), 0, count - 1)

    removed = block(kept[job.removed_at] + np.arange(len(job.removed_at)))
    inserted = block(np.maximum(number[job.inserted] - 1, 0))
    before, gone = old_ranks(job)
    rows = np.flatnonzero(old)
    of, shift = block(number[rows]), (job.target_labels() - before)[rows]
    # each block moves as most of its rows do
    together = np.zeros(count, dtype=np.int64)
    pairs, times = np.unique(np.stack([of, shift]), axis=1, return_counts=True)
    order = np.argsort(times, kind="stable")
    together[pairs[0, order]] = pairs[1, order]
    before = before.copy()
    before[rows] += together[of]
    other = shift != together[of]
    return Shifts(
        together, inserted, removed, rows[other], of[other], before, gone + together[removed]
    )


@dataclass(frozen=True)
class Frames:
    """What blocks have moved since the last pass, and the trend in it.

    Parameters
    ----------
    moved
        int64 (blocks,): the sum of each block's moves since the last pass.
    trend
        About how much blocks move for each virtual label, in units of 2**-`TREND_BITS`; from -1/2 to less than 1. Any number gives bounds that hold.
    low, high
        Least and greatest of moved · 2**`TREND_BITS` - trend · v over all virtual labels v of rows; 0 without rows.
    """

    moved: Integers
    trend: int
    low: int
    high: int


def frames(job: Job, sums: Integers) -> Frames:
    """Return the frames after a job with a memo that has blocks, none of whose rows is a tombstone; `sums`: of `block_sums`."""
    assert job.memo is not None and job.memo.moved is not None
    moved, count = job.memo.moved + shifts(job).blocks, sums[:, 0]
    some = count > 0
    first = (np.cumsum(count) - count - moved)[some]
    last, moves = first + count[some] - 1, moved[some]
    trend = 0
    if len(first) > 1:
        middle = (first + last) / 2
        spread = middle - middle.mean()
        steep = (spread * moves).sum() / max(float((spread * spread).sum()), 1.0)
        trend = int(
            np.clip(
                np.rint(steep * (1 << TREND_BITS)), -(1 << TREND_BITS - 1), (1 << TREND_BITS) - 1
            )
        )
    ends = (moves << TREND_BITS) - trend * np.stack([first, last])
    return Frames(
        moved,
        trend,
        int(ends.min(initial=1 << 62)) if len(first) else 0,
        int(ends.max(initial=-1 << 62)) if len(first) else 0,
    )


def block_sums(job: Job, config: FitPlan) -> Integers | None:
    """Return the blocks' sums after the job, int64 (blocks, n); None where the engine has no blocks. A full training cuts blocks of equal size."""
    if not config.blocks:
        return None
    if job.memo is None or job.memo.blocks is None:
        size = max(1, -(-len(job.rows) // config.blocks))
        sums = np.zeros((config.blocks, job.window.columns), dtype=np.int64)
        np.add.at(sums, np.arange(len(job.rows)) // size, design(job.rows, job.offsets))
        return sums
    found, sums = shifts(job), job.memo.blocks.copy()
    np.add.at(sums, found.inserted, design(job.rows[job.inserted], job.offsets))
    np.subtract.at(sums, found.removed, design(job.gone, job.offsets))
    return sums


def crowded(job: Job, config: FitPlan) -> bool:
    """Whether a block would have more than `BLOCK_ROWS` rows, or have moved too far."""
    sums = block_sums(job, config)
    if sums is None or (sums[:, 0] > BLOCK_ROWS).any():
        return sums is not None
    moved = (
        np.zeros(1, dtype=np.int64)
        if job.memo is None or job.memo.moved is None
        else job.memo.moved + shifts(job).blocks
    )
    return bool((moved < -1 << MOVE_BITS - 1).any() or (moved >= 1 << MOVE_BITS - 1).any())
