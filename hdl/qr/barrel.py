"""Barrel shifters over units of any width.

Each rank is a signal of its own: as one expression, in which every rank names the one before it several times, a shifter takes time and memory to convert that
grow exponentially with its ranks.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

__all__ = ["rotated", "shifted_left", "shifted_right"]


def shifted_right(m: Module, value: Value, units: Value, bits: int) -> Value:
    """The value without its lowest `units` units of `bits`: a rank of multiplexers for each bit of `units`."""
    width = len(value)
    for k, by in enumerate(units):
        value = _rank(m, Mux(by, value[min(bits << k, width) :], value)[:width])
    return value


def shifted_left(m: Module, value: Value, units: Value, bits: int, width: int) -> Value:
    """The value above `units` units of 0, `width` bits of it."""
    for k, by in enumerate(units):
        value = _rank(m, Mux(by, Cat(Const(0, min(bits << k, width)), value), value)[:width])
    return value


def rotated(m: Module, ring: Value, units: Value, bits: int, count: int) -> Value:
    """`count` units of `bits` of a ring from unit number `units` on: a rank of multiplexers for each bit of the number, the highest first."""
    for k, by in reversed([*enumerate(units)]):
        # what the ranks to come may still look at
        kept = min(len(ring), (count + (1 << k) - 1) * bits)
        ring = _rank(m, Mux(by, Cat(ring[bits << k :], ring)[:kept], ring[:kept]))
    return ring[: count * bits]


def _rank(m: Module, value: Value) -> Value:
    rank = Signal(len(value), name="rank")
    m.d.comb += rank.eq(value)
    return rank
