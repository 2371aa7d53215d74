"""The hardware of an export: its modules under their names, the wrapper's ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .names import module_names

if TYPE_CHECKING:
    from penstock.engines.design import Design

__all__ = ["Core", "Port", "core_of"]


@dataclass(frozen=True)
class Port:
    """One port of the wrapper."""

    name: str
    width: int
    input: bool
    connected: bool = True

    @property
    def clocking(self) -> bool:
        return self.name in ("aclk", "aresetn")

    @property
    def range(self) -> str:
        """As it stands before the name in Verilog."""
        return f"[{self.width - 1}:0] " if self.width > 1 else ""


@dataclass(frozen=True)
class Core:
    """Modules by name, the used before their users; `name`: of the last one, the engine in its shell;
    `ports`: of the wrapper around it."""

    name: str
    modules: Mapping[str, str]
    ports: tuple[Port, ...]


def core_of(design: Design, ip: str) -> Core:
    """Return the hardware of a design, all names of modules with the prefix `ip`."""
    from penstock.hdl.shell.shell import Shell
    from penstock.hdl.shell.verilog import TOP, to_modules

    engine, library = design.hardware()
    shell = Shell(engine, engine.register_map)
    ports = tuple(_ports(shell))

    def names(modules: Iterable[str]) -> Mapping[str, str]:
        return module_names(ip, modules, TOP)

    modules = to_modules(shell, library=library, names=names)
    return Core(f"{ip}_core", {module.called: module.text for module in modules}, ports)


def _ports(shell: Any) -> Iterable[Port]:
    from penstock.hdl.modules import directed_ports

    yield Port("aclk", 1, True)
    yield Port("aresetn", 1, True)
    for name, (value, direction) in directed_ports(shell).items():
        yield Port(name, len(value), direction.value == "input")
