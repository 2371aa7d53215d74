"""DRAM, cycle by cycle: its parts, times, commands and rules, in plain Python.

A `Timing` is one DRAM at one speed (`PRESETS` by name); `constraints_of` is its table of what must be
kept between two commands; a `Checker` says the first legal cycle of the next command.
"""

from .checker import Broken, Checker
from .commands import COMMANDS, Command, Constraint, commands_of, constraints_of
from .organisation import LEVELS, Address, Organisation
from .presets import PRESETS, preset
from .timing import Timing

__all__ = [
    "COMMANDS",
    "LEVELS",
    "PRESETS",
    "Address",
    "Broken",
    "Checker",
    "Command",
    "Constraint",
    "Organisation",
    "Timing",
    "commands_of",
    "constraints_of",
    "preset",
]
