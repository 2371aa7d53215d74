"""The learned index under YCSB, Twitter's clusters and key sets: time an operation, share of retraining, beside other ordered maps; and a model of many
serving threads with one trainer."""

from __future__ import annotations

import heapq
import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

# one thread: groups are small; before NumPy loads its library
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import SEED, Options, Section, machine, main, markdown, versions
from fit_cpu import planned
from refit_core import keys_seconds

from penstock.host.learned_index import Layout, LearnedIndex, Trainer, golden
from penstock.models.errors import HardwareError
from penstock.models.memory.timing import FixedLatency
from penstock.models.qr.cycles import Work, run
from penstock.models.qr.job import Fit, Job
from penstock.targets import target_named as target
from testbench.workloads import KEY_SETS, Kind, Operation, Twitter, Ycsb

#: what the modelled engine is: windows of up to 32 bytes, slots, as it is planned for this part
PART = target("vu9p")
ENGINE = planned(33, PART, 1000)
CLOCK = PART.clock_mhz * 1e6
MEMORY = FixedLatency(PART.latency, PART.bytes_per_cycle)
#: an operation of SIA's own index with free training, one thread, 1 M keys of 32 bytes (710 k operations a second, measured with its published code)
NATIVE = 1 / 710e3


@dataclass
class Case:
    """A workload: keys to load, and operations."""

    name: str
    load: Callable[[], Iterable[bytes]]
    operations: Callable[[], Iterable[Operation]]


def inserts(name: str, records: int, count: int) -> Iterator[Operation]:
    """Half lookups of loaded keys, half inserts of keys of that set (SIA's micro benchmark)."""
    loaded = list(islice(KEY_SETS[name](records, SEED), records))
    rng = np.random.default_rng(SEED)
    new = KEY_SETS[name](count, SEED + 1)
    for read, at in zip(
        (rng.random(count) < 0.5).tolist(), rng.integers(0, records, count).tolist(), strict=True
    ):
        yield Operation(Kind.READ, loaded[at]) if read else Operation(Kind.INSERT, next(new))


