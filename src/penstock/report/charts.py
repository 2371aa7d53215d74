"""The kinds of charts: each function draws plain numbers as SVG and says what it left out.

Where colours come again, hatching tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .bars import bars
from .rows import Chart
from .svg import (
    COLOURS,
    GRID,
    INK,
    MUTED,
    PAPER,
    WIDTH,
    cut,
    drawing,
    figure,
    png,
    svg,
)
from .words import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["KINDS", "bars", "draw", "gantt", "path", "picture", "resources", "roofline", "shares"]

BLUE, ORANGE, GREEN, SKY, RED, PURPLE, _ = COLOURS
_HATCHES = ("", "//", "--", "||")
#: most rows, bars and lines of the kernel that a schedule shows
_ROWS, _BARS, _LINES = 40, 600, 16
_LINE = 17  # px between two lines of text
_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
#: what is behind text that crosses lines
_BEHIND = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5, "alpha": 0.85}

Drawing = tuple["Figure", str]


def _axes(chart: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Return axes with these margins in px."""
    width, height = (size * 72 for size in chart.get_size_inches())
    place = (left / width, bottom / height, (width - left - right) / width)
    return chart.add_axes((*place, (height - top - bottom) / height))


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


def _short(value: float) -> str:
    """Return a number in few signs."""
    if value >= 1e15 or 0 < value < 1e-3:
        return f"{value:.2g}"
    if value >= 1e5:
        size, unit = next(each for each in _SIZES if value >= each[0])
        return f"{value / size:.3g} {unit}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def roofline(
    *,
    name: str,
    operation: str,
    operations: float,
    moved: float,
    cycles: int,
    peak: float,
    memory: int,
    terms: Mapping[str, int],
) -> Drawing:
    """Draw a design's speed under the roofs of its part.

    Parameters: `operation`: what is counted, in the plural; `operations`, `moved`: of the run, and
    its bytes; `cycles`: of the run; `peak`: operations a cycle with all units busy; `memory`:
    cycles that the bytes take; `terms`: the other terms of the bound, in cycles.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
    """
    if min(operations, moved, cycles, peak, memory) <= 0:
        return _nothing("no roofline: the run moves no bytes, or takes no cycles")
    from matplotlib.ticker import FuncFormatter, LogLocator

    x, y, rate = operations / moved, operations / cycles, moved / memory
    ceilings = {text: operations / term for text, term in terms.items() if term > 0}
    ridge = peak / rate
    low, high = min(x, ridge) / 20, max(x, ridge) * 8
    heights = [y, peak, x * rate, *ceilings.values()]
    bottom, top = min(heights) / 10, max(heights) * 2.5

    chart = figure(360)
    axes = _axes(chart, 76, 14, 190, 52)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, top))
    operation = cut(operation, 24)
    axes.set_xlabel(f"{operation} a byte of memory traffic")
    axes.set_ylabel(f"{operation} a cycle")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axes.grid(True, which="major", linewidth=0.7)
    axes.plot([low, ridge, high], [low * rate, peak, peak], color=BLUE, linewidth=2.4)
    axes.plot([x, x], [bottom, max(y, x * rate)], color=MUTED, linewidth=0.8, linestyle=":")

    labels = [(peak, f"all units busy: {_short(peak)}", BLUE)]
    for number, (text, height) in enumerate(ceilings.items()):
        colour = (ORANGE, GREEN, PURPLE, SKY)[number % 4]
        axes.plot([low, high], [height] * 2, color=colour, linewidth=1.6, linestyle=(0, (5, 2)))
        labels.append((height, f"{text}: {_short(height)}", colour))
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
    _slope(axes, (low, high), (bottom, top), rate, min(x, ridge))
    axes.plot([x], [y], marker="o", markersize=10, color=RED, markeredgecolor=PAPER, zorder=5)
    right = math.log(x / low) / math.log(high / low) > 0.5
    axes.annotate(
        f"{cut(name, 24)}: {_short(y)}",
        (x, y),
        xytext=(-10 if right else 10, -18),
        textcoords="offset points",
        ha="right" if right else "left",
        weight="bold",
        bbox=_BEHIND,
        zorder=6,
    )
    return chart, ""


