"""Barrel shifters over units of any width.

Each rank of a shifter is a signal of its own: as one expression, in which every rank names the one before it several times, it takes time and memory to
convert that grow exponentially with its ranks.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def shifted_right(m: Module, value: Value, units: Value, bits: int = 1) -> Value:
    """The value without its lowest `units` units of `bits`, as wide as it was: a rank of multiplexers for each bit of `units`, as far as units are left."""
    width, units = len(value), _named(m, units)
    value = _named(m, value)
    for k, by in enumerate(units):
        if bits << k >= width:
            return _named(m, Mux(units[k:].any(), 0, value)[:width])
        value = _named(m, Mux(by, value[bits << k :], value)[:width])
    return value


def shifted_left(m: Module, value: Value, units: Value, bits: int, width: int) -> Value:
    """The value above `units` units of 0, `width` bits of it."""
    for k, by in enumerate(units):
        value = _named(m, Mux(by, Cat(Const(0, min(bits << k, width)), value), value)[:width])
    return value


def rotated(m: Module, ring: Value, units: Value, bits: int, count: int) -> Value:
    """`count` units of `bits` of a ring from unit number `units` on: a rank of multiplexers for each bit of the number, the highest first."""
    for k, by in reversed([*enumerate(units)]):
        # what the ranks to come may still look at
        kept = min(len(ring), (count + (1 << k) - 1) * bits)
        ring = _named(m, Mux(by, Cat(ring[bits << k :], ring)[:kept], ring[:kept]))
    return ring[: count * bits]


def _named(m: Module, value: Value) -> Value:
    if isinstance(value, Signal):
        return value
    rank = Signal(len(value), name="rank")
    m.d.comb += rank.eq(value)
    return rank
