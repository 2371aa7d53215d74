"""What no store does better: the fewest rows that are fetched for a trace, and the most that one row is asked for."""

from __future__ import annotations

import heapq

import numpy as np

__all__ = ["best_fixed", "busiest", "fewest_fetched"]


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
