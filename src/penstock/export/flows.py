"""Flows: the build systems that an export is made for. Each is one template of a file.

A distribution adds one as an entry point of the group `penstock.exports`, whose name is what `--for` takes and whose
object is a `Flow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from penstock.errors import not_one_of
from penstock.models import plugins

__all__ = ["PLAIN", "Flow", "flows", "rendered", "selected"]

#: what is in every export: no flow's file
PLAIN = "plain"
_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Flow:
    """One file for one build system. `path`: in the folder, with {ip} for the core's name; `template`: of Jinja, which sees
    `ip`, `design`, `core`, `ports`, `bench`, `files`, `period_ns`, `version`; `title`: what it is, for help."""

    path: str
    template: Traversable
    title: str

    def render(self, context: dict[str, Any]) -> bytes:
        return rendered(self.template, context)


_OWN = {
    "fusesoc": Flow("{ip}.core", _TEMPLATES / "fusesoc.jinja", "a core of FuseSoC"),
    "litex": Flow("litex/{ip}.py", _TEMPLATES / "litex.jinja", "a module of LiteX"),
    "vivado": Flow("vivado/package.tcl", _TEMPLATES / "vivado.jinja", "an IP of Vivado"),
}


@cache
def flows() -> dict[str, Flow]:
    """Return the flows by name, Penstock's and those of other distributions."""
    found = {name: flow for name, flow in _OWN.items() if flow.template.is_file()}

    def accept(point: Any, offer: Any) -> None:
        if not isinstance(offer, Flow):
            raise plugins.Unusable("it is no penstock.export.Flow")
        if point.name in found or point.name == PLAIN:
            raise plugins.Unusable(f"there is another export {point.name}")
        found[point.name] = offer

    plugins.load("penstock.exports", "export", accept)
    return found


def selected(names: tuple[str, ...]) -> dict[str, Flow]:
    """Return the flows of these names. Raises OptionError for one that there is not."""
    known = flows()
    for name in names:
        if name != PLAIN and name not in known:
            raise not_one_of("--for", name, (PLAIN, *known))
    return {name: known[name] for name in dict.fromkeys(names) if name != PLAIN}


@cache
def _environment() -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def rendered(template: Traversable | str, context: dict[str, Any]) -> bytes:
    """Return a template's text, filled in; a name stands for one of Penstock's own."""
    place = _TEMPLATES / f"{template}.jinja" if isinstance(template, str) else template
    return _environment().from_string(place.read_text()).render(context).encode()
