"""SDR SDRAM: the chip's rules in clock cycles. Twin of `hdl.memory.sdram`.

Commands and rules of an ULX3S's chip after the data sheets of Micron MT48LC16M16A2 (-75) and ISSI IS42S16160 (-7); of each time the longer of the
two, so that one controller serves both. Both are 32 MB: 4 banks of 8,192 rows of 512 columns of 16 bits. Those of Etron EM638325 (-6), 8 MB: 4 banks of
2,048 rows of 256 columns of 32 bits, after its data sheet.
"""

import math
from dataclasses import dataclass
from enum import IntEnum


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
    """The rules at one clock, in cycles from command to command."""

    rcd: int  #: ACTIVATE to READ or WRITE
    rp: int  #: PRECHARGE to ACTIVATE or REFRESH
    ras: int  #: ACTIVATE to PRECHARGE
    rc: int  #: ACTIVATE to ACTIVATE of a bank
    rfc: int  #: REFRESH to the next command
    wr: int  #: last data written to PRECHARGE
    mrd: int  #: MODE to the next command
    interval: int  #: from one REFRESH to the next at most
    power_up: int  #: before the first command
    latency: int  #: CAS latency


@dataclass(frozen=True)
class Chip:
    """A chip: bits of a column and of addresses, whether a board drives its byte masks, times in ns (`mrd` in cycles), CAS latency."""

    width: int = 16
    masks: bool = True
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
        return self.width // 8 << self.row_bits + self.column_bits + self.bank_bits

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
#: by the names that a target's memory has. A Colorlight i5 ties the masks low.
CHIPS = {
    "IS42S16160": CHIP,
    "EM638325": Chip(
        width=32, masks=False, row_bits=11, column_bits=8, rcd=18, rp=18, ras=42, rc=60, rfc=60, wr=12, interval=15_625.0
    ),
}  # fmt: skip
