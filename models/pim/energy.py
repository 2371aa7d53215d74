"""What a memory chip with units takes for a program: rows that are opened, columns that units read and write, and what passes the interface.

Sources: 0.11 pJ a bit opened and 3.59 a bit moved (`models.memory.dram.energy`); 478.72 pJ for a column of 32 bytes at a unit, 1.87 a bit: Pimba's public
simulator (MICRO 2025), which has AttAcc's figures. Refreshes, and what the chip takes while it stands by, are not counted.
"""

from ..memory.dram.energy import per_bit
from ..memory.dram.presets import preset
from .config import COLUMNS
from .program import Program

#: pJ of a column that a unit reads or writes
ACCESS = 478.72
#: of each column of a bank, by what its round does
_ACCESSES = {"update": 2, "score": 1, "attend": 1}
_MOVED = ("REG_WRITE", "RESULT_READ", "READ", "WRITE", "TOTAL")


def picojoules(program: Program) -> float:
    """Return what the commands of a program take, in banks of a DRAM."""
    schedule, of = program.schedule, per_bit(preset("pimba"))
    banks = schedule.config.groups * schedule.config.banks // schedule.config.sets
    accesses = sum(_ACCESSES.get(mode, 0) * many for mode, many in program.rounds.items())
    moved = sum(command.name in _MOVED for command in schedule.commands)
    opened = banks * sum(program.rounds.values())
    return opened * of["ACT"] + accesses * banks * COLUMNS * ACCESS + moved * of["RD"]
