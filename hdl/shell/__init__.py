"""The shell around every engine: control registers, memory ports, start, stop and errors (contract C2)."""

from .engine_hardware import EngineHardware, engine_members, report_shape
from .registers import ControlRegisters
from .shell import Shell
from .verilog import to_verilog

__all__ = [
    "ControlRegisters",
    "EngineHardware",
    "Shell",
    "engine_members",
    "report_shape",
    "to_verilog",
]
