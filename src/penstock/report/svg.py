"""Figures of matplotlib: as SVG that can stand in a page (no ids twice, colours of the page), and as PNG."""

from __future__ import annotations

import hashlib
import html
import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .words import SIZES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: width of every chart in px, and the size of its text
WIDTH, FONT = 700, 11.5
#: colours that the page chooses, by a variable of its style sheet; a picture has these
INK, MUTED = "#1b1f24", "#59636e"
GRID, PAPER = "#d8dee4", "#ffffff"
#: Okabe and Ito's, which people with any colour vision tell apart: blue, orange, green, sky, red, purple, yellow
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00", "#cc79a7", "#f0e442")
BLUE, ORANGE, GREEN = COLOURS[:3]
SKY, RED, PURPLE = COLOURS[3:6]
#: a chart, and what was left out of it
Drawing = tuple["Figure", str]
_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"}
_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",  # comes with matplotlib: no font of the machine is asked
    "font.size": FONT,
    "grid.color": GRID,
    "hatch.color": PAPER,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "penstock",
    "text.color": INK,
    "text.parse_math": False,  # a `$` in a kernel's line is a `$`
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}
_FAMILY = "'DejaVu Sans', Verdana, sans-serif"


@contextmanager
def drawing() -> Iterator[None]:
    """Set matplotlib up for one chart, and put it back as it was."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)  # nothing about its caches belongs into a report
    try:
        import matplotlib

        with warnings.catch_warnings(), matplotlib.rc_context():
            # signs that DejaVu lacks are the viewer's to draw
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_SETTINGS)
            yield
    finally:
        log.setLevel(level)


def figure(height: float) -> Figure:
    """Return an empty figure of `WIDTH` × `height` px."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH / 72, height / 72), dpi=72)


def cut(text: str, most: int) -> str:
    """Return a text without control characters, of so many characters at most."""
    plain = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def svg(chart: Figure, title: str) -> str:
    """Return a figure as an SVG element; equal figures give equal texts."""
    out = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    chart.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    width, height = (round(size * 72) for size in chart.get_size_inches())
    head = (
        f'<svg role="img" viewBox="0 0 {width} {height}" '
        f'style="font-family: {_FAMILY}" aria-label="{html.escape(title)}">'
    )
    text = head + text[text.index(">") + 1 :]
    text = text.replace("xlink:href", "href").replace("font-family: &#39;DejaVu Sans&#39;; ", "")
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable}, {colour})")
    return _own_ids(text)


def png(chart: Figure) -> bytes:
    """Return a figure as a picture on white, of twice as many pixels as its px."""
    out = io.BytesIO()
    chart.savefig(out, format="png", dpi=144, facecolor=PAPER, metadata={"Software": None})
    return out.getvalue()


def _own_ids(text: str) -> str:
    """Leave ids out that nothing refers to; let the others be this chart's alone."""
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', text))
    mark = "c" + hashlib.sha256(text.encode()).hexdigest()[:10]

    def named(match: re.Match[str]) -> str:
        return f' id="{mark}-{match[1]}"' if match[1] in used else ""

    text = re.sub(r' id="([^"]*)"', named, text)
    return re.sub(r'(url\(|href=")#([^)"]+)', rf"\1#{mark}-\2", text)


def axes_of(chart: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Return axes with these margins in px."""
    width, height = (size * 72 for size in chart.get_size_inches())
    place = (left / width, bottom / height, (width - left - right) / width)
    return chart.add_axes((*place, (height - top - bottom) / height))


def nothing(text: str) -> Drawing:
    """Return a chart that says why it is empty."""
    chart = figure(40)
    chart.text(0.02, 0.5, text, va="center", color=MUTED)
    return chart, ""


def counted(axes: Axes, end: float) -> None:
    """Write numbers of cycles at the x axis, few enough to have room."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    scale, unit = next((each for each in SIZES if end >= 10 * each[0]), (1, ""))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=scale == 1))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value / scale:,.6g} {unit if value else ''}".rstrip())
    )
    axes.grid(True, axis="x", linewidth=0.7)
