"""Threads and lanes that are tried."""

from collections.abc import Iterator
from math import gcd

from ...models.analytics.config import depth
from ...models.strider.layout import beats_of
from .candidates import Maker
from .lower_rows import by_rows

#: beats of a row or of a tuple for which the fewest lanes are tried
_BEATS = 4
#: lanes of kernels with rows, at most
MOST = 64


def lanes_of(maker: Maker) -> tuple[list[int], list[int]]:
    """Return the lanes that are tried, and those in between, each the fewest for its beats of the longest rows or of a tuple."""
    if by_rows(maker.graph):  # sums are one tree, whatever the lanes
        widths = [1 << depth(op.columns) for op in maker.program(1, 1).ops if op.lane_reduce]
        lanes = [n for n in powers(min([MOST, *widths])) if maker.choices.lanes in (None, n)]
        return lanes, lanes
    if maker.choices.lanes:
        return [maker.choices.lanes], [maker.choices.lanes]
    cols = {cols for _, cols in maker.shapes.values()} | {
        (1, 1, *v.shape)[-1] for v in maker.graph.of_kind("model")
    }
    longest = max(cols, default=1)
    values = sum(rows * cols for rows, cols in maker.shapes.values())
    most = 4 * maker.target.bus_bytes // maker.fmt.container
    useful = max(1, min(64, most, max(longest, values)))
    fewest = {beats_of(maker.shapes, n): n for n in range(useful, 0, -1)}
    # a beat less is nothing gained where memory takes longer
    packed = {n for beats, n in fewest.items() if maker.bus_cycles - 1 < beats <= _BEATS}
    coarse = {*powers(64)} | {-(-n // beats) for n in cols for beats in range(1, _BEATS + 1)}
    fine = {
        -(-longest // -(-longest // n))
        for n in (k * m // 4 for m in powers(128) for k in (4, 5, 6, 7))
        if n
    }
    return (
        sorted(n for n in coarse | packed if n <= useful),
        sorted(n for n in fine | packed if n <= 2 * useful),
    )


def threads_of(batch: int, most: int, ports: int) -> list[int]:
    """Return threads to be tried: the fewest for as many groups of a batch as a power of two has, and those that the most ports share evenly."""
    if not batch:
        return list(powers(most))
    fewest = {-(-batch // -(-batch // n)) for n in powers(2 * most - 1)}
    shared = gcd(batch, ports)
    each = range(1, most // shared + 1)
    return sorted(fewest | {shared * n for n in each if batch // shared % n == 0})


def powers(limit: int) -> Iterator[int]:
    """Yield the powers of two up to a limit."""
    n = 1
    while n <= limit:
        yield n
        n *= 2
