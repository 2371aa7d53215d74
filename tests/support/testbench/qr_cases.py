"""Random sequences of refits for the tests of the qr engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from penstock.host.workloads.groups import Group, keys
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit, Job, Label

__all__ = ["jobs_of", "slot_plan"]


def slot_plan(**options: Any) -> FitPlan:
    """Return the plan of an engine for keys in slots."""
    return FitPlan(target=Label.SLOT, **options)


def jobs_of(
    config: FitPlan,
    source: np.random.Generator,
    length: int,
    count: int,
    batches: Sequence[tuple[int, int]],
    alphabet: int = 256,
) -> Iterator[Job]:
    """Yield jobs that follow a full training of `count` random rows: batches of so many rows that come and go. Full ones in between are left out."""
    group = Group(config, keys(source, count, length, alphabet), density=0.8)
    job = group.full()
    for come, go in batches:
        fit = refit(job, config)
        assert isinstance(fit, Fit)
        group.take(fit)
        doomed = np.sort(source.choice(np.flatnonzero(group.live), go, replace=False))
        job = group.batch(keys(source, come, length, alphabet), doomed)
        if job.memo is not None:
            yield job
