"""Plug-ins that cannot be used: each command and the Python API name them with the reason, and what needs none of them works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.designs.folder import sealed
from penstock.output import write_folder
from testbench.outside import KERNEL, PACKAGE, commands, record

LOGISTIC = str(Path(__file__).resolve().parents[3] / "examples" / "logistic.py")
ENGINE = """
from penstock.engines.base import Engine
from penstock.engines.options import Option

class Broken(Engine):
    name, kernels = "broken", ()
    passes = load = sections = None

class Options(Broken):
    options = {"check": (Option("dims", str, None, "", flag="--dimension"),)}

class Names(Broken):
    names = {"report": "os:path"}

class Commands(Broken):
    commands = property(lambda self: 1 // 0)
"""
DIALECT = """
from dataclasses import replace
from penstock_tally.dialect import DIALECT as tally, total

shadow = replace(tally, keyword="shadow", functions={"report": total})
names = replace(tally, keyword="names", functions={"plugins": total})
api = replace(tally, keyword="compile")
"""
#: entry points by group, each with the reason why it is left out; none where it is not
POINTS = {
    "set of boards": {"none": ("os:nothing", "AttributeError: module 'os' has no attribute 'nothing'")},
    "dialect": {
        "api": ("a_dialect:api", "its name compile is taken: penstock.compile is Penstock's own"),
        "names": ("a_dialect:names", "its name plugins is taken: penstock.plugins is Penstock's own"),
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
FLOWS = """
from pathlib import Path
from penstock.export import Flow

def flow(path, name):
    return Flow(path, Path(__file__).with_name(name), "a list")

right, absent = flow("{ip}.lst", "right"), flow("{ip}.lst2", "absent")
above, ours, taken = (flow(path, "right") for path in ("../{ip}", "rtl/{ip}.lst", "{ip}.core"))
names, syntax, fails = (flow(f"{{ip}}.{name}", name) for name in ("names", "syntax", "fails"))
place, braces = flow(3, "right"), flow("{core}", "right")
"""
#: templates of these, and why each flow is left out
TEMPLATES = {
    "right": "{% for name in sources %}{{ name }} {{ range(2) | list }}{% endfor %}",
    "names": "{{ ip }} {{ modules }} {{ files }}",
    "syntax": "{% for name in sources %}",
    "fails": "{{ design.colour }}",
}
WRONG = {
    "above": "its file ../{ip} is none that an export has room for",
    "absent": "FileNotFoundError: ",
    "braces": "KeyError: 'core'",
    "litex": "there is another export litex",
    "names": "its template asks for files, modules, which there is not",
    "ours": "its file rtl/{ip}.lst is none that an export has room for",
    "place": "AttributeError: 'int' object has no attribute 'format'",
    "syntax": "TemplateSyntaxError: ",
    "taken": "another export writes {ip}.core",
}
#: distributions whose entry_points.txt cannot be read
FILES = {
    "letters": (b"[console_scripts]\n\xff = os:sep\n", "UnicodeDecodeError: "),
    "line": (b"[console_scripts]\nnothing\n", "TypeError: "),
}
LEFT = [
    f"the installed {kind} {name} is left out: {why}"
    for kind, points in POINTS.items()
    for name, (_, why) in points.items()
    if why is not None
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of an environment in which all of them are installed."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in (("engine", ENGINE), ("dialect", DIALECT), ("exit", "raise SystemExit(3)")):
        (folder / f"a_{name}.py").write_text(text)
    groups = zip(("boards", "dialects", "engines"), POINTS.values(), strict=True)
    record(
        folder,
        "broken",
        {group: {name: at for name, (at, _) in points.items()} for group, points in groups},
    )
    return {"PYTHONPATH": f"{folder}{os.pathsep}{PACKAGE}"}


@pytest.fixture(scope="module")
def penstock(site: dict[str, str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    with commands(site) as run:
        yield run


@pytest.mark.parametrize("name", FILES)
def test_a_list_that_cannot_be_read(name: str, site: dict[str, str], tmp_path: Path) -> None:
    """The package is named, and everything else is as without it."""
    (made := tmp_path / f"{name}-1.dist-info").mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (made / "entry_points.txt").write_bytes(FILES[name][0])
    with commands({"PYTHONPATH": f"{tmp_path}{os.pathsep}{site['PYTHONPATH']}"}) as run:
        code, _, said = run("targets")
    why = f"the installed distribution {name} is left out: its entry_points.txt cannot be read: "
    [one] = [line for line in said.splitlines() if why + FILES[name][1] in line]
    rest = [line for line in said.splitlines() if line != one]
    assert code == 0
    assert rest == [f"warning: {left}; mend or uninstall its package" for left in LEFT]


@pytest.mark.parametrize("line", ["targets", "--version", "explain E101", f"check {LOGISTIC}"])
def test_every_command_names_them(line: str, penstock: Callable[..., Any]) -> None:
    code, _, said = penstock(*line.split())
    assert code == 0
    assert said.splitlines() == [f"warning: {left}; mend or uninstall its package" for left in LEFT]
    assert penstock("check", LOGISTIC, "-q") == (0, "", "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("check sums.py", "E620"),
        (f"check {LOGISTIC} --target mine", "E602"),
        ("explain TALLY_FORBIDDEN", "E901"),
        ("reproduce tally", "E905"),
        (f"check {LOGISTIC} --fault 3", "E902"),
        (f"build {LOGISTIC} --board mine --out o", "E821"),
    ],
)
def test_what_they_may_explain(
    line: str, code: str, penstock: Callable[..., Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sums.py").write_text(KERNEL)
    exit_code, _, said = penstock(*line.split())
    hint = said.partition("\nhint: ")[2]
    assert exit_code == 1 and f"error[{code}]: " in said and "Traceback" not in said
    assert all(left in hint for left in LEFT)


def test_from_python(site: dict[str, str], tmp_path: Path) -> None:
    """The dialect's names mean the same whatever is imported before; each plug-in is warned of once."""
    (tmp_path / "sums.py").write_text(KERNEL)
    write_folder(tmp_path / "d", sealed({"engine": "tally"}, {"penstock.v": b""}))
    script = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import penstock as ps
    FIRST
    for act in (lambda: ps.compile("sums.py"), lambda: ps.load("d")):
        try:
            act()
        except (ps.KernelError, ValueError) as problem:
            print(str(problem).replace("\\n", " "))
    for name in ("shadow", "report", "plugins"):
        print(callable(getattr(ps, name, None)), end=" ")
    print()
print(*sorted(str(w.message) for w in seen), sep="\\n")
"""
    before = ["pass", "import penstock.report", "hasattr(ps, 'report'); import penstock.report"]
    outputs = []
    for first in before:
        command = [sys.executable, "-c", script.replace("FIRST", first)]
        outputs.append(
            subprocess.check_output(
                command, cwd=tmp_path, env=os.environ | site, text=True
            ).splitlines()
        )
    engine, load, _, *warned = outputs[0]
    assert engine.startswith("error[E620]: no engine compiles the tally kernel sums")
    assert f"there is no engine tally; {LEFT[0]}; {LEFT[1]}" in load
    assert warned == sorted(LEFT) and outputs.count(outputs[0]) == len(outputs)


def test_exports(tmp_path: Path) -> None:
    """What `penstock plugins` says of flows is what `--for` takes; a template that fails on use is named, too."""
    (tmp_path / "a_flow.py").write_text(FLOWS)
    for name, text in TEMPLATES.items():
        (tmp_path / name).write_text(text)
    points = {name: f"a_flow:{name}" for name in (*WRONG, "right", "fails") if name != "litex"}
    record(tmp_path, "flows", {"exports": points | {"litex": "a_flow:right"}})
    with commands({"PYTHONPATH": str(tmp_path)}) as run:
        code, out, _ = run("plugins", "--json")
        found = {one["name"]: one["why"] for one in json.loads(out) if one["kind"] == "export"}
        words = ("export", LOGISTIC, "--dim", "d=2", "--out", str(tmp_path / "o"), "--ip", "core")
        failed, _, said = run(*words, "--for", "fails")
        unknown, _, left = run(*words, "--for", "names")
    assert code == 0 and found.keys() == WRONG.keys() | {"right", "fails"}
    assert found["right"] == found["fails"] == ""
    assert all(found[name].startswith(why) for name, why in WRONG.items())
    assert failed == 1 and "the template of fails: " in said and "has no attribute 'colour'" in said
    assert unknown == 1 and WRONG["names"] in left and not (tmp_path / "o").exists()
