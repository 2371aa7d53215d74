"""Block RAM as the engine's memory: the timing of `hdl.memory.blockram`."""

from __future__ import annotations

from .timing import Fixed

__all__ = ["LATENCY", "block_ram"]

#: cycles from AR to the first beat: into the queue, into the address counter, through the RAM's output register
LATENCY = 3


def block_ram(bus_bytes: int) -> Fixed:
    """Return the timing that one manager sees: a word a cycle."""
    return Fixed(LATENCY, bus_bytes)
