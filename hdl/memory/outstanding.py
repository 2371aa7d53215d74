"""Whether all that was begun on a bus has ended. What limits it is `reader.BurstReader` and `writer.BurstWriter`."""

from amaranth.hdl import Module, Mux, Signal, Value

#: bits of a number of bursts: more than any manager has open
_BITS = 16


def none_left(m: Module, begun: Value, ended: Value, name: str) -> Value:
    """Return whether, with the cycle before, as many have ended as begun (one each a cycle at most).

    Both pass registers before they are counted: they come at the end of long paths. What ends while none is left was never begun, and
    is not counted.
    """
    more, less = Signal(name=f"{name}_more"), Signal(name=f"{name}_less")
    count = Signal(_BITS, name=f"{name}_count")
    none = Signal(name=f"{name}_none")
    m.d.comb += none.eq(Mux(less, count == 1, (count == 0) & ~more))
    m.d.sync += [more.eq(begun & ~ended), less.eq(ended & ~begun & ~none)]
    m.d.sync += count.eq(count + more - less)
    return none
