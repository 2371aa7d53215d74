# amaranth: UnusedElaboratable=no
"""Components made smaller than their constructors allow, where a proof would not end otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from amaranth.hdl import Elaboratable, Fragment, Signal

__all__ = ["made", "others", "registers_of", "shrunk"]


class _Made(Elaboratable):
    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment

    def elaborate(self, platform) -> Fragment:
        return self.fragment


def made(component) -> Elaboratable:
    """A component elaborated now, with all that is in it."""
    return _Made(Fragment.get(component, None))


@contextmanager
def others(module: ModuleType, **values: Any) -> Iterator[None]:
    """Run the body with other values in a module."""
    kept = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(module, name, value)


def shrunk(module: ModuleType, make: Callable[[], Any], **values: Any) -> tuple[Any, Elaboratable]:
    """Make a component, and elaborate it, with other constants in its module; return it, and what
    stands for it as a submodule.
    """
    with others(module, **values):
        component = make()
        return component, made(component)


def registers_of(part: Any) -> dict[str, Signal]:
    """The registers of what `made` or `shrunk` gave, by name; those of its submodules are not among
    them.
    """
    return {
        signal.name: signal
        for statement in part.fragment.statements["sync"]
        for signal in statement._lhs_signals()
    }
