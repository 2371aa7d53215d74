"""The distribution of another's engine (`tests/support/outside`), as if it were installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KERNEL", "PACKAGE", "commands", "installed", "record"]

PACKAGE = Path(__file__).resolve().parents[1] / "outside"
KERNEL = """import penstock as ps

@ps.tally(gain=3)
def sums(x: ps.Words["n"]):
    return ps.total(x)
"""


#: runs commands as the program does: each comes as a line of JSON, a folder and arguments
_SERVER = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from penstock.cli.main import run
for line in sys.stdin:
    folder, arguments = json.loads(line)
    os.chdir(folder)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@contextmanager
def commands(variables: dict[str, str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Yield a function that runs a command in the current folder and another environment, and
    returns exit code, output and what stands on standard error."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SERVER],
        env=os.environ | variables | {"COLUMNS": "100"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout

        def command(*arguments: str) -> tuple[int, str, str]:
            print(json.dumps([os.getcwd(), arguments]), file=process.stdin, flush=True)
            return tuple(json.loads(process.stdout.readline()))

        yield command
        process.stdin.close()


def record(folder: Path, name: str, groups: dict[str, dict[str, str]]) -> Path:
    """Write what pip leaves of a distribution with these entry points, by group; return the folder."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[penstock.{group}]", *(f"{point} = {at}" for point, at in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


def installed(folder: Path) -> dict[str, str]:
    """Return variables of an environment in which it is; its record lies in `folder`."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    points = {group.split(".")[1]: named for group, named in project["entry-points"].items()}
    return {"PYTHONPATH": f"{record(folder, 'penstock_tally', points)}{os.pathsep}{PACKAGE}"}
