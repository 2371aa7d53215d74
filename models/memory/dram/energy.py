"""What a DRAM's commands take, in picojoules: from the currents of data sheets, or by the bit.

    e_ACT = V·(I0·tRC − I3N·tRAS − I2N·(tRC − tRAS))      e_RD = V·(I4R − I3N)·tBL      e_WR = V·(I4W − I3N)·tBL
    e_REF = V·(I5 − I3N)·tRFC

of all chips behind a port. An ACT's figure has its PRE's as well. What a DRAM takes while it stands by is in its board's idle power.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from . import presets
from .timing import Timing


@dataclass(frozen=True)
class Currents:
    """Of one chip: volts; milliamperes of a data sheet by their names there; the chips of a port."""

    volts: float
    idd0: float
    idd2n: float
    idd3n: float
    idd4r: float
    idd4w: float
    idd5: float
    chips: int
    source: str


#: by preset
CURRENTS = {name: Currents(**currents) for name, currents in presets.CURRENTS.items()}
#: pJ of a bit of a row that is opened, and of a bit that is read or written
_OPENED, _MOVED = 0.11, 3.59
#: refreshes in which every row has been refreshed once
_REFRESHES = 8192


@dataclass(frozen=True)
class Picojoules:
    """Of one command, by name; `source`: of the figures."""

    of: Mapping[str, float]
    source: str

    def total(self, commands: Mapping[str, int]) -> float:
        """Return what so many commands take. PRE and PREA are in ACT's figure."""
        return sum(self.of.get(name, 0.0) * count for name, count in commands.items())


def per_bit(timing: Timing) -> dict[str, float]:
    """Return what the commands of an HBM's pseudo-channel take. A refresh is assumed to open its share
    of all rows."""
    parts = timing.organisation
    row, burst = _OPENED * parts.row_bytes * 8, _MOVED * timing.burst_bytes * 8
    rows = parts.rows * parts.banks_of_rank / _REFRESHES
    return {"ACT": row, "RD": burst, "WR": burst, "REFab": rows * row}


def picojoules(timing: Timing) -> Picojoules | None:
    """Return what the commands of a DRAM take; None where neither its currents nor its bits are known."""
    if timing.name.startswith(("hbm", "pimba")):
        source = "0.11 pJ a bit opened, 3.59 a bit moved: Pimba's simulator, which has AttAcc's; refresh assumed"
        return Picojoules(per_bit(timing), source)
    if timing.name not in CURRENTS:
        return None
    i = CURRENTS[timing.name]
    ns = float(10**9 / timing.clock_hz)
    row = (
        i.idd0 * timing["nRC"]
        - i.idd3n * timing["nRAS"]
        - i.idd2n * (timing["nRC"] - timing["nRAS"])
    )
    charge = {
        "ACT": row,
        "RD": (i.idd4r - i.idd3n) * timing["nBL"],
        "WR": (i.idd4w - i.idd3n) * timing["nBL"],
        "REFab": (i.idd5 - i.idd3n) * timing["nRFC"],
    }
    return Picojoules({k: i.volts * i.chips * ns * c for k, c in charge.items()}, i.source)


def loaded(timing: Timing, count: int) -> dict[str, int]:
    """Return the least commands that write so many bytes, one after the other, to closed rows."""
    bursts = -(-count // timing.burst_bytes)
    return {"ACT": -(-count // timing.organisation.row_bytes), "WR": bursts}
