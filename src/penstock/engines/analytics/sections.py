"""Reports on kernels that learn from a table."""

from collections.abc import Iterable, Iterator

from penstock.dsl.core.bind import Binding
from penstock.dsl.core.bind_index import BoundIndex
from penstock.dsl.core.graph import Graph, Uniform, Variable
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.heap.schema import Schema
from penstock.report.common import (
    agreement,
    cycle_rows,
    input_rows,
    read_rows,
    resources,
    ring_rows,
    speed_rows,
    written,
)
from penstock.report.parts import Column, Facts, Grid, Part, Row, Share
from penstock.report.words import (
    amount,
    byte_rate,
    memory_text,
    plural,
    seconds_text,
    target_text,
    values_text,
)
from penstock.runs.outcome import Outcome

from .charts import busy, charts
from .design import AnalyticsDesign
from .frozen import Frozen
from .in_memory import rows_moved


def _design(outcome: Outcome) -> AnalyticsDesign:
    assert isinstance(outcome.design, AnalyticsDesign)
    return outcome.design


def summary(outcome: Outcome) -> Iterable[Part]:
    """Return the report on a compiled, predicted or simulated design."""
    design = _design(outcome)
    plan, target = design.plan, design.target
    if design.refused is not None:
        yield from _golden_alone(outcome)
        return
    yield Facts.of(
        ("kernel", f"{plan.kernel} ({outcome.kernel})" if outcome.kernel else plan.kernel),
        ("target", target_text(target)),
        ("format", plan.format_name),
        ("plan", _plan(plan)),
        *([("planned for", plan.notes["power"])] if "power" in plan.notes else []),
        ("memory", _memory(design)),
    )
    if outcome.rows is not None:
        yield Facts(tuple(_run_rows(outcome)))
    if outcome.cycles:
        yield Facts(tuple(_shares(outcome, outcome.cycles)))
    yield Facts((resources(outcome), *_models(outcome)))
    yield written(outcome)
    yield from charts(outcome, design)


def _models(outcome: Outcome) -> Iterable[Row]:
    for name, value in (outcome.result or {}).items():
        yield Row(f"{name}{_shape(value.shape)}", values_text(value.ravel().tolist()))


def _golden_alone(outcome: Outcome) -> Iterable[Part]:
    """Return the report on a kernel with rows: nothing is said of hardware, which there is not."""
    design = _design(outcome)
    assert design.refused is not None
    plan, code = design.plan, design.refused.code
    yield Facts.of(
        ("kernel", f"{plan.kernel} ({outcome.kernel})" if outcome.kernel else plan.kernel),
        ("format", plan.format_name),
        ("hardware", f"golden results alone (penstock explain {code})"),
    )
    if outcome.rows is not None:
        yield Facts(tuple(_run_rows(outcome)))
    yield Facts(tuple(_left_out(outcome)))
    yield Facts(tuple(_models(outcome)))


def _left_out(outcome: Outcome) -> Iterator[Row]:
    """Yield how many rows a NULL or an index leaves out, or changes."""
    counts = {} if outcome.golden is None else outcome.golden.counters
    of_others = sum(counts.get(name, 0) for name in ("nan_rows", "index_rows", "unseen_rows"))
    if _design(outcome).plan.layout.on_null == "skip" and (
        rest := counts.get("rows_skipped", 0) - of_others
    ):
        yield Row("left out", f"{plural(rest, 'row')}: a column is NULL, or the row is not visible")
    labels = {
        "index_rows": ("left out", "an index names no row"),
        "unseen_rows": ("left out", "a category is not the design's"),
        "unseen_last": ("last row", "it stands for a category that is not the design's"),
    }
    for key, (name, why) in labels.items():
        if counts.get(key):
            yield Row(name, f"{plural(counts[key], 'row')}: {why}")


def _run_rows(outcome: Outcome) -> Iterable[Row]:
    design, cycles, pages = _design(outcome), outcome.cycles, outcome.pages or 0
    page_size, clock = design.plan.page_size, design.target.clock_mhz
    note = ", assumed" if outcome.assumed else ""
    if outcome.workload is not None and outcome.workload.drawn:
        note += f"; {outcome.workload.drawn}"
    size = f"{plural(pages, 'page')} of {page_size // 1024} KB{note}"
    yield Row("table", f"{outcome.table}: {plural(outcome.rows or 0, 'row')} in {size}")
    yield from (*ring_rows(design.plan.striders.ring), *read_rows(outcome))
    if design.plan.learns:
        yield Row("epochs", _epochs(outcome))
    yield from input_rows(outcome)
    if design.refused is None:
        yield from _left_out(outcome)
    yield from agreement(outcome)
    if cycles is not None:
        yield from cycle_rows(outcome)
        seconds = cycles / (clock * 1e6)
        run = outcome.rtl or outcome.model or outcome.golden
        epochs = run.epochs if run is not None else 0
        speed = byte_rate(pages * page_size * epochs / seconds if seconds else 0.0)
        text = f"{seconds_text(seconds)} at {amount(clock)} MHz: {speed} of pages"
        yield Row("at the clock", text)
        yield from rows_moved(outcome, design.plan)
    yield from speed_rows(outcome)


