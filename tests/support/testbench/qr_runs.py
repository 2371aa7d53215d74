"""Random runs of jobs for the qr engine: every kind of group, change and error, and whether the hardware did with them what golden and cycle model say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.host.workloads.groups import Group, keys
from penstock.models.errors import ErrorCode, HardwareCode, HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Work, run
from penstock.models.qr.descriptor import (
    DESCRIPTOR,
    HEAD,
    Faults,
    descriptor_faults,
    head_faults,
    unpack,
)
from penstock.models.qr.golden import refit
from penstock.models.qr.image import Placed, pack_memo, pack_result, place_jobs
from penstock.models.qr.job import Fit, Job, Window
from penstock.models.qr.layout import DESCRIPTOR_BYTES, HEAD_BYTES
from penstock.models.qr.shell import FitError
from penstock.models.qr.work import Fails
from penstock.sim.native import Library
from testbench.qr import Simulated, simulate

__all__ = ["Outcome", "compare", "first_fault", "random_job", "random_run"]

Source = np.random.Generator


def first_fault(faults: Faults) -> HardwareCode:
    """The code of the first condition that holds of numbers, else OK."""
    return next((code for holds, code in faults if holds), ErrorCode.OK)


def _plain(source: Source, job: Job) -> Job:
    return job


def _pass(source: Source, job: Job) -> Job:
    """No limit, or one that may be too small: a pass."""
    return replace(job, limit=int(source.choice([-1, 0, 2, 10])))


def _window(source: Source, job: Job) -> Job:
    """The bytes are others than those of the memo."""
    return replace(job, window=Window(job.window.prefix + 1, job.window.length))


def _epoch(source: Source, job: Job) -> Job:
    return replace(job, epoch=job.epoch + 1)


def _swapped(job: Job, which: np.ndarray) -> Job:
    different = [
        k for k in range(len(which) - 1) if (job.rows[which[k]] != job.rows[which[k + 1]]).any()
    ]
    if not different:
        return job
    rows, i, j = job.rows.copy(), which[different[0]], which[different[0] + 1]
    rows[[i, j]] = rows[[j, i]]
    return replace(job, rows=rows)


def _disorder(source: Source, job: Job) -> Job:
    """Rows out of order, seen by passes alone, or among the new ones."""
    return _swapped(
        replace(job, limit=-1), job.inserted if source.random() < 0.5 else np.arange(len(job.rows))
    )


def _labels(source: Source, job: Job) -> Job:
    """New rows' labels out of order."""
    if len(job.inserted) < 2 or job.labels is None:
        return job
    labels, i, j = job.labels.copy(), job.inserted[0], job.inserted[1]
    labels[[i, j]] = labels[[j, i]]
    return replace(job, labels=labels)


_GOOD: tuple[Callable[[Source, Job], Job], ...] = (_plain, _plain, _plain, _pass)
_BAD: tuple[Callable[[Source, Job], Job], ...] = (_window, _epoch, _disorder, _labels)


def random_job(config: FitPlan, source: Source, number: int, rows: int = 60) -> Job:
    """A job of a random group of up to `rows` rows that has been refitted up to three times before."""
    length = int(source.integers(1, config.n_max))
    alphabet = int(source.choice([1, 2, 7, 256]))
    table = keys(source, int(source.integers(0, rows + 1)), length, alphabet)
    if length > 1 and source.random() < 0.3:
        table[:, source.integers(length)] = source.integers(256)  # constant
    if length > 1 and source.random() < 0.3:
        table[:, 1] = table[:, 0]  # collinear
    group = Group(config, table, number, density=float(source.choice([0.3, 0.7, 0.95])))
    job = group.full()
    for _ in range(int(source.integers(0, 4))):
        fit = refit(job, config)
        if isinstance(fit, HardwareError):
            assert fit.code is FitError.QR_DOWNDATE
            return job
        group.take(fit)
        count, kind = len(group.rows), source.integers(6)
        go = {0: 0, 1: count}.get(int(kind), int(source.integers(0, min(count, 12) + 1)))
        come = 0 if kind in (0, 1, 2) else int(source.integers(0, 13))
        new = keys(source, come, length, alphabet)
        doomed = np.sort(source.choice(count, go, replace=False)) if count else np.arange(0)
        job = group.batch(new, doomed)
        if job.memo is None:
            break
    if source.random() < 0.1:
        wide = Window(
            0, config.n_max if source.random() < 0.5 else length
        )  # too wide for the engine, or not
        if wide.length != length:
            return Job(
                number,
                wide,
                np.zeros(wide.length, dtype=np.uint8),
                np.zeros((0, wide.length), dtype=np.uint8),
                np.zeros(0, dtype=np.int64),
            )
    change = _BAD if source.random() < 0.25 else _GOOD
    chosen = change[source.integers(len(change))]
    if job.memo is None:
        chosen = _disorder if source.random() < 0.1 else _plain
    return chosen(source, job)


