"""Which engines there are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import penstock.engines
from penstock.engines.engine import Engine

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel

__all__ = ["GROUP", "engine_named", "engine_names", "engine_of", "engines", "left_out"]

#: the entry points of engines of other distributions
GROUP = "penstock.engines"


def _own() -> Iterator[Engine]:
    """The engines in `penstock.engines`: each package has its `ENGINE`."""
    for module in pkgutil.iter_modules(penstock.engines.__path__):
        if module.ispkg:
            yield importlib.import_module(f"penstock.engines.{module.name}").ENGINE


@cache
def _found() -> tuple[dict[str, Engine], dict[str, str]]:
    found, unusable = {engine.name: engine for engine in _own()}, {}
    for point in entry_points(group=GROUP):
        try:
            loaded = point.load()
            engine = loaded() if isinstance(loaded, type) else loaded
            if not isinstance(engine, Engine):
                raise TypeError(f"{point.value} is no penstock.engines.base.Engine")
            if engine.name in found:
                raise ValueError(f"an engine {engine.name} is there already")
        except Exception as problem:
            unusable[point.name] = f"{type(problem).__name__}: {problem}"
        else:
            found[engine.name] = engine
    return found, unusable


def engines() -> dict[str, Engine]:
    """Return all engines by name."""
    return _found()[0]


def left_out() -> dict[str, str]:
    """Return the entry points that could not be used, with the reason."""
    return _found()[1]


def engine_of(kernel: AnyKernel | Any) -> Engine:
    """Return the engine that compiles a kernel. Raises TypeError where there is none."""
    for engine in engines().values():
        if isinstance(kernel, engine.kernels):
            return engine
    raise TypeError(f"no engine compiles {type(kernel).__name__}")


def engine_named(name: str) -> Engine:
    """Return the engine of that name. Raises KeyError."""
    return engines()[name]


def engine_names() -> dict[str, str]:
    """Return the names of the Python API that engines bring, each as "module:attribute"."""
    return {name: place for engine in engines().values() for name, place in engine.names.items()}
