"""The kinds of charts: each function draws plain numbers as SVG and says what it left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .bars import bars
from .gantt import gantt
from .parts import Chart
from .roofline import roofline
from .scatter import scatter
from .svg import (
    BLUE,
    COLOURS,
    GRID,
    INK,
    ORANGE,
    PAPER,
    RED,
    WIDTH,
    Drawing,
    axes_of,
    counted,
    cut,
    drawing,
    figure,
    nothing,
    png,
    svg,
)
from .words import amount, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def shares(*, total: int, parts: Mapping[str, int]) -> Drawing:
    """Draw how many cycles each part takes by itself, beside the whole run's `total`."""
    if total <= 0:
        return nothing("no shares: the run takes no cycles")
    chart = figure(14 + 50 + 28 * len(parts))
    axes = axes_of(chart, 110, 14, 160, 50)
    values = list(parts.values())
    end = max(total, *values) * 1.02
    axes.set(xlim=(0, end), ylim=(len(values) - 0.5, -0.5))
    axes.set_yticks(range(len(values)), [cut(name, 15) for name in parts])
    axes.tick_params(axis="y", length=0)
    counted(axes, end)
    axes.set_xlabel(f"cycles; the run takes {total:,}")
    axes.axvline(total, color=INK, linewidth=1.2)
    most = max(values)
    for n, value in enumerate(values):
        axes.barh(n, total, 0.62, color=GRID, alpha=0.6)
        axes.barh(n, value, 0.62, color=RED if value == most else BLUE)
        text = f"{value:,}" if value < 10**12 else short(value)
        _beside(axes, n, f"{text} ({value / total:.0%})")
    return chart, ""


def _beside(axes: Axes, y: float, text: str) -> None:
    """Write a bar's number right of the axes."""
    axes.text(1.015, y, text, va="center", fontsize=10.5, transform=axes.get_yaxis_transform())


def resources(*, part: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw what a design takes of a part, in per cent.

    Parameters: `rows`: `name`, `capacity`, `estimated` and `placed` (None: not placed).
    """
    placed = any(row["placed"] is not None for row in rows)
    kinds = [("estimated", BLUE), *([("placed", ORANGE)] if placed else [])]
    thick, gap = 20, 10
    height = thick * len(kinds) + gap
    chart = figure(30 + 50 + height * len(rows))
    axes = axes_of(chart, 64, 30, 190, 50)
    bars = [
        (n, k, kind, row[kind], row["capacity"], colour)
        for n, row in enumerate(rows)
        for k, (kind, colour) in enumerate(kinds)
        if row[kind] is not None
    ]
    filled = [100 * value / most for _, _, _, value, most, _ in bars if most]
    end = max([100.0, *filled]) * 1.02
    if end > 102:
        end = min(end, 400.0)
    axes.set(xlim=(0, end), ylim=(height * len(rows), 0))
    axes.set_yticks(
        [height * (n + 0.5) for n in range(len(rows))], [cut(row["name"], 8) for row in rows]
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", linewidth=0.7)
    axes.set_xlabel(f"per cent of {cut(part, 40)}")
    if end > 102:
        axes.axvspan(100, end, color=RED, alpha=0.1, linewidth=0)
    axes.axvline(100, color=INK, linewidth=1.4)
    for n, k, _, value, most, colour in bars:
        y = height * n + gap / 2 + thick * (k + 0.5)
        share = 100 * value / most if most else (100 * end if value else 0)
        axes.barh(y, min(share, end), thick * 0.8, color=colour)
        ratio = f"{share:.0f}%" if most else "none there"
        _beside(axes, y, f"{value:,} of {most:,} ({ratio})")
    above = 1 + 13 / (height * len(rows))
    looks: dict[str, Any] = {"va": "center", "transform": axes.transAxes}
    for k, (kind, colour) in enumerate(kinds):
        axes.text(0.02 + 0.24 * k, above, "■", color=colour, **looks)
        axes.text(0.055 + 0.24 * k, above, kind, **looks)
    return chart, "" if end < 400 else "bars end at 400 %"


def path(
    *,
    first: str,
    last: str,
    parts: Mapping[str, float],
    period: float,
    reached: float | None,
) -> Drawing:
    """Draw the critical path beside the clock's period.

    Parameters: `first`, `last`: where it begins and ends; `parts`: what its time is made of, in ns
    (none: not known); `period`, `reached`: of the clock that was asked for, and of the shortest
    one, in ns.
    """
    length = sum(parts.values()) or reached or 0.0
    if period <= 0 or length <= 0:
        return nothing("the critical path is not known")
    chart = figure(62 + 40 + 78)
    axes = axes_of(chart, 24, 62, 24, 78)
    end = max(period, length, reached or 0.0) * 1.04
    axes.set(xlim=(0, end), ylim=(0, 1), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("ns")
    axes.grid(True, axis="x", linewidth=0.7)
    split = parts or {"path": length}
    at = 0.0
    for n, (name, time) in enumerate(split.items()):
        axes.barh(0.5, time, 0.72, at, color=COLOURS[n % 7], edgecolor=PAPER, linewidth=1)
        at += time
        x = (24 + n * (WIDTH - 48) / max(len(split), 3)) / WIDTH
        chart.text(x, 14 / 180, "■", color=COLOURS[n % 7], va="center")
        chart.text(
            x + 16 / WIDTH, 14 / 180, cut(f"{name}: {time:.1f} ns", 26), va="center", fontsize=10.5
        )
    chart.text(24 / WIDTH, 1 - 12 / 180, cut(f"from {first}", 96), va="center", fontsize=10.5)
    if last:
        chart.text(24 / WIDTH, 1 - 29 / 180, cut(f"to {last}", 96), va="center", fontsize=10.5)
    axes.axvline(period, color=INK, linewidth=1.6, linestyle=(0, (4, 2)))
    asked = f"clock asked: {amount(round(1e3 / period, 1))} MHz, {period:.1f} ns"
    more = f"; reached: {amount(round(1e3 / reached, 1))} MHz" if reached else ""
    side = "right" if period > end / 2 else "left"
    axes.text(
        period, 1.08, asked + more, transform=axes.get_xaxis_transform(), ha=side, va="bottom"
    )
    return chart, ""


#: by kind what draws it from a chart's data
KINDS: dict[str, Callable[..., Drawing]] = {
    "bars": bars,
    "gantt": gantt,
    "path": path,
    "resources": resources,
    "roofline": roofline,
    "scatter": scatter,
    "shares": shares,
}


def draw(chart: Chart) -> tuple[str, str]:
    """Return a chart as an SVG element, and what was left out of it. Raises ValueError for a kind
    that there is not."""
    with drawing():
        shapes, note = _kind(chart)(**chart.data)
        return svg(shapes, chart.title), note


def picture(chart: Chart) -> bytes:
    """Return a chart as PNG. Raises ValueError for a kind that there is not."""
    with drawing():
        return png(_kind(chart)(**chart.data)[0])


def _kind(chart: Chart) -> Callable[..., Drawing]:
    if chart.kind not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"there is no kind of chart {chart.kind!r}: it is one of {known}")
    return KINDS[chart.kind]
