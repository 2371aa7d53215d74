"""A job in the solver of method `givens`, as `rotations` and `factor_writer` see it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from .folding import Folding

__all__ = ["Context", "State"]


class State(Enum):
    """What the right side of a context waits for."""

    SIDE = auto()  # its turn in its column
    FLIES = auto()  # to arrive in the next one
    KEEPS = auto()  # the rest of the factor's rows, on their way out before a dropped one is folded
    LEAVES = auto()  # that the factor has gone out
    DROPS = auto()  # its column's row of u to be folded into those below
    BACK = auto()  # the next step of back substitution
    ENDS = auto()  # its weights


@dataclass
class Context:
    """What is left of a job to do."""

    job: int
    work: Folding
    place: int
    loaded: int
    free: int  # columns that may be rotated, one bit each
    state: State = State.SIDE
    column: int = 0
    again: bool = False  # the column's row of u has been folded
    keeps: int = 0
    back: int = 0
    entered: int = 0  # rows that left the ring
    ring: int = 0  # rows in the ring, and those whose place is not free yet
    held: int = 0
    ended: bool = False
    side: bool = False
    gone: bool = False  # the factor has gone out
    weights: bool = False
    waiting: int = 0  # columns before which a row waits
    room: int = 0  # columns before which there is a place at the tail
    rows: list[deque[tuple[int, int]]] = field(
        default_factory=list
    )  # by column: place and last column of the rows that wait
    taken: list[int] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
