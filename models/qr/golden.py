"""The golden refit: what every backend must give, bit for bit. A job, step by step:

1. **Check** (`check.py`): sizes, lists of changes, memo, window and offsets, order of the rows that are read. The first error ends the job with its
   code; the old model stays.
2. **Sums** (`sum_all_rows`, `update_sums`): counts, column sums, sums of squares, c = Aᵀb, for `gram` AᵀA. Integers of 64 bits; with m ≤ 2²³ and
   labels < 2³¹ none overflows: |a| ≤ 255, so |c| ≤ 255 · 2³¹ · 2²³ < 2⁶².
3. **Factor** (`factor.py`): AᵀA = uᵀ D u, u with a unit diagonal, by one of the two methods.
4. **Right side**: h = trunc(float32(c₀) / float32(rows)), about the labels' mean; c − h · sums in exact integers, rounded to float32 once; after the
   solve h (float32) is added to the bias.
5. **Rank rule**: column k, in order, is kept if its pivot d_k > 2⁻¹⁶ · squares_k (its exact sum of squares, rounded to float32; `gram` takes the
   diagonal). A column that is not kept has weight +0. `gram` passes it over. `givens` folds its row of u into the rows below, with weight d_k, in a
   copy; the memo keeps the factor as folded.
6. **Two triangular solves**, column by column: forward y_j −= u_kj y_k for ascending k, z_k = y_k · (1 / d_k), backward z_k −= u_kj z_j for
   descending j.
7. **Bounds** (`bounds.py`), then the new memo.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError
from ..numerics.formats import Codes
from . import bounds, factor
from .arith import Numbers, add, codes, div, from_integer, numbers, to_label
from .check import check, descending
from .config import FitPlan
from .job import Exact, Fit, Integers, Job, Memo, Method, Rows
from .shell import FitError


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
    new, gone = design(job.rows[job.inserted], job.offsets), design(job.removed, job.offsets)
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


def right_side(exact: Exact) -> tuple[Numbers, np.float32]:
    """Return c - h · sums, rounded to float32 once, and h: the labels' mean, truncated.

    h = trunc(float32(c_0) / float32(rows)): any integer would do, since the bias takes it back; the mean keeps numbers small.
    """
    if not exact.rows:
        return from_integer(exact.right_hand_side), np.float32(0)
    middle = int(to_label(div(from_integer(exact.right_hand_side[0]), from_integer(exact.rows))))
    return from_integer(exact.right_hand_side - middle * exact.sums), np.float32(
        from_integer(middle)
    )


class Factors(NamedTuple):
    """d, u to solve with, the columns kept; d, u of the memo (method `givens`), and whether its removed rows could be taken out of that."""

    d: Numbers
    u: Numbers
    keep: NDArray[np.bool_]
    memo_d: Codes | None = None
    memo_u: Codes | None = None
    done: bool = True


def factors(job: Job, config: FitPlan, exact: Exact) -> Factors:
    if config.method is Method.GRAM:
        assert exact.gram is not None
        return Factors(*factor.eliminate(exact.gram))
    d, u, done = _folded(job)
    return Factors(*factor.full_rank(d, u, exact.squares), codes(d), codes(u), done)


def _folded(job: Job) -> tuple[Numbers, Numbers, bool]:
    """The memo's factor (or a fresh one) with the job's rows and without those removed, and whether that could be done."""
    n = job.window.columns
    if job.memo is None:
        d, u, rows = np.zeros(n, dtype=np.float32), np.zeros((n, n), dtype=np.float32), job.rows
    else:
        assert job.memo.d is not None and job.memo.u is not None
        d, u, rows = numbers(job.memo.d), numbers(job.memo.u), job.rows[job.inserted]
    factor.fold(d, u, design(rows, job.offsets).astype(np.float32))
    gone = design(job.rows[:0] if job.memo is None else job.removed, job.offsets)
    return d, u, factor.fold(d, u, gone.astype(np.float32), weight=np.float32(-1))


def _sums(job: Job, config: FitPlan) -> Exact:
    """Return the sums over a job's rows."""
    if job.memo is None:
        return sum_all_rows(job, config.method is Method.GRAM)
    return update_sums(job, job.memo, scan=not config.incremental)


def kept(job: Job, config: FitPlan) -> NDArray[np.bool_]:
    """Return the columns that method `givens` keeps: the data on which its times depend.

    Of jobs in error too, as long as there is a memo that fits: hardware finds an order that is wrong on its way.
    """
    return factors(job, config, _sums(job, config)).keep


def _widened(
    job: Job, config: FitPlan, weights: Codes
) -> tuple[bounds.Anchor | None, tuple[int, int] | None]:
    """Return the anchor with what came, and the bounds that follow from it; None where they are too wide or there is none."""
    if not config.incremental or job.memo is None or job.memo.anchor is None:
        return None, None
    anchor = bounds.update_anchor(job.memo.anchor, job)
    limits = bounds.widen_bounds(anchor, weights, job.offsets)
    if limits is not None and limits[1] - limits[0] > job.limit:
        return anchor, None
    return anchor, limits


def refit(job: Job, config: FitPlan, index: int = 0) -> Fit | HardwareError:
    """Refit one group.

    * `job`: the job; nothing in it is changed.
    * `config`: the engine.
    * `index`: the job's place in the run, for the error report.

    Returns the fit, or what was wrong; then nothing is published and the old model stays.
    """
    code = check(job, config)
    if code is not None:
        return HardwareError(code, index)
    memo, exact = job.memo, _sums(job, config)
    c, middle = right_side(exact)
    triangle = factors(job, config, exact)
    if not triangle.done:
        return HardwareError(FitError.QR_DOWNDATE, index)
    solution = factor.solve(triangle.d, triangle.u, triangle.keep, c)
    if triangle.keep[0]:
        solution[0] = add(solution[0], middle)
    weights = codes(solution)

    anchor, limits = _widened(job, config, weights)
    rescanned = limits is None
    if limits is None:
        if memo is not None and descending(job.rows):
            return HardwareError(FitError.QR_ORDER, index)
        low, high, anchor = bounds.pass_over(job, weights)
    else:
        low, high = limits
    new = Memo(
        **vars(exact),
        method=config.method,
        target=job.target,
        window=job.window,
        offsets=job.offsets,
        epoch=0 if memo is None else memo.epoch + 1,
        d=triangle.memo_d,
        u=triangle.memo_u,
        anchor=anchor if config.incremental else None,
    )
    return Fit(job.group, weights, triangle.keep, low, high, rescanned, new)
