"""The program of the solver of method `givens`, as data that its sequencer (`hdl.qr.givens`) and its cycles (`models.qr.givens`) both read.

Lane k holds row k of the factor. A *wave* turns a row in each lane at once: the row that lane k has met goes on to lane k + 1, and a new one enters lane 0,
as in a triangular systolic array. Each step is one operation of all lanes, result = minuend - a · b, for one column j or for several, one a cycle:

* TURN: e = δ x_k. PIVOT: d' = d + e x_k; then c = d / d' and s = e / d' go through the divider, lane by lane.
* REST j: x_j' = x_j - x_k u_kj, for the next lane. SCALE j: c u_kj. WEIGHT: δ' = δ c, for the next lane. ADD j: c u_kj + s x_j.

The right side is a row that turns nothing: what it brings to lane k is y_k. Then INVERT k: 1 / d_k. UNIT: z = y / d. BACK j: z_i - u_ij z_j for i < j.
FINAL: z_0 + h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from .schedule import DIV, STEP

__all__ = ["SHORT", "SOLVE", "WAVE", "Kind", "Loop", "Step", "walk"]


class Kind(IntEnum):
    """What a step does."""

    TURN = 0
    PIVOT = 1
    REST = 2
    SCALE = 3
    WEIGHT = 4
    ADD = 5
    INVERT = 6
    UNIT = 7
    BACK = 8
    FINAL = 9


class Loop(Enum):
    """The columns that a step goes through: none, those behind the first lane in use, all, or all but the first from the last one down."""

    ONCE = "once"
    BEHIND = "behind"
    ALL = "all"
    DOWN = "down"

    def count(self, columns: int, first: int) -> int:
        return {"once": 1, "behind": columns - 1 - first, "all": columns, "down": columns - 1}[
            self.value
        ]


@dataclass(frozen=True)
class Step:
    """`after`: (an earlier step, cycles from its issue): of a loop `BEHIND` from its first issue, of any other one from its latest. A step that waits for
    itself is paced so. A loop of no columns takes a cycle, and waits for nothing.
    """

    kind: Kind
    loop: Loop = Loop.ONCE
    after: tuple[tuple[Kind, int], ...] = ()


#: from PIVOT to where the first lane's c may be used: through the divider, which keeps its operands a cycle
_DIVIDED = STEP + DIV + 1
WAVE = (
    Step(Kind.TURN, after=((Kind.WEIGHT, STEP), (Kind.REST, STEP))),
    Step(Kind.PIVOT, after=((Kind.TURN, STEP),)),
    Step(Kind.REST, Loop.BEHIND, ((Kind.ADD, STEP + 1),)),
    # the lanes' c follow each other as the columns do, and their s as the columns of ADD
    Step(Kind.SCALE, Loop.BEHIND, ((Kind.PIVOT, _DIVIDED),)),
    Step(Kind.WEIGHT, after=((Kind.PIVOT, _DIVIDED),)),
    Step(Kind.ADD, Loop.BEHIND, ((Kind.SCALE, STEP),)),
)
#: a wave in which only the right side moves
SHORT = (WAVE[Kind.TURN], WAVE[Kind.REST])
SOLVE = (
    Step(Kind.INVERT, Loop.ALL),
    Step(Kind.UNIT, after=((Kind.INVERT, DIV + 2),)),
    Step(Kind.BACK, Loop.DOWN, ((Kind.UNIT, STEP), (Kind.BACK, STEP))),
    Step(Kind.FINAL, after=((Kind.BACK, STEP),)),
)


def walk(steps: Sequence[Step], issued: dict[Kind, int], at: int, columns: int, first: int) -> int:
    """Run a program from cycle `at` on; return the cycle behind its last issue. `issued`: when steps were issued, brought up to date."""
    for step in steps:
        count = step.loop.count(columns, first)
        if not count:
            at += 1
            continue
        pace = dict(step.after).get(step.kind, 1)
        waits = (issued.get(kind, -1 << 60) + wait for kind, wait in step.after)
        at = max(at, *waits) if step.after else at
        last = at + (count - 1) * pace
        issued[step.kind] = at if step.loop is Loop.BEHIND else last
        at = last + 1
    return at
