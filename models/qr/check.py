"""What a job must keep to. Hardware sees only what it reads, so rows are compared with their neighbours only where they are streamed.

* **A full job** has no memo but finds its offsets in a head at `memo` that the host writes (`image.pack_head`). Lists of changes are empty.
* **Rows** lie in their places, each with its bit; a full job whose bits are not as many as the descriptor's `rows` is QR_DESCRIPTOR.
* **Order.** Labels must ascend among inserted and among moved rows, and inserted rows must not descend. Removed rows of target `slot` may come
  in any order. A pass compares each row with the one before it.
* **What the engine cannot check**: a list that names rows which the memo never had gives a wrong memo. The host is trusted with its keys and with
  addresses.
* **A job in error** writes its group and code to the first 32 bytes of its result; the run goes on. An error of the bus ends the run.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareCode
from .arith import LABEL_MAX
from .config import FitPlan
from .job import ROWS_MAX, Integers, Job
from .shell import FitError


def descending(rows: NDArray[np.uint8]) -> bool:
    """Whether any row is less than the one before it, byte by byte."""
    if len(rows) < 2:
        return False
    difference = rows[1:].astype(np.int16) - rows[:-1].astype(np.int16)
    first = (difference != 0).argmax(axis=1)
    return bool((difference[np.arange(len(first)), first] < 0).any())


def check(job: Job, config: FitPlan) -> HardwareCode | None:
    """Return what is wrong with the job, None if nothing is. The first of these, in this order:

    sizes (QR_COLUMNS, QR_DESCRIPTOR, QR_ROWS), the target (QR_DESCRIPTOR), lists of changes (QR_DESCRIPTOR, QR_ORDER, QR_ROWS), the memo (QR_MEMO,
    QR_WINDOW), the order of the rows that are read (QR_ORDER). A pass that widened bounds call for is checked when it is made.
    """
    return next((code for holds, code in _faults(job, config) if holds), None)


def _faults(job: Job, config: FitPlan) -> Iterator[tuple[bool, HardwareCode]]:
    """Yield conditions and their codes; each may be asked for where none before it holds."""
    window, labels, m = job.window, job.labels, len(job.rows)
    yield not 2 <= window.columns <= config.n_max, FitError.QR_COLUMNS
    strange = job.rows.ndim != 2 or job.rows.shape[1] != window.length or window.prefix < 0
    yield strange or job.offsets.shape != (window.length,), FitError.QR_DESCRIPTOR
    yield m > ROWS_MAX, FitError.QR_ROWS
    strange = job.target is not config.target
    yield strange or (labels is not None and labels.shape != (m,)), FitError.QR_DESCRIPTOR
    if labels is not None:
        yield _beyond(labels, LABEL_MAX), FitError.QR_ROWS
        yield _stands(labels), FitError.QR_ORDER
    if job.memo is not None:
        yield from _changed(job, config)
    if job.memo is None or not config.incremental:
        yield descending(job.rows), FitError.QR_ORDER


def _changed(job: Job, config: FitPlan) -> Iterator[tuple[bool, HardwareCode]]:
    """Yield those of lists of changes and the memo."""
    memo, m, gone = job.memo, len(job.rows), job.removed
    assert memo is not None
    yield gone.ndim != 2 or gone.shape[1] != job.window.length, FitError.QR_DESCRIPTOR
    for rows in (job.inserted, job.moved):
        yield rows.ndim != 1 or _beyond(rows, m - 1), FitError.QR_DESCRIPTOR
        yield _stands(rows), FitError.QR_ORDER
    slots = job.labels is not None
    strange = len(job.removed_labels) != len(gone) * slots or len(job.moved) != len(job.moved_from)
    strange |= len(job.moved) > 0 and not slots
    yield strange or bool(np.isin(job.moved, job.inserted).any()), FitError.QR_DESCRIPTOR
    beyond = (_beyond(labels, LABEL_MAX) for labels in (job.removed_labels, job.moved_from))
    yield any(beyond), FitError.QR_ROWS
    yield memo.method is not config.method or memo.target is not config.target, FitError.QR_MEMO
    other = memo.window != job.window or not np.array_equal(memo.offsets, job.offsets)
    yield other, FitError.QR_WINDOW
    rows_then = memo.rows + len(job.inserted) - len(gone)
    yield memo.epoch != job.epoch or rows_then != m, FitError.QR_MEMO
    yield descending(job.rows[job.inserted]), FitError.QR_ORDER


def _beyond(values: Integers, most: int) -> bool:
    return len(values) > 0 and not 0 <= values.min() <= values.max() <= most


def _stands(values: Integers) -> bool:
    """Whether any is no greater than the one before it."""
    return bool((np.diff(values) <= 0).any())
