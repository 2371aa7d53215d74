"""Points of two figures, those that no other betters in front."""

from collections.abc import Mapping, Sequence
from typing import Any

from .svg import COLOURS, GRID, INK, PAPER, WIDTH, Drawing, axes_of, cut, figure, nothing
from .words import short

_HEIGHT, _LEFT, _RIGHT = 360, 76, 24
_TOP, _BOTTOM = 40, 52
_LEGEND, _CHARACTER = 1 - 16 / _HEIGHT, 7.4  #: where it is, and px of a character
_OTHERS: dict[str, Any] = {"s": 14, "edgecolor": PAPER, "linewidth": 0.3}
_AHEAD: dict[str, Any] = {"s": 58, "edgecolor": INK, "linewidth": 1.1}


def scatter(
    *, x: str, y: str, groups: Mapping[str, Sequence[tuple[float, float, bool]]]
) -> Drawing:
    """Draw points: `groups` has by name each one's figures, and whether it stands out. Axes are
    logarithmic where figures are far apart."""
    points = [point for group in groups.values() for point in group]
    if not points:
        return nothing("no point has both figures")
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    chart = figure(_HEIGHT)
    axes = axes_of(chart, _LEFT, _TOP, _RIGHT, _BOTTOM)
    axes.set_xlabel(cut(x, 60))
    axes.set_ylabel(cut(y, 30))
    for n, (axis, scale) in enumerate(
        ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale))
    ):
        values = [point[n] for point in points]
        logarithmic = min(values) > 0 and max(values) > 8 * min(values)
        scale("log" if logarithmic else "linear")
        axis.set_major_locator(
            LogLocator(subs=(1, 2, 5), numticks=9) if logarithmic else MaxNLocator(7)
        )
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axes.grid(True, which="major", color=GRID, linewidth=0.7)
    at, named = float(_LEFT), 0
    for n, (name, group) in enumerate(groups.items()):
        colour = COLOURS[n % len(COLOURS)]
        for ahead, looks in enumerate((_OTHERS, _AHEAD)):
            some = [point for point in group if point[2] == bool(ahead)]
            xs, ys = ([point[k] for point in some] for k in (0, 1))
            axes.scatter(xs, ys, color=colour, zorder=3 + ahead, **looks)
        title = cut(name, 22)
        if at + 15 + _CHARACTER * len(title) < WIDTH:
            chart.text(at / WIDTH, _LEGEND, "■", color=colour, va="center")
            chart.text((at + 15) / WIDTH, _LEGEND, title, va="center", fontsize=10.5)
            at, named = at + 38 + _CHARACTER * len(title), named + 1
    return chart, f"{len(groups) - named} more have no room above" if named < len(groups) else ""
