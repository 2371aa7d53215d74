"""From a netlist to a library of the native harness, in place of the design's own Verilog."""

from __future__ import annotations

from typing import Any

from ...models.analytics.config import Plan
from ..analytics import build as build_design
from ..native import Library
from .cells import LINT, cell_models

__all__ = ["build"]


def build(plan: Plan, netlist: str, family: str, design: int = 0, **options: Any) -> Library:
    """Compile a netlist of a plan's engine, in a family's cells, for simulation; `sim.analytics.simulate` runs it as it runs the engine.

    Parameters: `options`: as `sim.native.build`. The default level of g++ is the lowest: netlists run for less time than they take to compile.

    Raises BuildError where a tool is missing or fails, or where a cell has no model, or is used in a way that its model does not cover.
    """
    return build_design(plan, f"{LINT}{netlist}\n{cell_models(family)}", design, **{"optimise": "-O0", **options})
