"""Reports for people: the tables that `model`, `simulate`, `compile`, `check` and `targets` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.dsl.core.graph import Graph, Uniform, Variable
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.job import Bound
from penstock.models.resources import Resources
from penstock.models.target import TARGETS, Target
from penstock.outcome import Outcome, differences

if TYPE_CHECKING:
    from penstock.dsl.core.bind import Binding
    from penstock.models.heap.schema import Schema

__all__ = ["agreement", "amount", "binding_table", "plural", "profile_table", "resource_row", "seconds_text", "show", "summary", "target_row",
           "targets_table", "verdict", "written_rows"]

_BAR = 16


def summary(outcome: Outcome) -> Table:
    """Return the table of a compiled, predicted or simulated design."""
    assert outcome.design is not None
    table = Table(box=box.ROUNDED, show_header=False, padding=(0, 1), title=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    plan, target = outcome.design.plan, outcome.design.target
    table.add_row("kernel", _kernel(plan.kernel, outcome.kernel))
    table.add_row("target", target_row(target))
    table.add_row("format", plan.format_name)
    table.add_row("plan", _plan(plan))
    table.add_row("memory", f"{_memory(outcome)}")
    if outcome.rows is not None:
        table.add_section()
        _run_rows(table, outcome)
    table.add_section()
    table.add_row("resources", resource_row(outcome.design.resources, target))
    for name, value in (outcome.result or {}).items():
        table.add_row(f"{name}{_shape(value.shape)}", _values(value))
    written_rows(table, outcome)
    return table


def written_rows(table: Table, outcome: Outcome) -> None:
    """Add what was written, if anything was."""
    if outcome.files:
        table.add_section()
        table.add_row("written", outcome.folder)
        for name, size in outcome.files.items():
            table.add_row(f"  {name}", f"{size:,} bytes")


def _run_rows(table: Table, outcome: Outcome) -> None:
    design, cycles = outcome.design, outcome.cycles
    assert design is not None
    plan, target = design.plan, design.target
    pages = outcome.pages or 0
    note = ", assumed" if outcome.assumed else ""
    table.add_row("table", f"{outcome.table}: {plural(outcome.rows or 0, 'row')} in {plural(pages, 'page')} of {plan.page_size // 1024} KB{note}")
    table.add_row("epochs", _epochs(outcome))
    if outcome.bit_exact is not None:
        table.add_row(f"golden = {_hardware(outcome)}", agreement(outcome))
    if outcome.cycle_exact is not None:
        assert outcome.model is not None and outcome.rtl is not None
        same = outcome.cycle_exact
        both = f"{outcome.rtl.cycles:,} cycles both" if same else f"model {outcome.model.cycles:,}, {_hardware(outcome)} {outcome.rtl.cycles:,} cycles"
        table.add_row(f"model = {_hardware(outcome)}", verdict(same, both))
    if cycles is not None:
        table.add_row("cycles", f"{cycles:,}")
        limits = outcome.model.bound if outcome.model is not None else None
        if limits is not None and limits.cycles:
            table.add_row("bound", f"{limits.cycles:,} by {limits.by}; cycles ÷ bound = {cycles / limits.cycles:.3f}")
        seconds = cycles / (target.clock_mhz * 1e6)
        epochs = (outcome.rtl or outcome.model or outcome.golden).epochs                # type: ignore[union-attr]
        rate = pages * plan.page_size * epochs / seconds if seconds else 0.0
        table.add_row("at the clock", f"{seconds_text(seconds)} at {amount(target.clock_mhz)} MHz: {_bytes(rate)}/s of pages")
    if outcome.rtl is not None:
        run = outcome.rtl
        table.add_row("simulated in", f"{seconds_text(run.seconds)}, {_rate((run.cycles or 0) / max(run.seconds, 1e-9))} cycles/s")
    elif outcome.model is not None:
        table.add_row("predicted in", seconds_text(outcome.model.seconds))
    if cycles:
        _shares(table, outcome, cycles)


def _hardware(outcome: Outcome) -> str:
    """Return what ran, as rows of the table call it."""
    assert outcome.rtl is not None
    return "netlist" if outcome.rtl.backend == "netlist" else "RTL"


def _shares(table: Table, outcome: Outcome, cycles: int) -> None:
    """Where cycles go: how much of the run each part would need by itself (they work at the same time)."""
    if outcome.model is None or outcome.model.bound is None:
        return
    limits, counters = outcome.model.bound, outcome.model.counters
    assert isinstance(limits, Bound)
    table.add_section()
    table.add_row("busy", "each part alone, of all cycles (they overlap)")
    parts = {"memory": limits.memory, "Striders": counters.get("striders", 0), "engine": limits.operations, "new model": limits.recurrence}
    for name, value in parts.items():
        table.add_row(f"  {name}", _share(value, cycles))
    if outcome.rtl is not None and "starved" in outcome.rtl.counters:
        table.add_row("  no tuple", _share(outcome.rtl.counters["starved"], cycles))


def _share(value: int, cycles: int) -> str:
    share = value / cycles
    return f"{value:>15,} {share:>6.1%} {'━' * round(min(share, 1.0) * _BAR)}"


def agreement(outcome: Outcome) -> Text:
    assert outcome.golden is not None and outcome.rtl is not None
    found = differences(outcome.golden, outcome.rtl)
    if found:
        return verdict(False, "; ".join(found))
    return verdict(True, f"both stop with {outcome.rtl.errors[0].code.name}" if outcome.rtl.errors else "bit for bit")


def verdict(same: bool, text: str) -> Text:
    return Text.assemble(("yes", "bold green") if same else ("NO", "bold red"), f", {text}")


def _kernel(name: str, where: str) -> str:
    return f"{name} ({where})"


def _plan(plan: AnalyticsPlan) -> str:
    s = plan.schedule
    batch = f"a batch every {s.batch:,} cycles at least" if plan.merge_count != 1 else f"a new model every {s.batch:,} cycles at least"
    striders = plural(plan.walkers, "Strider")
    return (f"{plural(plan.threads, 'thread')} × {plural(plan.lanes, 'lane')}, {plural(plan.ports, 'port')} with {striders}"
            f"{' each' if plan.ports > 1 else ''}; {'a tuple' if plan.threads == 1 else f'{plan.threads} tuples'} every "
            f"{plural(s.interval, 'cycle')}, {batch}")


def _memory(outcome: Outcome) -> str:
    assert outcome.design is not None
    memory, plan = outcome.design.memory, outcome.design.plan
    return f"{plural(memory.latency, 'cycle')} latency, {amount(memory.rate(plan.bus_bytes))} bytes a cycle and port"


def _epochs(outcome: Outcome) -> str:
    assert outcome.design is not None
    run = outcome.rtl or outcome.golden
    most = outcome.design.plan.epochs
    if run is not None and run.converged:
        return f"{run.epochs} of at most {most:,}: converged"
    if run is None and outcome.design.plan.until is not None and outcome.assumed:
        return f"{most:,} (the kernel may stop earlier)"
    count = run.epochs if run is not None else outcome.model.epochs if outcome.model is not None else most
    return f"{count:,}"


def target_row(target: Target) -> str:
    """Return a target in one line."""
    return f"{target.name}: {amount(target.clock_mhz)} MHz, {plural(target.ports, 'memory port')} of {target.bus_bytes} bytes"


def resource_row(need: Resources, have: Target) -> str:
    """Return estimated resources in one line."""
    parts = [f"{name.upper()} {getattr(need, name):,}" + (f" ({getattr(need, name) / getattr(have, name):.0%})" if getattr(have, name) else "")
             for name in ("lut", "ff", "dsp", "bram")]
    return " · ".join(parts) + ", estimated"


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]" if shape else ""


def _values(value: np.ndarray) -> str:
    flat = value.ravel()
    shown = " ".join(f"{v:.4g}" for v in flat[:6])
    return shown + (" …" if flat.size > 6 else "")


def profile_table(outcome: Outcome, source: str, width: int) -> Table:
    """Return what each line of the kernel costs: the cycles in which its operations keep a unit busy."""
    assert outcome.design is not None and outcome.model is not None
    counters, plan = outcome.model.counters, outcome.design.plan
    times = {"group": counters["groups"], "batch": counters["batches"], "epoch": counters["epochs"] if plan.until is not None else 0}
    costs: dict[int, int] = {}
    for op in plan.ops:
        costs[op.line] = costs.get(op.line, 0) + op.beats * times[op.region]
    total, lines = max(sum(costs.values()), 1), source.splitlines()
    table = Table(box=box.ROUNDED, padding=(0, 1))
    table.add_column("line", justify="right")
    table.add_column("what it computes", overflow="ellipsis", no_wrap=True, max_width=width - 46)
    table.add_column("cycles of its units", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for line in sorted(costs):
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        table.add_row(str(line) if line else "", Text(text), f"{costs[line]:,}", f"{costs[line] / total:.1%}")
    return table


def binding_table(graph: Graph, schema: Schema | None, binding: Binding | None) -> Table:
    """Return a kernel's variables with their shapes and, for a table, the columns that feed them."""
    table = Table(box=box.ROUNDED, padding=(0, 1))
    for name in ("variable", "kind", "shape", "from"):
        table.add_column(name, overflow="fold")
    for variable in graph.variables.values():
        shape = ", ".join(f"{d}={n}" if isinstance(d, str) else str(n) for d, n in zip(variable.dims, variable.shape, strict=True))
        table.add_row(variable.name, variable.kind, f"[{shape}]" if shape else "scalar", Text(_origin(variable, schema, binding)))
    return table


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
    names = [schema.columns[s.attribute].name for s in binding.fields[variable.name]]
    return f"column {names[0]}" if len(names) == 1 else f"columns {', '.join(names[:6])}{', …' if len(names) > 6 else ''}"


