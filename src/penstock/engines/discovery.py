"""Which engines there are."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import penstock.engines
from penstock.dsl.core.diagnostics import error
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.dialect import dialects, reserved
from penstock.engines.registration import Engine
from penstock.models import plugins
from penstock.models.errors import ErrorCode, HardwareCode

#: the entry points of engines of other distributions
GROUP = "penstock.engines"
#: those of reports on papers
PAPERS = "penstock.papers"


def _own() -> Iterator[Engine]:
    """The engines in `penstock.engines`: each package has its `ENGINE`."""
    for module in pkgutil.iter_modules(penstock.engines.__path__):
        if module.ispkg:
            yield importlib.import_module(f"penstock.engines.{module.name}").ENGINE


@cache
def engines() -> dict[str, Engine]:
    engines = {engine.name: engine for engine in _own()}

    def accept(point: Any, loaded: Any) -> None:
        engine = loaded() if isinstance(loaded, type) else loaded
        if not isinstance(engine, Engine):
            raise plugins.Unusable(f"{point.value} is no penstock.engines.base.Engine")
        if engine.name in engines:
            raise plugins.Unusable(f"there is an engine {engine.name} already")
        _check(engine, engines.values())
        engines[engine.name] = engine

    plugins.load(GROUP, "engine", accept)
    return engines


def _check(engine: Engine, others: Iterable[Engine]) -> None:
    """Raise whatever would otherwise break commands that do not need the engine."""
    flags = {
        (command, option.name): option.flag
        for other in others
        for command, options in other.options.items()
        for option in options
    }
    for command, options in engine.options.items():
        for option in options:
            option.parameter()
            if flags.get((command, option.name), option.flag) != option.flag:
                raise plugins.Unusable(f"another engine has an option {option.name}")
    for name in engine.names:
        if reserved(name) or any(name in dialect.public for dialect in dialects().values()):
            raise plugins.Unusable(f"its name {name} is taken: there is a penstock.{name}")
    list(engine.commands), dict(engine.papers), list(engine.errors)


def papers() -> dict[str, Any]:
    """Return all papers by name: the function that returns parts of a report (`Engine.papers`), or a text
    that says what installs it."""
    papers = {name: how for engine in engines().values() for name, how in engine.papers.items()}

    def accept(point: Any, loaded: Any) -> None:
        if not callable(loaded):
            raise plugins.Unusable(f"{point.value} is no function that returns parts of a report")
        if point.name in papers:
            raise plugins.Unusable(f"there is a paper {point.name} already")
        papers[point.name] = loaded

    plugins.load(PAPERS, "paper", accept)
    for engine in engines().values():
        for name, how in engine.elsewhere.items():
            papers.setdefault(name, how)
    return papers


def engine_of(kernel: AnyKernel | Any) -> Engine:
    """Return the engine that compiles a kernel. Raises KernelError (E620) where there is none, TypeError for what is no kernel."""
    for engine in engines().values():
        if isinstance(kernel, engine.kernels):
            return engine
    if not isinstance(kernel, AnyKernel):
        raise TypeError(f"no engine compiles {type(kernel).__name__}")
    message = f"no engine compiles the {kernel.title} {kernel.name}"
    hint = "install the package that has the engine beside the dialect" + plugins.absent()
    raise error("E620", message, kernel.name_span, hint=hint, source=kernel.source)


def engine_named(name: str) -> Engine:
    """Return the engine of that name. Raises ValueError."""
    if name not in engines():
        raise ValueError(f"there is no engine {name}{plugins.absent()}")
    return engines()[name]


def engine_names() -> dict[str, str]:
    """Return the names of the Python API that engines bring, each as "module:attribute"."""
    return {name: place for engine in engines().values() for name, place in engine.names.items()}


def error_pages() -> dict[str, str]:
    """Return the page of each error code of the hardware, by the code's name."""
    enumerations: list[type[HardwareCode]] = [ErrorCode]
    for engine in engines().values():
        enumerations += engine.errors
    return {member.name: member.page for codes in enumerations for member in codes}
