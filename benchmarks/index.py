"""The learned index under YCSB, Twitter's clusters and key sets: time an operation, share of retraining, beside other ordered maps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

# one thread: groups are small; before NumPy loads its library
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import SEED, Options, Section, machine, main, markdown, versions

from penstock.host.learned_index import LearnedIndex
from testbench.workloads import KEY_SETS, Kind, Operation, Twitter, Ycsb


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
            f"{case.name} | {len(items):,} | {len(operations):,} | {seconds * unit:.1f} | {rest * unit:.1f} | {part:.0%} | {kept.refits:,} | "
            f"{index.trainer.incremental - again:,} / {index.trainer.full - full:,} | {many * unit:.1f} | "
            + " | ".join(f"{value * unit:.1f}" for value in theirs.values())
        )
    head = (
        "workload | keys loaded | operations | µs an operation | without retraining | share of retraining | refits | from memo / in full | "
        f"get_many, µs a key | {' | '.join(f'{name}, µs' for name in theirs)}"
    )
    return (
        markdown(head, rows)
        + f"\n\nLargest share of retraining: {worst:.0%}. Faster than the other two, were retraining free: {', '.join(wins) or 'nowhere'}."
        + f"\n\nWith {versions('sortedcontainers', 'BTrees')}. {machine()}"
    )


SECTIONS = [Section("index-share", True, share)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
