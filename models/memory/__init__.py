"""Timing models of memory, and of the masters that read and write it."""

from .blockram import ON_CHIP, block_ram, spram
from .burst_split import burst_count, split, window_beats
from .bursts import Reader, Writer
from .dram.memory import Dram
from .options import parse_memory
from .prefetcher import Prefetcher
from .timing import FixedLatency, Memory, ReadPort, WritePort

__all__ = [
    "ON_CHIP",
    "Dram",
    "FixedLatency",
    "Memory",
    "Prefetcher",
    "ReadPort",
    "Reader",
    "WritePort",
    "Writer",
    "block_ram",
    "burst_count",
    "parse_memory",
    "split",
    "spram",
    "window_beats",
]
