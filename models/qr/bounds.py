"""Error bounds: by a pass over all live rows, or the last pass's widened by what can have changed since (proof in docs/qr.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..numerics.formats import Codes
from .arith import Numbers, add, mul, numbers, predict, sub, tree
from .job import Anchor, Integers, Job, Rows
from .ranks import TREND_BITS, Frames, shifts

__all__ = [
    "EMPTY",
    "LARGE_POWER",
    "SLACK_POWER",
    "pass_over",
    "update_anchor",
    "update_rank_anchor",
    "widen_bounds",
    "widen_rank_bounds",
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
    zero = np.zeros(1, dtype=np.int64)
    box = np.zeros((1, rows.shape[1]), dtype=np.uint8)
    anchor = _include(
        Anchor(weights, zero, zero + EMPTY, zero - EMPTY, zero, zero, zero + EMPTY, box + 255, box),
        rows,
        guesses,
        errors,
    )
    return (int(errors.min()), int(errors.max()), anchor) if len(rows) else (1, 0, anchor)


def _include(anchor: Anchor, rows: Rows, guesses: Integers, errors: Integers) -> Anchor:
    """The anchor with more rows: their bytes, predictions and errors."""
    if not len(rows):
        return anchor
    return replace(
        anchor,
        err_min=np.minimum(anchor.err_min, errors.min()),
        err_max=np.maximum(anchor.err_max, errors.max()),
        least=np.minimum(anchor.least, guesses.min()),
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


def update_rank_anchor(anchor: Anchor, job: Job, frames: Frames) -> Anchor:
    """Return the anchor after the changes of a job with blocks: rows that came, or moved by another number than their block, are included with
    the errors of their virtual labels.
    """
    found = shifts(job)
    come = np.concatenate([job.inserted, found.moved])
    where = np.concatenate([found.inserted, found.where])
    live = job.alive[come]
    come, where = come[live], where[live]
    guesses = predict(anchor.weights, job.offsets, job.rows[come])
    errors = job.target_labels()[come] - frames.moved[where] - guesses
    return _include(anchor, job.rows[come], guesses, errors)


def widen_rank_bounds(
    anchor: Anchor, weights: Codes, offsets: Rows, frames: Frames
) -> tuple[int, int] | None:
    """Return what `widen_bounds` does, of a group with blocks.

    With g = 1 + trend, Δ = w - g · w_anchor, both rounded, and the other sums those of `widen_bounds` for g · w_anchor in place of
    w_anchor: predictions lie between g times the old score (0 if that is less) plus min(0, floor(L)), and the same plus max(0, ceil(U)).
    """
    if anchor.err_min[0] == EMPTY:
        return 1, 0
    new, scale = numbers(weights), (1 << TREND_BITS) + frames.trend
    old = mul(numbers(anchor.weights), np.float32(scale / (1 << TREND_BITS)))
    size, upper, lower = _ends(new, old, anchor, offsets)
    if not (size < _LARGE).all():
        return None
    rise, fall = max(int(np.ceil(upper)[0]), 0), min(int(np.floor(lower)[0]), 0)
    err_min, err_max = int(anchor.err_min[0]), int(anchor.err_max[0])
    return ((err_min - 1) * scale + frames.low >> TREND_BITS) + 1 - rise, -(
        -(err_max * scale + frames.high) >> TREND_BITS
    ) - fall


def _ends(
    new: Numbers, old: Numbers, anchor: Anchor, offsets: Rows
) -> tuple[Numbers, Numbers, Numbers]:
    """M, U and L for these two models."""
    low, high = np.ones((1, len(new)), dtype=np.float32), np.ones((1, len(new)), dtype=np.float32)
    low[:, 1:] = anchor.low.astype(np.int16) - offsets.astype(np.int16)
    high[:, 1:] = anchor.high.astype(np.int16) - offsets.astype(np.int16)
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
    if anchor.err_min[0] == EMPTY:
        return 1, 0
    size, upper, lower = _ends(numbers(weights), numbers(anchor.weights), anchor, offsets)
    if not (size < _LARGE).all():  # NaN too; the sums are no greater
        return None
    least = int(anchor.least[0])
    rise, fall = int(np.ceil(upper)[0]), int(np.floor(lower)[0])
    if least + int(np.floor(upper)[0]) < 0:
        rise = max(rise, 0)
    if least <= 0:
        fall = min(fall, 0)
    return int(anchor.err_min[0]) - rise, int(anchor.err_max[0]) - fall
