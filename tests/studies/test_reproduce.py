"""The distribution of studies, as `penstock reproduce` finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock_studies
from penstock.engines.discovery import engines, papers
from penstock.models import plugins
from penstock.report.charts import draw
from penstock.report.parts import Chart, Facts, Grid
from testbench.command_line import told

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("pimba", "neupims", "fusemax")


def test_installed() -> None:
    """Every file of the distribution is in what is installed."""
    folder = ROOT / "studies" / "penstock_studies"
    installed = Path(penstock_studies.__path__[0])
    for path in folder.rglob("*"):
        if path.suffix in (".py", ".toml", ".typed"):
            assert (installed / path.relative_to(folder)).is_file(), path


@pytest.mark.parametrize("name", NAMES)
def test_found(name: str) -> None:
    assert callable(papers()[name])
    assert name in engines()["pim"].elsewhere


@pytest.mark.parametrize("name", NAMES[1:])
def test_printed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell is whole at 80 columns; each chart is drawn; what it says in words has no gap."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = told(f"reproduce {name}").splitlines()
    for part in papers()[name]():
        if isinstance(part, Chart):
            assert draw(part)
        elif isinstance(part, Grid):
            for row in part.rows:
                cells = [[*map(str.strip, line.split("│"))][1:-1] for line in lines]
                assert list(row) in cells, row
        else:
            assert isinstance(part, Facts) and not any("{" in str(row.value) for row in part.rows)


@pytest.mark.parametrize("name", NAMES)
def test_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One diagnostic that says what to install; the list says it too."""
    monkeypatch.setattr(plugins, "load", lambda *_: None)
    said = told(f"reproduce {name}", 1)
    assert f"error[E905]: {name} is reproduced by a distribution of its own" in said
    assert "pip install ./studies" in said and said.count("error[") == 1
    assert f"{name:12}needs: pip install ./studies" in told("reproduce")
