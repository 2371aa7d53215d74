"""Penstock: analytics and training kernels become FPGA hardware that works where the data lives.

The names of the kernel language (`kernel`, `Input`, `sum`, …) come from the dialects that are
installed, a few others from the engines. All names are imported when they are first asked for;
`__init__.pyi` lists them for editors and type checkers.
"""

from __future__ import annotations

import builtins
import sys
from importlib import import_module

from penstock import hooks
from penstock.models import plugins

TYPE_CHECKING = False  # typing is not imported before Ctrl-C is seen to
if TYPE_CHECKING:
    from typing import Any

#: names that are no part of the kernel language, and where they are
_API = {
    **{name: ("penstock.api", name) for name in ("KernelError", "Run", "SourceError")},
    **{name: ("penstock.design", name) for name in ("Design", "compile", "load")},
    "Error": ("penstock.models.errors", "Error"),
    "Estimator": ("penstock.estimator", "Estimator"),
    "explore": ("penstock.sweeps.explore", "explore"),
    "open": ("penstock.runs.devices", "open_device"),
    "open_table": ("penstock.host.sources", "open_table"),
    "Target": ("penstock.models.target", "Target"),
    "target": ("penstock.targets", "target_named"),
}


def _found(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes longer than all the rest here

        return version("penstock")
    if name in _API:
        module, attribute = _API[name]
        return getattr(import_module(module), attribute)
    from penstock.dsl.core.library import offered

    if name in offered():
        return offered()[name]
    from penstock.engines.discovery import engine_names

    if name in engine_names():
        module, _, attribute = engine_names()[name].partition(":")
        return getattr(import_module(module), attribute)
    # what the front end's message about a misspelt name looks at
    raise AttributeError(
        f"module 'penstock' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )


def __getattr__(name: str) -> Any:
    if name == "__all__":
        # `from penstock import *` leaves Python's own names as they are
        return [
            public
            for public in __dir__()
            if not public.startswith("_") and not hasattr(builtins, public)
        ]
    if name.startswith("__") and name != "__version__":
        raise AttributeError(name)
    value = globals()[name] = _found(name)
    return value


def __dir__() -> list[str]:
    from penstock.dsl.core.library import offered
    from penstock.engines.discovery import engine_names

    return sorted({*offered(), *_API, *engine_names(), "__version__"})


def _page(shown: Any) -> str:
    from penstock.engines.design import Design
    from penstock.report.html import of_design, of_run

    return of_design(shown) if isinstance(shown, Design) else of_run(shown)


def _opened(engine: str, source: Any, args: Any) -> Any:
    from penstock.engines.discovery import engine_named

    return engine_named(engine).open(source, args)


def _predicted(scoring: Any, source: Any, backend: str | None, **options: Any) -> Any:
    from penstock.scores.scoring import predict

    return predict(scoring, source, backend, **options)


def _exported(design: Any, folder: Any, **options: Any) -> Any:
    from penstock.export import export

    return export(design, folder, **options)


def _connected(place: str, **options: Any) -> Any:
    from penstock.runs.devices import open_device

    return open_device(place, **options)


def _optional(engine: str) -> bool:
    from penstock.engines.discovery import engine_named

    return engine_named(engine).data_optional


def _taken(engine: str, options: Any) -> dict[str, Any]:
    from penstock.engines.discovery import engine_named
    from penstock.engines.options import taken

    return taken(engine_named(engine).options.get("simulate", ()), options)


hooks.page, hooks.opened, hooks.predicted = _page, _opened, _predicted
hooks.exported, hooks.connected = _exported, _connected
hooks.optional, hooks.taken = _optional, _taken
plugins.RESERVED.update(_API, globals())  # a dialect's name would never be seen behind these