def cases(records: int, count: int) -> list[Case]:
    found = []
    for letter in "ABCDEF":
        ycsb = Ycsb(letter, records, count if letter != "E" else count // 10, SEED)
        found.append(Case(f"YCSB {letter}", ycsb.load, ycsb.__iter__))
    for number in (12, 15, 31, 37):
        found.append(
            Case(
                f"Twitter {number}",
                lambda number=number: (o.key for o in Twitter(number, records, SEED + 1)),
                Twitter(number, count, SEED).__iter__,
            )
        )
    for name in KEY_SETS:
        found.append(
            Case(
                f"{name}, half inserts",
                lambda name=name: KEY_SETS[name](records, SEED),
                lambda name=name: inserts(name, records, count),
            )
        )
    return found


def drive(
    target: Any, scan: Callable[[Any, bytes, int], Any], operations: Sequence[Operation]
) -> float:
    """Return the seconds of the operations on a map."""
    get, begin = target.get, perf_counter()
    for kind, key, length, _ in operations:
        if kind is Kind.READ:
            get(key)
        elif kind is Kind.SCAN:
            scan(target, key, length)
        elif kind is Kind.DELETE:
            target.pop(key, None)
        else:
            if kind is Kind.MODIFY:
                get(key)
            target[key] = 1
    return perf_counter() - begin


def others() -> dict[
    str, tuple[Callable[[dict[bytes, int]], Any], Callable[[Any, bytes, int], Any]]
]:
    """Ordered maps to compare with: how to make one, how to scan."""
    from BTrees.OOBTree import OOBTree
    from sortedcontainers import SortedDict

    return {
        "SortedDict": (SortedDict, lambda m, key, n: [(k, m[k]) for k in islice(m.irange(key), n)]),
        "BTrees": (OOBTree, lambda m, key, n: list(islice(m.items(key), n))),
    }


def share(options: Options) -> str:
    records, count = (3000, 3000) if options.quick else (100_000, 50_000)
    rows, worst, wins = [], 0.0, []
    for case in cases(records, count):
        items = dict.fromkeys(case.load(), 0)
        operations = list(case.operations())
        index = LearnedIndex(items)
        index.clear_statistics()
        full, again = index.trainer.full, index.trainer.incremental
        seconds = drive(index, LearnedIndex.scan, operations)
        kept = index.statistics
        keys = [operation.key for operation in operations]
        begin = perf_counter()
        index.get_many(keys)
        many = perf_counter() - begin
        theirs = {
            name: drive(made(items), scan, operations) for name, (made, scan) in others().items()
        }
        part = kept.seconds / seconds
        worst = max(worst, part)
        rest = seconds - kept.seconds
        unit = 1e6 / len(operations)
        if rest < min(theirs.values()):
            wins.append(case.name)
        rows.append(
            (
                case.name,
                f"{len(items):,}",
                f"{len(operations):,}",
                f"{seconds * unit:.1f}",
                f"{rest * unit:.1f}",
                f"{part:.0%}",
                f"{kept.refits:,}",
                f"{index.trainer.incremental - again:,} / {index.trainer.full - full:,}",
                f"{many * unit:.1f}",
                *(f"{value * unit:.1f}" for value in theirs.values()),
            )
        )
    return (
        markdown(
            (
                "workload",
                "keys loaded",
                "operations",
                "µs an operation",
                "without retraining",
                "share of retraining",
                "refits",
                "from memo / in full",
                "get_many, µs a key",
                *(f"{name}, µs" for name in theirs),
            ),
            rows,
        )
        + f"\n\nLargest share of retraining: {worst:.0%}. Faster than the other two, were retraining free: {', '.join(wins) or 'nowhere'}."
        + f"\n\nWith {versions('sortedcontainers', 'BTrees')}. {machine()}"
    )


# many serving threads and one trainer


@dataclass(frozen=True)
class Times:
    """Service times in seconds: an operation; merging a group's array with its buffer; a fit; whether fits run beside merges (an engine) or after them."""

    operation: float
    merge: float
    fit: float
    beside: bool


def throughput(
    times: Times,
    share_new: float,
    groups: int,
    *,
    operations: int,
    threads: int = 16,
    buffer: int = 64,
    room: int = 256,
) -> float:
    """Return operations a second of `threads` serving threads, each on a core of its own, with one trainer: a discrete-event simulation.

    Each thread does one operation after another. A share `share_new` of them inserts a new key into a group drawn at random; once `buffer` keys
    wait there, the group joins the trainer's queue. A thread that would insert the `room`-th key waits until the group has been fitted. The trainer
    merges and fits groups in their order; an engine fits one group while the trainer's thread merges the next.
    """
    rng = np.random.default_rng(SEED)
    spread = iter(
        (rng.exponential(1.0, operations) * 0.2 + 0.8).tolist()
    )  # an operation is not always as long
    new = (rng.random(operations) < share_new).tolist()
    where = rng.integers(0, groups, operations).tolist()
    waiting = rng.integers(0, buffer, groups).tolist()
    ready = [0.0] * groups  # when the fit under way is done; 0: none is
    merged = fitted = now = 0.0
    clocks = [(0.0, thread) for thread in range(threads)]
    for insert, group in zip(new, where, strict=True):
        now, thread = heapq.heappop(clocks)
        now += times.operation * next(spread)
        if insert:
            if ready[group] and (ready[group] <= now or waiting[group] >= room):
                now = max(now, ready[group])
                waiting[group] -= buffer
                ready[group] = 0.0
            waiting[group] += 1
            if waiting[group] >= buffer and not ready[group]:
                merged = max(merged, now) + times.merge
                fitted = max(merged, fitted) + times.fit
                if not times.beside:
                    merged = fitted
                ready[group] = fitted
        heapq.heappush(clocks, (now, thread))
    return operations / now


def in_c(jobs: Sequence[Job]) -> float:
    """Return the median seconds of a fit on one core by the engine's own algorithm in C (`refit.c`), with as many rows that come, go and move as each job
    has."""
    sizes = [
        (job.window.columns, min(500, len(job.inserted) + len(job.gone)), len(job.moved))
        for job in jobs
    ]
    seconds = {
        (columns, changed, moved): keys_seconds(
            500, columns, max(2, changed + changed % 2), min(moved, 500 - changed), 100
        )
        for columns, changed, moved in set(sizes)
    }
    return statistics.median(seconds[size] for size in sizes)


def original(jobs: Sequence[Job]) -> float:
    """Return the median seconds of a fit as SIndex does it: least squares over all rows by singular values (LAPACK's gelss), and the errors over them."""
    from scipy.linalg import lstsq

    found = []
    for job in jobs:
        a = np.ones((len(job.rows), job.window.columns))
        a[:, 1:] = job.rows
        labels, seconds = np.arange(len(a), dtype=np.float64), []
        for _ in range(3):
            begin = perf_counter()
            errors = labels - a @ lstsq(a, labels, check_finite=False, lapack_driver="gelss")[0]
            errors.min(), errors.max()
            seconds.append(perf_counter() - begin)
        found.append(min(seconds))
    return statistics.median(found)


def copying(jobs: Sequence[Job], length: int) -> float:
    """Return the median seconds of merging an array of keys and 8-byte values with the new ones, as NumPy does it."""
    found = []
    for job in jobs:
        old = np.zeros(len(job.rows) - len(job.inserted), dtype=f"S{length}")
        values, at = np.zeros(len(old), dtype=np.int64), np.minimum(job.inserted, len(old))
        keys = np.zeros(len(at), dtype=f"S{length}")
        seconds = []
        for _ in range(5):
            begin = perf_counter()
            np.insert(old, at, keys)
            np.insert(values, at, 0)
            seconds.append(perf_counter() - begin)
        found.append(min(seconds))
    return statistics.median(found)


def serving(options: Options) -> str:
    records, count, drawn = (3000, 4000, 5000) if options.quick else (100_000, 50_000, 400_000)
    rows: list[tuple[str, ...]] = []
    gains: list[tuple[float, float, str]] = []
    for case in cases(records, count):
        if case.name in ("YCSB A", "YCSB B", "YCSB C", "YCSB F"):  # no new keys, no fits
            continue
        kept: list[tuple[Job, Fit]] = []

        def backend(
            jobs: Sequence[Job], kept: list[tuple[Job, Fit]] = kept
        ) -> Sequence[Fit | HardwareError]:
            fits = golden(ENGINE)(jobs)
            kept += [
                (job, fit)
                for job, fit in zip(jobs, fits, strict=True)
                if isinstance(fit, Fit) and job.memo is not None
            ]
            return fits

        items = dict.fromkeys(case.load(), 0)
        operations = list(case.operations())
        index = LearnedIndex(items, trainer=Trainer(ENGINE, backend), layout=Layout())
        kept.clear()
        index.clear_statistics()
        seconds = drive(index, LearnedIndex.scan, operations)
        counts = index.statistics
        grown = (len(index) - len(items)) / len(operations)
        if not kept:
            rows.append((case.name, f"{grown:.1%}", *["–"] * 3, "no group needs a fit", *["–"] * 6))
            continue
        sample = kept[:256]
        cycles = run(
            ENGINE, [Work.of(job, fit, ENGINE) for job, fit in sample], MEMORY
        ).total / len(sample)
        cpu, engine, svd = (
            in_c([job for job, _ in sample]),
            cycles / CLOCK,
            original([job for job, _ in sample[:32]]),
        )
        length = len(operations[0].key)
        for name, operation, merge in (
            (
                "this index",
                (seconds - counts.seconds) / len(operations),
                (counts.seconds - counts.fitting) / counts.refits,
            ),
            ("native", NATIVE, copying([job for job, _ in sample], length)),
        ):
            speeds = [
                throughput(times, grown, len(index._groups), operations=drawn)
                for times in (
                    Times(operation, merge, svd, False),
                    Times(operation, merge, cpu, False),
                    Times(operation, merge, engine, True),
                    Times(operation, 0.0, 0.0, True),
                )
            ]
            if name == "native":
                gains.append((speeds[2] / speeds[0], speeds[2] / speeds[1], case.name))
            rows.append(
                (
                    case.name,
                    f"{grown:.1%}",
                    name,
                    f"{operation * 1e6:.2f}",
                    f"{merge * 1e6:.1f}",
                    f"{svd * 1e6:.0f} · {cpu * 1e6:.1f} · {engine * 1e6:.2f}",
                    *(f"{speed / 1e6:.2f}" for speed in speeds),
                    f"{speeds[2] / speeds[0]:.2f} ×",
                    f"{speeds[2] / speeds[1]:.2f} ×",
                )
            )

    def ends(which: int, than: str) -> str:
        by = sorted((entry[which], entry[2]) for entry in gains)
        return f"{by[0][0]:.2f} × ({by[0][1]}) to {by[-1][0]:.2f} × ({by[-1][1]}) the operations of {than}"

    header = (
        "workload",
        "new keys",
        "service times",
        "operation, µs",
        "merge, µs",
        "fit, µs: SVD · C · engine",
        "M op/s: SVD trainer",
        "C trainer",
        "engine",
        "free training",
        "engine ÷ SVD",
        "engine ÷ C",
    )
    return (
        f"{markdown(header, rows)}\n\nWith native service times the engine gives {ends(0, 'a trainer as SIndex has it')}, "
        f"{ends(1, 'the same algorithm in C on a core')}. {machine()}"
    )


SECTIONS = [Section("index-share", True, share), Section("index-serving", True, serving)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
