"""Signals that count, never of width zero."""

from amaranth.hdl import Signal


def index_range(size: int) -> range:
    """Return the range of an index below `size`, of at least one bit: tools disagree on what a signal of width zero is."""
    return range(max(size, 2))


def index(size: int, *, name: str | None = None, init: int = 0) -> Signal:
    """Return a signal for an index below `size`."""
    return Signal(index_range(size), name=name, init=init, src_loc_at=1)
