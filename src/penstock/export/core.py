"""The hardware of an export: its modules under their names, the wrapper's ports."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .names import module_names

if TYPE_CHECKING:
    from penstock.engines.design import Design

#: where Python's own modules are: a state machine's signal is made in `contextlib`
_PYTHON = Path(os.__file__).resolve().parent
#: bits of AxPROT and AxCACHE (AXI4, table A2-2)
_ATTRIBUTES = {"prot": 3, "cache": 4}
_MEMBER = re.compile(r"(aw|w|b|ar|r)[a-z]+")


@dataclass(frozen=True)
class Port:
    """One port of the wrapper. `value`: what it always is; None: the core within has the port."""

    name: str
    width: int
    input: bool
    value: int | None = None

    @property
    def clocking(self) -> bool:
        """Whether it is clock or reset, as templates ask."""
        return self.name in ("aclk", "aresetn")

    @property
    def bus(self) -> str:
        """The bus that it is of in a module of Python: "control", "m0" …; "" for none."""
        prefix = self.name.rpartition("_")[0]
        if prefix == "s_axil":
            return "control"
        return prefix.removesuffix("_axi") if prefix.endswith("_axi") else ""

    @property
    def channel(self) -> str:
        """The channel of its bus, "" for none."""
        match = _MEMBER.fullmatch(self.name.rpartition("_")[2]) if self.bus else None
        return match[1] if match else ""

    @property
    def member(self) -> str:
        """What it is in its channel."""
        return self.name.rpartition("_")[2].removeprefix(self.channel)

    @property
    def range(self) -> str:
        """As it stands before the name in Verilog."""
        return f"[{self.width - 1}:0] " if self.width > 1 else ""


@dataclass(frozen=True)
class Core:
    """Modules by name; `name`: of the engine in its shell; `ports`: of the wrapper around it; `lines`: places in the kernel that `src` of signals may name."""

    name: str
    modules: Mapping[str, str]
    ports: tuple[Port, ...]
    lines: frozenset[str] = frozenset()


def core_of(design: Design, ip: str, file: str) -> Core:
    """Return the hardware of a design, all names of modules with the prefix `ip`; `file`: what the kernel's is called."""
    from penstock.hdl.modules import ModuleLibrary
    from penstock.hdl.shell.shell import Shell
    from penstock.hdl.shell.verilog import TOP, to_modules

    library = ModuleLibrary(design.ram_styles, sources=True)
    engine = design.component(library)
    shell = Shell(engine, engine.register_map)
    ports = tuple(_ports(shell))
    file = re.sub(r'["\\`*\x00-\x1f]', "_", file)  # it stands in texts and attributes of Verilog
    lines = {name: f"{file}:{line}" for name, line in design.lines().items()}

    def names(modules: Iterable[str]) -> Mapping[str, str]:
        return module_names(ip, modules, TOP)

    def place(name: str, source: str) -> str | None:
        for beginning, line in lines.items():
            if name == beginning or name.startswith(f"{beginning}_"):
                return line
        return _relative(source)

    modules = list(to_modules(shell, library=library, names=names, place=place))
    texts = {module.called: module.text for module in modules}
    [name] = [module.called for module in modules if module.name == TOP]
    return Core(name, texts, ports, frozenset(lines.values()))


def with_attributes(ports: Iterable[Port], values: Mapping[str, int]) -> Iterator[Port]:
    """Yield the ports, those of constant attributes behind the address of each of a memory's channels; `values`: by "prot" and "cache"."""
    for port in ports:
        yield port
        if port.channel and port.member == "addr" and not port.input:
            for name, value in values.items():
                name_of = f"{port.bus}_axi_{port.channel}{name}"
                yield Port(name_of, _ATTRIBUTES[name], False, value)


def _relative(source: str) -> str | None:
    """Return a place in the source below the folder that is imported; None where it is not an engine's."""
    import penstock.hdl

    path, _, line = source.rpartition(":")
    root = Path(next(iter(penstock.hdl.__path__))).resolve().parent
    where = Path(path).resolve()
    if "amaranth" in where.parts:
        return None
    if where.is_relative_to(root):
        return f"{where.relative_to(root).as_posix()}:{line}"
    for folder in (Path(name).resolve() for name in sys.path if name):
        if folder != _PYTHON and where.is_relative_to(folder):
            return f"{where.relative_to(folder).as_posix()}:{line}"
    return None


def _ports(shell: Any) -> Iterable[Port]:
    from penstock.hdl.modules import directed_ports

    yield Port("aclk", 1, True)
    yield Port("aresetn", 1, True)
    for name, (value, direction) in directed_ports(shell).items():
        yield Port(name, len(value), direction.value == "input")
