"""Memory ports: AXI signatures and the masters that read and write by commands."""

from .arbiter import Arbiter
from .axi import AXI4, AXI4Lite, Manager, Response, shared_by
from .blockram import BlockRam
from .dealt import Dealt
from .guard import Guard
from .joined import Joined
from .prefetcher import Prefetcher
from .reader import BurstReader
from .sdram import SdramController, SdramPins
from .splitter import Splitter, command_shape
from .spram import Spram
from .writer import BurstWriter

__all__ = [
    "AXI4",
    "AXI4Lite",
    "Arbiter",
    "BlockRam",
    "BurstReader",
    "BurstWriter",
    "Dealt",
    "Guard",
    "Joined",
    "Manager",
    "Prefetcher",
    "Response",
    "SdramController",
    "SdramPins",
    "Splitter",
    "Spram",
    "command_shape",
    "shared_by",
]
