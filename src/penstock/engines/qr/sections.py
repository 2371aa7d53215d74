"""Reports on fits."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.dsl.qr.kernel import FitGraph
from penstock.outcome import Outcome
from penstock.report.common import (
    agreement,
    cycle_rows,
    input_rows,
    read_rows,
    resources,
    written,
)
from penstock.report.rows import Facts, Part, Row
from penstock.report.words import memory_text, plural, seconds_text, target_text, values_text

from .charts import charts
from .columns import ColumnsDesign, table_engine_text
from .keys import FitDesign, engine_text

__all__ = ["fit_facts", "summary"]


def fit_facts(graph: FitGraph) -> Facts:
    """Return what a kernel fits."""
    if graph.keys:
        features = f"up to {graph.columns - 1} bytes of {graph.features}"
    else:
        count = plural(graph.columns - 1, "column") if graph.columns else "columns of the table"
        features = f"{graph.features}: {count}"
    target = str(graph.label)
    if graph.target is not None:
        target = f"{graph.target.value} of {graph.features}"
    again = "refits read changed rows alone" if graph.incremental else "every fit reads all rows"
    rows = [
        Row("features", features),
        Row("predicts", target),
        Row("method", f"{graph.method.value}; {again}"),
    ]
    if graph.keys:
        rows.append(Row("bounds", "widened" if graph.incremental else "by a pass over all rows"))
    return Facts(tuple(rows))


def summary(outcome: Outcome) -> Iterable[Part]:
    """Return the report on a compiled, predicted or simulated fit."""
    design = outcome.design
    if isinstance(design, ColumnsDesign):
        yield from _of_columns(outcome, design)
    else:
        assert isinstance(design, FitDesign)
        yield from _of_keys(outcome, design)
    yield from charts(outcome)


def _of_keys(outcome: Outcome, design: FitDesign) -> Iterable[Part]:
    timing = memory_text(design.memory, design.plan.bus_bytes)
    yield _joined(
        fit_facts(design.graph),
        Row("engine", engine_text(design.plan)),
        Row("target", target_text(design.target)),
        Row("memory", timing),
    )
    run = outcome.golden or outcome.model
    if run is not None:
        counters = run.counters
        groups = plural(counters["groups"], "group")
        first = f"{plural(outcome.rows or 0, 'row')} in {groups} at first"
        refits = (
            f"{counters['refits']:,} after the first training, "
            f"{counters['from_memo']:,} from a memo, "
            f"{counters['passes']:,} with a pass over all rows, "
            f"{counters['changes']:,} changed rows"
        )
        yield Facts(
            (
                Row("keys", f"{outcome.table}: {first}, {counters['rows']:,} at the end"),
                Row("refits", refits),
                *agreement(outcome),
                *_cycles(outcome),
            )
        )
    yield Facts((resources(outcome),))
    yield written(outcome)


def _of_columns(outcome: Outcome, design: ColumnsDesign) -> Iterable[Part]:
    name = design.format_name
    yield _joined(
        fit_facts(design.graph),
        Row("values", f"{name}, {design.why}; sums in exact integers of 64 bits"),
        Row("engine", table_engine_text(design.plan)),
        Row("target", target_text(design.target)),
    )
    run = outcome.model or outcome.golden
    if run is not None and not run.errors:
        counters = run.counters
        rows = f"{plural(outcome.rows or 0, 'row')}, {counters['rows']:,} of them in the last fit"
        found = [Row("table", f"{outcome.table}: {rows}"), *read_rows(outcome)]
        found += input_rows(outcome)
        if again := counters.get("recentred"):
            text = f"{plural(again, 'time')}: means had wandered from the offsets"
            found.append(Row("recentred", text))
        yield Facts((*found, *agreement(outcome), *_cycles(outcome)))
    weights = (
        Row(f"{name}[{value.size}]", values_text(value.tolist()))
        for name, value in (outcome.result or {}).items()
    )
    yield Facts((resources(outcome), *weights, *_solution_rows(outcome)))
    yield written(outcome)


def _solution_rows(outcome: Outcome) -> Iterable[Row]:
    """Return how the weights were found, how near they are to the best, and what has none."""
    if not outcome.details:
        return
    found, engine = outcome.details["solution"], outcome.details["engine_float32"]
    within = found["weights_within"]
    text = "float64, the exact sums solved in exact arithmetic"
    if within is not None and found["values_exact"]:
        text += ": the nearest numbers to the exact weights"
    elif within is not None:
        text += f"; at most {max(within, default=0.0):.2g} from the weights of unrounded values"
    else:
        text += "; no bound on what rounding the values did"
    if not found["determined"]:
        text += ": the weights are not determined"
    yield Row("solved", text)
    if unsure := found["not_told_from_zero"]:
        yield Row("not told from 0", ", ".join(unsure))
    independent = f"{found['rank']} of {plural(found['features'], 'column')} independent"
    yield Row(
        "condition",
        f"{found['condition']:.3g}, of the columns less their means, scaled; {independent}",
    )
    for entry in found["dropped"]:
        what = "no weight" if found["on_singular"] == "drop" else "not determined"
        yield Row(f"  {entry['column']}", f"{what}: {entry['reason']}")
    text = f"float32 weights for its next refits, {engine['largest_difference']:.2g} away at most"
    if engine["dropped"]:
        text += f"; without {', '.join(engine['dropped'])}, nearly dependent"
    yield Row("engine", text)


def _joined(facts: Facts, *rows: Row) -> Facts:
    return Facts((*facts.rows, *rows))


def _cycles(outcome: Outcome) -> list[Row]:
    """Return how long it all took, how long a refit, and what limits it."""
    cycles, design, model = outcome.cycles, outcome.design, outcome.model
    if cycles is None or model is None or design is None:
        return []
    total, *bound = cycle_rows(outcome, clock=True)
    counters, clock = model.counters, design.target.clock_mhz
    if not counters["refits"]:
        return [total, *bound]
    each = (cycles - counters["training_cycles"]) / counters["refits"]
    text = f"{each:,.0f} cycles, {seconds_text(each / clock / 1e6)}"
    return [total, Row("a refit", text), *bound]
