"""The solvers' programs, as data that hardware (`hdl.qr.control`) and cycle models (`solver`, `givens`) both read.

Each step is one operation of all lanes, result = minuend - a · b, for one column j or for several, one a cycle. A job of one context issues its steps in order.

Method `gram`, column k after column k: LOAD: the rows of the matrix come, the right side last. SCALE: u_k; its pivot went into the divider when row k passed
in column k - 1. ROW j: a row behind k, the right side last, less u_k's part; entry k is scaled. BACK j: z_i - u_ij z_j for i < j. FINAL: z_0 and h.
Columns that are not kept take as long.

Method `givens`: lane k holds row k of the factor. A *wave* turns a row in each lane at once: the row that lane k has met goes on to lane k + 1, and a new one
enters lane 0, as in a triangular systolic array. It is `short` where only the right side moves.

* TURN: e = δ x_k. PIVOT: d' = d + e x_k; then c = d / d' and s = e / d' go through the divider, lane by lane.
* REST j: x_j' = x_j - x_k u_kj, for the next lane. SCALE j: c u_kj. WEIGHT: δ' = δ c, for the next lane. ADD j: c u_kj + s x_j.

The right side is a row that turns nothing: what it brings to lane k is y_k. Then INVERT k: 1 / d_k. UNIT: z = y / d. BACK, and FINAL: z_0 + h.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache

from .schedule import DIV, STEP


class Kind(IntEnum):
    """What a step does."""

    LOAD = 0
    SCALE = 1
    ROW = 2
    BACK = 3
    FINAL = 4
    TURN = 5
    PIVOT = 6
    REST = 7
    WEIGHT = 8
    ADD = 9
    INVERT = 10
    UNIT = 11


class Loop(Enum):
    """The columns that a step goes through: none; those behind the first one in use, and the right side (SIDE); all, and the right side (ROWS); or all but
    the first from the last one down."""

    ONCE = "once"
    BEHIND = "behind"
    SIDE = "side"
    ALL = "all"
    ROWS = "rows"
    DOWN = "down"

    def count(self, columns: int, first: int) -> int:
        behind = columns - 1 - first
        counts = {"behind": behind, "side": behind + 1, "all": columns, "rows": columns + 1}
        return {**counts, "once": 1, "down": columns - 1}[self.value]


@dataclass(frozen=True)
class Step:
    """A step of a program. One that waits for itself is paced so, one that comes again is for the next column.

    A loop of no columns takes a cycle, and waits for nothing.
    """

    kind: Kind
    #: the next step, by the condition that holds first ("": always); None: the program ends
    then: Mapping[str, Kind | None]
    loop: Loop = Loop.ONCE
    after: tuple[tuple[Kind, int], ...] = ()  #: waits: a step, and cycles from its latest issue
    #: waits: a step, and cycles from the first issue of its latest loop
    since: tuple[tuple[Kind, int], ...] = ()


Program = Mapping[Kind, Step]


def _program(*steps: Step) -> Program:
    return {step.kind: step for step in steps}


GRAM = _program(
    Step(Kind.LOAD, {"": Kind.SCALE}, Loop.ROWS),
    Step(
        Kind.SCALE,
        {"": Kind.ROW},
        after=((Kind.LOAD, STEP), (Kind.ROW, STEP)),
        since=((Kind.LOAD, STEP + DIV), (Kind.ROW, STEP + DIV)),
    ),
    Step(Kind.ROW, {"last": Kind.BACK, "": Kind.SCALE}, Loop.SIDE, ((Kind.SCALE, STEP),)),
    Step(Kind.BACK, {"": Kind.FINAL}, Loop.DOWN, ((Kind.ROW, STEP), (Kind.BACK, STEP))),
    Step(Kind.FINAL, {"": None}, after=((Kind.BACK, STEP),)),
)

#: from PIVOT to where the first lane's c may be used: through the divider, which keeps its operands a cycle
_DIVIDED = ((Kind.PIVOT, STEP + DIV + 1),)
GIVENS = _program(
    Step(
        Kind.TURN,
        {"short": Kind.REST, "": Kind.PIVOT},
        after=((Kind.WEIGHT, STEP),),
        since=((Kind.REST, STEP),),
    ),
    Step(Kind.PIVOT, {"": Kind.REST}, after=((Kind.TURN, STEP),)),
    Step(Kind.REST, {"short": None, "": Kind.SCALE}, Loop.BEHIND, since=((Kind.ADD, STEP + 1),)),
    # the lanes' c follow each other as the columns do, and their s as the columns of ADD
    Step(Kind.SCALE, {"": Kind.WEIGHT}, Loop.BEHIND, _DIVIDED),
    Step(Kind.WEIGHT, {"": Kind.ADD}, after=_DIVIDED),
    Step(Kind.ADD, {"": None}, Loop.BEHIND, since=((Kind.SCALE, STEP),)),
    Step(Kind.INVERT, {"": Kind.UNIT}, Loop.ALL),
    Step(Kind.UNIT, {"": Kind.BACK}, after=((Kind.INVERT, DIV + 2),)),
    Step(Kind.BACK, {"": Kind.FINAL}, Loop.DOWN, ((Kind.UNIT, STEP), (Kind.BACK, STEP))),
    Step(Kind.FINAL, {"": None}, after=((Kind.BACK, STEP),)),
)


def walk(
    begin: Kind,
    issued: dict[tuple[Kind, bool], int],
    at: int,
    columns: int,
    first: int,
    short: bool = False,
) -> int:
    """Run `GIVENS` from a step on, from cycle `at` on; return the cycle behind its last issue.

    `issued`: when each step was issued, the latest time and (True) the first one of its loop; brought up to date.
    """
    kind: Kind | None = begin
    while kind is not None:
        step = GIVENS[kind]
        count = step.loop.count(columns, first)
        if count:
            pace = dict(step.after).get(kind, 1)
            waits = [issued.get((k, False), -1 << 60) + wait for k, wait in step.after]
            waits += [issued.get((k, True), -1 << 60) + wait for k, wait in step.since]
            issued[kind, True] = max(at, *waits, at)
            at = issued[kind, False] = issued[kind, True] + (count - 1) * pace
        at += 1
        kind = step.then["short" if short and "short" in step.then else ""]
    return at


@dataclass(frozen=True)
class Task:
    """An issue of a step: (number of an earlier one, cycles from it), where it waits for such."""

    after: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def tasks(columns: int) -> tuple[Task, ...]:
    """The issues of `GRAM` for a job of so many columns, in order."""
    issues: list[Task] = []
    issued: dict[tuple[Kind, bool], int] = {}
    kind: Kind | None = Kind.LOAD
    first = 0
    while kind is not None:
        step = GRAM[kind]
        waits = [((k, False), wait) for k, wait in step.after]
        waits += [((k, True), wait) for k, wait in step.since]
        for number in range(step.loop.count(columns, first)):
            issues.append(Task(tuple((issued[key], w) for key, w in waits if key in issued)))
            issued[kind, False] = len(issues) - 1
            if not number:
                issued[kind, True] = len(issues) - 1
        kind = step.then["last" if first == columns - 1 and "last" in step.then else ""]
        first += kind is Kind.SCALE and step.kind is Kind.ROW
    return tuple(issues)
