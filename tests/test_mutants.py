"""tests/mutants.py, held to what it says of a checkout of one module."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from mutation.connections import CONNECTIONS, connections
from mutation.kinds import GROUPS, KINDS, drawn, group, mutants
from mutation.record import Record, statement

_spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
assert _spec and _spec.loader
tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tool)

TOY = '''"""A module."""
LIMIT: "int" = 3


def clipped(a: int, b: int) -> int:
    """What is said here does nothing."""
    if a > LIMIT and not b:
        return LIMIT
    if b == 7:
        a = b
    if a < 0:
        a = len("none")
    while b > 9:
        b = b - 1
    return a + b
'''
TESTS = """import subprocess, sys, time
from penstock.dsl.toy.lower import clipped as early

def test_long():  # takes more than --seconds of a collection
    from penstock.dsl.toy.lower import clipped
    assert clipped(2, 3) == 5
    begun = time.process_time()
    while time.process_time() < begun + 3:
        pass

def test_sum():  # the first to import the module: executes its lines
    from penstock.dsl.toy.lower import clipped
    assert clipped(1, 2) == 3

def test_limit():
    assert early(9, 0) == 3

def test_process():
    text = "from penstock.dsl.toy.lower import clipped; print(clipped(1, 7))"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True).stdout
    assert said == b"14\\n"
