"""The commands of a DRAM, and the table of what must be kept between them. Both are data.

Semantics, as in JEDEC's tables: a constraint is the least number of cycles from a command to a later
one. Where a command takes several cycles on its bus (`Command.cycles`), its cycle is the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .organisation import LEVELS
from .timing import Timing

__all__ = ["ALIASES", "COMMANDS", "Command", "Constraint", "commands_of", "constraints_of"]


@dataclass(frozen=True)
class Command:
    """A command.

    `acts_on`: the level of all whose banks it acts on: "bank", or "rank" for all of a rank's;
    `needs`: what those banks must be, "open" (with the address's row), "closed" or "" for either;
    `leaves`: what they are afterwards, "" for no change; `bus`: which command bus it takes, and
    `cycles` how long.
    """

    name: str
    acts_on: str = "bank"
    needs: str = ""
    leaves: str = ""
    bus: str = "command"
    cycles: int = 1

    def __post_init__(self) -> None:
        if self.acts_on not in LEVELS:
            raise ValueError(f"{self.name}: a command acts on {', '.join(LEVELS)}")


@dataclass(frozen=True)
class Constraint:
    """`then` comes `cycles` after `first` at the earliest, where both act within one `level`.

    `window`: it holds from the `window`-th latest such command on (4 for tFAW); `other`: it holds
    for those of another `level` within the same level above instead, as between two ranks; `name`:
    what data sheets call it.
    """

    first: str
    then: str
    level: str
    cycles: int
    name: str
    window: int = 1
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
        if command.name == "REFpb" and not timing.nRFCpb:
            continue
        bus = "command"
        if timing.row_bus:
            bus = "column" if command.name in _COLUMN else "row"
        cycles = timing.act_cycles if command.name == "ACT" else 1
        commands[command.name] = Command(
            command.name, command.acts_on, command.needs, command.leaves, bus, cycles
        )
    return commands


def _each(
    first: Iterable[str], then: Iterable[str], level: str, cycles: int, name: str, **more: int
) -> list[Constraint]:
    then = tuple(then)
    return [
        Constraint(a, b, level, cycles, name, more.get("window", 1), bool(more.get("other")))
        for a in first
        for b in then
    ]


def buses_of(commands: Mapping[str, Command]) -> list[Constraint]:
    """Return what follows from the command buses: each carries one command at a time."""
    return [
        Constraint(a.name, b.name, "channel", b.cycles, f"{a.bus} bus")
        for a in commands.values()
        for b in commands.values()
        if a.bus == b.bus
    ]


def constraints_of(timing: Timing) -> list[Constraint]:
    """Return the table of a DRAM.

    The rules are those of JESD79-4 (DDR4), JESD235 (HBM2) and JESD238 (HBM3); a data sheet of SDR
    SDRAM has a part of them. Read to write is `Timing.read_to_write`, write to read CWL + BL + tWTR,
    write to precharge CWL + BL + tWR; a refresh wants all its banks precharged for tRP.
    """
    t = timing
    reads, writes = ("RD", "RDA"), ("WR", "WRA")
    data_gap = t.nBL + t.nRTRS
    table = [
        # the data bus of a pseudo-channel, between ranks
        *_each(reads, reads, "rank", data_gap, "tRTRS", other=1),
        *_each(writes, writes, "rank", data_gap, "tRTRS", other=1),
        *_each(reads, writes, "rank", max(t.nCL + data_gap - t.nCWL, 0), "tRTRS", other=1),
        *_each(writes, reads, "rank", max(t.nCWL + data_gap - t.nCL, 0), "tRTRS", other=1),
        # a rank's data bus and column commands
        *_each(reads, reads, "rank", max(t.nCCDS, t.nBL), "tCCD_S"),
        *_each(writes, writes, "rank", max(t.nCCDS, t.nBL), "tCCD_S"),
        *_each(reads, reads, "group", max(t.nCCDL, t.nBL), "tCCD_L"),
        *_each(writes, writes, "group", max(t.nCCDL, t.nBL), "tCCD_L"),
        *_each(reads, writes, "rank", t.read_to_write, "tRTW"),
        *_each(writes, reads, "rank", t.write_latency + t.nWTRS, "tWTR_S"),
        *_each(writes, reads, "group", t.write_latency + t.nWTRL, "tWTR_L"),
        # rows of one bank
        *_each(["ACT"], reads, "bank", t.nRCDRD, "tRCD"),
        *_each(["ACT"], writes, "bank", t.nRCDWR, "tRCD"),
        *_each(["ACT"], ["PRE", "PREA"], "bank", t.nRAS, "tRAS"),
        *_each(["ACT"], ["ACT"], "bank", t.nRC, "tRC"),
        *_each(["PRE", "PREA"], ["ACT"], "bank", t.nRP, "tRP"),
        *_each(["RD"], ["PRE", "PREA"], "bank", t.nRTP, "tRTP"),
        *_each(["WR"], ["PRE", "PREA"], "bank", t.write_to_precharge, "tWR"),
        *_each(["RDA"], ["ACT"], "bank", t.nRTP + t.nRP, "tRTP + tRP"),
        *_each(["WRA"], ["ACT"], "bank", t.write_to_precharge + t.nRP, "tWR + tRP"),
        # rows of several
        *_each(["ACT"], ["ACT"], "rank", t.nRRDS, "tRRD_S"),
        *_each(["ACT"], ["ACT"], "group", t.nRRDL, "tRRD_L"),
        *_each(["ACT"], ["ACT"], "rank", t.nFAW, "tFAW", window=4),
        # refresh of all banks
        *_each(["ACT"], ["REFab"], "bank", t.nRC, "tRC"),
        *_each(["PRE", "PREA"], ["REFab"], "bank", t.nRP, "tRP"),
        *_each(["RDA"], ["REFab"], "bank", t.nRTP + t.nRP, "tRTP + tRP"),
        *_each(["WRA"], ["REFab"], "bank", t.write_to_precharge + t.nRP, "tWR + tRP"),
        *_each(["REFab"], ["ACT", "PRE", "PREA", "REFab"], "rank", t.nRFC, "tRFCab"),
    ]
    if t.nPPD:
        table += _each(["PRE", "PREA"], ["PRE", "PREA"], "rank", t.nPPD, "tPPD")
    if t.nRFCpb:
        table += [
            *_each(["ACT"], ["REFpb"], "bank", t.nRC, "tRC"),
            *_each(["ACT"], ["REFpb"], "rank", t.nRRDS, "tRRD_S"),
            *_each(["PRE", "PREA"], ["REFpb"], "bank", t.nRP, "tRP"),
            *_each(["RDA"], ["REFpb"], "bank", t.nRTP + t.nRP, "tRTP + tRP"),
            *_each(["WRA"], ["REFpb"], "bank", t.write_to_precharge + t.nRP, "tWR + tRP"),
            *_each(["REFpb"], ["ACT", "PRE", "REFpb"], "bank", t.nRFCpb, "tRFCpb"),
            *_each(["REFpb"], ["REFab", "PREA"], "bank", t.nRFCpb, "tRFCpb"),
            *_each(["REFpb"], ["ACT", "REFpb"], "rank", t.nRREFD, "tRREFD"),
            *_each(["REFab"], ["REFpb"], "rank", t.nRFC, "tRFCab"),
        ]
    return [*table, *buses_of(commands_of(t))]
