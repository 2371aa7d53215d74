"""Reports on fits, and their charts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.dsl.qr.kernel import FitGraph
from penstock.models.qr.cycles import Bound
from penstock.report.common import (
    agreement,
    bound_terms,
    cycle_rows,
    input_rows,
    read_rows,
    resources,
    ring_rows,
    roofline_chart,
    shares_chart,
    written,
)
from penstock.report.parts import Chart, Facts, Part, Row
from penstock.report.words import memory_text, plural, seconds_text, target_text, values_text
from penstock.runs.outcome import Outcome

from .columns import ColumnsDesign
from .keys import FitDesign

#: most groups whose fits a report spells out
_MOST_GROUPS = 8


def fit_facts(graph: FitGraph) -> Facts:
    if graph.keys:
        features = f"up to {graph.columns - 1} bytes of {graph.features}"
    else:
        count = plural(graph.columns - 1, "column") if graph.columns else "columns of the table"
        features = f"{graph.features}: {count}"
    target = str(graph.label)
    if graph.target is not None:
        target = f"{graph.target.value} of {graph.features}"
    again = "refits read changed rows alone" if graph.incremental else "every fit reads all rows"
    method = f"{graph.method.value}; {again}"
    rows = [Row("features", features), Row("predicts", target), Row("method", method)]
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
    yield from _roofline(outcome)
    yield from shares_chart(outcome, bound_terms(outcome))


def _of_keys(outcome: Outcome, design: FitDesign) -> Iterable[Part]:
    timing = memory_text(design.memory, design.plan.bus_bytes)
    rows = Row("engine", design.text()), Row("target", target_text(design.target))
    yield Facts((*fit_facts(design.graph).rows, *rows, Row("memory", timing)))
    run = outcome.golden or outcome.model
    if run is not None:
        counters = run.counters
        groups = plural(counters["groups"], "group")
        first = f"{plural(outcome.rows or 0, 'row')} in {groups} at first"
        keys = f"{outcome.table}: {first}, {counters['rows']:,} at the end"
        refits = (
            f"{counters['refits']:,} after the first training, "
            f"{counters['from_memo']:,} from a memo, "
            f"{counters['passes']:,} with a pass over all rows, "
            f"{counters['changes']:,} changed rows"
        )
        rows = Row("keys", keys), Row("refits", refits)
        yield Facts((*rows, *agreement(outcome), *_cycles(outcome)))
    yield Facts((resources(outcome),))
    yield written(outcome)


def _of_columns(outcome: Outcome, design: ColumnsDesign) -> Iterable[Part]:
    limbs = _limbs_text(design.plan.columns.limbs)
    values = f"integers in a unit of each column, {limbs}; sums in exact integers of 64 bits"
    fit = *fit_facts(design.graph).rows, Row("values", values), *_packed(design)
    engine = Row("engine", design.text())
    yield Facts((*fit, engine, Row("target", target_text(design.target))))
    run = outcome.model or outcome.golden
    if run is not None and not run.errors:
        counters = run.counters
        rows = f"{plural(outcome.rows or 0, 'row')}, {counters['rows']:,} of them in the last fit"
        entries = [Row("table", f"{outcome.table}: {rows}"), *ring_rows(design.plan.ring)]
        entries += read_rows(outcome)
        entries += input_rows(outcome)
        if left := counters.get("rows_of_weight_0"):
            entries.append(Row("weight 0", f"{plural(left, 'row')} left out"))
        if again := counters.get("recentred"):
            text = f"{plural(again, 'time')}: means had wandered from the offsets"
            entries.append(Row("recentred", text))
        yield Facts((*entries, *agreement(outcome), *_cycles(outcome)))
    weights = (
        Row(f"{name}[{value.size}]", values_text(value.tolist()))
        for name, value in (outcome.result or {}).items()
        if value.ndim == 1
    )
    yield Facts((resources(outcome), *weights, *_solution_rows(outcome)))
    yield written(outcome)


def _packed(design: ColumnsDesign) -> Iterable[Row]:
    """Return what the host packs before the engine reads it."""
    packing = design.packing
    if packing is None:
        return
    if packing.weight is not None:
        text = f"times the roots of the weights in {packing.weight}, packed by the host"
        yield Row("rows", text)
    if packing.group is not None:
        yield Row("groups", f"by {packing.group}: a run for each, of pages packed by the host")


def _limbs_text(limbs: Sequence[int]) -> str:
    counts = sorted(set(limbs))
    if len(counts) == 1:
        return f"{plural(counts[0], 'limb')} of 17 bits"
    return ", ".join(f"{plural(limbs.count(n), 'column')} of {plural(n, 'limb')}" for n in counts)


def _solution_rows(outcome: Outcome) -> Iterable[Row]:
    """Return how the weights were found, how near they are to the best, and what has none."""
    if not outcome.details:
        return
    report = outcome.details["fit"]
    groups = report.get("groups", ())
    for group in groups[:_MOST_GROUPS]:
        yield Row("group", f"{report['group_by']} = {group['group']}")
        yield from _fit_rows(group)
    if len(groups) > _MOST_GROUPS:
        yield Row("group", f"and {len(groups) - _MOST_GROUPS:,} more: --json has them")
    if "group_by" not in report:
        yield from _fit_rows(report)
    if (engine := outcome.details.get("engine_float32")) is None:
        return
    text = f"float32 weights for its next refits, {engine['largest_difference']:.2g} away at most"
    if engine["dropped"]:
        text += f"; without {', '.join(engine['dropped'])}, nearly dependent"
    yield Row("engine", text)


def _fit_rows(report: Mapping[str, Any]) -> Iterable[Row]:
    """Return what there is to say of one fit."""
    how = {
        "none": "the exact sums solved in exact arithmetic",
        "sums": f"the sums' weights refined on the rows, {plural(report['steps'], 'step')}",
        "host": f"refined on the rows, {plural(report['steps'], 'step')}, beside a QR factorisation by the host",
    }[report["preconditioner"]]
    yield Row("solved", f"float64, {how}")
    yield from _coefficients(report)
    r2 = "" if report["r2"] is None else f"R² {report['r2']:.6g}; "
    squares = "beyond float64" if report["rss"] is None else f"{report['rss']:.6g}"
    rss = f"residual sum of squares {squares}"
    yield Row("fit", f"{r2}{rss}; {plural(report['rows'], 'row')}")
    features = len(report["units"]) - 1 - ("sample_weight" in report)
    independent = f"{report['rank']} of {plural(features, 'column')} independent"
    values = (report[n] for n in ("condition", "condition_scaled"))
    condition, scaled = ("∞" if value is None else f"{value:.3g}" for value in values)
    text = f"{condition}; {scaled} of the columns less their means, scaled; {independent}"
    yield Row("condition", text)
    for unit in report["units"]:
        exact = "exact" if unit["exact"] else "rounded"
        text = f"unit 2^{unit['shift']}, offset {unit['offset']:,}, {plural(unit['limbs'], 'limb')}, {exact}"
        yield Row(f"  {unit['column']}", text)
    for entry in report["dropped"]:
        what = "no weight" if report["on_singular"] == "drop" else "not determined"
        yield Row(f"  {entry['column']}", f"{what}: {entry['reason']}")


def _coefficients(report: Mapping[str, Any]) -> Iterable[Row]:
    """Return a row for each weight: as statistics have it, with the digits that are sure."""
    columns = (report[n] for n in ("names", "coef", "std_err", "t", "p", "error"))
    for name, coef, std_err, t, p, off in zip(*columns, strict=True):
        digits = 17 if coef is None or not coef or not off else -math.log10(off / abs(coef))
        text = f"{0 if coef is None else coef:.{max(1, min(17, math.floor(digits)))}g}"
        if std_err is not None and t is not None:
            text += f", standard error {std_err:.4g}, t {t:.4g}, p {p:.3g}"
        yield Row(f"  {name}", text)


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


def _roofline(outcome: Outcome) -> Iterable[Chart]:
    """Return the roofline in products: what the busy cycles of sums and solver could make."""
    design, model = outcome.design, outcome.model
    if model is None or not isinstance(model.bound, Bound):
        return
    if isinstance(design, FitDesign):
        plan = design.plan
        sums, solver = plan.gram_lanes, plan.solvers * plan.n_max
    elif isinstance(design, ColumnsDesign):
        sums, solver = design.plan.columns.gram_lanes, 0
    else:
        return
    products = model.bound.sums * sums + model.bound.solver * solver
    moved = max(model.bytes_read or 0, model.bytes_written or 0)
    note = "A product is one multiplier of the sums or of the solver for one cycle. Bytes are those of the busier direction. "
    note += "Dashed lines are the speeds that the other terms of the bound allow."
    yield from roofline_chart(outcome, "products", products, moved, sums + solver, note)
