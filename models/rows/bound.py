"""What no store does better: the fewest rows that are fetched for a trace, the most that one row is asked for, the least cycles of a row unit."""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..memory.dealt import Deal
from ..memory.dram.controller import Mapping
from ..memory.dram.memory import Dram
from ..memory.timing import Memory
from .unit import RowUnitConfig


class RowTerms(NamedTuple):
    """Least cycles of a row unit for a trace, term by term, with as few rows fetched as any store of so many lines fetches."""

    lookups: int  #: a cycle for each, one more where a row is fetched
    channel: int  #: words of rows over the memory port; a row that may change is written once
    #: rows that come, a word a cycle; then a beat of each model a cycle into their lines, the last
    #: one with the next row's first word
    lanes: int
    banks: int  #: DRAM rows that are opened, each once: nRC apart in one bank, four in nFAW


def row_terms(
    config: RowUnitConfig,
    asked: np.ndarray,
    bases: Sequence[int],
    memory: Memory,
    epochs: int,
    deal: Deal,
) -> RowTerms:
    """Return the terms for so many epochs, in each of which tuples ask for rows (tuples, places) of tables at the addresses `bases`, over memory ports that
    have them by `deal`."""
    read = written = 0
    lanes = missed = 0
    addresses = []
    for t, table in enumerate(config.tables):
        mine = [n for n, place in enumerate(config.places) if place.table == t]
        rows, words = asked[:, mine].ravel(), config.words(t)
        changed = [n for n in mine if config.places[n].changes]
        distinct = np.unique(rows)
        fewest = fewest_fetched(rows, table.lines)
        fetched = max(len(distinct), epochs * fewest - (epochs - 1) * table.lines)
        read += fetched * words
        written += len(np.unique(asked[:, changed])) * words
        lanes += fetched * (words + config.beats_of[t] - 1)
        missed += fetched
        addresses.append(bases[t] + distinct * config.row_bytes(t))
    at = np.concatenate(addresses)
    of, at = deal.place(at)
    each = config.bus_bytes // deal.joined
    return RowTerms(
        epochs * _lookups(config, asked) + missed,
        memory.least(read // deal.channels, written // deal.channels, each),
        lanes,
        max(_opened(memory, at[of == k]) for k in range(deal.channels)),
    )


def _lookups(config: RowUnitConfig, asked: np.ndarray) -> int:
    """Return the cycles of an epoch's lookups where lines hold all rows: one each, and one where a group is not looked up."""
    sizes = np.array([len(group) for group in config.groups])
    return int(np.where(config.repeated(asked), 1, sizes).sum())


def _banks(memory: Dram, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of each address the bank, counted over all groups, and the DRAM row in it."""
    timing = memory.timing
    at = Mapping(timing).address(addresses // timing.burst_bytes)  # type: ignore[arg-type]
    return np.asarray(at.group * timing.organisation.banks + at.bank), np.asarray(at.row)


def _opened(memory: Memory, addresses: np.ndarray) -> int:
    """Return the least cycles in which the DRAM rows of these addresses are opened once; 0 where memory is no DRAM."""
    if not isinstance(memory, Dram) or not len(addresses):
        return 0
    timing = memory.timing
    places = np.unique(np.stack(_banks(memory, addresses), axis=1), axis=0)
    busiest_one = int(np.unique(places[:, 0], return_counts=True)[1].max())
    clocks = max((busiest_one - 1) * timing["nRC"], ((len(places) - 1) // 4) * timing["nFAW"])
    return clocks * memory.ratio.numerator // memory.ratio.denominator


def busiest_bank(memory: Memory, addresses: Sequence[int], deal: Deal) -> tuple[int, int] | None:
    """Return the DRAM bank, counted over all groups and channels, that has most of some rows' first bytes, the lowest of equals, and how many; None where
    memory is no DRAM."""
    if not isinstance(memory, Dram) or not len(addresses):
        return None
    channels, at = deal.place(np.asarray(addresses, np.int64))
    parts = memory.timing.organisation
    return busiest(channels * parts.groups * parts.banks + _banks(memory, at)[0])


def _next_uses(trace: np.ndarray) -> np.ndarray:
    """Return for each access the place of the next one to the same row, the trace's length where there is none."""
    order = np.argsort(trace, kind="stable")
    later = np.full(len(trace), len(trace), dtype=np.int64)
    same = trace[order][1:] == trace[order][:-1]
    later[order[:-1][same]] = order[1:][same]
    return later


def fewest_fetched(trace: np.ndarray, lines: int) -> int:
    """Return how many rows the best store of so many lines fetches that knows the whole trace, may hold any row in any line, and may
    let a row pass by without a line (Belady's algorithm with bypass)."""
    later = _next_uses(np.asarray(trace))
    held: dict[int, int] = {}  # by row, its next use
    last: list[tuple[int, int]] = []  # (−next use, row), the farthest first; some are out of date
    fetched = 0
    for row, use in zip(np.asarray(trace).tolist(), later.tolist(), strict=True):
        if row not in held:
            fetched += 1
            while len(held) >= lines and last and held.get(last[0][1]) != -last[0][0]:
                heapq.heappop(last)
            if not lines or (len(held) >= lines and -last[0][0] <= use):
                continue  # it is needed later than all that is held
            if len(held) >= lines:
                del held[heapq.heappop(last)[1]]
        held[row] = use
        heapq.heappush(last, (-use, row))
    return fetched


def best_fixed(trace: np.ndarray, lines: int) -> float:
    """Return the hit rate of the best set of so many rows that is held throughout."""
    counts = np.sort(np.unique(trace, return_counts=True)[1])[::-1]
    return float(counts[:lines].sum() / max(1, len(trace)))


def busiest(trace: np.ndarray) -> tuple[int, int]:
    """Return the row that is asked for most often, the lowest of equals, and how often."""
    rows, counts = np.unique(trace, return_counts=True)
    return int(rows[counts.argmax()]), int(counts.max())
