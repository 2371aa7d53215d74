"""Yosys as a native program, from `pyosys`: what memories and multipliers become is the same as with the
WebAssembly build that bitstreams are made with, in a third of its time."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.boards.tools import run_group

__all__ = ["yosys"]

_RUN = "from pyosys import libyosys; libyosys.run_pass('script script.ys')"


def yosys(commands: str, folder: Path) -> str:
    """Run commands, with a semicolon and a space between them, in a folder; return what Yosys prints. Raises ToolError."""
    (folder / "script.ys").write_text(commands.replace("; ", "\n") + "\n")
    return run_group("yosys", [sys.executable, "-P", "-c", _RUN], folder)