def _slope(
    axes: Axes, wide: tuple[float, float], tall: tuple[float, float], rate: float, end: float
) -> None:
    """Write at the memory's roof what it is, left of `end`."""
    (low, high), (bottom, top) = wide, tall
    at = math.sqrt(max(low, bottom / rate) * end)
    width, height = WIDTH - 76 - 190, 360 - 14 - 52
    angle = math.atan2(height / math.log(top / bottom), width / math.log(high / low))
    text = f"memory: {_short(rate)} byte{'s' * (rate != 1)} a cycle"
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
        return _nothing("no schedule: there are no operations")
    bars, rows, notes = _shortened(bars, len(units))
    numbers = sorted({bar["line"] for bar in bars})
    known = {line: n for n, line in enumerate(numbers)}
    legend = numbers[:_LINES]
    if len(numbers) > len(legend):
        notes.append(f"the legend has {len(legend)} of {len(numbers)} lines")
    top, under = 44 if interval or batch else 10, 52 + _LINE * len(legend) + 12
    chart = figure(top + under + 26 * len(rows))
    axes = _axes(chart, 156, top, 16, under)
    end = max(1, batch, interval, *(bar["start"] + bar["length"] for bar in bars))
    least = end / 400
    axes.set(xlim=(0, end * 1.02), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [cut(units[row], 22) for row in rows])
    _counted(axes, end)
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
        text = str(bar["line"] or "")
        if text and bar["length"] * pixels > 9 * len(text) + 4:
            dark = colour in (BLUE, GREEN, RED)
            axes.text(
                start + bar["length"] / 2,
                at,
                text,
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontsize=10,
            )
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


def shares(*, total: int, parts: Mapping[str, int], whole: str = "the run") -> Drawing:
    """Draw how many cycles each part takes by itself, beside the whole run's `total`."""
    if total <= 0:
        return _nothing("no shares: the run takes no cycles")
    chart = figure(14 + 50 + 28 * len(parts))
    axes = _axes(chart, 110, 14, 160, 50)
    values = list(parts.values())
    end = max(total, *values) * 1.02
    axes.set(xlim=(0, end), ylim=(len(values) - 0.5, -0.5))
    axes.set_yticks(range(len(values)), [cut(name, 15) for name in parts])
    axes.tick_params(axis="y", length=0)
    _counted(axes, end)
    axes.set_xlabel(f"cycles; {cut(whole, 40)} takes {total:,}")
    axes.axvline(total, color=INK, linewidth=1.2)
    most = max(values)
    for n, value in enumerate(values):
        axes.barh(n, total, 0.62, color=GRID, alpha=0.6)
        axes.barh(n, value, 0.62, color=RED if value == most else BLUE)
        text = f"{value:,}" if value < 10**12 else _short(value)
        axes.text(
            1.015,
            n,
            f"{text} ({value / total:.0%})",
            va="center",
            fontsize=10.5,
            transform=axes.get_yaxis_transform(),
        )
    return chart, ""


def _counted(axes: Axes, end: float) -> None:
    """Write numbers of cycles at the x axis, few enough to have room."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    scale, unit = next((each for each in _SIZES if end >= 10 * each[0]), (1, ""))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=scale == 1))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value / scale:,.6g} {unit if value else ''}".rstrip())
    )
    axes.grid(True, axis="x", linewidth=0.7)


def resources(*, part: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw what a design takes of a part, in per cent.

    Parameters: `rows`: `name`, `capacity`, `estimated` and `placed` (None: not placed).
    """
    placed = any(row["placed"] is not None for row in rows)
    kinds = [("estimated", BLUE), *([("placed", ORANGE)] if placed else [])]
    thick, gap = 20, 10
    height = thick * len(kinds) + gap
    chart = figure(30 + 50 + height * len(rows))
    axes = _axes(chart, 64, 30, 190, 50)
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
        axes.text(
            1.015,
            y,
            f"{value:,} of {most:,} ({ratio})",
            va="center",
            fontsize=10.5,
            transform=axes.get_yaxis_transform(),
        )
    for k, (kind, colour) in enumerate(kinds):
        axes.text(
            0.02 + 0.24 * k,
            1 + 13 / (height * len(rows)),
            "■",
            color=colour,
            transform=axes.transAxes,
            va="center",
        )
        axes.text(
            0.055 + 0.24 * k,
            1 + 13 / (height * len(rows)),
            kind,
            va="center",
            transform=axes.transAxes,
        )
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
        return _nothing("the critical path is not known")
    chart = figure(62 + 40 + 78)
    axes = _axes(chart, 24, 62, 24, 78)
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


def _nothing(text: str) -> Drawing:
    chart = figure(40)
    chart.text(0.02, 0.5, text, va="center", color=MUTED)
    return chart, ""


#: by kind what draws it from a chart's data
KINDS: dict[str, Callable[..., Drawing]] = {
    "bars": bars,
    "gantt": gantt,
    "path": path,
    "resources": resources,
    "roofline": roofline,
    "shares": shares,
}


def draw(chart: Chart) -> tuple[str, str]:
    """Return a chart as an SVG element, and what was left out of it. Raises ValueError for a kind
    that there is not."""
    with drawing():
        made, note = _kind(chart)(**chart.data)
        return svg(made, chart.title), note


def picture(chart: Chart) -> bytes:
    """Return a chart as PNG. Raises ValueError for a kind that there is not."""
    with drawing():
        return png(_kind(chart)(**chart.data)[0])


def _kind(chart: Chart) -> Callable[..., Drawing]:
    if chart.kind not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"there is no kind of chart {chart.kind!r}: it is one of {known}")
    return KINDS[chart.kind]
