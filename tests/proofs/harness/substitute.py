# amaranth: UnusedElaboratable=no
"""Components elaborated with parts of them replaced or cut, where a proof speaks of all parts that
there could be in their place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import wiring

__all__ = ["Cut", "replaced"]


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
