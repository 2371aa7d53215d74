"""What a round is, and its cycles in closed form where all bank groups work as one set.

A *round* of a set of bank groups opens one row in each of its banks, runs all iterations, closes the rows
and reads the results. `models.pim.schedule` places its commands one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import Design, PimConfig

__all__ = ["HARDWARE", "PUBLISHED", "Charges", "Round", "round_cycles", "slots_of"]


@dataclass(frozen=True)
class Round:
    """One round of a set, or a transfer of rows.

    `mode`: "update", "score", "attend", "load" and "store" for rows that the host writes and reads, or
    "seed" for the units' random bits, which opens no row;
    `registers`: REG_WRITEs for each bank; `row`: the row that all banks open; `reads`: RESULT_READs for
    each pair of banks; `first`: whether operands that chunks share come with it.
    """

    mode: str = "update"
    registers: int = 1
    row: int = 0
    reads: int = 1
    first: bool = False


@dataclass(frozen=True)
class Charges:
    """What is counted. `drain`: the slots in which the last columns are written (hardware), or not (as
    published); `turnaround`: tWTR and tRTW inside a COMP; `lockstep`: False where each pseudo-channel
    needs commands of its own on the shared bus."""

    drain: bool = True
    turnaround: bool = False
    lockstep: bool = True


#: what the hardware takes, and what the paper counts
HARDWARE, PUBLISHED = Charges(), Charges(drain=False)


def slots_of(config: PimConfig, mode: str, drain: bool = True) -> int:
    """Return the COMP commands of a round: as published, or until the last column is written."""
    if mode in ("score", "attend"):
        return Design.PIMBA.slots  # no write: one slot for each column of each bank
    return config.design.drained if drain else config.design.slots


def round_cycles(config: PimConfig, given: Round, charges: Charges = HARDWARE) -> int:
    """Return the cycles from a round's start to the next one's, of one set in which all rows open and
    close together: what `models.pim.schedule` places, without placing it.

    Source: the rules of Pimba's public simulator (MICRO 2025, section 5.5). REG_WRITEs of a bank group lie
    behind its ACT4, two cycles later, and the next ACT4 behind them; ROUND waits for the last result and
    for tRP.

    Raises ValueError where bank groups are staggered, and for transfers of rows and seeds.
    """
    if config.sets > 1 or given.mode not in ("update", "score", "attend"):
        raise ValueError(f"a round {given.mode!r} of {config.sets} sets has no closed form")
    t, step = config.timing, max(config.timing.burst, config.timing.tCCD_L)
    results = given.reads * config.groups * config.banks // 2
    closing = max(t.tRP, step * results + 1)
    writes = given.registers * config.banks
    # the first REG_WRITE may have to wait until the bus turns round behind the last result
    late = max(0, 1 + step * (results - 1) + max(t.burst, t.tRTW) - (closing + 3))
    written = [2 + step * writes + late * (g == 0) if writes else 0 for g in range(config.groups)]
    opened = sum(max(t.tRRD, t.tFAW, w) for w in written[:-1])
    turning = max(t.tRTW, t.inner_write_to_read) if charges.turnaround else 0
    computed = max(config.interval, turning) * (slots_of(config, given.mode, charges.drain) - 1)
    worked = max(max(t.tRCD, written[-1]) + computed + max(t.tRTP, t.tWR), t.tRAS)
    return 1 + opened + worked + closing
