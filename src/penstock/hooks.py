"""What designs and runs need of modules above them. The package sets them when it is imported, so
that what runs designs knows neither reports nor which engines there are."""

from __future__ import annotations

TYPE_CHECKING = (
    False  # typing is not imported before Ctrl-C is seen to: it takes longer than all of this
)
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: returns a design or a run as an HTML element
page: Callable[[Any], str] = str
#: returns what a source holds, by the engine's name, the source and the rest of what was given
opened: Callable[[str, Any, Any], Any] = lambda engine, source, args: source
#: returns the scores of a source's rows (`scoring.predict`)
predicted: Callable[..., Any] = lambda scoring, source, backend, **options: None
#: writes a design as a core for other projects (`export.export`)
exported: Callable[..., Any] = lambda design, folder, **options: None
#: returns a device by its address (`runs.devices.open_device`)
connected: Callable[..., Any] = lambda place, **options: None
#: returns whether an engine, by its name, runs without data that a user gives
optional: Callable[[str], bool] = lambda engine: False
#: returns the options of a run by an engine's name, each as the command line takes it
taken: Callable[[str, Any], dict[str, Any]] = lambda engine, options: dict(options)


class Terminated(KeyboardInterrupt):
    """SIGTERM came: what is under way ends as after Ctrl-C."""


class Shown:
    """What a notebook shows as a page."""

    def _repr_html_(self) -> str:
        return page(self)
