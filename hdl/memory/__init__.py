"""Memory ports: AXI signatures and the masters that read and write by commands."""

from .arbiter import Arbiter
from .axi import AXI4, AXI4Lite, Response
from .blockram import BlockRam
from .reader import BurstReader, command_shape
from .writer import BurstWriter

__all__ = ["AXI4", "AXI4Lite", "Arbiter", "BlockRam", "BurstReader", "BurstWriter", "Response", "command_shape"]
