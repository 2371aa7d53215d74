"""SDR SDRAM: the chip's rules in clock cycles. Twin of `hdl.memory.sdram`.

Commands and rules after the data sheets of Micron MT48LC16M16A2 (-75) and ISSI IS42S16160 (-7); of each time the longer of the two, so that one
controller serves both. Both are 32 MB: 4 banks of 8,192 rows of 512 columns of 16 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["CHIP", "Chip", "Command", "Cycles", "SdramError"]


class SdramError(AssertionError):
    """The controller broke a rule of the chip."""


class Command(IntEnum):
    """RAS#, CAS#, WE# with CS# low, as a number: RAS# is bit 2."""

    MODE = 0
    REFRESH = 1
    PRECHARGE = 2
    ACTIVATE = 3
    WRITE = 4
    READ = 5
    STOP = 6
    NOP = 7


@dataclass(frozen=True)
class Cycles:
    """The rules at one clock, in cycles from command to command.

    rcd: ACTIVATE to READ or WRITE; rp: PRECHARGE to ACTIVATE or REFRESH; ras: ACTIVATE to PRECHARGE; rc: ACTIVATE to ACTIVATE of a bank; rfc: REFRESH to the
    next command; wr: last data written to PRECHARGE; mrd: MODE to the next command; interval: from one REFRESH to the next at most; power_up: before
    the first command; latency: CAS latency.
    """

    rcd: int
    rp: int
    ras: int
    rc: int
    rfc: int
    wr: int
    mrd: int
    interval: int
    power_up: int
    latency: int


@dataclass(frozen=True)
class Chip:
    """A chip: address bits, times in ns (`mrd` in cycles), CAS latency."""

    row_bits: int = 13
    column_bits: int = 9
    bank_bits: int = 2
    rcd: float = 20.0
    rp: float = 20.0
    ras: float = 45.0
    rc: float = 67.5
    rfc: float = 67.5
    wr: float = 15.0
    mrd: int = 2
    interval: float = 7_812.5  #: 64 ms for 8,192 rows
    power_up: float = 200_000.0
    latency: int = 3

    @property
    def bytes(self) -> int:
        return 2 << self.row_bits + self.column_bits + self.bank_bits

    def cycles(self, clock_hz: int) -> Cycles:
        """The rules at a clock of at most 133 MHz."""
        if not 0 < clock_hz <= 133_333_333:
            raise ValueError(f"the chip's clock is at most 133 MHz, not {clock_hz} Hz")
        up = lambda ns: math.ceil(ns * clock_hz / 1e9 - 1e-9)
        return Cycles(
            up(self.rcd),
            up(self.rp),
            up(self.ras),
            up(self.rc),
            up(self.rfc),
            max(up(self.wr), 2),
            self.mrd,
            math.floor(self.interval * clock_hz / 1e9),
            up(self.power_up),
            self.latency,
        )


#: what an ULX3S carries, of either maker
CHIP = Chip()
