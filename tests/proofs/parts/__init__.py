# amaranth: UnusedElaboratable=no
"""The proofs, by part. A module here has `PROOFS`, and may have `COMPONENTS`: further components by
name, each as what makes it, for the netlist's proof alone. Modules are found.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from amaranth.lib import wiring
from harness import Proof

#: what is in the table first; all others follow by name
_FIRST = (
    "stream passing commands arbiter copiers guard memories sdram shell registers link"
).split()


def _place(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


_modules = [
    importlib.import_module(f"{__name__}.{name}")
    for name in sorted((module.name for module in pkgutil.iter_modules(__path__)), key=_place)
]

#: all proofs, in the order of tests/proofs/table.md
PROOFS: list[Proof] = [proof for module in _modules for proof in module.PROOFS]
#: components that no proof is about
COMPONENTS: dict[str, Callable[[], wiring.Component]] = {
    name: make for module in _modules for name, make in getattr(module, "COMPONENTS", {}).items()
}
