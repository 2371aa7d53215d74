"""Groups of bars, with what others published as marks beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .svg import COLOURS, GRID, INK, MUTED, WIDTH, cut, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT, _RIGHT, _TOP = 52, 12, 34
_BOTTOM, _AXES = 26, 184
#: room that slanted names need, and px of a character of the legend
_SLANTED, _CHARACTER = 40, 7.4


def bars(
    *,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    marks: Mapping[str, Sequence[float | None]] | None = None,
    unit: str = "",
    mark: str = "published",
    line: float | None = None,
    log: bool = False,
) -> tuple[Figure, str]:
    """Draw a group of bars for each name, a bar of it for each series.

    Parameters: `series`: by name a number for each group, None where there is none; `marks`: the same,
    drawn as a stroke across the bar of the same series; `unit`: of all numbers; `mark`: what the
    strokes are; `line`: a number to draw a line at; `log`: the scale is logarithmic.

    Raises ValueError for a series that has not as many numbers as there are groups.
    """
    marks = marks or {}
    for name, values in (*series.items(), *marks.items()):
        if len(values) != len(groups):
            raise ValueError(f"{name!r} has {len(values)} numbers for {len(groups)} groups")
    slanted = max(map(len, groups), default=0) * len(groups) > 72
    bottom = _BOTTOM + _SLANTED * slanted
    height = _TOP + _AXES + bottom
    left = _LEFT + 14 * log  # its numbers are longer
    chart = figure(height)
    axes = chart.add_axes(
        (
            left / WIDTH,
            bottom / height,
            (WIDTH - left - _RIGHT) / WIDTH,
            _AXES / height,
        )
    )
    width, x = 0.8 / max(1, len(series)), float(left)
    for n, (name, values) in enumerate(series.items()):
        colour = COLOURS[n % len(COLOURS)]
        for group, value in enumerate(values):
            at = group - 0.4 + (n + 0.5) * width
            if value is not None:
                axes.bar(at, value, width * 0.92, color=colour, linewidth=0)
            known = marks.get(name, [None] * len(groups))[group]
            if known is not None:
                ends = (at - width / 2, at + width / 2)
                axes.plot(ends, (known, known), color=INK, linewidth=1.6)
        title = cut(name, 22)
        chart.text(x / WIDTH, 1 - 14 / height, "■", color=colour, va="center")
        chart.text((x + 15) / WIDTH, 1 - 14 / height, title, va="center", fontsize=10.5)
        x += 38 + _CHARACTER * len(title)
    if marks:
        chart.text(x / WIDTH, 1 - 14 / height, f"— {mark}", color=INK, va="center", fontsize=10.5)
    if line is not None:
        axes.axhline(line, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
    drawn = [v for values in (*series.values(), *marks.values()) for v in values if v]
    _scales(axes, groups, slanted, min(drawn, default=1) / 2 if log else None)
    axes.set_ylabel(unit)
    axes.grid(True, axis="y", color=GRID, linewidth=0.7)
    return chart, ""


def _scales(axes: Axes, groups: Sequence[str], slanted: bool, least: float | None) -> None:
    """Name the groups, and scale the numbers: logarithmically from `least` on, if there is one."""
    axes.set_xticks(range(len(groups)), [cut(name, 20) for name in groups])
    axes.tick_params(axis="x", length=0, labelsize=9.5 if slanted else 10.5)
    if slanted:
        for label in axes.get_xticklabels():
            label.set(rotation=35, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(groups) - 0.4)
    if least is not None:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=least or 0)
