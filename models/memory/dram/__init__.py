"""DRAM, cycle by cycle: its parts, times, commands and rules, in plain Python.

A `Timing` is one DRAM at one speed (`PRESETS` by name); `constraints_of` is its table of what must be
kept between two commands; a `Checker` says the first legal cycle of the next command. A `Controller`
decides which command goes when, and `Dram` is what an engine's memory ports see of it.
"""

from .checker import Broken, Checker
from .commands import COMMANDS, Command, Constraint, commands_of, constraints_of
from .controller import DEPTH, Controller, Issued, Mapping
from .energy import picojoules
from .memory import Channel, Dram, PlainChannel, counted
from .organisation import LEVELS, Address, Organisation
from .presets import PRESETS, preset
from .timing import Timing

__all__ = [
    "COMMANDS",
    "DEPTH",
    "LEVELS",
    "PRESETS",
    "Address",
    "Broken",
    "Channel",
    "Checker",
    "Command",
    "Constraint",
    "Controller",
    "Dram",
    "Issued",
    "Mapping",
    "Organisation",
    "PlainChannel",
    "Timing",
    "commands_of",
    "constraints_of",
    "counted",
    "picojoules",
    "preset",
]
