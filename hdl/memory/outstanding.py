"""What was begun on a bus and has not ended."""

from amaranth.hdl import Module, Mux, Signal, Value

__all__ = ["none_left"]

#: bits of a number of bursts: more than any manager has open
_BITS = 16


def none_left(m: Module, begun: Value, ended: Value, name: str) -> Value:
    """Return whether, with the cycle before, as many have ended as begun (one each a cycle at most).

    Both pass registers before they are counted: they come at the end of long paths.
    """
    more, less = Signal(name=f"{name}_more"), Signal(name=f"{name}_less")
    count = Signal(_BITS, name=f"{name}_count")
    m.d.sync += [more.eq(begun & ~ended), less.eq(ended & ~begun), count.eq(count + more - less)]
    return Mux(less, count == 1, (count == 0) & ~more)
