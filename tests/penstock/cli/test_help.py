"""What the command line says of itself: options in groups, completion in a shell, plug-ins, the schema of reports."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from jsonschema import ValidationError

from penstock.cli.main import program
from testbench.outside import commands, installed, record
from testbench.reported import check_report

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BASH = """
COMP_WORDBREAKS=${COMP_WORDBREAKS//:}
eval "$(_PENSTOCK_COMPLETE=bash_source penstock)"
COMP_WORDS=(penstock %s) COMP_CWORD=%d
_penstock_completion penstock
printf '%%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    folder = tmp_path_factory.mktemp("site")
    variables = installed(folder)
    record(folder, "broken", {"engines": {"absent": "nothing_at_all:ENGINE"}})
    with commands(variables) as run:
        yield run


def offered(*words: str) -> list[str]:
    """Return what is offered for the last word of a command line."""
    shell = ShellComplete(program, {}, "penstock", "_PENSTOCK_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("bu", ["build"]),
        ("simulate k.py --target ulx3s-8", ["ulx3s-85f", "ulx3s-85f-sdram"]),
        ("build k.py --board ice", ["icebreaker"]),
        ("check k.py --format bf", ["bfloat16"]),
        ("simulate k.py --backend p", ["pysim"]),
        ("explain TUPLE_N", ["TUPLE_NULL"]),
        ("explain E61", ["E610", "E614"]),
        ("targets small", ["small"]),
        ("reproduce dan", ["dana"]),
        (f"model {EXAMPLES}/rank_model.py:", [f"{EXAMPLES}/rank_model.py:slots"]),
        (f"check {EXAMPLES}/logistic.py:l", [f"{EXAMPLES}/logistic.py:logistic"]),
    ],
)
def test_completion(line: str, some: list[str]) -> None:
    found = offered(*line.split(" "))
    assert set(some) <= set(found)
    assert all(one.startswith(line.split(" ")[-1]) for one in found)


def test_completion_carries_nothing_out(tmp_path: Path) -> None:
    """The file is read, not run; one that is no Python offers nothing."""
    file = tmp_path / "k.py"
    text = "import penstock as ps\n1 / 0\n@ps.kernel(epochs=2)\ndef one(x): ...\ntwo = ps.ObliviousMap(capacity=3)\ndef other(): ...\n"
    file.write_text(text)
    assert offered("check", f"{file}:") == [f"{file}:one", f"{file}:two"]
    file.write_text("def (")
    assert offered("check", f"{file}:") == offered("check", f"{tmp_path}/none.py:") == []


def test_bash(tmp_path: Path) -> None:
    """In a shell, a colon in the word."""
    word = f"{EXAMPLES}/rank_model.py:sl"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH % (f"check {word}", 2)],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [f"{EXAMPLES}/rank_model.py:slots"], done.stderr


def test_help_has_groups(commanded: Callable[..., Any]) -> None:
    """Options stand under what they are for, an engine's under its name, an outside one's as well."""
    code, said, _ = commanded("simulate", "--help")
    titles = re.findall(r"─ ([^─]+) ─", said)
    for title in ("Data", "Target and numbers", "Output", "Simulation", "Engine analytics: plan"):
        assert title in titles, titles
    assert code == 0 and any(re.match(r"Engine tally: ", title) for title in titles), titles
    blocks = re.split(r"╭─ ", said)
    assert max(len(re.findall(r"(?m)^│ (?:\* )?\s*--", block)) for block in blocks) <= 16


def test_plugins(commanded: Callable[..., Any]) -> None:
    code, said, warned = commanded("plugins")
    assert code == 0 and "no: ModuleNotFoundError" in said and "penstock_tally" in said
    assert len(warned.splitlines()) == 1 and "absent is left out: ModuleNotFound" in warned
    code, said, _ = commanded("plugins", "--json")
    found = {(offer["kind"], offer["name"]): offer for offer in json.loads(said)}
    assert found["engine", "absent"]["why"].startswith("ModuleNotFoundError")
    assert found["engine", "absent"]["distribution"] == "broken 1.0"
    assert found["dialect", "tally"]["why"] == ""


def test_a_stub_with_names_from_outside(commanded: Callable[..., Any], tmp_path: Path) -> None:
    for _ in range(2):  # the second one replaces the first
        code, _, said = commanded("plugins", "--stub", str(tmp_path / "typings"))
        assert code == 0, said
    folder = tmp_path / "typings" / "penstock-stubs"
    module = ast.parse((folder / "__init__.pyi").read_text())
    defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    assert {"tally", "total", "kernel", "sum"} <= defined
    assert (folder / "py.typed").read_text() == "partial\n"


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"more": 1}, {"bit_exact": "yes"}, {"errors": [{"code": "E1"}]}, {"cycles": {"rtl": -1}}],
)  # fmt: skip
def test_the_schema_refuses(change: dict[str, Any]) -> None:
    report = {"schema": 1, "command": "simulate", "errors": []}
    assert check_report(report) is report
    with pytest.raises(ValidationError):
        check_report(report | change)
