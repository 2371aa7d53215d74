"""`penstock reproduce`: a paper of an engine, printed, drawn and kept."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import penstock.discovery
from penstock.cli import run
from penstock.report.bars import bars
from penstock.report.rows import Chart, Column, Facts, Grid
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


@pytest.fixture(autouse=True)
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = SimpleNamespace(papers={"somebody": lambda: iter(PARTS)})
    monkeypatch.setattr(penstock.discovery, "engines", lambda: {"toy": engine})


def test_print() -> None:
    assert told("reproduce") == "somebody\n"
    out = told("reproduce somebody")
    assert "Figure 1" in out and "nobody" in out


def test_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"plain": lambda: iter(PARTS), "asked": lambda cpu=False: iter(PARTS[: 1 + 2 * cpu])}
    monkeypatch.setattr(
        penstock.discovery, "engines", lambda: {"toy": SimpleNamespace(papers=made)}
    )
    assert "asked has it" in told("reproduce plain --beside cpu", 1)
    assert "Figure 1" in told("reproduce asked --beside cpu")
    assert "Figure 1" not in told("reproduce asked")


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
