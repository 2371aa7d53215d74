"""The commands of a DRAM, and the tables of what must be kept between them. Both are data.

Semantics, as in JEDEC's tables: a constraint is the least number of cycles from a command to a later
one. Where a command takes several cycles on its bus (`Command.cycles`), its cycle is the last one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from .organisation import LEVELS
from .timing import Timing


@dataclass(frozen=True)
class Command:
    """A command."""

    name: str
    #: the level of all whose banks it acts on: "bank", or "rank" for all of a rank's
    acts_on: str = "bank"
    #: what those banks must be: "open" (with the address's row), "closed" or "" for either
    needs: str = ""
    leaves: str = ""  #: what they are afterwards, "" for no change
    bus: str = "command"  #: the command bus that it takes
    cycles: int = 1  #: how long it takes its bus

    def __post_init__(self) -> None:
        if self.acts_on not in LEVELS:
            raise ValueError(f"{self.name}: a command acts on {', '.join(LEVELS)}")


@dataclass(frozen=True)
class Constraint:
    """`then` comes `cycles` after `first` at the earliest, where both act within one `level`."""

    first: str
    then: str
    level: str
    cycles: int
    name: str  #: what data sheets call it
    window: int = 1  #: from which latest such command on it holds: 4 for tFAW
    #: both act within another `level` of one level above instead, as between two ranks
    other: bool = False

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"{self.name}: a constraint holds within {', '.join(LEVELS)}")

    def __str__(self) -> str:
        where = f"another {self.level}" if self.other else f"one {self.level}"
        return f"{self.name}: {self.first} to {self.then} in {where}, {self.cycles} cycles"


_ALL = (
    Command("ACT", needs="closed", leaves="open"),
    Command("PRE", leaves="closed"),
    Command("PREA", "rank", leaves="closed"),
    Command("RD", needs="open"),
    Command("WR", needs="open"),
    Command("RDA", needs="open", leaves="closed"),
    Command("WRA", needs="open", leaves="closed"),
    Command("REFab", "rank", needs="closed"),
    Command("REFpb", needs="closed"),
)
#: the commands of every DRAM by name
COMMANDS: Mapping[str, Command] = {command.name: command for command in _ALL}
#: other names of commands
ALIASES: Mapping[str, str] = {"PREpb": "PRE", "PREab": "PREA", "REF": "REFab", "REFsb": "REFpb"}
_COLUMN = ("RD", "WR", "RDA", "WRA")


def commands_of(timing: Timing) -> dict[str, Command]:
    """Return the commands that a DRAM has, with their buses."""
    commands = {}
    for command in _ALL:
        if command.name == "REFpb" and not timing["nRFCpb"]:
            continue
        bus = "command"
        if timing.row_bus:
            bus = "column" if command.name in _COLUMN else "row"
        cycles = timing.act_cycles if command.name == "ACT" else 1
        commands[command.name] = replace(command, bus=bus, cycles=cycles)
    return commands


def buses_of(commands: Mapping[str, Command]) -> list[Constraint]:
    """Return what follows from the command buses: each carries one command at a time."""
    return [
        Constraint(a.name, b.name, "channel", b.cycles, f"{a.bus} bus")
        for a in commands.values()
        for b in commands.values()
        if a.bus == b.bus
    ]


#: within what two commands are kept apart, the earlier ones, the later ones, the least number of cycles between them in
#: parameters of `Timing`, and what data sheets call it. "other rank": not within one rank, but from one to another;
#: "4 in rank": from the fourth-latest such command on.
_SDR = """
other rank  RD RDA       RD RDA                 nBL + nRTRS                       tRTRS
other rank  WR WRA       WR WRA                 nBL + nRTRS                       tRTRS
other rank  RD RDA       WR WRA                 max(nCL + nBL + nRTRS - nCWL, 0)  tRTRS
other rank  WR WRA       RD RDA                 max(nCWL + nBL + nRTRS - nCL, 0)  tRTRS
rank        RD RDA       RD RDA                 max(nCCDS, nBL)                   tCCD_S
rank        WR WRA       WR WRA                 max(nCCDS, nBL)                   tCCD_S
rank        RD RDA       WR WRA                 nRTW                              tRTW
rank        WR WRA       RD RDA                 nCWL + nBL + nWTRS                tWTR_S
bank        ACT          RD RDA                 nRCDRD                            tRCD
bank        ACT          WR WRA                 nRCDWR                            tRCD
bank        ACT          PRE PREA               nRAS                              tRAS
bank        ACT          ACT REFab              nRC                               tRC
bank        PRE PREA     ACT REFab              nRP                               tRP
bank        RD           PRE PREA               nRTP                              tRTP
bank        WR           PRE PREA               nCWL + nBL + nWR                  tWR
bank        RDA          ACT REFab              nRTP + nRP                        tRTP + tRP
bank        WRA          ACT REFab              nCWL + nBL + nWR + nRP            tWR + tRP
rank        ACT          ACT                    nRRDS                             tRRD_S
4 in rank   ACT          ACT                    nFAW                              tFAW
rank        REFab        ACT PRE PREA REFab     nRFC                              tRFCab
"""
_DDR4 = (
    _SDR
    + """
group       RD RDA       RD RDA                 max(nCCDL, nBL)                   tCCD_L
group       WR WRA       WR WRA                 max(nCCDL, nBL)                   tCCD_L
group       WR WRA       RD RDA                 nCWL + nBL + nWTRL                tWTR_L
group       ACT          ACT                    nRRDL                             tRRD_L
"""
)
_HBM2 = (
    _DDR4
    + """
bank        ACT          REFpb                  nRC                               tRC
rank        ACT          REFpb                  nRRDS                             tRRD_S
bank        PRE PREA     REFpb                  nRP                               tRP
bank        RDA          REFpb                  nRTP + nRP                        tRTP + tRP
bank        WRA          REFpb                  nCWL + nBL + nWR + nRP            tWR + tRP
bank        REFpb        ACT PRE PREA           nRFCpb                            tRFCpb
bank        REFpb        REFpb REFab            nRFCpb                            tRFCpb
rank        REFpb        ACT REFpb              nRREFD                            tRREFD
rank        REFab        REFpb                  nRFC                              tRFCab
"""
)
_HBM3 = (
    _HBM2
    + """
rank        PRE PREA     PRE PREA               nPPD                              tPPD
"""
)
#: what each standard's commands keep; of SDR SDRAM data sheets say it, of the others JESD79-4, JESD235 and JESD238
STANDARDS: Mapping[str, str] = {"SDR": _SDR, "DDR4": _DDR4, "HBM2": _HBM2, "HBM3": _HBM3}


def constraints_of(timing: Timing) -> list[Constraint]:
    """Return what the commands of a DRAM keep: its standard's table with the DRAM's cycles, and its command buses."""
    commands = commands_of(timing)
    rows = STANDARDS[timing.standard].splitlines()
    table = [each for row in rows if row for each in _row(row, timing.cycles)]
    table = [each for each in table if each.first in commands and each.then in commands]
    return [*table, *buses_of(commands)]


def _row(row: str, cycles: Mapping[str, int]) -> Iterator[Constraint]:
    """Yield the constraints of a row, one for each earlier and later command."""
    cells = re.split(r" {2,}", row)
    *where, level = cells[0].split()
    window, other = 4 if where == ["4", "in"] else 1, where == ["other"]
    least = eval(cells[3], {"max": max}, cycles)
    for first, then in product(cells[1].split(), cells[2].split()):
        yield Constraint(first, then, level, least, cells[4], window, other)
