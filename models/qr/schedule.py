"""The solver's instruction streams: which vector operations a job is, and when each may start.

A *task* is one vector operation of a context: `slots` cycles on a vector unit, issued in order within its context, no earlier than `after[k] + wait` for
earlier tasks k of the same context. Contexts share one issue slot a cycle: rows to be loaded go first, then the oldest job whose next task may start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..numerics.formats import float32
from ..numerics.latency import convert_latency, latency

__all__ = [
    "ADD",
    "CONVERT",
    "DIV",
    "FLOOR",
    "MIDDLE",
    "MUL",
    "WIDEN_SHARED",
    "WIDEN_TURNS",
    "Task",
    "dot_latency",
    "gram_tasks",
    "multiplications",
    "settling",
    "widen_latency",
]

MUL, ADD, DIV = latency("mul", float32), latency("add", float32), latency("div", float32)
#: an exact integer rounded to float32
CONVERT = convert_latency(["int8"], float32)
#: a float32 rounded down to an integer
FLOOR = 2
#: h = trunc(c_0 / rows), then c - h · sums and its conversion, from the last word of exact sums to the first entry of the right side at the latest
MIDDLE = 1 + CONVERT + DIV + FLOOR + 1 + 3 + CONVERT + 1
#: cycles of operand memories around the units: two to read, one to write
ACCESS = 3
#: a product and a difference, from issue to where the next operation may be issued
STEP = MUL + ADD + ACCESS
#: columns that share an adder where bounds are widened, a power of two: two sums each, beside the hundreds of cycles of a job
WIDEN_SHARED = 4
#: cycles, from a segment's start, in which widening has the dot unit: for the sum upwards, that downwards, and their size
WIDEN_TURNS = tuple(
    1 + ADD + turn for turn in (WIDEN_SHARED + 1, WIDEN_SHARED + 2, 2 * WIDEN_SHARED + 2)
)


@dataclass(frozen=True)
class Task:
    """`after`: (index of an earlier task, cycles from its issue). `work`: multiplications of its lanes.

    `load`: it takes a row of the job's matrix; a job's first task waits until all rows of the job before have been taken.
    """

    slots: int
    after: tuple[tuple[int, int], ...]
    work: int = 0
    load: bool = False


def dot_latency(n_max: int) -> int:
    """From a row in the dot unit to err_min and err_max: products, a tree of as many levels as there are columns, truncation, difference, comparison."""
    return MUL + (n_max - 1).bit_length() * ADD + FLOOR + 2


def widen_latency(n_max: int) -> int:
    """From a segment's start to its bounds: terms of columns in turn, sums of them, slack, rounding down in two turns, bounds."""
    return WIDEN_TURNS[-1] + MUL + (n_max - 1).bit_length() * ADD + ADD + FLOOR + 2


def settling(n_max: int) -> int:
    """Cycles in which whatever is in the pipelines comes out of them while nothing goes in: all of them one behind the other, which none is."""
    return dot_latency(n_max) + widen_latency(n_max) + 2 * (2 * STEP + 2 * DIV + MIDDLE)


@lru_cache(maxsize=64)
def gram_tasks(n: int, lanes: int) -> tuple[Task, ...]:
    """A job of method `gram`: rows loaded, elimination, both solves. The right side is row n; elimination makes y and z of it.

    For each column k a SCALE (u_k; its pivot went into the divider when row k passed in column k - 1) and a ROW for each row behind it, the right side
    last, in which entry k is scaled as well. Then a BACK for each column from the last to the second, and h. Columns that are not kept take as long.
    """

    def groups(first: int, last: int) -> int:
        return last // lanes - first // lanes + 1

    tasks = [Task(groups(0, min(j, n - 1)), (), load=True) for j in range(n + 1)]
    pivot, side = 0, n
    for k in range(n):
        scale = len(tasks)
        tasks.append(
            Task(groups(min(k + 1, n - 1), n - 1), ((pivot, STEP + DIV), (side, STEP)), n - 1 - k)
        )
        for j in range(k + 1, n + 1):
            last = min(j, n - 1)
            tasks.append(
                Task(groups(k, last), ((scale, STEP),) if j == k + 1 else (), last - k + 1)
            )
        pivot, side = scale + 1, len(tasks) - 1
    for j in range(n - 1, 0, -1):
        tasks.append(Task(groups(0, j - 1), ((len(tasks) - 1, STEP),), j))
    tasks.append(Task(1, ((len(tasks) - 1, STEP),), 1))
    return tuple(tasks)


def multiplications(tasks: Sequence[Task]) -> int:
    return sum(task.work for task in tasks)
