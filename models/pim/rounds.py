"""What a round is, and its cycles in closed form where all bank groups work as one set.

A *round* of a set of bank groups opens one row in each of its banks, runs all iterations, closes the rows
and reads the results. `models.pim.schedule` places its commands one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .config import Design, PimConfig

__all__ = [
    "HARDWARE",
    "MODES",
    "PUBLISHED",
    "Charges",
    "Round",
    "Terms",
    "round_cycles",
    "slots_of",
    "terms",
]

#: rounds that compute
MODES = ("update", "score", "attend")


@dataclass(frozen=True)
class Round:
    """One round of a set, or a transfer of rows.

    `mode`: "update", "score", "attend", or "load" and "store" for rows that the host writes and reads;
    `registers`: REG_WRITEs for each bank; `row`: the row that all banks open; `reads`: RESULT_READs for
    each pair of banks; `first`: whether operands that chunks share come with it; `seeds`: REG_WRITEs for each
    pair of banks, of random bits; `rates`: how many of the registers hold rates; `banks`: of the set, whose rows are
    transferred, all where none are named; `columns`: of a load of 32 bytes a bank, where they go, by bank.

    Of attention in one program, `soft`: scores go to the softmax unit, or weights come from it; `ended`: the RESULT_READs behind each of which
    that unit begins a tile; `after`: how many tiles of the program it has ended before the round; `totals`: of how many their totals are read.
    """

    mode: str = "update"
    registers: int = 1
    row: int = 0
    reads: int = 1
    first: bool = False
    seeds: int = 0
    rates: int = 1
    banks: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    soft: bool = False
    ended: tuple[int, ...] = ()
    after: int = 0
    totals: int = 0


@dataclass(frozen=True)
class Charges:
    """What is counted. `drain`: the slots in which the last columns are written (hardware), or not (as
    published); `lockstep`: False where each pseudo-channel needs commands of its own on the shared bus."""

    drain: bool = True
    lockstep: bool = True


#: what the hardware takes, and what the paper counts
HARDWARE, PUBLISHED = Charges(), Charges(drain=False)


def slots_of(config: PimConfig, mode: str, drain: bool = True) -> int:
    """Return the COMP commands of a round: as published, or until the last column is written."""
    if mode in ("score", "attend"):
        return Design.PIMBA.slots  # no write: one slot for each column of each bank
    return config.design.drained if drain else config.design.slots


@dataclass(frozen=True)
class Terms:
    """The whole numbers of the closed form, for a device; a round's own are its slots,
    REG_WRITEs for each bank and RESULT_READs for each pair."""

    step: int  #: cycles that a transfer takes
    results: int  #: and a RESULT_READ of each pair
    tRP: int
    late: int  #: what the first REG_WRITE waits for, beyond the results' end
    written: int  #: cycles that a REG_WRITE of each bank takes, of one bank group
    activated: int  #: from ACT4 to ACT4
    further: int  #: bank groups behind the second
    single: int  #: whether there is one bank group alone: 0 or 1
    tRCD: int
    apart: int  #: from COMP to COMP
    closed: int  #: from the last COMP's end to PRECHARGES
    tRAS: int


@lru_cache(maxsize=64)
def terms(config: PimConfig) -> Terms:
    """Return the terms of a device. Raises ValueError where bank groups are staggered."""
    if config.sets > 1:
        raise ValueError(f"rounds of {config.sets} sets have no closed form")
    t, step = config.timing, max(config.timing.burst, config.timing.tCCD_L)
    return Terms(
        step=step,
        results=step * config.groups * config.banks // 2,
        tRP=t.tRP,
        late=max(t.burst, t.tRTW) - step - 2,
        written=step * config.banks,
        activated=max(t.tRRD, t.tFAW),
        further=max(config.groups - 2, 0),
        single=int(config.groups == 1),
        tRCD=t.tRCD,
        apart=config.interval,
        closed=max(t.tRTP, t.tWR) - config.interval,
        tRAS=t.tRAS,
    )


def round_cycles(config: PimConfig, given: Round, charges: Charges = HARDWARE) -> int:
    """Return the cycles from a round's start to the next one's, of one set in which all rows open and
    close together: what `models.pim.schedule` places, without placing it.

    Source: the rules of Pimba's public simulator (MICRO 2025, section 5.5). REG_WRITEs of a bank group lie
    behind its ACT4, two cycles later, and the next ACT4 behind them; ROUND waits for the last result and
    for tRP.

    Raises ValueError where bank groups are staggered, and for transfers of rows.
    """
    if given.mode not in MODES:
        raise ValueError(f"a round {given.mode!r} has no closed form")
    slots, found = slots_of(config, given.mode, charges.drain), terms(config)
    written = found.written * (2 * given.registers + given.seeds) // 2
    reading = given.reads * found.results + given.totals * found.step
    return _cycles(found, slots, written, reading)


def _cycles(t: Terms, slots: int, transfers: int, results: int) -> int:
    """The closed form; `transfers`: cycles that the REG_WRITEs of a bank group take, `results`: that what is read takes."""
    closing = max(results + 1, t.tRP)
    some = transfers > 0
    written = (transfers + 2) * some
    # the first REG_WRITE may have to wait until the bus turns round behind the last result
    first = written + max(results - closing + t.late, 0) * some
    last, opened = first, 0
    if not t.single:
        last = written
        opened = max(first, t.activated) + t.further * max(written, t.activated)
    worked = max(max(last, t.tRCD) + t.apart * slots + t.closed, t.tRAS)
    return opened + worked + closing + 1
