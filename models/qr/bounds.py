"""Bounds of the errors of predictions: by a pass over all rows, or the last pass's widened by what can have changed since. The bound of a run in
cycles is `cycles.bound`, of fits over tables `table_cycles.bound`.

That no row is left out is proven here. The memo's *anchor* has the weights w°, err_min, err_max, the box of bytes and the least P° of the last pass.

**Changes** (`bounds.update_anchor`). A new or moved row's b − P°(a), box and P° are included; that is exact, since the labels of other rows stay.
Rows that leave take nothing away from the bounds.

*Claim 1.* At all times each row i has err_min <= b_i − P°(a_i) <= err_max. *Proof.* True after the pass, and of each row that enters, by
construction. ∎

**New weights** (`bounds.widen_bounds`). Let u = 2⁻²⁴, p and p° the float32 scores under w and w°, M = Σ (|w_j| + |w°_j|) max |x_j| over the anchor's
box, n ≤ 64.

*Claim 2.* For every a in the box L <= p − p° <= U, with U, L the rounded tree sums of Δ_j times the box's better end, Δ_j = fl(w_j − w°_j), plus or
minus fl(2⁻¹⁹ fl(M)).

*Proof.* A product and a tree of at most 6 levels round 7 times: |p − Σ w_j a_j| <= 8u Σ |w_j a_j|, likewise p°; together at most 8u M. And |Δ_j −
(w_j − w°_j)| <= u |w_j − w°_j| <= u (|w_j| + |w°_j|): at most u M.

The computed sum for U differs from Σ max(Δ_j x_j) by at most 8u (1 + u) M. The final addition rounds by at most 2u M. In all that is less than 20u M
< 1.25 · 2⁻²⁰ M, while fl(2⁻¹⁹ fl(M)) is at least 2⁻¹⁹ (1 − 9u) M > 1.9 · 2⁻²⁰ M.

Flushed subnormals add less than 2⁻¹¹⁰ in all, covered by the difference if M >= 2⁻⁸⁰; if M is less, all scores are below 1 and all predictions 0,
which the rules below allow. ∎

*Claim 3.* With T(p) = max(0, floor(p)) the prediction rises by at most ceil(U), and at most 0 if ceil(U) < 0 and least + floor(U) < 0; and by at
least floor(L), and at least 0 if floor(L) > 0 and least = 0; `least` is the anchor's least P°.

*Proof.* floor(x + U) <= floor(x) + ceil(U). If U >= 0, T is monotone and rises no faster than floor. If U < 0 and p >= 0: floor(p) <= floor(p°) +
ceil(U), and p° >= 0 as p° > p.

If U < 0 and p < 0: T(p) = 0; where least + U >= 0, p° >= least >= −U > 0, hence T(p) − T(p°) = −floor(p°) = ceil(−p°) <= ceil(U); otherwise 0 is an
upper bound, as T(p) <= T(p°).

Downwards: if least > 0 then p° >= 1 and T(p) >= floor(p) >= floor(p°) + floor(L); otherwise, if p° >= 0 the same holds, and if p° < 0, T(p°) = 0 <=
T(p), so that min(0, floor(L)) is a lower bound. Scores reach no 2³⁰, as M is computed and anything larger calls for a pass: nothing is cut off above.
∎

So err_min − rise and err_max − fall hold for the group. Everything is relative to the anchor: what chance moves to and fro does not add up.
`tests/qr/test_golden.py` searches for counterexamples. In 20 refits with slots no pass was needed, and the window was 6 % wider than the true one.
"""

from dataclasses import replace

import numpy as np

from ..numerics.formats import Codes
from .arith import Numbers, add, mul, numbers, predict, sub, tree
from .job import Anchor, Integers, Job, Rows

#: err_min of a segment without rows; its err_max is the negative
EMPTY = (1 << 31) - 1
#: float32 roundings add at most 2**-19 of the sum of |w| · |x| to a difference of two scores: see the proof
SLACK_POWER = 19
_SLACK = np.float32(2.0**-SLACK_POWER)
#: scores of this size are not bounded
LARGE_POWER = 30
_LARGE = np.float32(2.0**LARGE_POWER)


def pass_over(job: Job, weights: Codes) -> tuple[int, int, Anchor]:
    """Return err_min, err_max over all rows (1, 0 if there are none), and the anchor of this pass."""
    rows, guesses = job.rows, predict(weights, job.offsets, job.rows)
    errors = job.target_labels() - guesses
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

    By Claims 2 and 3: U and L are balanced trees of rounded products, widened by 2**-19 · M.
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