@dataclass(frozen=True)
class Outcome:
    """A run beside what golden model and cycle model say of it; `cycles`: None where the cycle model is not exact."""

    simulated: Simulated
    bit_exact: bool
    cycles: int | None
    expected: list[Fit | HardwareError]


def _damage(
    source: Source,
    placed: Placed,
    config: FitPlan,
    jobs: list[Job],
    expected: list[Fit | HardwareError],
    works: list[Work],
) -> None:
    """Change a byte of some descriptors and heads, where that makes an error."""
    step = -(-DESCRIPTOR_BYTES // config.bus_bytes) * config.bus_bytes
    for number, at in enumerate(placed.places):
        if source.random() > 0.3:
            continue
        for _ in range(20):
            first, places = at.memo - placed.base, [*range(HEAD_BYTES)]
            if source.random() < 0.5:  # all but the result's address, often the flags
                first, places = number * step, [*range(54), *[7] * 27]
            place, old = first + int(source.choice(places)), placed.memory.copy()
            placed.memory[place] ^= int(source.integers(1, 256))
            d = unpack(DESCRIPTOR, placed.memory[number * step :][:DESCRIPTOR_BYTES].tobytes())
            code = first_fault(descriptor_faults(d, config))
            fails = Fails.DESCRIPTOR if code else Fails.HEAD
            if not code and first != number * step:
                head = unpack(HEAD, placed.memory[first:][:HEAD_BYTES].tobytes())
                code = first_fault(head_faults(head, d, config))
            same = (
                works[number].fails in (Fails.NOT, Fails.PASS, Fails.RECORDS)
                and d.group == jobs[number].group
            )
            if code and same:
                expected[number] = HardwareError(code, number)
                works[number] = replace(works[number], fails=fails, rescanned=False)
                break
            placed.memory[:] = old


def _published(
    placed: Placed, jobs: Sequence[Job], results: Sequence[Fit | HardwareError], config: FitPlan
) -> np.ndarray:
    """The memory after the run: results and memos where the jobs wanted them; of an error just its result's head; all else as it was."""
    content = placed.memory.copy()
    for job, at, result in zip(jobs, placed.places, results, strict=True):
        data = pack_result(result, job.group, config)
        if not isinstance(result, HardwareError):
            data += pack_memo(result.memo, config)
        first = at.result - placed.base
        content[first : first + len(data)] = np.frombuffer(data, dtype=np.uint8)
    return content


def compare(
    config: FitPlan,
    library: Library,
    jobs: list[Job],
    memory: FixedLatency,
    *,
    stall_percent: int = 0,
    seed: int = 1,
    damage: bool = False,
) -> Outcome:
    """Run jobs on the hardware, golden and cycle model. `damage`: descriptors and heads are damaged first."""
    expected = [refit(job, config, number) for number, job in enumerate(jobs)]
    works = [Work.of(job, fit, config) for job, fit in zip(jobs, expected, strict=True)]
    placed = place_jobs(jobs, config)
    if damage:
        _damage(np.random.default_rng(seed), placed, config, jobs, expected, works)
    cycles = run(config, works, memory, placed.places, placed.base).total if config.built else None
    simulated = simulate(
        config,
        library,
        jobs,
        memory=memory,
        placed=placed,
        limit=1_000_000 + 10 * (cycles or 0),
        stall_percent=stall_percent,
        seed=seed,
    )
    exact = simulated.error is None and bool(
        (simulated.memory == _published(placed, jobs, expected, config)).all()
    )
    return Outcome(simulated, exact, cycles, expected)


def random_run(config: FitPlan, source: Source, count: int, rows: int = 60) -> list[Job]:
    """Jobs of as many groups."""
    return [random_job(config, source, number, rows) for number in range(count)]
