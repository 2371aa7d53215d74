"""How a command becomes AXI bursts: none is longer than AXI4 allows or crosses a 4 KiB boundary."""


def window_beats(bus_bytes: int) -> int:
    """The longest burst, in beats, on a bus of `bus_bytes` (a power of two, 4 to 128)."""
    return min(256, 4096 // bus_bytes)


def split(address: int, beats: int, bus_bytes: int) -> list[tuple[int, int]]:
    """The bursts (address, beats) of a command, in order."""
    window = window_beats(bus_bytes)
    bursts = []
    while beats:
        length = min(beats, window - address // bus_bytes % window)
        bursts.append((address, length))
        address += length * bus_bytes
        beats -= length
    return bursts


def burst_count(address: int, beats: int, bus_bytes: int) -> int:
    """len(split(...)) without the list."""
    window = window_beats(bus_bytes)
    return -(-(address // bus_bytes % window + beats) // window)
