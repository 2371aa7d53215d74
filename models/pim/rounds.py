"""What a round is, and its cycles in closed form where all bank groups work as one set.

A *round* of a set of bank groups opens one row in each of its banks, runs all iterations, closes the rows
and reads the results. `models.pim.schedule` places its commands one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .config import Design, PimConfig

__all__ = [
    "HARDWARE",
    "MODES",
    "PUBLISHED",
    "Charges",
    "Round",
    "round_cycles",
    "rounds_cycles",
    "slots_of",
]

#: rounds that compute
MODES = ("update", "score", "attend")


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
    if config.sets > 1 or given.mode not in MODES:
        raise ValueError(f"a round {given.mode!r} of {config.sets} sets has no closed form")
    slots = slots_of(config, given.mode, charges.drain)
    return int(_cycles(config, charges, slots, given.registers, given.reads, max))


def rounds_cycles(
    config: PimConfig,
    mode: ArrayLike,
    registers: ArrayLike,
    reads: ArrayLike,
    charges: Charges = HARDWARE,
) -> NDArray[np.int64]:
    """Return `round_cycles` of many rounds at once: arrays that broadcast, of places in `MODES` and of
    what `Round` says.

    Raises ValueError where bank groups are staggered.
    """
    if config.sets > 1:
        raise ValueError(f"rounds of {config.sets} sets have no closed form")
    given = [np.asarray(array) for array in (mode, registers, reads)]
    ends = len(MODES), *(int(array.max(initial=0)) + 1 for array in given[1:])
    if max(array.size for array in given) <= 4 * math.prod(ends):
        return _many(config, charges, *given)
    # fewer kinds of rounds than rounds
    place = (given[0] * ends[1] + given[1]) * ends[2] + given[2]
    return np.asarray(_kinds(config, charges, ends).take(place, mode="clip"))


@lru_cache(maxsize=64)
def _kinds(config: PimConfig, charges: Charges, ends: tuple[int, ...]) -> NDArray[np.int64]:
    """The cycles of all kinds of rounds below `ends`, the last of which goes fastest."""
    return _many(config, charges, *np.indices(ends)).ravel()


def _many(
    config: PimConfig, charges: Charges, mode: Any, registers: Any, reads: Any
) -> NDArray[np.int64]:
    slots = np.array([slots_of(config, name, charges.drain) for name in MODES])
    return np.asarray(_cycles(config, charges, slots[mode], registers, reads, np.maximum))


def _cycles(
    config: PimConfig,
    charges: Charges,
    slots: Any,
    registers: Any,
    reads: Any,
    most: Callable[[Any, Any], Any],
) -> Any:
    """The closed form of numbers or of arrays; `most`: the greater of two."""
    t, step = config.timing, max(config.timing.burst, config.timing.tCCD_L)
    results = reads * (step * config.groups * config.banks // 2)
    closing = most(results + 1, t.tRP)
    # the first REG_WRITE may have to wait until the bus turns round behind the last result
    late = most(results - closing + (1 - step + max(t.burst, t.tRTW) - 3), 0)
    some = registers > 0
    written = (registers * (step * config.banks) + 2) * some
    first = written + late * some
    activated = max(t.tRRD, t.tFAW)
    last, opened = first, 0
    if config.groups > 1:
        last = written
        opened = most(first, activated) + (config.groups - 2) * most(written, activated)
    turning = max(t.tRTW, t.inner_write_to_read) if charges.turnaround else 0
    apart, closed = max(config.interval, turning), max(t.tRTP, t.tWR)
    worked = most(most(last, t.tRCD) + apart * slots + (closed - apart), t.tRAS)
    return opened + worked + closing + 1
