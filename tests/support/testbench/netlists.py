"""Amaranth in less time: what its code asserts of each of a million nets is left out, a loop is written out, and the shape of
a value, which never changes, is found once.

A fifth of an elaboration and more; the Verilog is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Shape
from amaranth.hdl._ast import Concat, Operator, Part, Signal, Slice, SwitchValue
from amaranth.hdl._nir import Net, Netlist, Value

__all__ = ["quicken"]

_tuple, _int = tuple.__new__, int.__new__


def _value(cls: type[Value], nets=()) -> Value:
    return _tuple(cls, (nets,) if type(nets) is Net else nets)


def _resolved(netlist: Netlist, value: Value) -> Value:
    drivers, found = netlist.connections, []
    for net in value:
        while net < 0:
            net = drivers[net]
        found.append(net)
    return _tuple(Value, found)


def _once(shape: Callable[[Any], Shape]) -> Callable[[Any], Shape]:
    def known(value: Any) -> Shape:
        try:
            return value._known_shape
        except AttributeError:
            value._known_shape = found = shape(value)
            return found

    return known


def quicken() -> None:
    """Do so in this process from now on."""
    Value.__new__ = _value
    Netlist.resolve_value = _resolved
    Net.from_cell = classmethod(lambda cls, cell, bit: _int(cls, cell << 16 | bit))
    Net.is_const = property(lambda net: 0 <= net < 2)
    for kind in (Concat, Operator, Part, Signal, Slice, SwitchValue):
        kind.shape = _once(kind.shape)
