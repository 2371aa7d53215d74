# amaranth: UnusedElaboratable=no
"""Components made smaller than their constructors allow, where a proof would not end otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from amaranth.hdl import Array, Elaboratable, Fragment, Module, Signal

__all__ = ["Rows", "made", "others", "registers_of", "shrunk"]


class _Made(Elaboratable):
    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment

    def elaborate(self, platform) -> Fragment:
        return self.fragment


class Rows(Elaboratable):
    """In place of a memory with one reader and one writer: rows that can be looked at, which no reset reaches."""

    def __init__(self, *, shape: int, depth: int, init: list) -> None:
        self.rows = [Signal(shape, name=f"row{k}", reset_less=True) for k in range(depth)]
        self._reads, self._writes = (
            SimpleNamespace(
                addr=Signal(range(depth)), data=Signal(shape, reset_less=True), en=Signal()
            )
            for _ in range(2)
        )
        self.read = self._reads.data

    def read_port(self) -> SimpleNamespace:
        return self._reads

    def write_port(self) -> SimpleNamespace:
        return self._writes

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self._reads.data.eq(Array(self.rows)[self._reads.addr])
        for k, row in enumerate(self.rows):
            with m.If(self._writes.en & (self._writes.addr == k)):
                m.d.sync += row.eq(self._writes.data)
        return m


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
