"""Plug-ins that cannot be used: each command and the Python API name them with the reason, and what needs none of them works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbench.outside import KERNEL, PACKAGE

LOGISTIC = str(Path(__file__).resolve().parents[2] / "examples" / "logistic.py")
ENGINE = """
from penstock.engines.base import Engine
from penstock.options import Option

class Broken(Engine):
    name, kernels = "broken", ()
    compile = load = sections = None

class Options(Broken):
    options = {"check": (Option("--dimension", "dims", str, None, ""),)}

class Names(Broken):
    names = {"report": "os:path"}

class Commands(Broken):
    commands = property(lambda self: 1 // 0)
"""
DIALECT = """
from dataclasses import replace
from penstock_tally.dialect import DIALECT as tally, total

shadow = replace(tally, keyword="shadow", functions={"report": total})
names = replace(tally, keyword="names", functions={"version": total})
api = replace(tally, keyword="compile")
"""
#: entry points by group, each with the reason why it is left out; none where it is not
POINTS = {
    "set of boards": {"none": ("os:nothing", "AttributeError: module 'os' has no attribute 'nothing'")},
    "dialect": {
        "api": ("a_dialect:api", "its name compile is taken: penstock.compile is Penstock's own"),
        "names": ("a_dialect:names", "its name version is taken: penstock.version is Penstock's own"),
        "shadow": ("a_dialect:shadow", "its name report is taken: penstock.report is Penstock's own"),
        "tally": ("penstock_tally.dialect:DIALECT", None),
    },
    "engine": {
        "absent": ("nothing_at_all:ENGINE", "ModuleNotFoundError: No module named 'nothing_at_all'"),
        "commands": ("a_engine:Commands", "ZeroDivisionError: integer division or modulo by zero"),
        "exits": ("a_exit:ENGINE", "SystemExit: 3"),
        "names": ("a_engine:Names", "its name report is taken: there is a penstock.report"),
        "odd": ("os:sep", "os:sep is no penstock.engines.base.Engine"),
        "options": ("a_engine:Options", "another engine has an option dims"),
    },
}  # fmt: skip
LEFT = [
    f"the installed {kind} {name} is left out: {why}"
    for kind, points in POINTS.items()
    for name, (_, why) in points.items()
    if why is not None
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which all of them are installed."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in (("engine", ENGINE), ("dialect", DIALECT), ("exit", "raise SystemExit(3)")):
        (folder / f"a_{name}.py").write_text(text)
    info = folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    groups = zip(("boards", "dialects", "engines"), POINTS.values(), strict=True)
    (info / "entry_points.txt").write_text(
        "".join(
            f"[penstock.{group}]\n" + "".join(f"{name} = {at}\n" for name, (at, _) in points.items())
            for group, points in groups
        )
    )  # fmt: skip
    path = os.pathsep.join([str(folder), str(PACKAGE)])
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "100"}


def penstock(site: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Return a command's exit code and what it wrote on standard error."""
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, env=site, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command", [("targets",), ("--version",), ("explain", "E101"), ("check", LOGISTIC)], ids=str
)
def test_every_command_names_them(command: tuple[str, ...], site: dict[str, str]) -> None:
    code, said = penstock(site, *command)
    assert code == 0
    assert said.splitlines() == [f"warning: {left}; mend or uninstall its package" for left in LEFT]


def test_quiet(site: dict[str, str]) -> None:
    assert penstock(site, "check", LOGISTIC, "-q") == (0, "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("check", "sums.py"), "E610"),
        (("check", LOGISTIC, "--target", "mine"), "E602"),
        (("explain", "TALLY_FORBIDDEN"), "E901"),
        (("reproduce", "tally"), "E905"),
        (("check", LOGISTIC, "--fault", "3"), "E902"),
    ],
)
def test_what_they_may_explain(
    command: tuple[str, ...], code: str, site: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sums.py").write_text(KERNEL)
    exit_code, said = penstock(site, *(str(tmp_path / a) if a == "sums.py" else a for a in command))
    hint = said.partition("\nhint: ")[2]
    assert exit_code == 1 and f"error[{code}]: " in said and "Traceback" not in said
    assert all(left in hint for left in LEFT)


def test_from_python(site: dict[str, str], tmp_path: Path) -> None:
    """The dialect's names mean the same whatever is imported before; each plug-in is warned of once."""
    (tmp_path / "sums.py").write_text(KERNEL)
    (tmp_path / "manifest.json").write_text('{"engine": "tally"}')
    (tmp_path / "penstock.v").write_text("")
    script = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import penstock as ps
    FIRST
    for act in (lambda: ps.compile("sums.py"), lambda: ps.load(".")):
        try:
            act()
        except (ps.KernelError, ValueError) as problem:
            print(str(problem).replace("\\n", " "))
    for name in ("shadow", "report", "version"):
        print(callable(getattr(ps, name, None)), end=" ")
    print()
print(*sorted(str(w.message) for w in seen), sep="\\n")
"""
    before = ["pass", "import penstock.report", "hasattr(ps, 'report'); import penstock.report"]
    outputs = []
    for first in before:
        command = [sys.executable, "-c", script.replace("FIRST", first)]
        done = subprocess.run(
            command, cwd=tmp_path, env=site, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout.splitlines())
    engine, load, _, *warned = outputs[0]
    assert engine.startswith("error[E610]: no engine compiles the tally kernel sums")
    assert f"there is no engine tally; {LEFT[0]}; {LEFT[1]}" in load
    assert warned == sorted(LEFT) and outputs.count(outputs[0]) == len(outputs)
