"""From a netlist to a library of the native harness, in place of the design's own Verilog."""

from collections.abc import Sequence
from typing import Any

from ...models.shell import RegisterMap
from ..native import Library, PortSpec
from ..native import build as build_native
from .cells import LINT, cell_models


def build(
    netlist: str,
    family: str,
    *,
    ports: Sequence[PortSpec],
    register_map: RegisterMap,
    **options: Any,
) -> Library:
    """Compile the netlist of a design in its shell, in a family's cells, for simulation; sessions run it as they run the design.

    Parameters: `ports`, `register_map`, `options`: as of `sim.native.build`. The default level of g++ is the lowest: netlists run for less time than they take
    to compile.

    Raises BuildError where a tool is missing or fails, or where a cell has no model, or is used in a way that its model does not cover.
    """
    return build_native(
        f"{LINT}{netlist}\n{cell_models(family)}",
        ports=ports,
        register_map=register_map,
        **{"optimise": "-O0", **options},
    )
