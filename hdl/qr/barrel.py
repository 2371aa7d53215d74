"""Barrel shifters over units of any width."""

from amaranth.hdl import Cat, Const, Mux, Value

__all__ = ["rotated", "shifted_left", "shifted_right"]


def shifted_right(value: Value, units: Value, bits: int) -> Value:
    """The value without its lowest `units` units of `bits`: a rank of multiplexers for each bit of `units`."""
    width = len(value)
    for k, by in enumerate(units):
        value = Mux(by, value[min(bits << k, width):], value)[:width]
    return value


def shifted_left(value: Value, units: Value, bits: int, width: int) -> Value:
    """The value above `units` units of 0, `width` bits of it."""
    for k, by in enumerate(units):
        value = Mux(by, Cat(Const(0, min(bits << k, width)), value), value)[:width]
    return value


def rotated(ring: Value, units: Value, bits: int, count: int) -> Value:
    """`count` units of `bits` of a ring from unit number `units` on: a rank of multiplexers for each bit of the number, the highest first."""
    for k, by in reversed([*enumerate(units)]):
        kept = min(len(ring), (count + (1 << k) - 1) * bits)     # what the ranks to come may still look at
        ring = Mux(by, Cat(ring[bits << k:], ring)[:kept], ring[:kept])
    return ring[:count * bits]
