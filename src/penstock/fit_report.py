"""Reports about fit kernels for people."""

from __future__ import annotations

from rich import box
from rich.table import Table

from penstock.dsl.qr.kernel import FitGraph
from penstock.models.qr.config import FitPlan
from penstock.models.qr.table_config import TableFitPlan
from penstock.outcome import Outcome
from penstock.report import agreement, amount, plural, resource_row, seconds_text, target_row, verdict, written_rows

__all__ = ["columns_summary", "engine_text", "fit_table", "summary", "table_engine_text"]


def fit_table(graph: FitGraph) -> Table:
    """Return what a kernel fits."""
    table = Table(box=box.ROUNDED, show_header=False, padding=(0, 1))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _fit(graph):
        table.add_row(name, value)
    return table


def _fit(graph: FitGraph) -> list[tuple[str, str]]:
    features = f"up to {graph.columns - 1} bytes of {graph.features}" if graph.keys else \
        f"{graph.features}: {plural(graph.columns - 1, 'column') if graph.columns else 'columns of the table'}"
    target = f"{graph.target.value} of {graph.features}" if graph.target is not None else str(graph.label)
    again = "refits read changed rows alone" if graph.incremental else "every fit reads all rows"
    rows = [("features", features), ("predicts", target), ("method", f"{graph.method.value}; {again}")]
    return [*rows, ("bounds", graph.bounds.value)] if graph.keys else rows


def summary(outcome: Outcome) -> Table:
    """Return the table of a compiled, predicted or simulated fit."""
    from penstock.fits import FitDesign
    design = outcome.fits
    assert isinstance(design, FitDesign)
    config, target = design.config, design.target
    table = fit_table(design.graph)
    table.add_row("engine", engine_text(config))
    table.add_row("target", target_row(target))
    table.add_row("memory", f"{plural(design.memory.latency, 'cycle')} latency, {amount(design.memory.rate(config.bus_bytes))} bytes a cycle")
    if outcome.rows is not None:
        table.add_section()
        _run_rows(table, outcome)
    table.add_section()
    table.add_row("resources", resource_row(design.resources, target))
    written_rows(table, outcome)
    return table


def _agreement_rows(table: Table, outcome: Outcome) -> None:
    """Say whether golden and cycle model are what the hardware did, where it ran."""
    if outcome.bit_exact is not None:
        table.add_row("golden = RTL", agreement(outcome))
    if outcome.cycle_exact is not None and outcome.model is not None and outcome.rtl is not None:
        both = f"{outcome.rtl.cycles:,} cycles both" if outcome.cycle_exact else f"model {outcome.model.cycles:,}, RTL {outcome.rtl.cycles:,} cycles"
        table.add_row("model = RTL", verdict(outcome.cycle_exact, both))


def engine_text(config: FitPlan) -> str:
    """Return in words how an engine is built."""
    units = (f"{plural(config.solvers, 'solver')} × {plural(config.lanes, 'lane')}, {plural(config.gram_lanes, 'sum')} a cycle" if config.method.value == "gram"
             else f"{config.vectors} × {plural(config.lanes, 'rotation lane')}")
    held = f"{plural(config.contexts, 'group')} interleaved, {plural(config.jobs, 'job')} in flight"
    return f"{plural(config.n_max, 'column')}, {units}, {held}"


def _run_rows(table: Table, outcome: Outcome) -> None:
    run = outcome.golden or outcome.model
    assert run is not None
    counters = run.counters
    groups = plural(counters["groups"], "group")
    table.add_row("keys", f"{outcome.table}: {plural(outcome.rows or 0, 'row')} in {groups} at first, {counters['rows']:,} at the end")
    table.add_row("refits", f"{counters['refits']:,} after the first training, {counters['from_memo']:,} from a memo, "
                  f"{counters['passes']:,} with a pass over all rows, {counters['changes']:,} changed rows")
    _agreement_rows(table, outcome)
    _cycle_rows(table, outcome)


def _cycle_rows(table: Table, outcome: Outcome) -> None:
    """Say how long it all took, how long a refit, and what limits it."""
    cycles, design = outcome.cycles, outcome.fits
    if cycles is None or outcome.model is None or design is None:
        return
    clock, counters, limits = design.target.clock_mhz, outcome.model.counters, outcome.model.bound
    table.add_row("cycles", f"{cycles:,}, {seconds_text(cycles / clock / 1e6)} at {amount(clock)} MHz")
    if counters["refits"]:
        each = (cycles - counters["training_cycles"]) / counters["refits"]
        table.add_row("a refit", f"{each:,.0f} cycles, {seconds_text(each / clock / 1e6)}")
    if limits is not None and limits.cycles:
        table.add_row("bound", f"{limits.cycles:,} by {limits.by}; cycles ÷ bound = {cycles / limits.cycles:.3f}")


def columns_summary(outcome: Outcome) -> Table:
    """Return the table of a compiled, predicted or simulated fit over columns."""
    from penstock.fit_columns import ColumnsDesign
    design = outcome.fits
    assert isinstance(design, ColumnsDesign)
    config, table = design.config, fit_table(design.graph)
    table.add_row("values", f"{config.format_name}, sums in exact integers of 64 bits")
    table.add_row("engine", table_engine_text(design.engine))
    table.add_row("target", target_row(design.target))
    run = outcome.model or outcome.golden
    if run is not None:
        counters = run.counters
        table.add_section()
        table.add_row("table", f"{outcome.table}: {plural(outcome.rows or 0, 'row')}, {counters['rows']:,} of them in the last fit")
        if counters["saturated"]:
            many = counters["saturated"]
            table.add_row("saturated", f"{plural(many, 'value')} {'lie' if many > 1 else 'lies'} outside {config.format_name}")
        if counters.get("recentred"):
            table.add_row("recentred", f"{plural(counters['recentred'], 'time')}: means had wandered from the offsets")
        _agreement_rows(table, outcome)
        _cycle_rows(table, outcome)
    table.add_section()
    table.add_row("resources", resource_row(design.resources, design.target))
    written_rows(table, outcome)
    for name, value in (outcome.result or {}).items():
        table.add_row(f"{name}[{value.size}]", " ".join(f"{v:.4g}" for v in value[:6]) + (" …" if value.size > 6 else ""))
    return table


def table_engine_text(engine: TableFitPlan) -> str:
    """Return in words how the engine of a fit over columns is built."""
    columns = engine.columns
    return f"{plural(columns.gram_lanes, 'product')} a cycle, {plural(columns.row_cycles, 'cycle')} a row; {plural(engine.walkers, 'Strider')}"
