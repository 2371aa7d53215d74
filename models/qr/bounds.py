"""Error bounds: by a pass over all live rows, or the last pass's widened by what can have changed since (proof in docs/qr.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..numerics.formats import Codes
from .arith import Numbers, add, mul, numbers, predict, sub, tree
from .job import Anchor, Integers, Job, Rows
from .normal_equations import old_ranks
from .ranks import TREND_BITS, Frames, shifts

__all__ = ["EMPTY", "LARGE_POWER", "SLACK_POWER", "pass_over", "update_anchor", "update_rank_anchor", "widen_bounds", "widen_rank_bounds"]

#: err_min of a segment without rows; its err_max is the negative
EMPTY = (1 << 31) - 1
#: float32 roundings add at most 2**-19 of the sum of |w| · |x| to a difference of two scores: see the proof
SLACK_POWER = 19
_SLACK = np.float32(2.0 ** -SLACK_POWER)
#: scores of this size are not bounded
LARGE_POWER = 30
_LARGE = np.float32(2.0 ** LARGE_POWER)


def pass_over(job: Job, weights: Codes, segments: int) -> tuple[int, int, Anchor]:
    """Return err_min, err_max over all live rows (1, 0 if there are none), and the anchor of this pass.

    Segment s of S begins at label (s · span) // S, span being the last live label + 1.
    """
    alive = job.alive
    rows, labels = job.rows[alive], job.target_labels()[alive]
    guesses = predict(weights, job.offsets, rows)
    errors = labels - guesses
    span = int(labels[-1]) + 1 if len(labels) else 0
    start = np.arange(segments, dtype=np.int64) * span // segments
    zero = np.zeros(segments, dtype=np.int64)
    anchor = Anchor(weights, start, zero + EMPTY, zero - EMPTY, zero, zero, zero + EMPTY, np.full((segments, rows.shape[1]), 255, dtype=np.uint8),
                    np.zeros((segments, rows.shape[1]), dtype=np.uint8))
    anchor = _include(anchor, _segments(start, labels), rows, guesses, errors, errors)
    return (int(errors.min()), int(errors.max()), anchor) if len(rows) else (1, 0, anchor)


def _segments(start: Integers, labels: Integers) -> NDArray[np.intp]:
    """The segment of each label: the last one that starts at or before it."""
    return np.searchsorted(start, labels, side="right") - 1


def _include(anchor: Anchor, where: NDArray[np.intp], rows: Rows, guesses: Integers, lowest: Integers, highest: Integers) -> Anchor:
    """The anchor with more rows: their segments, bytes, predictions, and what goes into err_min and err_max."""
    err_min, err_max, least = anchor.err_min.copy(), anchor.err_max.copy(), anchor.least.copy()
    low, high = anchor.low.copy(), anchor.high.copy()
    np.minimum.at(err_min, where, lowest)
    np.maximum.at(err_max, where, highest)
    np.minimum.at(least, where, guesses)
    np.minimum.at(low, where, rows)
    np.maximum.at(high, where, rows)
    return replace(anchor, err_min=err_min, err_max=err_max, least=least, low=low, high=high)


def update_anchor(anchor: Anchor, job: Job) -> Anchor:
    """Return the anchor after the job's changes: ranks shifted, new and moved rows included with their errors under the anchor model.

    Rank targets: deletions first, last one first, then insertions, first one first. A change at rank p moves the rows behind it: all rows of later segments,
    some of its own.
    """
    labels, alive = job.target_labels(), job.alive
    if job.labels is not None:
        come = np.concatenate([job.inserted, job.moved])
        come = come[alive[come]]
        rows = job.rows[come]
        guesses = predict(anchor.weights, job.offsets, rows)
        errors = labels[come] - guesses
        return _include(anchor, _segments(anchor.start, labels[come]), rows, guesses, errors, errors)
    start, low, high = anchor.start.copy(), anchor.shift_min.copy(), anchor.shift_max.copy()
    before, gone = old_ranks(job)
    for p in np.sort(np.concatenate([gone[job.gone_live], before[job.buried]]))[::-1]:
        own = int(_segments(start, p))
        start[start > p] -= 1
        low[own:] -= 1
        high[own + 1:] -= 1
    come = job.inserted[alive[job.inserted]]
    rows = job.rows[come]
    guesses = predict(anchor.weights, job.offsets, rows)
    errors = labels[come] - guesses
    where = np.zeros(len(come), dtype=np.intp)
    lowest, highest = errors.copy(), errors.copy()
    for number, p in enumerate(labels[come]):
        own = int(_segments(start, p))
        start[start > p] += 1
        low[own + 1:] += 1
        high[own:] += 1
        # so that the segment's shift from now on, added to these, bounds this row's error
        where[number], lowest[number], highest[number] = own, errors[number] - low[own], errors[number] - high[own]
    return _include(replace(anchor, start=start, shift_min=low, shift_max=high), where, rows, guesses, lowest, highest)


def update_rank_anchor(anchor: Anchor, job: Job, frames: Frames) -> Anchor:
    """Return an anchor of one segment after the changes of a job with blocks: rows that came, or moved by another number than their block, are included with
    the errors of their virtual labels.
    """
    found = shifts(job)
    come, where = np.concatenate([job.inserted, found.moved]), np.concatenate([found.inserted, found.where])
    live = job.alive[come]
    come, where = come[live], where[live]
    guesses = predict(anchor.weights, job.offsets, job.rows[come])
    errors = job.target_labels()[come] - frames.moved[where] - guesses
    return _include(anchor, np.zeros(len(come), dtype=np.intp), job.rows[come], guesses, errors, errors)


def widen_rank_bounds(anchor: Anchor, weights: Codes, offsets: Rows, frames: Frames) -> tuple[int, int] | None:
    """Return what `widen_bounds` does, of a group with blocks and one segment.

    With g = 1 + trend, Δ = w - g · w_anchor, both rounded, and the other sums those of `widen_bounds` for g · w_anchor in place of
    w_anchor: predictions lie between
    g times the old score (0 if that is less) plus min(0, floor(L)), and the same plus max(0, ceil(U)).
    """
    if anchor.err_min[0] == EMPTY:
        return 1, 0
    new, scale = numbers(weights), (1 << TREND_BITS) + frames.trend
    old = mul(numbers(anchor.weights), np.float32(scale / (1 << TREND_BITS)))
    size, upper, lower = _ends(new, old, anchor, slice(0, 1), offsets)
    if not (size < _LARGE).all():
        return None
    rise, fall = max(int(np.ceil(upper)[0]), 0), min(int(np.floor(lower)[0]), 0)
    err_min, err_max = int(anchor.err_min[0]), int(anchor.err_max[0])
    return ((err_min - 1) * scale + frames.low >> TREND_BITS) + 1 - rise, -(-(err_max * scale + frames.high) >> TREND_BITS) - fall


def _ends(new: Numbers, old: Numbers, anchor: Anchor, used: NDArray[np.bool_] | slice, offsets: Rows) -> tuple[Numbers, Numbers, Numbers]:
    """M, U and L of segments for these two models."""
    n, count = len(new), len(anchor.err_min[used])
    low, high = np.ones((count, n), dtype=np.float32), np.ones((count, n), dtype=np.float32)
    low[:, 1:] = anchor.low[used].astype(np.int16) - offsets.astype(np.int16)
    high[:, 1:] = anchor.high[used].astype(np.int16) - offsets.astype(np.int16)
    delta = sub(new, old)
    up = delta >= 0
    size = tree(mul(add(np.abs(new), np.abs(old)), np.maximum(np.abs(low), np.abs(high))))
    slack = mul(size, _SLACK)
    upper: Numbers = add(tree(mul(delta, np.where(up, high, low))), slack)
    lower: Numbers = sub(tree(mul(delta, np.where(up, low, high))), slack)
    return size, upper, lower


def widen_bounds(anchor: Anchor, weights: Codes, offsets: Rows) -> tuple[int, int] | None:
    """Return bounds of the errors of all rows of the anchor's segments under new weights; None where a score may be 2**30 or more, or no number.

    For each segment that ever had a row, with Δ = w - w_anchor and x in the segment's box: greatest and least Σ Δ_j x_j, and M = Σ (|w_j| + |w_anchor_j|)
    max |x_j|, each a balanced tree of rounded products; then widened by 2**-19 · M to either side: U, L. The prediction has risen by at most ceil(U) (at most
    0 if that is less and least + floor(U) < 0: cut off at 0), and by at least floor(L) (at least 0 if that is more and least is 0).
    """
    used = anchor.err_min != EMPTY          # not err_min > err_max: a row that came after others shifted may have that too
    if not used.any():
        return 1, 0
    size, upper, lower = _ends(numbers(weights), numbers(anchor.weights), anchor, used, offsets)
    if not (size < _LARGE).all():                                                        # NaN too; the sums are no greater
        return None
    least = anchor.least[used]
    above, floor = np.ceil(upper).astype(np.int64), np.floor(upper).astype(np.int64)
    rise = np.where(least + floor >= 0, above, np.maximum(above, 0))
    fall = np.floor(lower).astype(np.int64)
    fall = np.where(least > 0, fall, np.minimum(fall, 0))
    return (int((anchor.err_min[used] + anchor.shift_min[used] - rise).min()), int((anchor.err_max[used] + anchor.shift_max[used] - fall).max()))
