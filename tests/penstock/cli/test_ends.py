"""Commands that are ended while programs run for them: none of these is left, whatever ended the command."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SIGNALS = {"terminated": signal.SIGTERM, "interrupted": signal.SIGINT, "killed": signal.SIGKILL}
CODES = {"terminated": 143, "interrupted": 130, "killed": -signal.SIGKILL}
MAP = "import penstock as ps\nm = ps.ObliviousMap(key=ps.u64, value=ps.bytes(24), capacity=300)\n"
LOGISTIC = [str(EXAMPLES / "logistic.py"), "--dim", "d=2", "--format", "fixed:8,8"]
#: a g++ that says who it is and starts another program, and neither ends
COMPILER = """#!/bin/sh
case $1 in --version) exec /usr/bin/g++ --version ;; esac
sleep 600 &
wait
"""
COMMANDS = {
    "simulate": ["simulate", *LOGISTIC, "--data", "random:rows=5"],
    "export": ["export", *LOGISTIC, "--ip", "core", "--out", "core"],
    "build": ["build", *LOGISTIC, "--board", "ulx3s-85f", "--out", "build"],
    "serve": ["serve", "map.py", "--keys", "keys", "--port", "0"],
    "emulate": ["emulate", "design", "--port", "0"],
}
#: what runs for each, as its command line shows it
PROGRAMS = {
    "simulate": "sleep 600",
    "export": "sleep 600",
    "build": "run_yosys",
    "serve": "penstock.host.omap.process",
    "emulate": "sleep 600",
}


PROGRAM = [sys.executable, "-m", "penstock"]


def prepared(folder: Path, command: str) -> Path:
    """Make what a command takes, and for those that shall be ended while it works a compiler without an end."""
    (folder / "bin").mkdir(parents=True)
    if PROGRAMS[command] == "sleep 600":
        (folder / "bin" / "g++").write_text(COMPILER)
        (folder / "bin" / "g++").chmod(0o755)
    (folder / "map.py").write_text(MAP)
    if command == "serve":
        subprocess.run([*PROGRAM, "keys", "map.py", "--out", "keys"], cwd=folder, check=True)
    if command == "emulate":
        subprocess.run([*PROGRAM, "compile", *LOGISTIC, "--out", "design"], cwd=folder, check=True)
    return folder


def begun(folder: Path, command: str) -> subprocess.Popen[str]:
    """Start a command in a folder of its own, with an empty cache."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PENSTOCK_CACHE": str(folder / "cache")}
    return subprocess.Popen(
        [*PROGRAM, *COMMANDS[command]],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(found: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so; return whether it is."""
    end = monotonic() + seconds
    while not found() and monotonic() < end:
        sleep(0.1)
    return found()


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return all that a command has started, and what these have."""
    return psutil.Process(process.pid).children(recursive=True)


def heirs(folder: Path) -> list[psutil.Process]:
    """Return all processes that have the environment of what was begun in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("PENSTOCK_CACHE") == str(folder / "cache"):
                found.append(process)
    return found


def runs(program: str, processes: list[psutil.Process]) -> bool:
    for process in processes:
        try:
            if program in " ".join(process.cmdline()):
                return True
        except psutil.Error:
            pass
    return False


def lives(process: psutil.Process) -> bool:
    """Whether it runs: who inherited one that has ended may let it wait."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ended(folder: Path, command: str, how: str, wait: float = 0.0) -> None:
    with begun(folder, command) as process:
        assert process.stderr is not None
        there = until(lambda: runs(PROGRAMS[command], family(process)), 300)
        sleep(wait)
        children = family(process)
        process.send_signal(SIGNALS[how])
        try:
            process.wait(10)
        finally:
            process.kill()
        said = process.stderr.read()
        assert there, said
    until(lambda: not any(lives(one) for one in {*children, *heirs(folder)}), 20)
    left = [one for one in {*children, *heirs(folder)} if lives(one)]
    names = [str(one) for one in left]
    for one in left:
        one.kill()
    assert not names
    assert process.returncode == CODES[how], said
    assert how == "killed" or said.endswith(f"{how}\n")
    assert not (folder / "core").exists() and not (folder / "build").exists()


@pytest.mark.parametrize(
    ("command", "how"),
    [("simulate", "terminated"), ("export", "killed"), ("build", "killed"), ("serve", "killed"), ("emulate", "killed")],
)  # fmt: skip
def test_no_program_is_left(command: str, how: str, tmp_path: Path) -> None:
    ended(prepared(tmp_path / "made", command), command, how)


@pytest.mark.long
@pytest.mark.parametrize("how", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.timeout(3600)
def test_no_program_is_left_20_times(command: str, how: str, tmp_path: Path) -> None:
    """At 20 moments after the program began."""
    made, rng = prepared(tmp_path / "made", command), random.Random(f"{command} {how}")
    for number in range(20):
        folder = shutil.copytree(made, tmp_path / str(number), symlinks=True)
        ended(folder, command, how, rng.random() / 2)
