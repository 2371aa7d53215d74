"""A report as data: facts, tables and charts. Engines make them; printers show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """Whether two things agree, and in what."""

    same: bool
    text: str

    def __str__(self) -> str:
        return f"{'yes' if self.same else 'NO'}, {self.text}"


@dataclass(frozen=True)
class Share:
    """A number and how much of `whole` it is."""

    value: int
    whole: int

    @property
    def part(self) -> float:
        return self.value / self.whole if self.whole else 0.0

    def __str__(self) -> str:
        return f"{self.value:,} ({self.part:.1%})"


@dataclass(frozen=True)
class Row:
    """A fact: its name and what is so."""

    name: str
    value: str | Verdict | Share


@dataclass(frozen=True)
class Facts:
    """Facts that belong together."""

    rows: tuple[Row, ...]
    title: str = ""

    @classmethod
    def of(cls, *pairs: tuple[str, str | Verdict | Share], title: str = "") -> Facts:
        """Return facts from pairs of name and value."""
        return cls(tuple(Row(*pair) for pair in pairs), title)


@dataclass(frozen=True)
class Column:
    """A column of a table. `right`: aligned to the right; `whole`: its cells are not wrapped;
    `width`: how much narrower than the terminal it is, at least; longer cells are cut."""

    name: str
    right: bool = False
    whole: bool = False
    width: int | None = None


@dataclass(frozen=True)
class Grid:
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    caption: str = ""


@dataclass(frozen=True)
class Chart:
    """A picture of numbers, see `penstock.report.charts`. `kind`: one of its functions; `data`: what
    that function takes; `note`: what to read from it."""

    kind: str
    title: str
    data: dict[str, Any] = field(default_factory=dict)
    note: str = ""


Part = Facts | Grid | Chart
