"""An engine in its shell as Verilog."""

from collections.abc import Sequence
from typing import Any

from ..modules import ModuleLibrary
from .shell import Shell, Window
from .verilog import to_verilog


def shelled(engine: Any, library: ModuleLibrary, windows: Sequence[Window | None] = ()) -> str:
    """Return the Verilog of an engine, not elaborated yet, in its shell, top module `penstock`;
    `library` takes its modules. `windows`: as of `Shell`."""
    return to_verilog(Shell(engine, engine.register_map, windows), library=library)
