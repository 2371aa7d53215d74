"""Flows: the build systems that an export is made for. Each is one template of a file.

A distribution adds one as an entry point of the group `penstock.exports`, whose name is what `--for` takes and whose
object is a `Flow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.errors import bad_value, not_one_of
from penstock.models import plugins

#: what is in every export: no flow's file
PLAIN = "plain"
_EVERY = frozenset(
    "rtl regs sw tb waves constraints README.md Makefile filelist.f manifest.json ip.vlt ip.xml".split()
)
#: what templates see
NAMES = frozenset(
    """ip design core ports bench sources vectors class_name widths waves hiding axi_attributes period_ns starts compared version core_version
    memory_maps registers engine counters errors flow""".split()
)
_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Flow:
    """One file for one build system. `path`: in the folder, with {ip} for the core's name; `template`: of Jinja, which sees
    `NAMES`; `title`: what it is, for help."""

    path: str
    template: Traversable
    title: str

    def render(self, context: dict[str, Any]) -> bytes:
        """Return the file. Raises OptionError where the template fails."""
        from jinja2 import TemplateError

        try:
            return rendered(self.template, context)
        except TemplateError as problem:
            raise bad_value("--for", f"the template of {context['flow']}: {problem}") from problem

    def check(self, others: Iterable[Flow]) -> None:
        """Raise Unusable, or whatever stands in the way, where no export could have this file beside those of `others`."""
        from jinja2.meta import find_undeclared_variables

        path = PurePosixPath(self.path.format(ip="ip"))
        if path.is_absolute() or ".." in path.parts or not path.parts or path.parts[0] in _EVERY:
            raise plugins.Unusable(f"its file {self.path} is none that an export has room for")
        if self.path in (other.path for other in others):
            raise plugins.Unusable(f"another export writes {self.path}")
        environment = _environment()
        seen = find_undeclared_variables(environment.parse(self.template.read_text()))
        if unknown := sorted(seen - NAMES - set(environment.globals)):
            raise plugins.Unusable(
                f"its template asks for {', '.join(unknown)}, which there is not"
            )


_OWN = {
    "fusesoc": Flow("{ip}.core", _TEMPLATES / "fusesoc.jinja", "a core of FuseSoC"),
    "litex": Flow("litex/{ip}.py", _TEMPLATES / "litex.jinja", "a module of LiteX"),
    "vivado": Flow("vivado/package.tcl", _TEMPLATES / "vivado.jinja", "an IP of Vivado"),
}


@cache
def flows() -> dict[str, Flow]:
    """Return the flows by name, Penstock's and those of other distributions."""
    flows = {name: flow for name, flow in _OWN.items() if flow.template.is_file()}

    def accept(point: Any, offer: Any) -> None:
        if not isinstance(offer, Flow):
            raise plugins.Unusable("it is no penstock.export.Flow")
        if point.name in flows or point.name == PLAIN:
            raise plugins.Unusable(f"there is another export {point.name}")
        offer.check(flows.values())
        flows[point.name] = offer

    plugins.load("penstock.exports", "export", accept)
    return flows


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
