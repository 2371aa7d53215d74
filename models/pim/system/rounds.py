"""Cycles of a round of state updates or attention on one pseudo-channel, in closed form.

A round opens a row in each of 16 banks (four ACT4, operands written between them), computes on all columns
(COMP), closes the rows and reads results. Source: Pimba (MICRO 2025), section 5.5, and the rules of its public
simulator, in which all banks open and close together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from penstock.models.memory.dram import Timing

from ..config import PimConfig
from ..schedule import Charges, schedule
from ..schedule import Round as ScheduledRound
from ..timing import PimTiming
from .assumptions import Assumptions, Refresh

__all__ = [
    "ATOM",
    "BANKS",
    "COLUMNS",
    "Design",
    "Round",
    "Staggered",
    "round_cycles",
    "round_of",
    "staggered_cycles",
]

#: banks of a pseudo-channel, columns of a row, bytes of a column
BANKS, COLUMNS, ATOM = 16, 32, 32
_GROUPS = 4


class Design(Enum):
    """Units beside the banks: (COMPs for a column pair of a state update, bytes of an element, slots after the
    published ones in which the last columns are written)."""

    PIMBA = ("Pimba", 2, 1, 3)
    PIPELINED = ("per-bank pipelined", 2, 2, 2)
    TIME_MULTIPLEXED = ("time-multiplexed", 4, 2, 0)
    HBM_PIM = ("HBM-PIM", 8, 2, 0)

    def __init__(self, title: str, slots: int, width: int, drain: int) -> None:
        self.title = title
        self.slots = slots
        self.width = width
        self.drain = drain


@dataclass(frozen=True)
class Round:
    """Operands of 32 bytes written for each bank, COMPs, results of 32 bytes read, and columns that banks
    read or write inside, of one round; `drain`: COMPs more until the last column is written."""

    registers: int
    computes: int
    results: int
    accesses: int
    drain: int


def round_of(design: Design, operation: str, first: bool) -> Round:
    """Return what a round moves and computes. `operation`: "update", "score" or "attend"; `first`: of a
    group of chunks, whose d, q and k are written then."""
    values = design.width  # 32 values of v, or as many results, in columns of 32 bytes
    columns = BANKS * COLUMNS
    if operation == "update":
        registers = (3 if first else 0) + values
        return Round(registers, COLUMNS * design.slots, 8 * values, 2 * columns, design.drain)
    return Round(1, 2 * COLUMNS, 8 * values if operation == "score" else 8, columns, 0)


def round_cycles(round_: Round, timing: Timing, drain: bool) -> int:
    """Return the clocks of a round. `drain`: the pipeline's last slots are charged."""
    column = max(timing.nBL, timing.nCCDL)
    written = column * BANKS // _GROUPS * round_.registers + 2
    opened = (_GROUPS - 1) * max(timing.nRRDS, timing.nFAW, written) + max(timing.nRCDRD, written)
    computes = round_.computes + (round_.drain if drain else 0)
    worked = timing.nCCDL * (computes - 1) + max(timing.nRTP, timing.nWR)
    return 1 + opened + worked + max(timing.nRP, column * round_.results + 1)


@dataclass(frozen=True)
class Staggered:
    """Our schedule: bank groups work as `sets` sets whose rows open and close at different times;
    `bank_local`: their COMPs need not keep tCCD_S."""

    sets: int
    bank_local: bool


#: rounds that are scheduled, and those at the beginning that are not looked at
_SCHEDULED, _SETTLED = 40, 4


@cache
def staggered_cycles(
    operation: str, round_: Round, staggered: Staggered, timing: Timing, assumptions: Assumptions
) -> float:
    """Return the clocks of a round of MX8 units under our schedule, averaged over many, refreshes among
    them: windows as published, or refreshes of single banks where they are charged."""
    charged = assumptions.refresh is Refresh.CHARGED
    config = PimConfig(
        sets=staggered.sets,
        bank_local=staggered.bank_local,
        timing=PimTiming.of(timing),
        refresh="per-bank" if charged else "window",
    )
    reads = round_.results // (BANKS // 2)
    given = ScheduledRound(operation, round_.registers, reads=reads)
    rounds = [[given] * _SCHEDULED for _ in range(staggered.sets)]
    starts = schedule(config, rounds, Charges(drain=assumptions.drain)).starts[0]
    return (starts[-1] - starts[_SETTLED]) / (_SCHEDULED - 1 - _SETTLED)
