"""A job as the cycle models see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError, NamedCode
from .check import descending
from .config import FitPlan
from .errors import FitError
from .folding import Folding
from .golden import folds
from .job import Fit, Job, Memo, Method
from .layout import (
    DESCRIPTOR_BYTES,
    Size,
    change_words,
    head_words,
    memo_words,
    result_words,
    row_words,
    sums_words,
    words,
)
from .schedule import Task, gram_tasks, multiplications

__all__ = ["Fails", "Work"]


class Fails(StrEnum):
    """Where a job's error is found: nothing behind that is done for it."""

    NOT = "not"
    DESCRIPTOR = "descriptor"
    HEAD = "head"
    RECORDS = "records"
    PASS = "pass"


@dataclass(frozen=True)
class Work:
    """One job as the cycle model sees it: its size, the columns kept, whether bounds come from a pass over all rows (and whether after a try to widen).

    `met`: columns that each folded row met
    (method `givens`), as `factor.fold` returns them; `met_again`: those that rows of dropped columns met, None for a column that was kept or had nothing.
    `live`: bool (places,), the places of a full job that hold a row; None: spread evenly. `fails`: where the job's error is found.
    """

    size: Size
    keep: tuple[bool, ...]
    rescanned: bool
    tried: bool = False
    met: tuple[int, ...] = ()
    met_again: tuple[int | None, ...] = ()
    live: NDArray[np.bool_] | None = field(default=None, compare=False)
    fails: Fails = Fails.NOT

    @classmethod
    def of(cls, job: Job, fit: Fit | HardwareError, config: FitPlan) -> Work:
        """The job that gave this fit or error."""
        size, live = Size.of(job), None
        if job.memo is None and job.labels is not None:
            live = np.zeros(size.places, dtype=bool)
            live[job.labels[job.alive]] = True
        if isinstance(fit, HardwareError):
            fails = _where(job, fit.code, config)
            met, again = (
                folds(job)
                if config.method is Method.GIVENS and fails in (Fails.RECORDS, Fails.PASS)
                else ((), ())
            )
            return cls(
                size, (True,) * size.columns, fails is Fails.PASS, False, met, again, live, fails
            )
        tried = config.incremental and job.memo is not None and job.memo.anchor is not None
        met, again = folds(job) if config.method is Method.GIVENS else ((), ())
        return cls(size, tuple(bool(k) for k in fit.mask), fit.rescanned, tried, met, again, live)

    @classmethod
    def plain(cls, size: Size, rescanned: bool) -> Work:
        """A job that keeps all columns; its rows, folded into a fresh factor, are independent as long as they can be."""
        n = size.columns
        met = tuple(min(i + 1, n) for i in range(size.rows)) if size.full else (n,) * size.inserted
        return cls(size, (True,) * n, rescanned, not rescanned, met, (None,) * n)

    def live_places(self) -> Iterator[int]:
        """Of each place in the pass that gives c: whether AᵀA takes its row; only a full job has it take any."""
        if not (self.size.full and self.size.span):
            return iter([int(self.size.full)] * self.size.places)
        if self.live is not None:
            return iter(self.live.astype(int).tolist())
        rows, places = self.size.rows, self.size.places
        return ((i + 1) * rows // places - i * rows // places for i in range(places))

    def read(self, config: FitPlan) -> tuple[int, int, int]:
        """Bus words of descriptor, body, and the pass for the bounds."""
        size = self.size
        body = (
            head_words(size, config)
            if size.full
            else memo_words(size, config) + change_words(size, config)
        )
        if size.full or not config.incremental:
            body += row_words(size, config)
        if not size.full and not config.incremental:
            body -= sums_words(size, config)[0]
        return (
            words(DESCRIPTOR_BYTES, config.bus_bytes),
            body,
            row_words(size, config) if self.rescanned else 0,
        )

    def written(self, config: FitPlan) -> int:
        return memo_words(self.size, config) + result_words(self.size, config)

    def sums_cycles(self, config: FitPlan) -> int:
        """Cycles of the integer sums: records one by one, places of passes too."""
        size, total = self.size, 0
        triangle = size.columns * (size.columns + 1) // 2
        a_row = -(-triangle // config.gram_lanes) if config.method is Method.GRAM else 1
        if size.full:
            return size.rows * (a_row - 1) + size.places
        total += (size.inserted + size.removed) * a_row + size.moved + size.buried
        if not config.incremental:
            total += size.places
        return total

    def widen_cycles(self, config: FitPlan) -> int:
        """Cycles of the dot unit while bounds are widened: three for the segment, new and moved rows one by one as their records come."""
        return 3 + self.size.inserted + self.size.moved if self.tried else 0

    def dot_cycles(self, config: FitPlan) -> int:
        """Cycles of the dot unit: widening, places of a pass."""
        return self.widen_cycles(config) + (
            -(-self.size.places // config.row_units) if self.rescanned else 0
        )

    def tasks(self, config: FitPlan) -> Sequence[Task]:
        """The solver's tasks, in order (method `gram`)."""
        return gram_tasks(self.size.columns, config.lanes)

    def folding(self) -> Folding:
        """The solver's work (method `givens`)."""
        return Folding(self.size.columns, self.met, self.met_again, self.size.full)

    def slots(self, config: FitPlan) -> int:
        """Cycles of the solver's vector units, all of them together."""
        return (
            sum(self.folding().slots(config.lanes))
            if config.method is Method.GIVENS
            else sum(task.slots for task in self.tasks(config))
        )

    def multiplications(self, config: FitPlan) -> int:
        """Float32 products of the solver."""
        return (
            self.folding().multiplications
            if config.method is Method.GIVENS
            else multiplications(self.tasks(config))
        )


def _where(job: Job, code: NamedCode, config: FitPlan) -> Fails:
    """Where the hardware finds an error that the golden model's check has found."""
    if code in (FitError.QR_COLUMNS, FitError.QR_ROWS, FitError.QR_REMOVED):
        return Fails.DESCRIPTOR
    if code in (FitError.QR_MEMO, FitError.QR_WINDOW):
        return (
            Fails.RECORDS
            if code == FitError.QR_MEMO
            and job.memo is not None
            and _of_this_job(job.memo, job, config)
            else Fails.HEAD
        )
    if (
        job.memo is None
        or code != FitError.QR_ORDER
        or not config.incremental
        or descending(job.rows[job.inserted])
    ):
        return Fails.RECORDS
    return (
        Fails.RECORDS if job.labels is not None and (np.diff(job.labels) <= 0).any() else Fails.PASS
    )


def _of_this_job(memo: Memo, job: Job, config: FitPlan) -> bool:
    """Whether nothing in the memo's head is wrong: just its count of live rows does not become the job's."""
    return (
        (memo.method, memo.target, memo.epoch) == (config.method, config.target, job.epoch)
        and memo.live <= memo.rows
        and (memo.rows + len(job.inserted) - len(job.gone) == len(job.rows))
    )
