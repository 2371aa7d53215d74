"""Passes: each works alone on the text of the form that the one before gave, and that text says all that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import penstock as ps
from penstock.dsl.core.load import from_text, load_kernel
from penstock.engines.base import Given
from penstock.engines.discovery import engine_of, engines
from penstock.host.sources import open_table
from penstock.passes.compiling import compiled, passes_of
from penstock.passes.form_text import FormError, read, written
from penstock.passes.forms import Designed, Request
from penstock.targets import target_named
from testbench.command_line import told
from testbench.small_examples import EXAMPLES, KERNELS, small

#: one of each engine and kind; the others with --long
FEW = ("group_by.py", "logistic.py", "closed_form.py", "mamba2.py", "rank_model.py:slots")
LINEAR = str(EXAMPLES / "linear.py")


def request(kernel: Any, **options: Any) -> Request:
    part = target_named(options.pop("target", engine_of(kernel).default_target))
    given = {name: options.pop(name) for name in ("format", "data", "source") if name in options}
    return Request(kernel, part, Given(**given, options=options))


def first(of: Request) -> Any:
    """Return the form of the first pass."""
    return engine_of(of.kernel).passes[0](of)


def through_texts(of: Request, **outside: Any) -> Any:
    """Return the design that the engine's passes make, each of what the text of the form before says."""
    form: Any = of
    for one in passes_of(engine_of(of.kernel))[:-1]:
        text = written(one.run(form))
        form = read(text, one.gives, outside)
        assert written(form) == text, one.name
    return form.design


def directly(of: Request) -> Any:
    return compiled(engine_of(of.kernel), of.kernel, of.part, of.args)


def same(design: Any, expected: Any) -> None:
    """Demand equal designs, but for the options as they are typed, which no pass knows."""
    texts = design.manifest(), expected.manifest()
    assert texts[0] == {name: value for name, value in texts[1].items() if name != "asked"}
    assert design.refused == expected.refused


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FEW else pytest.mark.long) for n in KERNELS]
)
def test_each_alone(name: str, tmp_path: Path) -> None:
    kernel, options = small(name, tmp_path)
    asked = request(load_kernel(kernel), **options)
    same(through_texts(asked), directly(asked))


def test_map_alone() -> None:
    declared = ps.ObliviousMap(value=ps.bytes(8), capacity=300, name="m")
    asked = request(declared, share=0.5, window=2, channels=1)
    same(through_texts(asked), directly(asked))


def test_table_beside() -> None:
    """A table is in no text; what was read of it is, and whoever reads the form gives the rest."""
    table = open_table({"x": [[1, 2], [3, 4]], "y": [1, 0]})
    asked = request(load_kernel(LINEAR), data=table, source="t.csv")
    text = written(first(asked))
    with pytest.raises(FormError, match="its data must be given beside the text"):
        read(text, type(first(asked)))
    same(through_texts(asked, data=table), directly(asked))


def test_front_ends_agree() -> None:
    """A function and a text that compute the same have the same first form, but for where they are written."""

    def plain(kernel: Any) -> str:
        text = written(first(request(kernel, dims={"d": 3})))
        text = re.sub(r"source='''.*?'''", "", text, flags=re.DOTALL)
        return re.sub(r"at\('[^']*'\)|file='[^']*'", "", text)

    assert plain(load_kernel(LINEAR)) == plain(load_kernel(EXAMPLES / "linear.psk"))


def test_diagnostics_stay() -> None:
    """What a pass refuses, it refuses alike of a form that was read: with place, source and hint."""
    text = "kernel f(x: input[d], y: output, w: model[d])\n  w <- w - merge((sum(w * x) - y) * x)\n"
    asked = request(from_text(text, "f.psk"), dims={"d": 4}, ports=4)
    steps = {one.name: one for one in passes_of(engine_of(asked.kernel))}
    form = steps["check"].run(steps["bind"].run(asked))
    messages = []
    for one in (form, read(written(form), steps["check"].gives)):
        with pytest.raises(ps.KernelError) as problem:
            steps["choose"].run(one)
        messages.append(str(problem.value))
    assert messages[0] == messages[1]
    unused = from_text(text.replace("y: output", "y: output, z: input"), "f.psk")
    warned = first(request(unused, dims={"d": 4}))
    assert warned.warnings and read(written(warned), type(warned)).warnings == warned.warnings


def test_contracts() -> None:
    """A pass takes what the one before gives, and its docstring has a line for the list, and a form before and after."""
    for engine in engines().values():
        taken: Any = Request
        for one in passes_of(engine):
            hints = get_type_hints(one.run)
            takes, gives = (hints.pop("return"), *hints.values())[::-1]
            between = {*(get_args(taken) or (taken,))}
            wanted = get_args(takes) or (takes,)
            assert all(issubclass(kind, wanted) for kind in between), one.name
            assert one.gives == gives
            assert len(one.contract.partition("\n")[0]) < 60
            assert re.search(r"^Before: .*\n *After: ", one.contract, re.MULTILINE), one.name
            taken = gives
        assert issubclass(get_type_hints(engine.passes[-1])["return"], Designed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "Bound(",
        "__import__('os').getcwd()",
        "open('form')",
        "Bound(**{})",
        "Bound(graph=1)",
        "[x for x in y]",
        "Bound(origin=Span(file='f', line='1', column=1, end_line=1, end_column=1))",
        "(" * 300,
    ],
)
def test_no_form(text: str) -> None:
    with pytest.raises(FormError):
        read(text, type(first(request(load_kernel(LINEAR), dims={"d": 3}))))


def test_other_types() -> None:
    form = first(request(load_kernel(LINEAR), dims={"d": 3}))
    with pytest.raises(FormError, match=r"its graph\.epochs is of another type"):
        read(written(form).replace("epochs=20", "epochs='20'"), type(form))


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = told("compile --passes").splitlines()
    assert len(lines) < 30
    for engine in engines().values():
        for one in passes_of(engine):
            assert any(one.name in line for line in lines)
    compile_linear = f"compile {LINEAR} --dim d=3"
    text = told(f"{compile_linear} --stop-after lower --print-after lower")
    assert "fn='mul'" in text and not list(tmp_path.iterdir())
    verilog = told(f"{compile_linear} --stop-after emit --print-after emit")
    assert "\nmodule penstock (" in verilog
    both = told(f"{compile_linear} --print-after bind --print-after choose --out d")
    assert both.startswith("Bound(") and "\nChosen(" in both
    assert (tmp_path / "d" / "penstock.v").exists()
    wrong = told(f"{compile_linear} --stop-after scale", 1)
    assert "the engine analytics has no such pass" in wrong and "bind, check, choose" in wrong
    late = told(f"{compile_linear} --stop-after lower --print-after schedule", 1)
    assert "compiling stops after lower, which is before it" in late
    assert "write --stop-after schedule" in late
    assert "makes no design" in told(f"{compile_linear} --stop-after bind --out e", 1)
    assert "missing option '--out'" in told(compile_linear, 1)
