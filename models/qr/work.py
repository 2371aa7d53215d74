"""A job as the cycle models see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError, NamedCode
from .check import check
from .config import FitPlan
from .golden import kept
from .job import Fit, Job, Method
from .layout import (
    DESCRIPTOR_BYTES,
    Size,
    change_words,
    entry_counts,
    head_words,
    memo_reads,
    memo_words,
    result_words,
    row_words,
    words,
)
from .shell import FitError


class Fails(StrEnum):
    """Where a job's error is found: nothing behind that is done for it."""

    NOT = "not"
    DESCRIPTOR = "descriptor"
    HEAD = "head"
    RECORDS = "records"
    PASS = "pass"


@dataclass(frozen=True)
class Work:
    """One job as the cycle model sees it."""

    size: Size
    keep: tuple[bool, ...]  #: the columns kept
    rescanned: bool  #: bounds come from a pass over all rows
    #: bool (places,): the places of a full job that hold a row; None: spread evenly
    live: NDArray[np.bool_] | None = field(default=None, compare=False)
    fails: Fails = Fails.NOT  #: where the job's error is found

    @classmethod
    def of(cls, job: Job, fit: Fit | HardwareError, config: FitPlan) -> Work:
        """The job that gave this fit or error."""
        size, live = Size.of(job), None
        if job.memo is None and job.labels is not None:
            live = np.zeros(size.places, dtype=bool)
            live[job.labels] = True
        if isinstance(fit, HardwareError):
            fails, keep = _where(job, fit.code, config), (True,) * size.columns
            if config.method is Method.GIVENS and fails in (Fails.RECORDS, Fails.PASS):
                keep = tuple(bool(k) for k in kept(job, config))
            return cls(size, keep, fails is Fails.PASS, live, fails)
        return cls(size, tuple(bool(k) for k in fit.mask), fit.rescanned, live)

    @classmethod
    def plain(cls, size: Size, rescanned: bool) -> Work:
        """A job that keeps all columns."""
        return cls(size, (True,) * size.columns, rescanned)

    @property
    def folded(self) -> int:
        """Rows that method `givens` takes into its factor, or out of it."""
        size = self.size
        return size.rows if size.full else size.inserted + size.removed

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
        size, scan = self.size, row_words(self.size, config)
        body = head_words(size, config)
        if not size.full:
            reads = memo_reads(size, config).values()
            body = sum(beats for _, beats in reads) + change_words(size, config)
        if size.full or not config.incremental:
            body += scan
        return words(DESCRIPTOR_BYTES, config.bus_bytes), body, scan * self.rescanned

    def written(self, config: FitPlan) -> int:
        return memo_words(self.size, config) + result_words(self.size, config)

    def sums_cycles(self, config: FitPlan) -> int:
        """Cycles of the integer sums: records one by one, places of passes too."""
        size, total = self.size, 0
        a_row = -(-entry_counts(config)[size.columns] // config.gram_lanes)
        if size.full:
            return size.rows * (a_row - 1) + size.places
        total += (size.inserted + size.removed) * a_row + size.moved
        if not config.incremental:
            total += size.places
        return total

    def dot_cycles(self, config: FitPlan) -> int:
        """Cycles of the dot unit: widening, that is three for the segment, and new and moved rows one by one as their records come; places of a pass."""
        size = self.size
        tries = config.incremental and not size.full and self.fails is Fails.NOT
        widened = 3 + size.inserted + size.moved if tries else 0
        return widened + (-(-size.places // config.row_units) if self.rescanned else 0)

    def multiplications(self, config: FitPlan) -> int:
        """Float32 products of the solver; of `givens` those of columns that are independent."""
        n = self.size.columns
        if (
            config.method is Method.GRAM
        ):  # u, the rows behind it and the right side, the way back, h
            rows = sum(2 * k + k * (k + 1) // 2 + k + 1 for k in range(n))
            return rows + n * (n - 1) // 2 + 1
        met = n * self.folded
        behind = n * (n - 1) // 2 * self.folded
        if self.size.full:  # row i of a fresh factor leaves at column i
            met -= sum(n - 1 - i for i in range(min(n, self.folded)))
            behind -= sum((n - 1 - i) * (n - 2 - i) // 2 for i in range(min(n, self.folded)))
        return 3 * met + 3 * behind + n * (n - 1) + n + 1


def _where(job: Job, code: NamedCode, config: FitPlan) -> Fails:
    """Where the hardware finds an error that the golden model has found."""
    if code in (FitError.QR_COLUMNS, FitError.QR_ROWS):
        return Fails.DESCRIPTOR
    if code in (FitError.QR_MEMO, FitError.QR_WINDOW):
        return Fails.HEAD
    found_late = code == FitError.QR_ORDER and check(job, config) is None
    return Fails.PASS if found_late else Fails.RECORDS
