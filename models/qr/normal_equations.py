"""Exact integers: sums, squares, Gram matrix and c = Aᵀb, by a pass over all rows or from the changes alone.

All are two's complement of 64 bits in hardware's accumulators; with at most `ROWS_MAX` rows and labels below 2**31 none can overflow:
|a| <= 255, so |c| <= 255 · 2**31 · 2**23 < 2**62.
"""

from __future__ import annotations

import numpy as np

from .job import Exact, Integers, Job, Label, Memo, Rows

__all__ = ["ROWS_MAX", "design", "sum_all_rows", "target_of", "update_sums"]

#: most rows of a group
ROWS_MAX = 1 << 23


def design(rows: Rows, offsets: Rows) -> Integers:
    """The design matrix, int64 (m, n): 1, then bytes minus offsets."""
    a = np.ones((len(rows), rows.shape[1] + 1), dtype=np.int64)
    a[:, 1:] = rows.astype(np.int64) - offsets.astype(np.int64)
    return a


def _gram(a: Integers) -> Integers:
    # products of 9-bit integers over at most 2**23 rows stay below 2**39: float64 sums are exact, and BLAS is fast
    real = a.astype(np.float64)
    return np.triu(real.T @ real).astype(np.int64)


def sum_all_rows(job: Job, gram: bool) -> Exact:
    """Everything from a pass over all rows."""
    a = design(job.rows, job.offsets)
    sums = a.sum(axis=0), (a * a).sum(axis=0), job.target_labels() @ a
    return Exact(len(a), *sums, _gram(a) if gram else None)


def update_sums(job: Job, memo: Memo, scan: bool) -> Exact:
    """The memo's sums brought up to date with the job's changes; c from a pass over all rows if `scan`, else target `slot`."""
    new, gone = design(job.rows[job.inserted], job.offsets), design(job.gone, job.offsets)
    gram = None if memo.gram is None else memo.gram + _gram(new) - _gram(gone)
    if scan:
        right_hand_side = job.target_labels() @ design(job.rows, job.offsets)
    else:
        right_hand_side = memo.right_hand_side + _moved(job, new, gone)
    return Exact(
        len(job.rows),
        memo.sums + new.sum(axis=0) - gone.sum(axis=0),
        memo.squares + (new * new).sum(axis=0) - (gone * gone).sum(axis=0),
        right_hand_side,
        gram,
    )


def _moved(job: Job, new: Integers, gone: Integers) -> Integers:
    """What the changes add to c: labels times rows that came, less those that went, plus the changes of label of those that stay."""
    labels = job.target_labels()
    delta = labels[job.inserted] @ new
    moved = design(job.rows[job.moved], job.offsets)
    return np.asarray(
        delta - job.removed_labels @ gone + (labels[job.moved] - job.moved_from) @ moved
    )


def target_of(job: Job) -> Label:
    """Which target the job is for."""
    return Label.RANK if job.labels is None else Label.SLOT