def targets_table(width: int, known: Mapping[str, Target] = TARGETS) -> Table:
    """Return all targets with what they have, for a terminal of `width` columns."""
    table = Table(box=box.ROUNDED, padding=(0, 1), caption_justify="left")
    for title, right in (("target", False), ("MHz", True), ("ports", True), ("GB/s", True), ("LUT", True), ("FF", True), ("DSP", True), ("BRAM", True)):
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    beside = width >= 136
    if beside:
        table.add_column("what it is")
    for t in known.values():
        rate = amount(round(t.bandwidth / 1e9, 2))
        numbers = (amount(t.clock_mhz), str(t.ports), rate, *(f"{n:,}" for n in (t.lut, t.ff, t.dsp, t.bram)))
        table.add_row(t.name, *numbers, *([t.title] if beside else []))
    if not beside:
        longest = max(map(len, known))
        table.caption = Text("\n".join(f" {t.name:<{longest}}  {t.title}" for t in known.values()))
    return table


def show(console: Console, table: Table) -> None:
    """Print a table."""
    console.print(table, highlight=False)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    for size, unit in units:
        if value >= size:
            return f"{value / size:.3g} {unit}"
    size, unit = units[-1]
    return f"{value / size:.3g} {unit}"


def seconds_text(value: float) -> str:
    if value >= 120:
        return f"{value / 60:,.1f} min"
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))


def _bytes(value: float) -> str:
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")))


def _rate(value: float) -> str:
    return _scaled(value, ((1e6, "M"), (1e3, "k"), (1.0, ""))).rstrip()
