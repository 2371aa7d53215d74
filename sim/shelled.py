"""Engines as Verilog."""

from __future__ import annotations

from typing import Any

from ..hdl.modules import ModuleLibrary
from ..hdl.shell.shell import Shell
from ..hdl.shell.verilog import to_verilog

__all__ = ["verilog"]


def verilog(engine: Any, library: ModuleLibrary) -> str:
    """Return the Verilog of an engine, not elaborated yet, in its shell, top module `penstock`; `library` takes its modules."""
    return to_verilog(Shell(engine, engine.register_map), library=library)
