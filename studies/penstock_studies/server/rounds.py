"""Rounds of state updates and attention on one pseudo-channel of 16 banks, as systems run them.

Source: Pimba (MICRO 2025), section 5.5, and the rules of its public simulator, in which all banks open and
close together.
"""

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache

from penstock.models.memory.dram.timing import Timing
from penstock.models.pim import rounds
from penstock.models.pim.config import COLUMNS, PimConfig
from penstock.models.pim.config import Design as Unit
from penstock.models.pim.rounds import Charges, slots_of
from penstock.models.pim.schedule import schedule
from penstock.models.pim.timing import PimTiming

from .assumptions import Assumptions, Refresh

#: banks of a pseudo-channel, bytes of a column
BANKS, ATOM = 16, 32


class Design(Enum):
    """Units beside the banks, by title: the device, and the bytes of an element."""

    PIMBA = ("Pimba", PimConfig(), 1)
    PIPELINED = ("per-bank pipelined", PimConfig("float16", design=Unit.PER_BANK), 2)
    TIME_MULTIPLEXED = ("time-multiplexed", PimConfig("float16", design=Unit.TIME_MULTIPLEXED), 2)
    HBM_PIM = ("HBM-PIM", PimConfig("float16", design=Unit.HBM_PIM), 2)

    def __init__(self, title: str, device: PimConfig, width: int) -> None:
        self.title, self.device, self.width = title, device, width


@dataclass(frozen=True)
class Round:
    """A round of a device's banks, all together."""

    device: PimConfig
    given: rounds.Round

    @property
    def computes(self) -> int:
        """COMPs, without those that drain the pipeline."""
        return slots_of(self.device, self.given.mode, drain=False)

    @property
    def results(self) -> int:
        """Results of 32 bytes that are read."""
        return self.given.reads * self.device.pairs

    @property
    def accesses(self) -> int:
        """Columns that banks read or write inside."""
        return BANKS * COLUMNS * (2 if self.given.mode == "update" else 1)

    def cycles(self, timing: Timing, drain: bool) -> int:
        """Return the clocks of the round. `drain`: the pipeline's last slots are charged."""
        device = replace(self.device, timing=PimTiming.of(timing))
        return rounds.round_cycles(device, self.given, Charges(drain))


def round_of(design: Design, operation: str, first: bool) -> Round:
    """Return what a round moves and computes. `operation`: "update", "score" or "attend"; `first`: of a
    group of chunks, whose d, q and k are written then."""
    values = design.width  # transfers of 32 values of v, or of as many results
    if operation == "update":
        given = rounds.Round(operation, (3 if first else 0) + values, reads=values, first=first)
    else:
        given = rounds.Round(operation, 1, reads=values if operation == "score" else 1)
    return Round(design.device, given)


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
    round_: Round, staggered: Staggered, timing: Timing, assumptions: Assumptions
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
    steps = [[round_.given] * _SCHEDULED for _ in range(staggered.sets)]
    starts = schedule(config, steps, Charges(assumptions.drain)).starts[0]
    return (starts[-1] - starts[_SETTLED]) / (_SCHEDULED - 1 - _SETTLED)
