"""What a round is, and its cycles in closed form where all bank groups work as one set.

A *round* of a set of bank groups opens one row in each of its banks, runs all iterations, closes the rows
and reads the results. `models.pim.schedule` places its commands one by one.
"""

from dataclasses import dataclass

from .config import Design, PimConfig

#: rounds that compute
MODES = ("update", "score", "attend")


@dataclass(frozen=True)
class Round:
    """One round of a set, or a transfer of rows."""

    #: "update", "score", "attend", or "load" and "store" for rows that the host writes and reads
    mode: str = "update"
    registers: int = 1  #: REG_WRITEs for each bank
    row: int = 0  #: the row that all banks open
    reads: int = 1  #: RESULT_READs for each pair of banks
    first: bool = False  #: operands that chunks share come with it
    seeds: int = 0  #: REG_WRITEs for each pair of banks, of random bits
    rates: int = 1  #: how many of the registers hold rates
    banks: tuple[int, ...] = ()  #: of the set, whose rows are transferred, all where none are named
    columns: tuple[int, ...] = ()  #: of a load of 32 bytes a bank, where they go, by bank
    #: of attention in one program: scores go to the softmax unit, or weights come from it
    soft: bool = False
    #: likewise: the RESULT_READs behind each of which that unit begins a tile
    ended: tuple[int, ...] = ()
    after: int = 0  #: likewise: how many tiles of the program it has ended before the round
    totals: int = 0  #: likewise: of how many their totals are read
    #: REG_WRITEs of the whole set, where one goes to all banks with the same operand; None: each
    #: bank has its own
    shared: int | None = None


@dataclass(frozen=True)
class Charges:
    """What is counted."""

    #: the slots in which the last columns are written, as in hardware; they are not, as published
    drain: bool = True
    #: False where each pseudo-channel needs commands of its own on the shared bus
    lockstep: bool = True


#: what the hardware takes, and what the paper counts
HARDWARE, PUBLISHED = Charges(), Charges(drain=False)


def slots_of(config: PimConfig, mode: str, drain: bool = True) -> int:
    """Return the COMP commands of a round: as published, or until the last column is written."""
    if mode in ("score", "attend") and not config.fast:
        return Design.PIMBA.slots  # no write: one slot for each column of each bank
    return config.design.drained(config.lag) if drain else config.design.slots


def round_cycles(config: PimConfig, round: Round, charges: Charges = HARDWARE) -> int:
    """Return the cycles from a round's start to the next one's, of one set in which all rows open and
    close together: what `models.pim.schedule` places, without placing it.

    Source: the rules of Pimba's public simulator (MICRO 2025, section 5.5). REG_WRITEs of a bank group lie
    behind its ACT4, two cycles later, and the next ACT4 behind them; ROUND waits for the last result and
    for tRP.

    Raises ValueError where bank groups are staggered, beside block RAM, and for transfers of rows.
    """
    if round.mode not in MODES or config.sets > 1 or config.chip:
        what = f"{round.mode!r} of {config.sets} sets beside {config.timing.name}"
        raise ValueError(f"a round {what} has no closed form")
    t, step, some = config.timing, config.transfer, round.registers + round.seeds > 0
    results = step * (round.reads * config.pairs + round.totals)
    closing = max(results + 1, t.tRP)
    # REG_WRITEs of a bank group; the first one may have to wait until the bus turns round behind the last result
    written = (step * config.banks * (2 * round.registers + round.seeds) // 2 + 2) * some
    turned = max(results - closing + max(t.burst, t.tRTW) - step - 2, 0) * some
    last, opened, activated = written + turned, 0, max(t.tRRD, t.tFAW)
    if config.groups > 1:
        opened = max(last, activated) + (config.groups - 2) * max(written, activated)
        last = written
    computed = config.interval * (slots_of(config, round.mode, charges.drain) - 1)
    worked = max(last, t.tRCD) + computed + max(t.tRTP, t.tWR)
    return opened + max(worked, t.tRAS) + closing + 1
