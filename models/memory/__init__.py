"""Timing models of memory, and of the masters that read and write it."""

from .blockram import ON_CHIP, block_ram, spram
from .bursts import Reader, Writer, burst_count, split, window_beats
from .timing import FixedLatency, ReadPort, WritePort, parse_memory

__all__ = [
    "ON_CHIP",
    "FixedLatency",
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
