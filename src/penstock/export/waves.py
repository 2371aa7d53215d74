"""What a wave viewer shows first: groups of signals of the bench."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .core import Core, Port

#: registers and wires of the module in the shell that say what a run does
_DECLARED = re.compile(
    r"^  (?:\(\* (?:.*?, )?src = \"([^\"]+)\" \*\) )?(?:reg|wire) (?:\[(\d+):0\] )?(\w+)(?: = .*)?;$",
    re.MULTILINE,
)
#: all signals of a module, its ports among them
_NAMED = re.compile(
    r"^  (?:\(\*.*?\*\) )?(?:input |output )?(?:reg|wire) (?:\[\d+:0\] )?(\w+)", re.MULTILINE
)
_STATE = ("busy", "running", "done", "failed", "stop", "cycles", "quiet", "run_state")


@dataclass(frozen=True)
class Signal:
    path: str
    width: int


@dataclass(frozen=True)
class Group:
    title: str
    signals: tuple[Signal, ...]


def waves_of(ip: str, core: Core) -> list[Group]:
    """Return the groups: control, each memory port, the run, and operations by kernel line."""
    bench = f"{ip}_tb"

    def of(prefix: str) -> Iterator[Signal]:
        for port in core.ports:
            if isinstance(port, Port) and port.name.startswith(prefix):
                yield Signal(f"{bench}.{port.name}", port.width)

    control = (Signal(f"{bench}.clk", 1), Signal(f"{bench}.aresetn", 1), *of("irq"), *of("s_axil_"))
    groups = [Group("control", control)]
    buses = dict.fromkeys(p.name.partition("_axi_")[0] for p in core.ports if "_axi_" in p.name)
    groups += [Group(f"memory port {bus}", tuple(of(f"{bus}_axi_"))) for bus in buses]
    inside = f"{bench}.core.core"
    signals = {
        name: Signal(f"{inside}.{name}", int(high or 0) + 1)
        for _, high, name in _DECLARED.findall(core.modules[core.name])
    }
    run = tuple(signals[name] for name in _STATE if name in signals)
    return [*groups, Group("run", run), *_lines(core, inside)]


def _lines(core: Core, inside: str) -> Iterator[Group]:
    """Yield the signals of each line of the kernel."""
    paths = dict(_paths(core, core.name, inside))
    lines: dict[str, list[Signal]] = {}
    for module, path in paths.items():
        for place, high, name in _DECLARED.findall(core.modules[module]):
            if place in core.lines:
                lines.setdefault(place, []).append(Signal(f"{path}.{name}", int(high or 0) + 1))
    for place in sorted(
        lines, key=lambda text: (text.rpartition(":")[0], int(text.rpartition(":")[2]))
    ):
        yield Group(place, tuple(lines[place]))


_INSTANCE = re.compile(r"^  (?:\(\*.*\*\) )?(\w+)(?: #\(.*\))? (\w+) \($", re.MULTILINE)


def hiding(core: Core) -> list[tuple[str, str]]:
    """Return modules with those of their signals that are called as an instance of the module is."""
    instances = {pair for text in core.modules.values() for pair in _INSTANCE.findall(text)}
    return [
        (module, name)
        for module, text in core.modules.items()
        for name in _NAMED.findall(text)
        if (module, name) in instances
    ]


def _paths(core: Core, module: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield each module with the path of one of its instances."""
    yield module, path
    for kind, name in _INSTANCE.findall(core.modules[module]):
        if kind in core.modules:
            yield from _paths(core, kind, f"{path}.{name}")
