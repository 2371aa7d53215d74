"""Dialects: their names in `penstock`, the arrows between their packages, and those of other distributions."""

from __future__ import annotations

import ast
import builtins
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock import stub
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.dsl.dialect import dialects, names, own_dialects

ROOT = Path(__file__).parents[2]

#: a dialect of another distribution: one keyword, a kind of parameters, a function of its own beside Penstock's
TOY = '''
import penstock as ps
from dataclasses import dataclass
from pathlib import Path
from penstock.dsl.core.builder import GraphBuilder, Ref
from penstock.dsl.core.functions import VALUES
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.python import Traced
from penstock.dsl.core.text import Body, Written
from penstock.dsl.dialect import Dialect, Words, function

@function
def twice(builder: GraphBuilder, span, v, *, times=2) -> Ref:
    """The value, so many times."""
    return builder.elementwise("mul", [v, times], span)

assert ps.Kernel and not hasattr(ps, "toy")  # names may be asked for while the module is imported

@dataclass
class Toy(AnyKernel):
    keyword = "toy"
    gain: int = 1

    def check(self, dims=None):
        self.check_dims(dims or {})
        builder = GraphBuilder(self.dialect, self.parameters, dims or {}, self.source)
        self.body(builder)
        self.nodes = [(node.op, node.inputs, node.shape) for node in builder.nodes]
        return []

    def set_option(self, name, value, span):
        self.gain = value

class PythonToy(Traced, Toy):
    def body(self, builder):
        return self.plain(builder, self.run(builder), self.name_span)

class Statements(Body):
    def update(self, token, value, span):
        self.value = value

class TextToy(Written, Toy):
    def body(self, builder):
        statements = Statements(self, builder)
        statements.run()
        return statements.value

def options(*, gain: int = 1) -> None:
    """Make a toy."""

DIALECT = Dialect(keyword="toy", kinds=("signal", "input"), functions={**VALUES, "twice": twice}, kernel=Toy,
                  python=PythonToy, text=TextToy, options=options,
                  words=Words("a toy kernel", "@ps.toy(gain=2)", "s: signal", ('ps.Signal["n"]', "signal[n]"), "a value"),
                  pages=Path(__file__).with_name("toy_pages"))
'''
USE = """
from pathlib import Path
import penstock as ps
from penstock.dsl.core.codes import explain
from penstock.dsl.core.load import from_text, load_kernel

HEAD = "import penstock as ps\\n\\n"
def python(text):
    Path("case.py").write_text(HEAD + text)
    kernel = load_kernel("case.py")
    kernel.check()
    return kernel

one = python('@ps.toy(gain=3)\\ndef f(s: ps.Signal["n"], x: ps.Input):\\n    return ps.sum(ps.twice(s, times=3)) + x\\n')
two = from_text("toy f(s: signal[n], x: input)\\n  y <- sum(twice(s, times=3)) + x\\n", "case.psk")
two.check()
assert one.nodes == two.nodes and one.gain == 3, (one.nodes, two.nodes)
print(type(one).__mro__[2].__name__, one.nodes[-1][0], ps.Toy.__name__, "toy" in dir(ps))

def message(act):
    try:
        act()
    except ps.KernelError as problem:
        print(problem.diagnostic.code, problem.diagnostic.message, "|", problem.diagnostic.hint)

print(explain("T101"), end="")
assert "Not this one" not in explain("E101")
message(lambda: python('@ps.kernel\\ndef f(x: ps.Input, w: ps.Model):\\n    return w - ps.twice(x)\\n'))
message(lambda: from_text("kernel f(x: signal, w: model)\\n  w <- w - x\\n").check())
message(lambda: from_text("toy f(s: signal)\\n  y <- merge(s)\\n").check())
message(lambda: from_text("toy f(w: model)\\n  y <- w\\n").check())
message(lambda: from_text("toy f(s: signal)\\n  epochs 3\\n  y <- s\\n").check())
message(lambda: from_text("toy f(s: signal = 3)\\n  y <- s\\n").check())
message(lambda: from_text("toy f(s)\\n  y <- s\\n").check())
message(lambda: python('@ps.toy(gian=3)\\ndef f(s: ps.Signal):\\n    return s\\n'))
"""


def outside(tmp_path: Path, entry_points: str, **modules: str) -> dict[str, str]:
    """Lay out an installed distribution with these modules; returns the environment in which Python finds it."""
    site = tmp_path / "site"
    info = site / "toy_dialect-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-dialect\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[penstock.dialects]\n{entry_points}\n")
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    return os.environ | {"PYTHONPATH": str(site)}


