"""On-chip memory as the engine's memory: the timing of `hdl.memory.blockram` and `hdl.memory.spram`."""

from collections.abc import Callable

from .timing import FixedLatency

#: cycles from AR to the first beat: into the queue, into the address counter, through the RAM's output register and one behind it
LATENCY = 4
#: the same without a queue
SPRAM_LATENCY = 2
#: 16-bit words of one block of single-port RAM
SPRAM_WORDS = 1 << 14


def block_ram(bus_bytes: int) -> FixedLatency:
    """Return the timing of block RAM that one manager sees: a word a cycle."""
    return FixedLatency(LATENCY, bus_bytes)


def spram(bus_bytes: int) -> FixedLatency:
    """Return the timing of single-port RAM that one manager sees while it reads or writes, not both at once: a word a cycle."""
    return FixedLatency(SPRAM_LATENCY, bus_bytes)


#: the timing of each kind of on-chip memory by the bytes of a bus word
ON_CHIP: dict[str, Callable[[int], FixedLatency]] = {"block RAM": block_ram, "SPRAM": spram}
