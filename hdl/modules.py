"""Verilog with each component written once: modules by name, instantiated as often as the design needs them.

Amaranth writes a component out again for every instance; a design with hundreds of equal arithmetic units is then slow to convert and long to
compile. A `ModuleLibrary` converts a component when it is first asked for and gives out `Instance`s of it.
"""

import re
from collections.abc import Callable
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Signal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

__all__ = ["ModuleLibrary"]


class ModuleLibrary:
    """The modules of one design. Names are the caller's: the same name must always stand for the same component."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._ports: dict[str, dict[str, tuple[bool, int]]] = {}

    def define(self, name: str, make: Callable[[], wiring.Component]) -> None:
        """Convert the component that `make()` returns, if no module of this name exists yet."""
        if name in self._ports:
            return
        component = make()
        ports = {}
        for path, member, value in component.signature.flatten(component):
            port = Value.cast(value)
            if not isinstance(port, Const):                      # the ready of a stream that is always ready
                ports["__".join(map(str, path))] = (port, PortDirection.Input if member.flow is wiring.In else PortDirection.Output)
        self._ports[name] = {port: (direction is PortDirection.Input, len(value)) for port, (value, direction) in ports.items()}
        self._texts[name] = rtlil.convert(component, name=name, ports=ports, emit_src=False)

    def instance(self, m: Module, label: str, name: str, make: Callable[[], wiring.Component], **inputs: Any) -> dict[str, Signal]:
        """Put an instance of module `name` into `m`; return its outputs by port name.

        `inputs` are values by port name; members of interfaces are joined by two underscores, as in `i__valid`.
        """
        self.define(name, make)
        connections: dict[str, Any] = {"i_clk": ClockSignal("sync"), "i_rst": ResetSignal("sync")} if self._clocked(name) else {}
        outputs = {}
        for port, (is_input, width) in self._ports[name].items():
            if is_input:
                value = Signal(width, name=f"{label}_{port}")    # instances take values of exactly a port's width
                m.d.comb += value.eq(inputs.pop(port))
                connections[f"i_{port}"] = value
            else:
                outputs[port] = connections[f"o_{port}"] = Signal(width, name=f"{label}_{port}")
        if inputs:
            raise TypeError(f"module {name} has no input {', '.join(inputs)}")
        m.submodules[label] = Instance(name, **connections)
        return outputs

    def _clocked(self, name: str) -> bool:
        """Whether the converted module has a clock (a purely combinational one has none)."""
        return re.search(r"wire (width 1 )?input \d+\s+\\clk$", self._texts[name], re.MULTILINE) is not None

    @property
    def texts(self) -> list[str]:
        """RTLIL of all modules defined so far, the used before their users."""
        return list(self._texts.values())