def _shares(outcome: Outcome, cycles: int) -> Iterable[Row]:
    """Where cycles go: how much of the run each part would need by itself."""
    parts = busy(outcome)
    if not parts:
        return
    yield Row("busy", "each part alone, of all cycles (they overlap)")
    for name, value in parts.items():
        yield Row(f"  {name}", Share(value, cycles))
    if outcome.rtl is not None and "starved" in outcome.rtl.counters:
        yield Row("  no tuple", Share(outcome.rtl.counters["starved"], cycles))


def _plan(plan: AnalyticsPlan) -> str:
    schedule = plan.schedule
    unit = "a batch" if plan.merge_count != 1 else "a new model"
    batch = f", {unit} every {schedule.batch:,} cycles at least" if plan.learns else ""
    if schedule.change:
        batch += f" and {schedule.change} more for each further tuple"
    striders = plural(plan.striders.walkers, "Strider") + (" each" if plan.ports > 1 else "")
    threads = f"{plural(plan.threads, 'thread')} × {plural(plan.lanes, 'lane')}"
    tuples = "a tuple" if plan.threads == 1 else f"{plan.threads} tuples"
    deal = plan.rows.deal
    pairs = f", {deal.joined} of them one word" if deal.joined > 1 else ""
    over = f"; rows over {deal.ports} ports with a channel each{pairs}" if deal.ports > 1 else ""
    return (
        f"{threads}, {plural(plan.ports, 'port')} with {striders}; "
        f"{tuples} every {plural(schedule.interval, 'cycle')}{batch}{over}"
    )


def _memory(design: AnalyticsDesign) -> str:
    return f"{memory_text(design.memory, design.plan.bus_bytes)} and port"


def _epochs(outcome: Outcome) -> str:
    plan, run = _design(outcome).plan, outcome.rtl or outcome.golden
    if run is not None and run.converged:
        return f"{run.epochs} of at most {plan.epochs:,}: converged"
    if run is None and plan.roles.until is not None and outcome.assumed:
        return f"{plan.epochs:,} (the kernel may stop earlier)"
    known = run if run is not None else outcome.model
    text = f"{plan.epochs if known is None else known.epochs:,}"
    if known is not None and not known.errors and isinstance(outcome.workload, Frozen):
        text += f", {known.counters['tuples']:,} tuples in all: the others were frozen"
    return text


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]" if shape else ""


def profile(outcome: Outcome) -> Grid:
    """Return what each line of the kernel costs: the cycles in which its operations keep a unit
    busy."""
    plan, source = _design(outcome).plan, outcome.source
    assert outcome.model is not None
    counters = outcome.model.counters
    times = {
        "group": counters["groups"],
        "batch": counters["batches"],
        "epoch": counters["epochs"] if plan.roles.until is not None else 0,
    }
    costs: dict[int, int] = {}
    for op in plan.ops:
        costs[op.line] = costs.get(op.line, 0) + op.beats * times[op.region]
    total, lines = max(sum(costs.values()), 1), source.splitlines()
    rows = []
    for line in sorted(costs):
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        rows.append(
            (str(line) if line else "", text, f"{costs[line]:,}", f"{costs[line] / total:.1%}")
        )
    columns = (
        Column("line", right=True),
        Column("what it computes", whole=True, width=46),
        Column("cycles of its units", right=True, whole=True),
        Column("share", right=True, whole=True),
    )
    return Grid(columns, tuple(rows))


def binding_grid(graph: Graph, schema: Schema | None, binding: Binding | None) -> Grid:
    """Return a kernel's variables with their shapes and, for a table, the columns that feed them."""
    rows = []
    for variable in graph.variables.values():
        sizes: tuple[int, ...] = variable.shape
        if variable.kind == "index":
            counts = 0 if binding is None else binding.indices[variable.name].counts
            sizes = (counts, *sizes)
        shape = ", ".join(
            f"{d}={n}" if isinstance(d, str) else str(n)
            for d, n in zip(variable.dims, sizes, strict=True)
        )
        shown = f"[{shape}]" if shape else "scalar"
        rows.append((variable.name, variable.kind, shown, _origin(variable, schema, binding)))
    names = ("variable", "kind", "shape", "from")
    return Grid(tuple(Column(name) for name in names), tuple(rows))


def _origin(variable: Variable, schema: Schema | None, binding: Binding | None) -> str:
    if variable.kind == "meta":
        return "--set" if variable.value is None else f"{variable.value:g}"
    if variable.kind == "model":
        start = variable.init
        if isinstance(start, (int, float)):
            return f"starts at {start:g}"
        if isinstance(start, Uniform):
            return f"starts at uniform({start.low:g}, {start.high:g}, seed={start.seed})"
        return "starts at the given array"
    if schema is None or binding is None:
        return ""
    if variable.kind == "index":
        return _index(schema, binding.indices[variable.name])
    names = [schema.columns[s.attribute].name for s in binding.fields[variable.name]]
    if len(names) == 1:
        return f"column {names[0]}"
    return f"columns {', '.join(names[:6])}{', …' if len(names) > 6 else ''}"


def _index(schema: Schema, bound: BoundIndex) -> str:
    """Return the columns of an index, and what its categories are."""
    texts = []
    for attribute, _, counts in bound.columns:
        column = schema.columns[attribute]
        text = f"0 to {counts - 1:,}"
        if column.labels is not None:
            shown = ", ".join(column.labels[:6]) + (", …" if len(column.labels) > 6 else "")
            text = f"{len(column.labels):,} categories: {shown}"
        texts.append(f"column {column.name} ({text})")
    return "; ".join(texts)