def run(script: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Run a script in a folder of its own; returns the lines that it prints."""
    command = [sys.executable, "-W", "error", "-W", "ignore:the installed", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_outside_dialect(tmp_path: Path) -> None:
    environment = outside(tmp_path, "toy = toy_dialect:DIALECT", toy_dialect=TOY)
    pages = tmp_path / "site" / "toy_pages"
    pages.mkdir()
    (pages / "T101.md").write_text("# T101: A toy that is broken\n")
    (pages / "E101.md").write_text("# E101: Not this one\n")
    begin = "write @ps.toy above the function (as text: `toy name(s: signal)`)"
    assert run(USE, tmp_path, environment) == [
        "Toy add Toy True",
        "# T101: A toy that is broken",
        f"E451 twice is a function of a toy kernel, not of one that learns tuple by tuple | {begin}",
        f"E457 x is a signal, which only a toy kernel takes | {begin}",
        "E451 merge is a function of a kernel, not of a toy kernel | write @ps.kernel above the function "
        "(as text: `kernel name(x: input[d], y: output, w: model[d])`)",
        "E457 w is a model, which only a kernel takes | write @ps.kernel above the function "
        "(as text: `kernel name(x: input[d], y: output, w: model[d])`)",
        "E453 a toy kernel has no epochs | leave it out",
        "E403 the signal s has a default; parameters of a toy kernel have none | leave it out",
        "E401 the parameter s has no kind | the kinds are Signal, Input (as text in lower case), "
        'as in `s: ps.Signal["n"]` or `s: signal[n]`',
        "E203 toy has no argument gian | usage: @ps.toy(gain=2)",
    ]


def test_what_is_wrong_with_an_outside_dialect_is_said_where_it_is_missed(tmp_path: Path) -> None:
    taken = TOY.replace('keyword="toy"', 'keyword="fit"')
    points = "none = toy_dialect:Toy\nraises = toy_raises:DIALECT\ntaken = toy_taken:DIALECT"
    modules = {"toy_dialect": TOY, "toy_raises": "1 / 0", "toy_taken": taken}
    script = """
from pathlib import Path
from penstock.dsl.core.load import from_text, load_kernel
Path("case.py").write_text("import penstock as ps\\n@ps.toy\\ndef f(s): return s\\n")
for act in (lambda: load_kernel("case.py"), lambda: from_text("toy f(s: signal)")):
    try:
        act()
    except Exception as problem:
        print(problem.diagnostic.message, "|", problem.diagnostic.hint.partition("; ")[2])
"""
    why = (
        "the installed dialect none is left out: toy_dialect:Toy is no penstock.dsl.dialect.Dialect; "
        "the installed dialect raises is left out: ZeroDivisionError: division by zero; "
        "the installed dialect taken is left out: there is a keyword fit already"
    )
    assert run(script, tmp_path, outside(tmp_path, points, **modules)) == [
        f"penstock has nothing called toy | {why}",
        f"a kernel begins with the word kernel, not with toy | {why}",
    ]


def test_stub_is_current() -> None:
    written = Path(stub.__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    assert written == stub.stub(), "python -m penstock.stub"


def test_names_of_penstock() -> None:
    assert set(names()) <= set(dir(ps))
    assert all(getattr(ps, name) is not None for name in dir(ps))
    assert ps.merge.__doc__ and "row order" in ps.merge.__doc__
    star: dict[str, object] = {}
    exec("from penstock import *", star)
    hidden = {name for name in dir(ps) if hasattr(builtins, name)}
    assert set(dir(ps)) - {"__version__"} - hidden <= set(star)


def test_shared_modules_know_no_dialect() -> None:
    """No import of theirs leads to a package of `dsl` but `core`."""
    shared = [ROOT / "dsl" / "dialect.py", *(ROOT / "dsl" / "core").rglob("*.py")]
    packages = {path.parent.name for path in (ROOT / "dsl").glob("*/__init__.py")} - {"core"}
    assert len(packages) >= 2
    for path in shared:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                where = {*(node.module or "").split("."), *(alias.name for alias in node.names)}
                outer = node.level == 2 or (node.module or "").startswith("penstock.dsl")
                assert not (outer and where & packages), f"{path}:{node.lineno}"
            elif isinstance(node, ast.Import):
                assert not any(a.name.startswith("penstock.dsl") for a in node.names), path


def test_every_function_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "dsl.md").read_text(encoding="utf-8") + (
        ROOT / "docs" / "explanation" / "qr.md"
    ).read_text(encoding="utf-8")
    for dialect in own_dialects():
        for name in dialect.functions:
            assert f"`{name}(" in reference or f" {name}(" in reference, name


def test_keywords() -> None:
    assert {"kernel", "fit"} <= set(dialects())


def test_files_hold_kernels_of_both_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("both.py").write_text("""from __future__ import annotations
import penstock as ps

@ps.kernel
def learns(x: ps.Input["d"], w: ps.Model["d"]):
    return w - x

@ps.fit
def fits(key: ps.Key):
    return ps.least_squares(ps.window(key, 8), target=ps.rank(key))
""")
    assert isinstance(load_kernel("both.py:learns"), ps.Kernel)
    assert isinstance(load_kernel("both.py:fits"), ps.FitKernel)
    with pytest.raises(KernelError, match=r"both\.py has 2 kernels: learns, fits"):
        load_kernel("both.py")
    Path("f.psk").write_text(
        "# a comment\nfit f(\n  key: key,\n)\n  model <- least_squares(\n    window(key, 8),\n    target=rank(key))\n"
    )
    assert load_kernel("f.psk:f").name == "f"