"""


def test_kinds() -> None:
    found = mutants("dsl/toy/lower.py", TOY)
    assert {m.kind for m in found} == set(KINDS) and len({m.key for m in found}) == len(found)
    for mutant in found:
        changed = mutant.planted(TOY)
        compile(changed, "toy", "exec")
        pairs = zip(TOY.splitlines(), changed.splitlines(), strict=True)
        assert [k for k, (old, new) in enumerate(pairs, 1) if old != new] == [mutant.line]
    told = {(m.kind, m.line, m.text) for m in found}
    assert told >= {
        ("number", 2, "4"),
        ("operator", 7, "(a > LIMIT or not b)"),
        ("operand", 7, "((a > LIMIT))"),
        ("negation", 7, "(b)"),
        ("condition", 7, "(False and (a > LIMIT and (not b)))"),
        ("condition", 11, "((a < 0) and not (b == 7))"),
        ("string", 12, "'non'"),
        ("operand", 15, "(b)"),
    }
    # a condition that left already is false in what follows: no conjunct is made of it
    assert not any("not (a > LIMIT" in text for *_, text in told)
    hardware = mutants("hdl/toy.py", "def f(m):\n    with m.If(self.a & self.b):\n        pass\n")
    assert "(0 & (self.a & self.b))" in {m.text for m in hardware}


def test_connections() -> None:
    """Fields, assignments and masks of hardware; nothing of what checks, declares or exports."""
    text = (
        "__all__ = ['A', 'B']\ndef __init__(self):\n    self.n = 5\ndef f(m):\n"
        "    for name in ('id', 'len'):\n        m.d.comb += [a.eq(Mux(c, 1, d)), b.eq(y[1])]\n"
        "    with m.If(a & b):\n        m.d.sync += a.eq(Cat(x, y))\n    raise ValueError(3)\n"
    )
    found = mutants("hdl/toy.py", text, connections)
    assert {m.kind for m in found} == set(CONNECTIONS) - {"negation"}
    assert {m.line for m in found} == {5, 6, 7, 8}
    told = {(m.kind, m.line, m.text) for m in found}
    assert told >= {
        ("field", 5, "('len',)"),
        ("connection", 6, "*[]"),
        ("swap", 6, "[a.eq(y[1]), b.eq(Mux(c, 1, d))]"),
        ("swap", 6, "Mux(c, d, 1)"),
        ("number", 6, "0"),
        ("condition", 7, "1"),
        ("operand", 7, "(a)"),
        ("connection", 8, "[]"),
    }


def test_drawing() -> None:
    """Groups and kinds alike; few are the first of many; keys stay when lines move."""
    modules = (
        "dsl/toy/lower.py",
        "models/toy/layout.py",
        "hdl/toy.py",
        *(f"host/{k}.py" for k in range(9)),
    )
    every = [mutant for module in modules for mutant in mutants(module, TOY)]
    some = drawn(every, 18, 5)
    assert Counter((group(m.module), m.kind) for m in some) == {
        (g, k): 1 for g in GROUPS for k in KINDS
    }
    assert drawn(every, 40, 5)[:18] == some != drawn(every, 18, 6)
    assert len(drawn(every, 10_000, 5)) == len(every)
    moved = [m for module in modules for m in mutants(module, f"import os\n{TOY}")]
    assert [m.key for m in drawn(moved, 40, 5)] == [m.key for m in drawn(every, 40, 5)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "src/penstock/__init__.py": "",
        "dsl/__init__.py": "",
        "dsl/toy/__init__.py": "",
        "dsl/toy/lower.py": TOY,
        "tests/test_toy.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['long']\n",
        "scripts/with-postgres": '#!/bin/sh\nexec "$@"\n',
    }
    for name, text in files.items():
        (path := tmp_path / "toy" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "toy", check=True)
    return tmp_path / "toy"


def test_order() -> None:
    """Likely judges come first: by name, seconds, what else they execute, what their file caught."""
    record = object.__new__(Record)
    (mutant,) = (m for m in mutants("hdl/toy/adder.py", TOY) if (m.line, m.text) == (15, "(a - b)"))
    file = "tests/toy/test_adder.py"
    own, case, broad = f"{file}::test_sum[1]", f"{file}::test_sum[2]", f"{file}::test_all"
    room, far, lost = (
        f"tests/{name}::test_it" for name in ("toy/test_room.py", "far.py", "gone.py")
    )
    record.seconds = dict.fromkeys((case, own, broad, room, far), 1.0)
    record.catches, record.passed = Counter(), Counter({broad: 9_000})
    record.keys, record.tests = {mutant.key: 0}, {0: {lost, far, broad, room, case, own}}

    def order() -> list[str]:
        return [test for test, _ in record.ordered(mutant)]

    assert order() == [own, case, broad, room, far]  # a file's tests together
    record.seconds[own] = 15.0
    assert order() == [case, broad, room, far, own]
    for _ in range(200):
        record.caught(mutant, far)
    assert order()[0] == far


def test_statements() -> None:
    """The innermost one that a run executes; 0 for what an import executes."""
    text = "A = 1\n@f\ndef g(x=2):\n    def h(y=3):\n        return (y +\n            1)\n    return h\n"
    text += "class C:\n    n = 5\n    def m(self):\n        class D:\n            k = 7\n"
    lines = [1, 3, 4, 5, 6, 7, 9, 11, 12]
    assert [statement(text, n, n) for n in lines] == [0, 0, 4, 5, 5, 7, 0, 11, 12]


def test_run(checkout: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests are those that execute the line; a run goes on where it ended; the checkout stays."""
    folder = tmp_path / "folder"
    given = ["--folder", str(folder), "--checkout", str(checkout), "--count", "1000"]

    def told() -> dict[tuple[int, str], dict[str, object]]:
        lines = (folder / "results.jsonl").read_text().splitlines()
        return {(t["line"], t["text"]): t for t in map(json.loads, lines)}

    assert tool.main(["collect", *given, "-n", "0", "--seconds", "0.5"]) == 1
    assert "1 failed, 3 passed" in capfd.readouterr().out
    (file,) = (folder / "record").glob("tests-*.jsonl")
    lines = file.read_text().splitlines()
    assert [t["ended"] for t in map(json.loads, lines)] == ["slow", *["passed"] * 3]
    assert tool.main(["collect", *given, "-n", "0"]) == 5  # all stand in the collection already
    lower = checkout / "dsl" / "toy" / "lower.py"
    lower.write_text(f"# newer\n{TOY}")
    every = mutants("dsl/toy/lower.py", lower.read_text())
    wanted = [m.key for m in every if (m.line, m.text) in PLACES]
    tool.main(["run", *given, *wanted[:2]])
    tool.main(["run", *given, *wanted])
    found = told()
    assert {place: t["end"] for place, t in found.items()} == PLACES
    assert len((folder / "results.jsonl").read_text().splitlines()) == len(PLACES)
    assert found[16, "(a - b)"]["by"] == "tests/test_toy.py::test_sum"
    assert found[10, "8"]["by"] == "tests/test_toy.py::test_process"  # planted there too
    assert found[13, "'non'"]["by"] == "nothing executes it"
    assert lower.read_text() == f"# newer\n{TOY}"
    tool.main(["run", *given, "--again", "MISSED", *wanted])
    assert len((folder / "results.jsonl").read_text().splitlines()) == len(PLACES) + 1
    capfd.readouterr()
    tool.main(["table", *given])
    assert "| all | " in (text := capfd.readouterr().out) and text.count("MISSED  ") == 1
    one = [m.key for m in every if (m.line, m.text) == (16, "(a - b)")]
    tool.main(["run", *given, "--again", "caught", "--tests", "tests/test_toy.py::test_sum", *one])
    assert told()[16, "(a - b)"]["tests"] == 1 and told()[16, "(a - b)"]["end"] == "caught"


#: mutants of the newer module, and how they end
PLACES = {
    (3, "4"): "caught",
    (8, "(b)"): "caught",
    (10, "8"): "caught",
    (13, "'non'"): "MISSED",
    (16, "(a - b)"): "caught",
}
