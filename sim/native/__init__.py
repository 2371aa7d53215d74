"""The native harness: Verilator's model and a C++ loop in one shared library."""

from .images import Ended, Hung, Image, run_on_images
from .session import Library, MonitorState, Note, PortStatistics, ProtocolError, RegisterError, RunReport, Session, Violation, build
from .toolchain import BuildError, PortSpec, wave_format

__all__ = ["BuildError", "Ended", "Hung", "Image", "Library", "MonitorState", "Note", "PortSpec", "PortStatistics", "ProtocolError", "RegisterError",
           "RunReport", "Session", "Violation", "build", "run_on_images", "wave_format"]
