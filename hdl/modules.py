"""Designs with each component converted once: modules by name, instantiated as often as the design needs them.

Amaranth elaborates and converts a component anew for every instance; a design with hundreds of equal arithmetic units and dozens of equal
Striders is then slow to convert and long to compile. A component whose parts repeat therefore asks its `Parts` for them: a `ModuleLibrary` converts
each of them when it is first asked for and gives out `Instance`s; `Submodules` are the same parts as Amaranth's own submodules, for components that
are simulated or converted alone.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from amaranth.hdl import (
    ClockSignal,
    Const,
    Fragment,
    Instance,
    Module,
    ResetInserter,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from .alike import Alike


def module_name(*parts: str) -> str:
    """Return a module's name that tells these words apart, fit for every tool."""
    return re.sub(r"\W", "_", "_".join(parts))


class Parts(Protocol):
    """Gives a component the parts that it is made of."""

    def instance(
        self,
        m: Module,
        label: str,
        name: str,
        make: Callable[[], wiring.Component],
        *,
        reset: Value | None = None,
        **inputs: Any,
    ) -> dict[str, Signal]:
        """Put an instance of the component that `make()` returns into `m`, called `label`; return its outputs by port name, as plain bits.

        `name` stands for that component: the same name, the same component. `inputs` are values by port name; members of interfaces are joined
        by two underscores, as in `i__valid`. `reset` resets it beside the domain's own reset; a `ResetInserter` around `m` does not reach it.

        Raises TypeError where `inputs` are not those of the component.
        """


class Submodules:
    """Parts as Amaranth's submodules."""

    def instance(
        self,
        m: Module,
        label: str,
        name: str,
        make: Callable[[], wiring.Component],
        *,
        reset: Value | None = None,
        **inputs: Any,
    ) -> dict[str, Signal]:
        component = make()
        m.submodules[label] = component if reset is None else ResetInserter(reset)(component)
        ports = _ports(component)
        _check(name, {port for port, (_, is_input) in ports.items() if is_input}, inputs)
        m.d.comb += [ports[port][0].eq(value) for port, value in inputs.items()]
        return {port: value for port, (value, is_input) in ports.items() if not is_input}


class ModuleLibrary:
    """The modules of one design. `styles`: what synthesis is told of its memories, by (depth, width); `sources`: places in the source are kept."""

    def __init__(
        self, styles: Mapping[tuple[int, int], str] | None = None, *, sources: bool = False
    ) -> None:
        self.styles = styles or {}
        self._sources = sources
        self._alike = Alike(sources=sources)
        self._texts: dict[str, str] = {}
        self._unseen: set[str] = set()
        self._ports: dict[str, dict[str, tuple[bool, int]]] = {}

    def define(self, name: str, make: Callable[[], wiring.Component]) -> None:
        """Convert the component that `make()` returns, if no module of this name exists yet."""
        if name in self._ports:
            return
        component = make()
        ports = _ports(component)
        self._ports[name] = {
            port: (is_input, len(value)) for port, (value, is_input) in ports.items()
        }
        # what says of itself that collisions are unseen says nothing of others
        unseen = getattr(component, "collisions_unseen", False)
        alike = Alike(sources=self._sources) if unseen else self._alike
        fragment = Fragment.get(component, None)
        self._texts[name] = "\n".join(alike.converted(fragment, name, directed_ports(component)))
        if unseen:
            self._unseen.add(name)

    def instance(
        self,
        m: Module,
        label: str,
        name: str,
        make: Callable[[], wiring.Component],
        *,
        reset: Value | None = None,
        **inputs: Any,
    ) -> dict[str, Signal]:
        self.define(name, make)
        _check(
            name, {port for port, (is_input, _) in self._ports[name].items() if is_input}, inputs
        )
        connections: dict[str, Any] = {}
        if self._clocked(name):
            sync_reset = ResetSignal("sync")
            connections = {
                "i_clk": ClockSignal("sync"),
                "i_rst": sync_reset if reset is None else sync_reset | reset,
            }
        outputs = {}
        for port, (is_input, width) in self._ports[name].items():
            if not is_input:
                outputs[port] = Signal(width, name=f"{label}_{port}")
                if width:
                    connections[f"o_{port}"] = outputs[port]
                continue
            value = Value.cast(inputs[port])
            if not width:
                continue
            if len(value) != width:  # instances take values of exactly a port's width
                fitting = Signal(width, name=f"{label}_{port}")
                m.d.comb += fitting.eq(value)
                value = fitting
            connections[f"i_{port}"] = value
        m.submodules[label] = Instance(name, **connections)
        return outputs

    def _clocked(self, name: str) -> bool:
        """Whether the converted module has a clock (a purely combinational one has none)."""
        return (
            re.search(r"wire (width 1 )?input \d+\s+\\clk$", self._own(name), re.MULTILINE)
            is not None
        )

    def _own(self, name: str) -> str:
        """Return the text of a module, without those that it uses."""
        text = self._texts[name]
        return text[text.index(f"module \\{name}\n") :]

    @property
    def texts(self) -> list[str]:
        """RTLIL of all modules defined so far, the used before their users."""
        return list(self._texts.values())

    @property
    def synthesis_texts(self) -> list[str]:
        """As `texts`, for synthesis: it need not keep what is read of a word in the cycle in which it is written, where a component says of itself
        (`collisions_unseen`) that nothing of that is ever used. Block RAMs have no such rule, so that keeping it costs logic."""
        return [
            text.replace("\\COLLISION_X_MASK 1'0", "\\COLLISION_X_MASK 1'1")
            if name in self._unseen
            else text
            for name, text in self._texts.items()
        ]


def directed_ports(component: wiring.Component) -> dict[str, tuple[Value, PortDirection]]:
    """Return the ports of a component's module as Amaranth's backend takes them; Verilog has none of width zero."""
    return {
        port: (value, PortDirection.Input if is_input else PortDirection.Output)
        for port, (value, is_input) in _ports(component).items()
        if len(value)
    }


def _ports(component: wiring.Component) -> dict[str, tuple[Value, bool]]:
    """Return a component's ports by name: its bits, and whether it is an input."""
    ports = {}
    for path, member, value in component.signature.flatten(component):
        bits = Value.cast(value)
        if not isinstance(bits, Const):  # the ready of a stream that is always ready
            ports["__".join(map(str, path))] = (bits, member.flow is wiring.In)
    return ports


def _check(name: str, expected: set[str], inputs: dict[str, Any]) -> None:
    if different := sorted(expected ^ inputs.keys()):
        raise TypeError(f"the inputs of {name} are not {', '.join(different)}")
