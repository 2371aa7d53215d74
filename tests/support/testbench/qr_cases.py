"""Random sequences of refits for the tests of the qr engine."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.host.workloads.groups import Group, keys
from penstock.models.qr.config import FitPlan
from penstock.models.qr.golden import refit
from penstock.models.qr.job import Fit, Job, Label
from penstock.models.qr.layout import Size

__all__ = ["Record", "jobs_of", "slot_plan", "unpack_changes"]


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
        doomed = np.sort(source.choice(len(group.rows), go, replace=False))
        job = group.batch(keys(source, come, length, alphabet), doomed)
        if job.memo is not None:
            yield job


@dataclass(frozen=True)
class Record:
    """One change as the engine's sums and bounds take it (target `slot`): c grows by value · a, AᵀA by sign · a aᵀ.

    `label`: the row's label now; `came`: whether it is an inserted or moved row, which the bounds look at.
    """

    value: int
    sign: int
    label: int
    came: bool
    row: bytes


def unpack_changes(data: bytes, size: Size) -> list[Record]:
    """The records of a job of this size with target `slot`."""
    length = size.columns - 1
    records = []
    kinds = [size.inserted, size.removed, size.moved]
    step = 8 + -(-length // 4) * 4
    for number, kind in enumerate(k for k, count in enumerate(kinds) for _ in range(count)):
        label, before = struct.unpack_from("<II", data, number * step)
        value, sign = [(label, 1), (-before, -1), (label - before, 0)][kind]
        records.append(
            Record(
                value,
                sign,
                label,
                kind != 1,
                data[number * step + 8 : number * step + 8 + length],
            )
        )
    return records
