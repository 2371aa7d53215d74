"""What synthesis makes of a design, for `--backend netlist`."""

import hashlib

from penstock.boards.netlist import script, synthesise
from penstock.boards.tools import ToolError, ToolMissing, tool_versions
from penstock.designs.cache import kept
from penstock.dsl.core.diagnostics import Span, error
from penstock.models.target import Target
from penstock.sim.netlist import FAMILIES


def family_of(target: Target, family: str | None = None, option: str = "--backend") -> str:
    """Return the family whose cells a netlist for `target` has: the one that is asked for, else the target's. Raises KernelError (E829), which names the
    `option` that asks for netlists."""
    chosen = family or target.family
    if chosen not in FAMILIES:
        what = (
            f"{target.name} is of the family {chosen}"
            if family is None
            else f"{family!r} is a family"
        )
        raise error(
            "E829",
            f"{what}, whose netlists cannot be simulated",
            Span.whole(f"{option} netlist"),
            hint=f"--family takes {', '.join(FAMILIES)}, for any target",
        )
    return chosen


def yosys(option: str = "--backend") -> str:
    """Return which Yosys makes netlists. Raises KernelError (E822) for none, which names the `option` that asks for netlists."""
    try:
        return str(tool_versions(("yosys",)))
    except ToolMissing as problem:
        raise error(
            "E822",
            f"netlists need the package {problem.package}",
            Span.whole(f"{option} netlist"),
            hint="pip install 'penstock[boards]' installs the open tool chain",
        ) from None


def netlist(verilog: str, target: Target, family: str | None = None) -> str:
    """Return a design's netlist as Verilog, from the cache if it is there.

    Raises KernelError: E829 for families without models of their cells, E822 and E826 where Yosys is missing or fails.
    """
    chosen, multipliers = family_of(target, family), target.dsp > 0
    key = f"{script(chosen, multipliers)} {yosys()} {hashlib.sha256(verilog.encode()).hexdigest()}"
    try:
        return kept(key, lambda: synthesise(verilog, chosen, multipliers=multipliers))
    except ToolError as problem:
        raise error(
            "E826",
            f"{problem.tool} failed: {problem.line}",
            Span.whole("--backend netlist"),
            hint="this is a defect in Penstock or in the tool: please report it with the command and `penstock --version`",
        ) from None
