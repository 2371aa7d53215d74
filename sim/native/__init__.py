"""The native harness: Verilator's model and a C++ loop in one shared library."""

from .session import Library, MonitorState, Note, PortStatistics, ProtocolError, RegisterError, RunReport, Session, Violation, build
from .toolchain import BuildError, PortSpec

__all__ = ["BuildError", "Library", "MonitorState", "Note", "PortSpec", "PortStatistics", "ProtocolError", "RegisterError",
           "RunReport", "Session", "Violation", "build"]
