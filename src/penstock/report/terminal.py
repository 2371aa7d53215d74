"""Reports on a terminal."""

from collections.abc import Iterable
from itertools import groupby

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .parts import Chart, Facts, Grid, Part, Share, Verdict

_BAR = 16
#: the widest column of names; longer ones are wrapped
_NAME = 28


def show(console: Console, parts: Iterable[Part]) -> None:
    """Print the parts of a report; charts are for other printers."""
    shown = [part for part in parts if not isinstance(part, Chart)]
    for facts, group in groupby(shown, key=lambda part: isinstance(part, Facts)):
        if facts:
            console.print(
                _facts([part for part in group if isinstance(part, Facts)]), highlight=False
            )
        else:
            for part in group:
                if isinstance(part, Grid):
                    console.print(_grid(part, console), highlight=False)


def _facts(parts: list[Facts]) -> Table:
    table = Table(box=box.ROUNDED, show_header=False, padding=(0, 1))
    table.add_column(style="bold", max_width=_NAME)
    table.add_column(overflow="fold")
    for part in parts:
        if not part.rows:
            continue
        if table.row_count:
            table.add_section()
        for row in part.rows:
            table.add_row(row.name, _value(row.value))
    return table


def _value(value: str | Verdict | Share) -> str | Text:
    if isinstance(value, Verdict):
        word = ("yes", "bold green") if value.same else ("NO", "bold red")
        return Text.assemble(word, f", {value.text}")
    if isinstance(value, Share):
        bar = "━" * round(min(value.part, 1.0) * _BAR)
        return f"{value.value:>15,} {value.part:>6.1%} {bar}"
    return Text(value)


def _grid(part: Grid, console: Console) -> Table:
    """A table that loses nothing where the terminal is narrower than its unwrapped cells."""
    table = Table(
        box=box.ROUNDED,
        padding=(0, 1),
        title=Text(part.title) if part.title else None,
        caption=Text(part.caption) if part.caption else None,
        caption_justify="left",
    )
    for column in part.columns:
        most = None if column.width is None else console.width - column.width
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=column.whole,
            overflow="ellipsis" if column.width is not None else "fold",
            max_width=most,
        )
    for row in part.rows:
        table.add_row(*map(Text, row))
    unbounded = console.options.update(width=10_000)
    if Measurement.get(console, unbounded, table).minimum > console.width:
        table.pad_edge = False
    if Measurement.get(console, unbounded, table).minimum > console.width:
        for shown in table.columns:
            shown.no_wrap = shown.no_wrap and shown.overflow == "ellipsis"
    return table
