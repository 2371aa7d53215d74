"""Error bounds: by a pass over all live rows, or the last pass's widened by what can have changed since (proof in docs/explanation/qr_bounds.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..numerics.formats import Codes
from .arith import Numbers, add, mul, numbers, predict, sub, tree
from .job import Anchor, Integers, Job, Rows

__all__ = [
    "EMPTY",
    "LARGE_POWER",
    "SLACK_POWER",
    "pass_over",
    "update_anchor",
    "widen_bounds",
]

#: err_min of a segment without rows; its err_max is the negative
EMPTY = (1 << 31) - 1
#: float32 roundings add at most 2**-19 of the sum of |w| · |x| to a difference of two scores: see the proof
SLACK_POWER = 19
_SLACK = np.float32(2.0**-SLACK_POWER)
#: scores of this size are not bounded
LARGE_POWER = 30
_LARGE = np.float32(2.0**LARGE_POWER)


def pass_over(job: Job, weights: Codes) -> tuple[int, int, Anchor]:
    """Return err_min, err_max over all live rows (1, 0 if there are none), and the anchor of this pass."""
    alive = job.alive
    rows, labels = job.rows[alive], job.target_labels()[alive]
    guesses = predict(weights, job.offsets, rows)
    errors = labels - guesses
    box = np.zeros(rows.shape[1], dtype=np.uint8)
    anchor = _include(Anchor(weights, EMPTY, -EMPTY, EMPTY, box + 255, box), rows, guesses, errors)
    return (anchor.err_min, anchor.err_max, anchor) if len(rows) else (1, 0, anchor)


def _include(anchor: Anchor, rows: Rows, guesses: Integers, errors: Integers) -> Anchor:
    """The anchor with more rows: their bytes, predictions and errors."""
    if not len(rows):
        return anchor
    return replace(
        anchor,
        err_min=min(anchor.err_min, int(errors.min())),
        err_max=max(anchor.err_max, int(errors.max())),
        least=min(anchor.least, int(guesses.min())),
        low=np.minimum(anchor.low, rows.min(axis=0)),
        high=np.maximum(anchor.high, rows.max(axis=0)),
    )


def update_anchor(anchor: Anchor, job: Job) -> Anchor:
    """Return the anchor after the job's changes (target `slot`): new and moved rows are included with their errors under the anchor model."""
    come = np.concatenate([job.inserted, job.moved])
    come = come[job.alive[come]]
    rows = job.rows[come]
    guesses = predict(anchor.weights, job.offsets, rows)
    return _include(anchor, rows, guesses, job.target_labels()[come] - guesses)


def _ends(
    new: Numbers, old: Numbers, anchor: Anchor, offsets: Rows
) -> tuple[Numbers, Numbers, Numbers]:
    """M, U and L for these two models."""
    low, high = np.ones(len(new), dtype=np.float32), np.ones(len(new), dtype=np.float32)
    low[1:] = anchor.low.astype(np.int16) - offsets.astype(np.int16)
    high[1:] = anchor.high.astype(np.int16) - offsets.astype(np.int16)
    delta = sub(new, old)
    up = delta >= 0
    size = tree(mul(add(np.abs(new), np.abs(old)), np.maximum(np.abs(low), np.abs(high))))
    slack = mul(size, _SLACK)
    upper: Numbers = add(tree(mul(delta, np.where(up, high, low))), slack)
    lower: Numbers = sub(tree(mul(delta, np.where(up, low, high))), slack)
    return size, upper, lower


def widen_bounds(anchor: Anchor, weights: Codes, offsets: Rows) -> tuple[int, int] | None:
    """Return bounds of the errors of all rows of the anchor under new weights; None where a score may be 2**30 or more, or no number.

    With Δ = w - w_anchor and x in the anchor's box: greatest and least Σ Δ_j x_j, and M = Σ (|w_j| + |w_anchor_j|) max |x_j|, each a balanced tree of rounded
    products; then widened by 2**-19 · M to either side: U, L. The prediction has risen by at most ceil(U) (at most 0 if that is less and least + floor(U) < 0:
    cut off at 0), and by at least floor(L) (at least 0 if that is more and least is 0).
    """
    if anchor.err_min == EMPTY:
        return 1, 0
    size, upper, lower = _ends(numbers(weights), numbers(anchor.weights), anchor, offsets)
    if not size < _LARGE:  # NaN too; the sums are no greater
        return None
    rise, fall = int(np.ceil(upper)), int(np.floor(lower))
    if anchor.least + int(np.floor(upper)) < 0:
        rise = max(rise, 0)
    if anchor.least <= 0:
        fall = min(fall, 0)
    return anchor.err_min - rise, anchor.err_max - fall
