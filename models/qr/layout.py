"""Where a job's data lie in memory, in bus words: what the engine reads and writes.

Every part begins on a bus word. Little-endian; floats are codes of 4 bytes.

* descriptor, 64 bytes: group, prefix, length, flags, counts (rows, inserted, removed, moved), epoch, limit, addresses (memo, changes, rows, result).
* memo: head (32 bytes: magic, method, target, columns, prefix, epoch, rows; then the offsets); c, 8 bytes a column; entries of AᵀA (`ENTRY_BYTES` each):
  `gram` the upper triangle by columns, `givens` of each column its sum and its sum of squares; `givens`: the factor by columns, u_kj for k < j, then d_j;
  `slot`: anchor weights, then its segment: zero (4 bytes), err_min, err_max (4 each), zero (8), least (4), low and high.
* changes: inserted, removed, moved, in this order; a record is label, old label (4 bytes each), bytes of the row, padded to 4.
* rows: bytes, padded to a power of two from 4 up, in `span` places: one a row, or one a slot (`slot`); behind them one bit
  a place: whether a row is in it. The host keeps rows and bits up to date between a group's jobs, of which only one is in flight; the engine reads them.
* result: 32 bytes (group, code, rescanned, err_min, err_max, mask), weights of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .config import FitPlan
from .job import ENTRY_BYTES, Job, Method, row_stride

DESCRIPTOR_BYTES = 64
HEAD_BYTES = 32
SEGMENT_BYTES = 24


@dataclass(frozen=True)
class Size:
    """What the times of a job depend on, besides the columns kept. `span`: places of the rows in memory, 0: as many as rows."""

    columns: int
    rows: int
    inserted: int = 0
    removed: int = 0
    moved: int = 0
    full: bool = False
    span: int = 0

    @classmethod
    def of(cls, job: Job) -> Size:
        span = 0 if job.labels is None or not len(job.labels) else int(job.labels.max()) + 1
        full = job.memo is None
        changes = (0, 0, 0) if full else (len(job.inserted), len(job.removed), len(job.moved))
        return cls(job.window.columns, len(job.rows), *changes, full, span)

    @property
    def places(self) -> int:
        return self.span or self.rows

    @property
    def records(self) -> int:
        return self.inserted + self.removed + self.moved


@dataclass(frozen=True)
class Places:
    """Byte addresses (below 2**48, on bus words) of a job's parts; `memo` is that of the memo to read."""

    memo: int
    changes: int
    rows: int
    result: int


def words(count: int, bus_bytes: int) -> int:
    return -(-count // bus_bytes)


def entries(method: Method, columns: int) -> list[tuple[int, int]]:
    """The entries (i, j) of AᵀA in a memo, in order; those of fewer columns come first."""
    if method is Method.GIVENS:
        return [(i, j) for j in range(columns) for i in (0, j)]
    return [(i, j) for j in range(columns) for i in range(j + 1)]


def entry_counts(config: FitPlan) -> list[int]:
    """How many they are, of 0 … n_max columns."""
    return [_count(config, n) for n in range(config.n_max + 1)]


def _count(config: FitPlan, n: int) -> int:
    return 2 * n if config.method is Method.GIVENS else n * (n + 1) // 2


def sums_words(size: Size, config: FitPlan) -> tuple[int, int]:
    """Bus words of c, and of the entries of AᵀA."""
    n, each = size.columns, config.bus_bytes // ENTRY_BYTES
    return words(8 * n, config.bus_bytes), words(_count(config, n), each)


def held_words(config: FitPlan) -> int:
    """Words of sums that the largest job has: so many may come before they are wanted."""
    return sum(sums_words(Size(config.n_max, 0), config))


def head_words(size: Size, config: FitPlan) -> int:
    """Bus words of a memo's head and offsets."""
    return words(HEAD_BYTES + size.columns - 1, config.bus_bytes)


def memo_parts(size: Size, config: FitPlan) -> dict[str, int]:
    """Bus words of a memo's parts, in their order; an anchor has two, its weights and its segment."""
    n, bus = size.columns, config.bus_bytes
    of_c, of_gram = sums_words(size, config)
    return {
        "head": head_words(size, config),
        "c": of_c,
        "gram": of_gram,
        "factor": words(2 * n * (n + 1), bus) * (config.method is Method.GIVENS),
        "weights": words(4 * n, bus) * config.incremental,
        "segment": words(SEGMENT_BYTES + 2 * (n - 1), bus) * config.incremental,
    }


def memo_reads(size: Size, config: FitPlan) -> dict[str, tuple[int, int]]:
    """What a refit reads of its memo: bus words before it, and of it. Where c comes from a pass it is not read."""
    of, sums = memo_parts(size, config), sum(sums_words(size, config))
    unread, behind = of["c"] * (not config.incremental), of["head"] + sums
    return {
        "HEAD": (0, of["head"]),
        "SUMS": (of["head"] + unread, sums - unread),
        "FACTOR": (behind, of["factor"]),
        "ANCHOR": (behind + of["factor"], of["weights"] + of["segment"]),
    }


def memo_words(size: Size, config: FitPlan) -> int:
    return sum(memo_parts(size, config).values())


def change_words(size: Size, config: FitPlan) -> int:
    return words(size.records * (8 + -(-(size.columns - 1) // 4) * 4), config.bus_bytes)


def row_words(size: Size, config: FitPlan) -> int:
    """Bus words of one pass over all rows."""
    return words(size.places * row_stride(size.columns - 1), config.bus_bytes) + words(
        -(-size.places // 8), config.bus_bytes
    )


def pass_requests(places: int, length: int, bus_bytes: int) -> list[tuple[int, int, bool]]:
    """What a pass over rows asks for, in order: first bus word behind the rows' address, bus words, whether they are bits.

    Of each block of 8 · bus_bytes places the word of bits, then those of rows.
    """
    stride, requests = row_stride(length), []
    behind = words(places * stride, bus_bytes)
    for number, first in enumerate(range(0, places, 8 * bus_bytes)):
        count = words(min(places - first, 8 * bus_bytes) * stride, bus_bytes)
        requests.append((behind + number, 1, True))
        requests.append((first * stride // bus_bytes, count, False))
    return requests


def result_words(size: Size, config: FitPlan) -> int:
    return words(HEAD_BYTES + 4 * size.columns, config.bus_bytes)


def place(sizes: Sequence[Size], config: FitPlan, base: int = 1 << 20) -> list[Places]:
    """Where jobs lie one behind the other: descriptors from `base` on; then of each job memo (or head), changes, rows, result with the new memo."""
    bus, places = config.bus_bytes, []
    at = base + words(DESCRIPTOR_BYTES, bus) * bus * len(sizes)
    for size in sizes:
        memo = at
        changes = memo + bus * (head_words(size, config) if size.full else memo_words(size, config))
        rows = changes + bus * (0 if size.full else change_words(size, config))
        result = rows + bus * row_words(size, config)
        at = result + bus * (result_words(size, config) + memo_words(size, config))
        places.append(Places(memo, changes, rows, result))
    return places
