"""One case: a command line run in this process, and all that can be compared of it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

__all__ = ["record", "shape_digest", "steady_text"]

#: keys of the report that hold times of this machine, or paths and versions
_UNSTEADY = {"wall_s", "cycles_per_s", "versions", "tools"}
_TIMES = [
    (re.compile(r"(simulated|predicted) in │.*"), r"\1 in │"),
    (re.compile(r"seed (\d+) of (\d+); \d+ s"), r"seed \1 of \2; # s"),
    (re.compile(r"(?m)^(penstock|python|amaranth|numpy|verilator|platform) +\S.*$"), r"\1 #"),
    (re.compile(r" +$", re.M), ""),
]


class _Stopped(Exception):
    """A build has come to its synthesis."""


def _digest(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|\\\S+|\$?[A-Za-z_][\w$]*(?:\.[\w$]+)*|\$[\w.$]+')
_ATTRIBUTE = re.compile(r"\(\*.*?\*\)|//.*|^\s*attribute .*$", re.M)


def shape_digest(text: str) -> str:
    """Return a digest of Verilog or RTLIL that no name enters: each stands for the place where it is met first."""
    known: dict[str, str] = {}
    return _digest(
        re.sub(
            r"\s+",
            " ",
            _NAME.sub(
                lambda name: known.setdefault(name[0], f"n{len(known)}"), _ATTRIBUTE.sub("", text)
            ),
        )
    )


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(part) for key, part in value.items() if key not in _UNSTEADY}
    return [_steady(part) for part in value] if isinstance(value, list) else value


def steady_text(text: str) -> str:
    """Return what was printed without times and versions."""
    for pattern, plain in _TIMES:
        text = pattern.sub(plain, text)
    return text


def _file(path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix == ".json":
        return _steady(json.loads(data))
    if path.suffix == ".v":
        return {
            "exact": _digest(data),
            "shape": shape_digest(data.decode()),
            "lines": data.count(b"\n"),
        }
    return _digest(data)


@contextlib.contextmanager
def _builds(stop: bool, seen: dict[str, Any]) -> Iterator[None]:
    """Note what builds would synthesise, and end there if `stop`."""
    from penstock.boards import build

    real = build.synthesise

    def synthesise(board: Any, sources: Any, folder: Path) -> Any:
        seen["rtlil"] = {
            "exact": _digest(sources.rtlil),
            "shape": shape_digest(sources.rtlil),
            "lines": sources.rtlil.count("\n"),
            "constraints": _digest(sources.constraints),
        }
        if stop:
            raise _Stopped
        return real(board, sources, folder)

    with (
        mock.patch.object(build, "synthesise", synthesise),
        mock.patch.object(build, "_kept", lambda folder: None),
    ):
        yield


def record(line: str, group: str) -> dict[str, Any]:
    """Run a command line in the current folder; return its exit code, what it printed, its report and its files."""
    from penstock import cli

    arguments = line.split()
    report = Path("report.json")
    report.unlink(missing_ok=True)
    shutil.rmtree("made", ignore_errors=True)
    if (
        arguments
        and arguments[0] in ("check", "model", "compile", "simulate", "build")
        and "--json" not in arguments
        and "--help" not in arguments
    ):
        arguments += ["--json", str(report)]
    out, err, seen = io.StringIO(), io.StringIO(), {}
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _builds(group != "build", seen),
    ):
        code = cli.run(arguments)
        sys.stdout.flush()
    found: dict[str, Any] = {"code": code}
    for name, text in (("out", out.getvalue()), ("err", err.getvalue())):
        text = steady_text(text)
        if text and ("rtlil" not in seen or group == "build"):
            found[name] = text.splitlines()
    if seen:
        found |= seen
    if report.exists() and (group == "build" or not seen):
        found["json"] = _steady(json.loads(report.read_text()))
        with contextlib.suppress(KeyError):
            for entry in found["json"]["errors"]:
                entry.pop("traceback", None)
    if Path("made").is_dir():
        found["files"] = {
            str(path.relative_to("made")): _file(path)
            for path in sorted(Path("made").rglob("*"))
            if path.is_file()
        }
    return found
