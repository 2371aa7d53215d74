# amaranth: UnusedElaboratable=no
"""Components elaborated with parts of them replaced or cut, where a proof speaks of all parts that
there could be in their place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring

from .bench import Bench

__all__ = ["Anything", "Cut", "anything", "replaced"]


@contextmanager
def replaced(places: Mapping[str, Mapping[str, Callable[[Any], Any]]]) -> Iterator[None]:
    """Run the body with names in modules of Penstock replaced: `{"hdl.x": {"Name": f}}` puts
    `f(Name)` in place of `Name`.
    """
    kept = []
    for name, values in places.items():
        module = importlib.import_module(f"penstock.{name}")
        for key, make in values.items():
            original = getattr(module, key)
            kept.append((module, key, original))
            setattr(module, key, make(original))
    try:
        yield
    finally:
        for module, key, value in reversed(kept):
            setattr(module, key, value)


class Cut(wiring.Component):
    """A component whose outputs `cut` are other values: `give(name, bits)` makes each of them. All
    else is the component itself, `inner`.
    """

    def __init__(
        self, inner: wiring.Component, cut: tuple[str, ...], give: Callable[[str, int], Value]
    ) -> None:
        self.inner, self._cut, self._give = inner, cut, give
        super().__init__(inner.signature)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.inner = self.inner
        theirs = {path: value for path, _, value in self.inner.signature.flatten(self.inner)}
        for path, member, value in self.signature.flatten(self):
            name, mine, other = "__".join(map(str, path)), Value.cast(value), theirs[path]
            if member.flow is wiring.In:
                m.d.comb += Value.cast(other).eq(mine)
            elif name in self._cut:
                m.d.comb += mine.eq(self._give(name, len(mine)))
            else:
                m.d.comb += mine.eq(Value.cast(other))
        return m


class Anything(wiring.Component):
    """In place of a component: its outputs are any values, but those that `behave` gives. It gets this
    component, its module, and what makes free signals of so many bits; it returns outputs by name, and
    may add to the module.
    """

    def __init__(
        self, inner: wiring.Component, bench: Bench, behave: Callable[..., dict[str, Any]] | None
    ) -> None:
        self._bench, self._behave = bench, behave
        super().__init__(inner.signature)

    def elaborate(self, platform) -> Module:
        m = Module()
        given = self._behave(self, m, self._free) if self._behave else {}
        for path, member, value in self.signature.flatten(self):
            name = "__".join(map(str, path))
            if member.flow is wiring.Out:
                mine = Value.cast(value)
                m.d.comb += mine.eq(given[name] if name in given else self._free(len(mine)))
        return m

    def _free(self, bits: int = 1) -> Signal:
        return self._bench.free(f"any {len(self._bench.inputs)}", bits)


def anything(
    bench: Bench, behave: Callable[..., dict[str, Any]] | None = None
) -> Callable[[Any], Any]:
    """What `replaced` takes to put `Anything` in a component's place."""
    return lambda kind: lambda *args, **shape: Anything(kind(*args, **shape), bench, behave)
