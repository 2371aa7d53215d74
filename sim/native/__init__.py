"""The native harness: Verilator's model and a C++ loop in one shared library."""

from ..machine import Ended, Hung
from .library import Library, build, level
from .results import (
    MonitorState,
    Note,
    PortStatistics,
    ProtocolError,
    RegisterError,
    RunReport,
    Violation,
)
from .session import Session
from .toolchain import BuildError, PortSpec, wave_format

__all__ = [
    "BuildError",
    "Ended",
    "Hung",
    "Library",
    "MonitorState",
    "Note",
    "PortSpec",
    "PortStatistics",
    "ProtocolError",
    "RegisterError",
    "RunReport",
    "Session",
    "Violation",
    "build",
    "level",
    "wave_format",
]
