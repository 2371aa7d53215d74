"""The programs that decide, from PyPI: Yosys and ABC (pyosys)."""

from __future__ import annotations

import importlib.metadata
import resource
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from .bench import Problem

__all__ = ["abc", "versions", "yosys"]


@cache
def versions() -> str:
    """What the results depend on."""
    return f"pyosys={importlib.metadata.version('pyosys')}"


def _run(what: str, command: list[str], folder: Path, seconds: float) -> str | None:
    """Return what a command prints; None if it takes more seconds of processor: a busy machine
    decides no less.
    """
    most = int(seconds)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))

    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) or "SIGXCPU" in done.stdout[-500:]:
        return None
    if done.returncode not in (0, 1):
        raise Problem(f"{what} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def yosys(script: str, folder: Path) -> None:
    """Run a script of Yosys's passes; in a process of its own, which it ends when something is
    wrong.
    """
    (folder / "script.ys").write_text(script)
    code = "from pyosys import libyosys; libyosys.run_pass('tee -q script script.ys'); print('finished')"
    out = _run("Yosys", [sys.executable, "-c", code], folder, 600)
    if out is None or "finished" not in out:
        raise Problem(f"Yosys failed:\n{(out or '')[-3000:]}")


def abc(commands: str, folder: Path, seconds: float) -> str | None:
    """Run ABC's commands; None if that takes too long."""
    import pyosys

    program = Path(pyosys.__file__).with_name("yosys-abc")
    return _run("ABC", [str(program), "-c", commands], folder, seconds)
