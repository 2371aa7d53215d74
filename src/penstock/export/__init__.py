"""A design as a core for other people's projects: Verilog, registers, a driver in C, a bench without Python."""

from .exporter import export
from .flows import Flow, flows

__all__ = ["Flow", "export", "flows"]
