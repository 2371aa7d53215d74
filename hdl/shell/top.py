"""An engine in its shell as Verilog."""

from typing import Any

from ..modules import ModuleLibrary
from .shell import Shell
from .verilog import to_verilog

__all__ = ["shelled"]


def shelled(engine: Any, library: ModuleLibrary) -> str:
    """Return the Verilog of an engine, not elaborated yet, in its shell, top module `penstock`;
    `library` takes its modules."""
    return to_verilog(Shell(engine, engine.register_map), library=library)
