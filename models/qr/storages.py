"""The memories that an engine for fits over keys is written with, as data: those with clocked reads, which may become blocks; and stray products.

Smaller queues are LUT RAM, and counted with the logic beside them, as is a lane's memory of sums, which is read and written in one cycle.
`tests/qr/test_resources.py` holds the list against the hardware's netlist.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..mapping import DISTRIBUTED_BITS, Factors, Storage
from .config import FitPlan
from .job import Method
from .layout import ENTRY_BYTES, Size, entry_counts, factor_words, held_words
from .requests import AHEAD
from .schedule import CONVERT

__all__ = ["memories", "strays"]

#: bits of a descriptor; of what a job's end must know of it, of its memo's head without the offsets, of its records, of a segment's errors
_DESCRIPTOR, _KEPT = 480, 289
_HEAD, _REPORT = 8, 8
_ERRORS = 96


def memories(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    """Yield (copies, memory)."""
    bus, jobs = 8 * config.bus_bytes, config.jobs
    givens = config.method is Method.GIVENS
    queues = [
        (_DESCRIPTOR + _bits(jobs) + _bits(config.solvers), AHEAD),
        (bus, held_words(config)),
        (32 * (config.bus_bytes // ENTRY_BYTES), 2 * CONVERT),
    ]
    for width, depth in queues:
        if width * depth > DISTRIBUTED_BITS:
            yield 1, Storage(width, depth, transparent=True)
    for copies, width in _of_jobs(config):
        yield copies, Storage(width, jobs)
    yield 1, Storage(bus, jobs * held_words(config))
    yield from _rotations(config) if givens else _solver(config)


def strays(config: FitPlan) -> Iterator[Factors]:
    """Yield the products that are no unit's: of h and a column's sum, and sizes and addresses."""
    yield (32, 32, False)
    yield (26, (2 + -(-(config.n_max - 1) // 4)).bit_length(), True)  # words of records
    yield (26, 10, True)
    depth = held_words(config)
    if depth & (depth - 1):  # a job's place in what is kept: put and got
        yield from 2 * [(_bits(config.jobs), depth.bit_length(), True)]
    each = config.bus_bytes // ENTRY_BYTES
    if each & (each - 1):  # an entry's place behind a word
        yield (_bits(-(-entry_counts(config)[-1] // each)), each.bit_length(), True)


def _bits(count: int) -> int:
    return max((count - 1).bit_length(), 1)


def _of_jobs(config: FitPlan) -> Iterator[tuple[int, int]]:
    """Yield (copies, width) of what is kept of each job until its turn has come."""
    n, offsets = config.n_max, 8 * (config.n_max - 1)
    yield 1, _KEPT
    yield 1, _HEAD + offsets
    yield 1, _REPORT
    # weights and which there are, and whether rows could be taken out
    yield config.solvers, 33 * n + (config.method is Method.GIVENS)
    if config.incremental:
        yield 1, 32 * n
        yield 1, 2 * offsets
        yield 1, _ERRORS


def _solver(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    """Yield those of a solver of sums: rows and limits, the right side's and the pivots."""
    n, solvers = config.n_max, config.solvers
    rows = config.contexts << n.bit_length()
    yield solvers * (n + 1), Storage(32, rows, apart=True)
    yield solvers * 2 * n, Storage(32, config.contexts, apart=True)


def _rotations(config: FitPlan) -> Iterator[tuple[int, Storage]]:
    """Yield those of a solver by rotations: lanes of the factor, and of rows on their way, twice; new factors."""
    n = config.n_max
    rows = 1 << _bits(n)
    yield n, Storage(32, rows, apart=True)
    yield n, Storage(32, 2 * rows, apart=True)
    yield 1, Storage(8 * config.bus_bytes, config.jobs * factor_words(Size(n, 0), config))
