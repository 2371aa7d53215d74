"""The solver's instruction streams: which vector operations a job is, and when each may start.

A *task* is one vector operation of a context: `slots` cycles on a vector unit, issued in order within its context, no earlier than `after[k] + wait` for
earlier tasks k of the same context. Contexts share one issue slot a cycle; the oldest job whose next task may start goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..numerics.formats import float32
from ..numerics.latency import latency

__all__ = ["ADD", "DIV", "FLOOR", "MUL", "Task", "dot_latency", "fold_tasks", "gram_tasks", "multiplications", "solve_tasks"]

MUL, ADD, DIV = latency("mul", float32), latency("add", float32), latency("div", float32)
#: a float32 rounded down to an integer
FLOOR = 2
#: cycles of operand memories around the units: two to read, one to write
ACCESS = 3
#: a product and a difference, from issue to where the next operation may be issued
STEP = MUL + ADD + ACCESS
#: e, e · x, d', then c and s: from a rotation's issue to its first lane
VECTORING = MUL + MUL + ADD + DIV
#: a row meets the next column so many half waves later: about twice what a column takes (VECTORING + STEP) over what a row takes (STEP)
LAG = 7


@dataclass(frozen=True)
class Task:
    """`after`: (index of an earlier task, cycles from its issue). `work`, `vectoring`: multiplications of its lanes, and of the vectoring unit."""

    slots: int
    after: tuple[tuple[int, int], ...]
    work: int = 0
    vectoring: int = 0


def dot_latency(n_max: int) -> int:
    """From a row in the dot unit to err_min and err_max: products, a tree of as many levels as there are columns, truncation, difference, comparison."""
    return MUL + (n_max - 1).bit_length() * ADD + FLOOR + 2


def _slots(count: int, lanes: int) -> int:
    return -(-count // lanes)


@lru_cache(maxsize=64)
def fold_tasks(n: int, met: tuple[int, ...], lanes: int, first: int = 0) -> tuple[Task, ...]:
    """Rotations of rows, row i meeting `met[i]` columns from `first` on, in waves: row i meets column k in wave 2 i + LAG · (k - first)."""
    order = sorted((2 * i + LAG * (k - first), -k, i, k) for i, count in enumerate(met) for k in range(first, first + count))
    place: dict[tuple[int, int], int] = {}
    before: dict[int, int] = {}                         # the latest rotation in a column
    tasks: list[Task] = []
    for _, _, i, k in order:
        after = []
        if k > first:
            after.append((place[i, k - 1], VECTORING + STEP))
        if k in before:
            after.append((before[k], STEP))
        place[i, k] = before[k] = len(tasks)
        tasks.append(Task(_slots(n - 1 - k, lanes), tuple(after), 3 * (n - 1 - k), 3))
    return tuple(tasks)


def gram_tasks(n: int, keep: Sequence[bool], lanes: int) -> list[Task]:
    """Elimination of a Gram matrix: for each column kept a reciprocal, the scaled row, and one task for each row behind it."""
    tasks: list[Task] = []
    updated: dict[int, int] = {}                        # the latest task that wrote a row
    for k in range(n):
        if not keep[k]:
            continue
        reciprocal = len(tasks)
        tasks.append(Task(1, ((updated[k], STEP),) if k in updated else ()))
        scale = len(tasks)
        tasks.append(Task(_slots(n - 1 - k, lanes), ((reciprocal, DIV + ACCESS),), n - 1 - k))
        for i in range(k + 1, n):
            after = [(scale, MUL + ACCESS + (i - k - 1) // lanes)]
            if i in updated:
                after.append((updated[i], STEP))
            updated[i] = len(tasks)
            tasks.append(Task(_slots(n - i, lanes), tuple(after), n - i))
    return tasks


def solve_tasks(n: int, keep: Sequence[bool], lanes: int, base: int) -> list[Task]:
    """Both triangular solves, after `base` tasks; the right side is ready by then."""
    kept = [k for k in range(n) if keep[k]]
    tasks: list[Task] = []
    for k in kept:
        tasks.append(Task(_slots(n - 1 - k, lanes), ((base + len(tasks) - 1, STEP),) if base + len(tasks) else (), n - 1 - k))
    tasks.append(Task(_slots(n, lanes), ((base + len(tasks) - 1, STEP),) if base + len(tasks) else (), n))
    wait = MUL + ACCESS
    for j in reversed(kept):
        tasks.append(Task(_slots(j, lanes), ((base + len(tasks) - 1, wait),), j))
        wait = STEP
    return tasks


def multiplications(tasks: Sequence[Task]) -> int:
    return sum(task.work + task.vectoring for task in tasks)
