"""Charts of kernels that learn from a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.models.analytics.bound import Bound
from penstock.models.analytics.config import FETCH, AnalyticsPlan, Op, Unit
from penstock.models.numerics.latency import latency
from penstock.models.rows.units import integer_unit
from penstock.report.common import roofline_chart, shares_chart
from penstock.report.parts import Chart
from penstock.report.words import plural
from penstock.runs.outcome import Outcome

if TYPE_CHECKING:
    from .design import AnalyticsDesign


def busy(outcome: Outcome) -> dict[str, int]:
    """Return the cycles that each part of the engine would take by itself."""
    model = outcome.model
    if model is None or not isinstance(model.bound, Bound):
        return {}
    bound = model.bound
    by_rows = {
        "lookups of rows": bound.lookups,
        "rows' port": bound.channel,
        "rows into lines": bound.lanes,
        "DRAM banks": bound.banks,
        "changes of one row": bound.changes,
    }
    return {
        "memory": model.bound.memory,
        "Striders": model.counters.get("striders", 0),
        "engine": model.bound.operations,
        **({"new model": model.bound.recurrence} if model.bound.recurrence else {}),
        **{name: cycles for name, cycles in by_rows.items() if cycles},
    }


def charts(outcome: Outcome, design: AnalyticsDesign) -> Iterable[Chart]:
    yield from _roofline(outcome, design.plan)
    parts = busy(outcome)
    if outcome.rtl is not None and "starved" in outcome.rtl.counters:
        parts["no tuple"] = outcome.rtl.counters["starved"]
    yield from shares_chart(outcome, parts)
    yield from _schedules(design.plan, outcome.source or design.source)


def _width(plan: AnalyticsPlan, unit: Unit) -> int:
    """Return how many numbers a unit takes a cycle, over all threads."""
    # the tree over the threads and the accumulator behind it add as many numbers as there are
    # threads
    merges = unit.fn.startswith("merge-")
    return unit.lanes * (plan.threads if unit.home == "thread" or merges else 1)


def _roofline(outcome: Outcome, plan: AnalyticsPlan) -> Iterable[Chart]:
    model = outcome.model
    if model is None or "groups" not in model.counters:
        return
    widths = [_width(plan, unit) for unit in plan.units]
    group = [op for op in plan.ops if op.region == "group"]
    each = sum(
        op.beats * (widths[op.unit] + (widths[op.merge_unit] if op.merge_unit >= 0 else 0))
        for op in group
    )
    peak = sum(
        width for width, unit in zip(widths, plan.units, strict=True) if unit.region == "group"
    )
    moved = (outcome.pages or 0) * plan.page_size * model.counters["epochs"]
    note = (
        "An operation is one lane of a unit for one cycle, in what is computed for every tuple. "
        "Dashed lines are the speeds that the other terms of the bound allow: operations is the "
        "busiest unit, recurrence the way from one model to the next."
    )
    operations = each * model.counters["groups"]
    yield from roofline_chart(outcome, "operations", operations, moved, peak, note)


def _unit_names(plan: AnalyticsPlan) -> list[str]:
    """Return the units' names, numbered where several are alike."""
    of = [integers.fn if (integers := integer_unit(u.fn)) else u.fn for u in plan.units]
    titles = [
        f"{fn} × {u.lanes}" if u.lanes > 1 else fn for fn, u in zip(of, plan.units, strict=True)
    ]
    places = [
        (title, unit.home if plan.threads > 1 else "", unit.region)
        for title, unit in zip(titles, plan.units, strict=True)
    ]
    names = []
    for number, place in enumerate(places):
        title, home, region = place
        same = [n for n, other in enumerate(places) if other == place]
        name = f"{title} #{same.index(number) + 1}" if len(same) > 1 else title
        if region != "group":
            name += ", batch"
        names.append(f"{name}, {home}" if home == "thread" else name)
    return names


def _bars(plan: AnalyticsPlan, ops: Sequence[Op]) -> list[dict[str, Any]]:
    """Return when units are busy with these operations."""
    bars = []
    for op in ops:
        again = op.region == "group"
        bar = {"start": op.start, "length": op.beats, "line": op.line, "again": again}
        bars.append({**bar, "unit": op.unit})
        if op.merge_unit >= 0:
            start = op.start + FETCH + latency(op.fn, plan.format)
            bars.append({**bar, "unit": op.merge_unit, "start": start})
    return bars


def _schedules(plan: AnalyticsPlan, source: str) -> Iterable[Chart]:
    """Return what is done for the last group of a batch, with the new model, and the test for
    convergence."""
    tuples = "a tuple" if plan.threads == 1 else f"a group of {plan.threads} tuples"
    texts = dict(enumerate(source.split("\n"), 1))
    groups = (
        ("Static schedule", [op for op in plan.ops if op.region != "epoch"], True),
        ("Schedule of the test for convergence", _of_epochs(plan), False),
    )
    for title, ops, repeated in groups:
        if not ops:
            continue
        bars = _bars(plan, ops)
        used = sorted({bar["unit"] for bar in bars})
        names, row = _unit_names(plan), {unit: n for n, unit in enumerate(used)}
        lines = {op.line: texts.get(op.line, "") for op in ops}
        data: dict[str, Any] = {
            "units": [names[unit] for unit in used],
            "bars": [{**bar, "unit": row[bar["unit"]]} for bar in bars],
            "lines": lines,
        }
        note = "After an epoch's last batch."
        if repeated:
            data |= {
                "interval": plan.schedule.interval,
                "batch": plan.schedule.batch,
                "repeats": tuples,
            }
            note = (
                f"What {tuples} keeps busy; within a batch the next one starts "
                f"{plural(plan.schedule.interval, 'cycle')} later (pale). What is of a batch is "
                "done once, after its last one. Numbers in the bars are lines of the kernel."
            )
        yield Chart("gantt", title, data, note)


def _of_epochs(plan: AnalyticsPlan) -> list[Op]:
    return [op for op in plan.ops if op.region == "epoch"]
