"""Memory with units beside its banks: time and energy of state updates and attention.

Work is split into chunks (a row each) in groups that share d, q and k; a round takes a chunk in each bank of a
pseudo-channel. Rounds are spread over all pseudo-channels, which work side by side. Source: Pimba (MICRO 2025),
sections 5.1 and 5.5; energies as in its public simulator, which took AttAcc's.
"""

import math
from dataclasses import dataclass

from penstock.models.memory.dram.energy import per_bit
from penstock.models.memory.dram.presets import preset
from penstock.models.memory.dram.timing import Timing
from penstock.models.pim.config import COLUMNS
from penstock.models.pim.energy import ACCESS

from .assumptions import Assumptions, Refresh
from .gpu import Energy
from .operators import Attention, StateUpdate
from .rounds import ATOM, BANKS, Design, Round, Staggered, round_of, staggered_cycles

_PSEUDO_CHANNELS = 2
_HBM = per_bit(preset("pimba"))
#: picojoules of a row's activation, of a column read or written over the interface, of a COMP
_ACTIVATE, _TRANSFER, _COMPUTE = _HBM["ACT"], _HBM["RD"], ACCESS


@dataclass(frozen=True)
class Work:
    """Rounds of one pseudo-channel: its first ones of a group, and the later ones of it."""

    first: Round
    later: Round
    firsts: int
    rounds: int
    #: rounds of all pseudo-channels
    total: int


@dataclass(frozen=True)
class PimMemory:
    """`channels` channels at `mhz`; `timing`: clocks as charged (see `Assumptions.scaled_rows`);
    `staggered`: our schedule in place of the published one."""

    design: Design
    channels: int
    mhz: float
    timing: Timing
    staggered: Staggered | None = None

    def work(self, operation: str, groups: int, chunks: int) -> Work:
        """Return the rounds of `groups` groups of `chunks` chunks.

        Banks take groups of their own while there are any, and share the last ones; a bank that begins to
        work on a group writes its d, q and k.
        """
        total = math.ceil(groups * chunks / BANKS)
        lanes = self.channels * _PSEUDO_CHANNELS
        rounds = math.ceil(total / lanes)
        firsts = math.ceil(rounds / chunks)
        if groups % (BANKS * lanes) and rounds % chunks and rounds > 1:
            firsts += 1
        first, later = (round_of(self.design, operation, begins) for begins in (True, False))
        return Work(first, later, firsts, rounds, total)

    def cycles(self, work: Work, assumptions: Assumptions) -> float:
        """Return the clocks until a pseudo-channel has done its rounds and may go on to others."""
        if self.staggered is not None:
            first, later = (
                staggered_cycles(each, self.staggered, self.timing, assumptions)
                for each in (work.first, work.later)
            )
            return work.firsts * first + (work.rounds - work.firsts) * later
        now, done = 0, 0
        period = math.ceil(work.rounds / work.firsts)
        lengths = {
            each: (each.cycles(self.timing, assumptions.drain), self._announced(each))
            for each in (work.first, work.later)
        }
        interval = self.timing["nREFI"]
        refreshed = self.timing["nRFC"] if assumptions.refresh is Refresh.CHARGED else 0
        while done < work.rounds:
            length, announced = lengths[work.first if done % period == 0 else work.later]
            if now % interval + announced >= interval:
                now = (now // interval + 1) * interval + refreshed
            now += length
            done += 1
        return now

    def _announced(self, round_: Round) -> int:
        """Return for how many clocks the controller is told that a round needs the banks: no refresh
        may come meanwhile. The public simulator's estimate."""
        timing = self.timing
        column = max(timing["nBL"], timing["nCCDL"])
        written = 1 + column * BANKS // 4 * round_.given.registers
        opened = 3 * max(timing["nRRDS"], timing["nFAW"], written) + max(timing["nRCDRD"], written)
        closed = max(timing["nRTP"], timing["nWR"]) + max(timing["nRP"], column * round_.results)
        return opened + timing["nCCDL"] * round_.computes + closed

    def seconds(self, operator: StateUpdate | Attention, assumptions: Assumptions) -> float:
        """Return how long the operator takes once, averaged over its contexts."""
        clocks = [self.cycles(work, assumptions) for work in self._works(operator)]
        return sum(clocks) / len(clocks) / (self.mhz * 1e6)

    def energy(self, operator: StateUpdate | Attention, assumptions: Assumptions) -> Energy:
        """Return the energy of the operator once, averaged over its contexts.

        The public simulator counts each result as eight transfers, and one more; a COMP, in which 16
        banks work, as one access. `assumptions.published_energy` keeps that; else each transfer and each
        access of a column is counted once.
        """
        parts = [self._energy(work, assumptions.published_energy) for work in self._works(operator)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total * (1 / len(parts))

    def _works(self, operator: StateUpdate | Attention) -> list[Work]:
        slices = math.ceil(operator.dim_head / (ATOM // self.design.width)) * operator.heads
        match operator:
            case StateUpdate():
                return [self.work("update", slices, math.ceil(operator.dim_state / COLUMNS))]
            case Attention(kind=kind, contexts=contexts):
                # rounds grow linearly with the context: its ends stand for all
                ends = (int(contexts.min()), int(contexts.max()))
                return [self.work(kind, slices, math.ceil(end / COLUMNS)) for end in ends]

    def _energy(self, work: Work, published: bool) -> Energy:
        transferred = computed = 0.0
        begun = work.total * work.firsts / work.rounds
        for round_, count in ((work.first, begun), (work.later, work.total - begun)):
            if published:
                transferred += count * (BANKS * round_.given.registers + 8 * round_.results + 1)
                computed += count * round_.computes
            else:
                transferred += count * (BANKS * round_.given.registers + round_.results)
                computed += count * round_.accesses
        opened = work.total * BANKS * _ACTIVATE
        return Energy(transferred * _TRANSFER, opened + computed * _COMPUTE)
