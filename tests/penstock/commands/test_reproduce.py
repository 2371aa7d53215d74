"""`penstock reproduce`: a paper of an engine, printed, drawn and kept."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import penstock.engines.discovery
from penstock.cli.main import run
from penstock.models import plugins
from penstock.report.bars import bars
from penstock.report.parts import Chart, Column, Facts, Grid
from testbench.command_line import told

PNG = b"\x89PNG\r\n\x1a\n"
BARS = {
    "groups": ["one", "two"],
    "series": {"ours": [1.0, None], "theirs": [0.5, 2.0]},
    "marks": {"ours": [1.1, 0.9]},
    "unit": "times",
    "line": 1.0,
}
PARTS = (
    Facts.of(("source", "nobody"), title="Of a paper"),
    Grid((Column("a"), Column("b")), (("1", "2"),), "Figure 1"),
    Chart("bars", "Figure 1, drawn", BARS, "strokes are the paper's"),
)


def have(monkeypatch: pytest.MonkeyPatch, **papers: Any) -> None:
    """Let there be one engine with these papers, and none of other distributions."""
    elsewhere = {name: made for name, made in papers.items() if isinstance(made, str)}
    own = {name: made for name, made in papers.items() if name not in elsewhere}
    engine = SimpleNamespace(papers=own, elsewhere=elsewhere)
    monkeypatch.setattr(penstock.engines.discovery, "engines", lambda: {"toy": engine})
    offer(monkeypatch)


def offer(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """Let installed distributions offer these reports."""
    made = [EntryPoint(name, at, penstock.engines.discovery.PAPERS) for name, at in points.items()]
    monkeypatch.setattr(plugins, "_points", lambda group: (made, []))
    monkeypatch.setattr(plugins, "_LEFT", {})


@pytest.fixture(autouse=True)
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    have(monkeypatch, somebody=lambda: iter(PARTS))


def test_print() -> None:
    assert told("reproduce") == "somebody\n"
    out = told("reproduce somebody")
    assert "Figure 1" in out and "nobody" in out


def test_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"plain": lambda: iter(PARTS), "asked": lambda cpu=False: iter(PARTS[: 1 + 2 * cpu])}
    have(monkeypatch, absent="install it", **made)
    assert "asked has it" in told("reproduce plain --beside cpu", 1)
    assert "Figure 1" in told("reproduce asked --beside cpu")
    assert "Figure 1" not in told("reproduce asked")


def test_of_other_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of entry points; what a distribution gets wrong is named, and what is not installed."""
    have(monkeypatch, somebody=lambda: iter(PARTS), nobody="pip install nobody", here="pip …")
    offer(monkeypatch, here="builtins:list", odd="os:sep", somebody="os:getcwd", gone="no_such:it")
    said = told("reproduce")
    assert said.splitlines()[:3] == ["somebody", "here", "nobody      needs: pip install nobody"]
    for why in (
        "odd is left out: os:sep is no function that returns parts of a report",
        "somebody is left out: there is a paper somebody already",
        "gone is left out: ModuleNotFoundError",
    ):
        assert f"warning: the installed paper {why}" in said
    said = told("reproduce nobody", 1)
    assert "error[E905]: nobody is reproduced by a distribution of its own, which is not" in said
    assert "hint: pip install nobody; the installed paper gone" in said


def test_keep(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--plots", "plots", "--report", "r.html", "--json", "r.json"]
    assert run(["reproduce", "somebody", *files]) == 0
    assert [path.name for path in Path("plots").iterdir()] == ["figure-1-drawn.png"]
    assert Path("plots/figure-1-drawn.png").read_bytes().startswith(PNG)
    page = Path("r.html").read_text()
    assert page.count("<svg") == 1 and "strokes are the paper" in page
    said = json.loads(Path("r.json").read_text())
    assert said["paper"] == "somebody"
    assert said["parts"][1] == {"title": "Figure 1", "columns": ["a", "b"], "rows": [["1", "2"]]}
    capsys.readouterr()
    assert run(["reproduce", "somebody", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["somebdy"], "error[E905]: no engine reproduces 'somebdy'"),
        (["somebody", "--report", "r.txt"], "the page is HTML"),
        (["somebody", "--plots", "here.txt"], "here.txt is a file"),
        (["somebody", "--json", "no/r.json"], "there is no folder no"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    Path("here.txt").touch()
    assert message in told(["reproduce", *arguments], 1)
    assert [path.name for path in Path().iterdir()] == ["here.txt"]


def test_bars() -> None:
    drawn, _ = bars(**BARS, log=True)
    assert drawn.axes[0].get_yscale() == "log" and drawn.axes[0].get_ylim()[0] == 0.25
    with pytest.raises(ValueError, match="'a' has 1 numbers for 2 groups"):
        bars(groups=["x", "y"], series={"a": [1.0]})
