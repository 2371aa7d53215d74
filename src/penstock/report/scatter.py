"""Points of two figures, those that no other betters in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .svg import COLOURS, GRID, INK, PAPER, WIDTH, Drawing, axes_of, cut, figure, nothing
from .words import short

__all__ = ["scatter"]

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 76, 24, 40, 52
_CHARACTER = 7.4  #: px of a character of the legend


def scatter(
    *, x: str, y: str, groups: Mapping[str, Sequence[tuple[float, float, bool]]]
) -> Drawing:
    """Draw points: `groups` has by name each one's figures, and whether it stands out. Axes are
    logarithmic where all figures are above 0."""
    points = [point for group in groups.values() for point in group]
    if not points:
        return nothing("no point has both figures")
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    chart = figure(_HEIGHT)
    axes = axes_of(chart, _LEFT, _TOP, _RIGHT, _BOTTOM)
    axes.set_xlabel(cut(x, 60))
    axes.set_ylabel(cut(y, 30))
    for n, axis in enumerate((axes.xaxis, axes.yaxis)):
        values = [point[n] for point in points]
        logarithmic = min(values) > 0 and max(values) > 8 * min(values)
        axis._set_axes_scale("log" if logarithmic else "linear")
        axis.set_major_locator(LogLocator(numticks=7) if logarithmic else MaxNLocator(7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axes.grid(True, which="major", color=GRID, linewidth=0.7)
    at = float(_LEFT)
    for n, (name, group) in enumerate(groups.items()):
        colour = COLOURS[n % len(COLOURS)]
        for ahead in (False, True):
            some = [point for point in group if point[2] == ahead]
            axes.scatter(
                [point[0] for point in some],
                [point[1] for point in some],
                s=58 if ahead else 14,
                color=colour,
                edgecolor=INK if ahead else PAPER,
                linewidth=1.1 if ahead else 0.3,
                zorder=3 + ahead,
            )
        chart.text(at / WIDTH, 1 - 16 / _HEIGHT, "■", color=colour, va="center")
        chart.text((at + 15) / WIDTH, 1 - 16 / _HEIGHT, cut(name, 22), va="center", fontsize=10.5)
        at += 38 + _CHARACTER * min(len(name), 22)
    return chart, ""
