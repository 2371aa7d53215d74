"""Memory ports: AXI signatures and the masters that read and write by commands."""

from .axi import AXI4, AXI4Lite, Response
from .reader import BurstReader, command_shape
from .writer import BurstWriter

__all__ = ["AXI4", "AXI4Lite", "BurstReader", "BurstWriter", "Response", "command_shape"]
