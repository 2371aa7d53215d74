# amaranth: UnusedElaboratable=no
"""Two runs of a design: what is equal in both, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from amaranth.hdl._ir import PortDirection

from penstock.hdl.modules import directed_ports

from .bench import Bench, Problem

__all__ = ["two_runs"]


def two_runs(
    bench: Bench, make: Callable[[], Any], equal: Collection[str]
) -> list[tuple[Any, dict]]:
    """Add two copies of a component. Inputs in `equal` are free but the same in both, all others
    are free in each.

    Returns each copy with its outputs by name. Names are the ports', members of interfaces joined
    by two underscores.
    """
    copies = []
    for number in range(2):
        component = make()
        bench.m.submodules[f"run{number}"] = component
        ports = directed_ports(component)
        inputs = {
            name: value
            for name, (value, direction) in ports.items()
            if direction is PortDirection.Input
        }
        if missing := set(equal) - inputs.keys():
            raise Problem(f"there are no inputs {', '.join(sorted(missing))}")
        for name, value in inputs.items():
            if name not in equal:
                bench.d.comb += value.eq(bench.free(f"{name} ({number})", len(value)))
            elif number == 0:
                bench.d.comb += value.eq(bench.free(name, len(value)))
            else:
                first = directed_ports(copies[0][0])[name][0]
                bench.d.comb += value.eq(first)
        copies.append(
            (
                component,
                {
                    name: value
                    for name, (value, direction) in ports.items()
                    if direction is PortDirection.Output
                },
            )
        )
    return copies
