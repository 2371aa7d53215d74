"""How diagnostics look, and their pages."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.dsl.core import codes
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Note, Span, error, render
from penstock.dsl.core.load import from_text

ROOT = Path(__file__).parents[3]


def test_several_places() -> None:
    found = Diagnostic(
        "E999",
        "odd",
        Span("f", 10, 3, 10, 5),
        (Note(Span("f", 2, 1, 2, 2), "first here"),),
        hint="try again",
    )
    source = "\n".join(f"line {i}" for i in range(1, 11))
    assert render(found, source) == (
        "error[E999]: odd\n  --> f:10:3\n   |\n10 | line 10\n   |   ^^\n"
        "note: first here\n  --> f:2:1\n   |\n 2 | line 2\n   | ^\nhint: try again"
    )


def test_every_diagnostic_has_a_hint() -> None:
    with pytest.raises(TypeError, match="hint"):
        Diagnostic("E999", "odd", Span.whole("f"))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="hint"):
        error("E999", "odd", Span.whole("f"))  # type: ignore[call-arg]
    assert render(Diagnostic("E999", "odd", Span.whole("f"), hint="")).endswith(
        "\nhint: `penstock explain E999` has more"
    )


#: what makes a diagnostic, and which of its arguments is the hint
MAKERS = {
    "error": None,
    "_error": 4,
    "wrong": 2,
    "Diagnostic": None,
    "SourceError": 1,
    "OutputError": 1,
    "_shape_error": None,
}
#: they make hints of their own where they are given none
MAKE_HINTS = ("_shape_error",)


def calls() -> Iterator[tuple[str, ast.Call]]:
    for folder in ("dsl", "penstock", "host/sources"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    name = (
                        node.func.id
                        if isinstance(node.func, ast.Name)
                        else getattr(node.func, "attr", "")
                    )
                    if name in MAKERS:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_no_diagnostic_is_made_without_words_in_its_hint() -> None:
    """An empty hint falls back on the code's page; whoever writes a new diagnostic must have something better to say."""
    found = list(calls())
    assert len(found) > 150
    for place, node in found:
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr  # type: ignore[attr-defined]
        hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
        position = MAKERS[name]
        if not hints and position is not None and len(node.args) > position:
            hints = [node.args[position]]
        if not hints:
            # `wrong` of constants.py has a hint by default
            assert name in (*MAKE_HINTS, "wrong"), f"{place} gives no hint"
        for hint in hints:
            assert not (isinstance(hint, ast.Constant) and not hint.value), (
                f"{place} gives an empty hint"
            )


def test_tabs_stay_tabs() -> None:
    assert render(Diagnostic("E999", "odd", Span("f", 1, 4, 1, 6), hint="h"), "\ta\tbb").endswith(
        "\n1 | \ta\tbb\n  | \t \t^^\nhint: h"
    )


def test_several_lines() -> None:
    source = "a = (\n  b +\n  c)\nd"
    assert render(Diagnostic("E999", "odd", Span("f", 1, 5, 3, 5), hint="h"), source) == (
        "error[E999]: odd\n --> f:1:5\n  |\n1 | a = (\n  |     ^\n2 |   b +\n  |   ^^^\n3 |   c)\n  |   ^^\nhint: h"
    )


def test_very_many_lines_are_cut() -> None:
    source = "\n".join(["x"] * 50)
    shown = render(Diagnostic("E999", "odd", Span("f", 1, 1, 50, 2), hint="h"), source)
    assert shown.count("^") == 5
    assert "\n   ...\n50 | x\n" in shown


def test_very_long_lines_are_cut() -> None:
    shown = render(
        Diagnostic("E999", "odd", Span("f", 1, 1001, 1, 1003), hint="h"),
        "x" * 1000 + "yy" + "x" * 1000,
    )
    line, carets = shown.split("\n")[-3:-1]
    assert len(line) < 180
    assert line[carets.index("^") :].startswith("yy")
    assert carets.endswith("^^")


@pytest.mark.parametrize(
    "span",
    [
        Span("no_such_file", 3, 1, 3, 2),
        Span.whole("no_such_file"),
        Span("no_such_file", 99, 1, 99, 2),
    ],
)
def test_without_source(span: Span) -> None:
    assert render(Diagnostic("E999", "odd", span, hint="h")).startswith("error[E999]: odd\n")
    assert "^" not in render(Diagnostic("E999", "odd", span, hint="h"))


def test_places_outside_the_line_do_no_harm() -> None:
    for span in (Span("f", 1, 50, 1, 60), Span("f", 1, 2, 9, 9), Span("f", 7, 1, 7, 2)):
        assert render(Diagnostic("E999", "odd", span, hint="h"), "abc").startswith("error[E999]")
    assert render(Diagnostic("E999", "odd", Span("f", 1, 1, 1, 1), hint="h"), "\n").endswith(
        "^\nhint: h"
    )


def test_json() -> None:
    found = Diagnostic(
        "W999",
        "odd",
        Span("f", 1, 2, 3, 4),
        (Note(Span("g", 1, 1, 1, 2), "see"),),
        hint="h",
        severity="warning",
    )
    place = {"file": "g", "line": 1, "column": 1, "end_line": 1, "end_column": 2}
    assert json.loads(json.dumps(found.to_json())) == {
        "code": "W999",
        "severity": "warning",
        "message": "odd",
        "span": {"file": "f", "line": 1, "column": 2, "end_line": 3, "end_column": 4},
        "notes": [{"label": "see", "span": place}],
        "hint": "h",
    }
    assert render(found).startswith("warning[W999]: odd\n")


def test_every_code_in_use_has_a_page() -> None:
    used = set()
    for path in Path(codes.__file__).parents[1].rglob("*.py"):
        used |= set(re.findall(r'"([EW]\d{3})"', path.read_text(encoding="utf-8")))
    assert used <= set(codes.codes())


def test_site_has_every_page() -> None:
    """By its code as an anchor, in a group, with its whole text."""
    groups, pages = [], []
    for line in codes.document().splitlines():
        if found := re.fullmatch(r"### ([EW]\d+): .+ \{#([ew]\d+)\}", line):
            assert found[1].lower() == found[2] and groups
            pages.append(found[1])
        elif line.startswith("## "):
            groups.append(line)
    assert pages == [*codes.codes()]
    assert codes.explain("E901").split("\n", 1)[1].strip() in codes.document()


def test_explain() -> None:
    assert codes.explain("e301").startswith("# E301: Shapes do not fit\n")
    with pytest.raises(KernelError) as caught:
        codes.explain("E302x")
    assert (
        str(caught.value)
        == "error[E901]: there is no diagnostic E302x\n --> explain\nhint: did you mean E302?"
    )


def test_message_in_the_language_reference() -> None:
    shown = (
        (ROOT / "docs" / "reference" / "dsl.md")
        .read_text(encoding="utf-8")
        .split("## Messages\n\n```\n")[1]
        .split("\n```")[0]
    )
    with pytest.raises(KernelError) as caught:
        from_text("kernel f(x: input[n], w: model[d])\n  w <- w - w * x", "bad.psk").check()
    assert str(caught.value) == shown
