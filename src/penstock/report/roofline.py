"""The roofline of a part, with the design's points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .svg import (
    BLUE,
    GREEN,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    RED,
    SKY,
    WIDTH,
    Drawing,
    axes_of,
    cut,
    figure,
    nothing,
)
from .words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = 17  # px between two lines of text
#: what is behind text that crosses lines
_BEHIND = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5, "alpha": 0.85}


def _apart(places: Sequence[float], least: float) -> list[float]:
    """Return the places moved so far that any two are `least` apart, none above 1."""
    order = sorted(range(len(places)), key=lambda n: places[n])
    moved, last = list(places), -math.inf
    for n in order:
        moved[n] = last = max(moved[n], last + least)
    last = 1 + least
    for n in reversed(order):
        moved[n] = last = min(moved[n], last - least)
    return moved


def roofline(
    *,
    name: str,
    operation: str,
    point: tuple[float, float],
    peak: float,
    bandwidth: float,
    ceilings: Mapping[str, float],
) -> Drawing:
    """Draw a design's speed under the roofs of its part.

    Parameters: `operation`: what is counted, in the plural; `point`: the run's operations a byte of
    memory traffic, and a cycle; `peak`: operations a cycle with all units busy; `bandwidth`: bytes a
    cycle; `ceilings`: operations a cycle that the other terms of the bound allow, by their names.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
    """
    if min(*point, peak, bandwidth) <= 0:
        return nothing("no roofline: the run moves no bytes, or takes no cycles")
    from matplotlib.ticker import FuncFormatter, LogLocator

    x, y = point
    ridge = peak / bandwidth
    low, high = min(x, ridge) / 20, max(x, ridge) * 8
    heights = [y, peak, x * bandwidth, *ceilings.values()]
    bottom, top = min(heights) / 10, max(heights) * 2.5

    chart = figure(360)
    axes = axes_of(chart, 76, 14, 190, 52)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, top))
    operation = cut(operation, 24)
    axes.set_xlabel(f"{operation} a byte of memory traffic")
    axes.set_ylabel(f"{operation} a cycle")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axes.grid(True, which="major", linewidth=0.7)
    axes.plot([low, ridge, high], [low * bandwidth, peak, peak], color=BLUE, linewidth=2.4)
    axes.plot([x, x], [bottom, max(y, x * bandwidth)], color=MUTED, linewidth=0.8, linestyle=":")

    labels = [(peak, f"all units busy: {short(peak)}", BLUE)]
    for number, (text, height) in enumerate(ceilings.items()):
        colour = (ORANGE, GREEN, PURPLE, SKY)[number % 4]
        axes.plot([low, high], [height] * 2, color=colour, linewidth=1.6, linestyle=(0, (5, 2)))
        labels.append((height, f"{text}: {short(height)}", colour))
    _labels(axes, labels, bottom, top)
    _slope(axes, (low, high), (bottom, top), bandwidth, min(x, ridge))
    right = math.log(x / low) / math.log(high / low) > 0.5
    _point(axes, point, f"{cut(name, 24)}: {short(y)}", right)
    return chart, ""


def _point(axes: Axes, at: tuple[float, float], text: str, right: bool) -> None:
    """Draw the design; `right`: it is in the right half, where its text would not fit beside it."""
    axes.plot(
        [at[0]], [at[1]], marker="o", markersize=10, color=RED, markeredgecolor=PAPER, zorder=5
    )
    axes.annotate(
        text,
        at,
        xytext=(-10 if right else 10, -18),
        textcoords="offset points",
        ha="right" if right else "left",
        weight="bold",
        bbox=_BEHIND,
        zorder=6,
    )


def _labels(
    axes: Axes, labels: Sequence[tuple[float, str, str]], bottom: float, top: float
) -> None:
    """Write what each line is beside its height."""
    span = math.log(top / bottom)
    tall = (360 - 14 - 52) / _LINE
    places = _apart([math.log(max(h, bottom) / bottom) / span for h, _, _ in labels], 1 / tall)
    for place, (height, text, colour) in zip(places, labels, strict=True):
        at = math.log(max(height, bottom) / bottom) / span
        axes.plot(
            [1, 1.02, 1.03],
            [at, place, place],
            color=colour,
            linewidth=1.2,
            transform=axes.transAxes,
            clip_on=False,
        )
        axes.text(1.04, place, cut(text, 26), transform=axes.transAxes, va="center")


def _slope(
    axes: Axes, wide: tuple[float, float], tall: tuple[float, float], rate: float, end: float
) -> None:
    """Write at the memory's roof what it is, left of `end`."""
    (low, high), (bottom, top) = wide, tall
    at = math.sqrt(max(low, bottom / rate) * end)
    width, height = WIDTH - 76 - 190, 360 - 14 - 52
    angle = math.atan2(height / math.log(top / bottom), width / math.log(high / low))
    text = f"memory: {short(rate)} byte{'s' * (rate != 1)} a cycle"
    axes.text(
        at,
        at * rate * 1.12,
        text,
        ha="center",
        va="bottom",
        rotation=math.degrees(angle),
        rotation_mode="anchor",
        bbox=_BEHIND,
    )
