"""Reports as HTML: a page that needs no other file, and what a notebook shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from penstock.runs.outcome import Outcome

from .charts import draw
from .common import shared_charts
from .parts import Chart, Column, Facts, Grid, Part, Share, Verdict
from .words import amount

if TYPE_CHECKING:
    from penstock.engines.design import Design
    from penstock.runs.run import Run

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def page(outcome: Outcome, parts: Iterable[Part]) -> str:
    """Return a whole page: what the command found, the parts of its report, then the charts that
    every engine has. The page says so where the command failed, or the backends disagree.

    Parameters: `parts`: what the command has printed, with its engine's charts. Equal parameters
    give equal pages. Nothing is loaded from anywhere.

    Raises ValueError for a kind of chart that there is not.
    """
    return _render("page.jinja", outcome, parts)


def of_design(design: Design) -> str:
    """Return the report on a design, as one HTML element for a notebook."""
    return _fragment(Outcome("", "", design.source, design))


def of_run(run: Run) -> str:
    """Return the report on a run, as one HTML element for a notebook."""
    return _fragment(_of_run(run))


def _fragment(outcome: Outcome) -> str:
    parts: Iterable[Part] = ()
    if outcome.design is not None:
        from penstock.engines.discovery import engine_named

        parts = engine_named(outcome.design.engine_name).sections(outcome)
    return _render("fragment.jinja", outcome, parts)


def _of_run(run: Run) -> Outcome:
    design = run.design
    source = "" if design is None else design.source
    outcome = Outcome("", "", source, design, run.workload)
    kind = run.backend if run.backend in ("golden", "model") else "rtl"
    setattr(outcome, kind, run)
    for error in run.errors:
        if run.workload is not None:
            outcome.errors += run.workload.failure(error).errors
        else:
            outcome.errors.append({"code": error.code.name, "message": str(error)})
    return outcome


def _render(template: str, outcome: Outcome, parts: Iterable[Part]) -> str:
    text = _environment().get_template(template).render(_content(outcome, parts))
    # bytes of a file's name that are no UTF-8, and signs that HTML does not have
    text = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub("\ufffd", text)


# what the templates get


@dataclass(frozen=True)
class _Drawn:
    title: str
    svg: Markup
    note: str


def _content(outcome: Outcome, parts: Iterable[Part]) -> dict[str, Any]:
    from penstock.report.versions import versions

    design, parts = outcome.design, list(parts)
    parts += shared_charts(outcome, parts)
    state, mood = _state(outcome)
    named = design.name if design is not None else outcome.kernel
    return {
        "title": named or "Penstock",
        "said": _said(outcome),
        "state": state,
        "mood": mood,
        "errors": outcome.errors,
        "parts": list(_grouped(parts)),
        "lines": outcome.source.rstrip("\n").split("\n") if outcome.source else [],
        "style": Markup(_text("style.css")),
        "version": versions().splitlines()[0],
    }


def _said(outcome: Outcome) -> str:
    """Return in a line what the report is on."""
    design = outcome.design
    words = [f"penstock {outcome.command} {outcome.kernel}"] if outcome.command else []
    if design is not None:
        words += [
            f"engine {design.engine_name}",
            f"target {design.target.name}",
            design.format_name,
            f"digest {design.digest[:8]}",
        ]
    return " · ".join(words)


def _state(outcome: Outcome) -> tuple[str, str]:
    """Return how the command ended, and the class of the text."""
    wrong = [error["code"] for error in outcome.errors]
    if "DISAGREE" in wrong or False in (outcome.bit_exact, outcome.cycle_exact):
        return "✗ The backends disagree: this is a defect in Penstock.", "bad"
    if wrong:
        return f"✗ Stopped: {', '.join(dict.fromkeys(wrong))}.", "bad"
    same = []
    if outcome.bit_exact:
        same.append("results bit for bit")
    if outcome.cycle_exact:
        same.append("cycles one by one")
    if same:
        return f"✓ Models and hardware agree: {' and '.join(same)}.", "good"
    if outcome.placed is not None:
        reached = outcome.placed["fmax_mhz"]
        speed = f", {amount(round(reached, 1))} MHz reached" if reached else ""
        return f"✓ Placed for {outcome.placed['board']}{speed}.", "good"
    if outcome.model is not None and outcome.golden is None:
        return "Predicted by the cycle model: nothing was simulated.", ""
    return "", ""


def _grouped(parts: Sequence[Part]) -> Iterator[tuple[str, Any]]:
    """Yield ("facts", parts that are one table), ("grid", a table) and ("chart", a picture)."""
    for facts, group in groupby(parts, key=lambda part: isinstance(part, Facts)):
        if facts:
            filled = [part for part in group if isinstance(part, Facts) and part.rows]
            if filled:
                yield "facts", filled
            continue
        for part in group:
            if isinstance(part, Grid):
                yield "grid", part
            elif isinstance(part, Chart):
                svg, left_out = draw(part)
                note = f"{left_out[0].upper()}{left_out[1:]}." if left_out else ""
                notes = " ".join(text for text in (part.note, note) if text)
                yield "chart", _Drawn(part.title, Markup(svg), notes)


def _looks(column: Column) -> Markup:
    """Return the attribute `class` of a column's cells."""
    names = [name for name in ("right", "whole") if getattr(column, name)]
    return Markup(' class="{}"').format(" ".join(names)) if names else Markup("")


def _text(name: str) -> str:
    return (files("penstock.report") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.tests["verdict"] = lambda value: isinstance(value, Verdict)
    environment.tests["share"] = lambda value: isinstance(value, Share)
    environment.globals["looks"] = _looks
    return environment
