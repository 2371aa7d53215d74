"""What reports on papers share: their figures as data, and tables that set them beside ours."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .parts import Chart, Column, Facts, Grid


@dataclass(frozen=True)
class Cell:
    """A figure of a paper beside ours, each None where there is none. `cause`: what explains the
    difference, or why there is none of ours."""

    name: str
    printed: float | None
    ours: float | None
    cause: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours ÷ the paper's."""
        return None if not self.printed or self.ours is None else self.ours / self.printed


@cache
def figures(package: str, paper: str) -> Mapping[str, Any]:
    """Return a paper's figures: `paper`.toml of a package."""
    return tomllib.loads(files(package).joinpath(f"{paper}.toml").read_text(encoding="utf-8"))


def records(table: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table by the names in its head; a row may end early."""
    return [dict(zip(table["head"], row, strict=False)) for row in table["rows"]]


def facts(table: Mapping[str, str], **figures: object) -> Facts:
    """Return a table of texts as facts, with its `title`; `figures`: what stands in braces in them."""
    rows = [(name, text.format(**figures)) for name, text in table.items() if name != "title"]
    return Facts.of(*rows, title=table["title"])


def number(value: float | None) -> str:
    """Write a number with three digits that mean something, a dash for none."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{min(6, max(0, 2 - math.floor(math.log10(size)))) if size else 0}f}"


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def plain(title: str, names: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> Grid:
    """Return a table whose first column is not wrapped and whose others are numbers."""
    columns = [Column(names[0], whole=True)]
    columns += [Column(name, right=True) for name in names[1:]]
    return Grid(tuple(columns), tuple(tuple(row) for row in rows), title, note)


def beside(title: str, first: str, cells: Iterable[Cell], note: str = "") -> Grid:
    """Return a table of cells: printed, ours, ours ÷ printed, cause."""
    right = [Column(name, right=True, whole=True) for name in ("printed", "ours", "ratio")]
    rows = [(c.name, *map(number, (c.printed, c.ours, c.ratio)), c.cause) for c in cells]
    return Grid((Column(first, whole=True), *right, Column("cause")), tuple(rows), title, note)


def chart(
    title: str,
    cells: Mapping[str, Sequence[Cell]],
    unit: str,
    note: str = "Bars: ours. Strokes: the paper's.",
    **more: Any,
) -> Chart:
    """Return bars of our numbers, with strokes where the paper's are, of one or more series of
    cells with the same names; `more`: as `report.bars` takes it."""
    data: dict[str, Any] = {"groups": [cell.name for cell in next(iter(cells.values()))]}
    data["series"] = {name: [cell.ours for cell in each] for name, each in cells.items()}
    if any(cell.printed is not None for each in cells.values() for cell in each):
        data["marks"] = {name: [cell.printed for cell in each] for name, each in cells.items()}
    return Chart("bars", title, {**data, "unit": unit, **more}, note)
