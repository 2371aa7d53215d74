"""When an operation of a plan reads and writes: the one place where the engine's pipeline depths are added up.

All times are cycles relative to the operation's start (its first operand address). A beat whose address is presented in cycle n reaches
the unit in n + FETCH, leaves it `latency(fn)` later, passes the lane tree and the levels of the tree over time if it is reduced, or the
tree over the threads and the accumulator if it is merged, and is written in the cycle in which it leaves the last of them. It can be read from the next
cycle on.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from ..numerics.formats import Format
from ..numerics.latency import latency as of_codes
from ..rows.units import integer_unit
from .config import FETCH, Buffer, Op, Operand, depth

#: the unit that combines two partial results of a reduction or a merge
REDUCE_FN = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


@cache
def latency(fn: str, fmt: Format) -> int:
    """Return the cycles from an operand to a unit's result, of codes or of integers."""
    unit = integer_unit(fn)
    return of_codes(fn, fmt) if unit is None else unit.latency


def merge_latency(merge: str, fmt: Format, threads: int) -> int:
    """Return the cycles from a thread's result to its sum over all threads (without the accumulator)."""
    return depth(threads) * latency(REDUCE_FN[merge], fmt)


def result_delay(op: Op, fmt: Format, lanes: int, threads: int) -> int:
    """Return the cycles from the address of the beat that completes a result to the write of that result."""
    delay = op.fetch + latency(op.unit_fn, fmt)
    if op.reduce is not None:
        combine = latency(REDUCE_FN[op.reduce], fmt)
        delay += (depth(lanes) if op.lane_reduce else 0) * combine + depth(op.extents[2]) * combine
    if op.merge is not None:
        delay += merge_latency(op.merge, fmt, threads) + latency(REDUCE_FN[op.merge], fmt)
    return delay


def steps(op: Op) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the loop indices (i, c, j) of every beat in order."""
    i, c, j = op.extents
    grid = np.indices((i, c, j)).reshape(3, -1)
    return grid[0], grid[1], grid[2]


def _bounds(beats: np.ndarray, times: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.full(size, np.iinfo(np.int64).max)
    last = np.full(size, -1, dtype=np.int64)
    np.minimum.at(first, beats, times)
    np.maximum.at(last, beats, times)
    return first, last


def read_times(
    op: Op, operand: Operand, buffers: Sequence[Buffer], lanes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each beat of the operand's buffer the first (int64 maximum: never) and last (-1: never) cycle of reading."""
    buffer = buffers[operand.buffer]
    if op.touches_rows and operand is op.operands[0]:  # any row, when it is known which
        beats = buffer.beats(lanes)
        return np.full(beats, op.fetch - FETCH), np.full(beats, op.fetch - FETCH + op.beats - 1)
    index = dict(zip("icj", steps(op), strict=True))
    zero = np.zeros(op.beats, dtype=np.int64)
    row, col = index.get(operand.row, zero), index.get(operand.col, zero)
    beat = row * buffer.row_beats(lanes) + (col // lanes if operand.element else col)
    return _bounds(beat, np.arange(op.beats), buffer.beats(lanes))


def write_times(
    op: Op, buffers: Sequence[Buffer], fmt: Format, lanes: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each beat of the destination the first and the last cycle of writing."""
    buffer = buffers[op.dest]
    i, c, j = steps(op)
    done = j == op.extents[2] - 1
    i, c = i[done], c[done]
    when = np.flatnonzero(done) + result_delay(op, fmt, lanes, threads)
    if op.changes_rows:
        beats = buffer.beats(lanes)
        return np.full(beats, when.min()), np.full(beats, when.max())
    if op.lane_reduce:
        beat = i // lanes
    elif not op.vector:
        beat = i * buffer.row_beats(lanes) + c // lanes
    else:
        beat = i * buffer.row_beats(lanes) + c
    return _bounds(beat, when, buffer.beats(lanes))
