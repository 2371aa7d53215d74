"""The static schedule of a kernel: its operations over cycles, by the line that they come from.

Where colours come again, hatching tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .svg import (
    BLUE,
    COLOURS,
    GRID,
    INK,
    PAPER,
    WIDTH,
    Drawing,
    axes_of,
    counted,
    cut,
    figure,
    nothing,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = ("", "//", "--", "||")
#: most rows, bars and lines of the kernel that a schedule shows
_ROWS, _BARS, _LINES = 40, 600, 16
_LINE = 17  # px between two lines of text


def gantt(
    *,
    units: Sequence[str],
    bars: Sequence[Mapping[str, Any]],
    lines: Mapping[int, str],
    interval: int = 0,
    batch: int = 0,
    repeats: str = "",
) -> Drawing:
    """Draw a static schedule.

    Parameters: `units`: the rows; `bars`: what keeps a unit busy: `unit` (its number), `start` and
    `length` in cycles, `line` of the kernel (0: none), `again` (false: once, whatever the
    interval); `lines`: their texts; `interval`: cycles
    between two starts of what is drawn (0: it happens once); `batch`: cycles to the next batch (0:
    none); `repeats`: what starts again after an interval.
    """
    if not bars:
        return nothing("no schedule: there are no operations")
    bars, rows, notes = _shortened(bars, len(units))
    numbers = sorted({bar["line"] for bar in bars})
    known = {line: n for n, line in enumerate(numbers)}
    legend = numbers[:_LINES]
    if len(numbers) > len(legend):
        notes.append(f"the legend has {len(legend)} of {len(numbers)} lines")
    top, under = 44 if interval or batch else 10, 52 + _LINE * len(legend) + 12
    chart = figure(top + under + 26 * len(rows))
    axes = axes_of(chart, 156, top, 16, under)
    end = max(1, batch, interval, *(bar["start"] + bar["length"] for bar in bars))
    least = end / 400
    axes.set(xlim=(0, end * 1.02), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [cut(units[row], 22) for row in rows])
    counted(axes, end)
    axes.set_xlabel("cycles after the start" + (f" of {cut(repeats, 40)}" if repeats else ""))
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", linewidth=0.7)
    place = {row: n for n, row in enumerate(rows)}
    pixels = (WIDTH - 156 - 16) / (end * 1.02)
    # the next ones, as far as there is room for them
    pale = min(end // interval, max(1, 1200 // len(bars))) if interval else 0
    for bar in bars:
        number, at = known[bar["line"]], place[bar["unit"]]
        colour, hatch = COLOURS[number % 7], _HATCHES[number // 7 % 4]
        start, length = bar["start"], max(bar["length"], least)
        for n in range(1, pale + 1 if bar.get("again", True) else 1):
            if start + n * interval < end:
                _bar(axes, at, start + n * interval, length, facecolor=colour, alpha=0.16)
        edge = PAPER if hatch else colour
        _bar(axes, at, start, length, facecolor=colour, hatch=hatch, edgecolor=edge, linewidth=0.4)
        text, middle = str(bar["line"] or ""), (start + bar["length"] / 2, at)
        if text and bar["length"] * pixels > 9 * len(text) + 4:
            ink = "white" if colour == BLUE else "black"  # at least 5 : 1 on each
            axes.text(*middle, text, ha="center", va="center", color=ink, fontsize=10)
    _marks(axes, len(rows), end, interval, batch, repeats)
    _legend(chart, legend, lines, known)
    return chart, "; ".join(notes)


def _bar(axes: Axes, row: float, start: float, length: float, **looks: Any) -> None:
    """Draw a bar, without what `barh` does beside it: there may be very many."""
    from matplotlib.patches import Rectangle

    looks.setdefault("linewidth", 0)
    axes.add_artist(Rectangle((start, row - 0.36), length, 0.72, **looks))


def _shortened(
    bars: Sequence[Mapping[str, Any]], units: int
) -> tuple[list[Mapping[str, Any]], list[int], list[str]]:
    """Return the bars and rows that are drawn, and what is said of the others."""
    notes = []
    busy = dict.fromkeys(range(units), 0)
    for bar in bars:
        busy[bar["unit"]] += bar["length"]
    rows = sorted(sorted(busy, key=lambda unit: -busy[unit])[:_ROWS])
    if units > len(rows):
        notes.append(f"the {len(rows)} busiest of {units} units")
    shown = [bar for bar in bars if bar["unit"] in set(rows)]
    if len(shown) > _BARS:
        notes.append(f"the first {_BARS} of {len(shown)} operations")
        shown = sorted(shown, key=lambda bar: bar["start"])[:_BARS]
    return shown, rows, notes


def _marks(axes: Axes, rows: int, end: int, interval: int, batch: int, repeats: str) -> None:
    """Mark the initiation interval and the next batch above the bars."""
    above = axes.get_xaxis_transform()
    height = 26 * rows
    if interval:
        axes.axvspan(0, interval, color=GRID, alpha=0.45, zorder=0, linewidth=0)
        y = 1 + 8 / height
        axes.annotate(
            "",
            (0, y),
            (interval, y),
            xycoords=above,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "|-|,widthA=0.25,widthB=0.25",
                "color": INK,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        side = "left" if interval < end * 0.5 else "right"
        text = f"initiation interval: {interval:,} cycle{'s' * (interval != 1)}"
        at = 0 if side == "left" else interval
        axes.text(at, 1 + 14 / height, text, transform=above, ha=side, va="bottom")
    if batch:
        axes.plot(
            [batch] * 2,
            [0, 1 + 28 / height],
            color=INK,
            linewidth=1,
            clip_on=False,
            linestyle=(0, (4, 2)),
            transform=above,
        )
        axes.text(
            batch,
            1 + 29 / height,
            f"next batch: {batch:,}",
            transform=above,
            ha="right" if batch > end * 0.4 else "left",
            va="bottom",
        )


def _legend(
    chart: Figure, legend: Sequence[int], lines: Mapping[int, str], known: Mapping[int, int]
) -> None:
    """Write below the axes which colour is which line."""
    from matplotlib.patches import Rectangle

    height = chart.get_size_inches()[1] * 72
    for n, line in enumerate(legend):
        number = known[line]
        y = (_LINE * (len(legend) - n) - _LINE / 2 + 6) / height
        text = f"line {line}: {lines.get(line, '').strip()}" if line else "of no line"
        text = text.removesuffix(": ")
        hatch = _HATCHES[number // 7 % 4]
        chart.add_artist(
            Rectangle(
                (16 / WIDTH, y - 5 / height),
                18 / WIDTH,
                10 / height,
                hatch=hatch,
                facecolor=COLOURS[number % 7],
                edgecolor=PAPER if hatch else "none",
                linewidth=0,
                transform=chart.transFigure,
            )
        )
        chart.text(
            42 / WIDTH,
            y,
            cut(text, 92),
            va="center_baseline",
            fontsize=10.5,
            family="DejaVu Sans Mono",
        )
