"""What a job must keep to. Hardware sees only what it reads, so rows are compared with their neighbours only where they are streamed.

* **A full job** has no memo but finds its offsets in a head at `memo` that the host writes (`image.pack_head`). Lists of changes are empty.
* **Rows** lie in their places, each with its bit; a full job whose bits are not as many as the descriptor's `rows` is QR_DESCRIPTOR.
* **Order.** Labels must ascend among inserted and among moved rows, and inserted rows must not descend. Removed rows of target `slot` may come
  in any order. A pass compares each row with the one before it.
* **What the engine cannot check**: a list that names rows which the memo never had gives a wrong memo. The host is trusted with its keys and with
  addresses.
* **A job in error** writes its group and code to the first 32 bytes of its result; the run goes on. An error of the bus ends the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareCode
from .arith import LABEL_MAX
from .config import FitPlan
from .job import ROWS_MAX, Job
from .shell import FitError

__all__ = ["check", "descending", "disorder"]


def descending(rows: NDArray[np.uint8]) -> bool:
    """Whether any row is less than the one before it, byte by byte."""
    if len(rows) < 2:
        return False
    difference = rows[1:].astype(np.int16) - rows[:-1].astype(np.int16)
    first = (difference != 0).argmax(axis=1)
    return bool((difference[np.arange(len(first)), first] < 0).any())


def _indices(values: NDArray[np.int64], count: int) -> HardwareCode | None:
    """A list of row numbers: in range, ascending."""
    if values.ndim != 1 or (len(values) and not 0 <= values.min() <= values.max() < count):
        return FitError.QR_DESCRIPTOR
    return FitError.QR_ORDER if (np.diff(values) <= 0).any() else None


def _slots(values: NDArray[np.int64]) -> HardwareCode | None:
    if len(values) and not 0 <= values.min() <= values.max() <= LABEL_MAX:
        return FitError.QR_ROWS
    return None


def check(job: Job, config: FitPlan) -> HardwareCode | None:
    """Return what is wrong with the job, None if nothing is. The first of these, in this order:

    sizes (QR_COLUMNS, QR_DESCRIPTOR, QR_ROWS), the target (QR_DESCRIPTOR), lists of changes (QR_DESCRIPTOR, QR_ORDER, QR_ROWS), the memo (QR_MEMO,
    QR_WINDOW), the order of the rows that are read (QR_ORDER). A pass that widened bounds call for is checked when it is made (`disorder`).
    """
    length, m = job.window.length, len(job.rows)
    if not 2 <= job.window.columns <= config.n_max:
        return FitError.QR_COLUMNS
    if (
        job.rows.ndim != 2
        or job.rows.shape[1] != length
        or job.offsets.shape != (length,)
        or job.window.prefix < 0
    ):
        return FitError.QR_DESCRIPTOR
    if m > ROWS_MAX:
        return FitError.QR_ROWS
    if job.target is not config.target or (job.labels is not None and job.labels.shape != (m,)):
        return FitError.QR_DESCRIPTOR
    code = _labels(job) or (None if job.memo is None else _changes(job) or _memo(job, config))
    if code is not None:
        return code
    if descending(job.rows[job.inserted]) and job.memo is not None:
        return FitError.QR_ORDER
    return disorder(job) if job.memo is None or not config.incremental else None


def disorder(job: Job) -> HardwareCode | None:
    """What a pass over all rows finds: QR_ORDER where a row is less than the one before it."""
    return FitError.QR_ORDER if descending(job.rows) else None


def _labels(job: Job) -> HardwareCode | None:
    if job.labels is None:
        return None
    return _slots(job.labels) or (FitError.QR_ORDER if (np.diff(job.labels) <= 0).any() else None)


def _changes(job: Job) -> HardwareCode | None:
    m, k = len(job.rows), len(job.gone)
    if job.gone.ndim != 2 or job.gone.shape[1] != job.window.length:
        return FitError.QR_DESCRIPTOR
    for values in (job.inserted, job.moved):
        code = _indices(values, m)
        if code is not None:
            return code
    slots = job.labels is not None
    if (
        len(job.removed_labels) != (k if slots else 0)
        or len(job.moved) != len(job.moved_from)
        or (len(job.moved) and not slots)
        or np.isin(job.moved, job.inserted).any()
    ):
        return FitError.QR_DESCRIPTOR
    return _slots(job.removed_labels) or _slots(job.moved_from)


def _memo(job: Job, config: FitPlan) -> HardwareCode | None:
    memo = job.memo
    assert memo is not None
    if memo.method is not config.method or memo.target is not config.target:
        return FitError.QR_MEMO
    if memo.window != job.window or not np.array_equal(memo.offsets, job.offsets):
        return FitError.QR_WINDOW
    fits = memo.epoch == job.epoch
    fits &= memo.rows + len(job.inserted) - len(job.gone) == len(job.rows)
    return None if fits else FitError.QR_MEMO
