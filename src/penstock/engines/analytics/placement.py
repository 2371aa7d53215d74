"""Whether models that would fit on the chip lie in memory all the same, because a run is quicker: the last of three decisions.

The two before it are in `dsl.analytics.plan.choose`: the user asks for memory (`--place`, `--hot`, `--dedupe`), or the chip does not hold the rows.
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from penstock.dsl.core.diagnostics import KernelError
from penstock.engines.base import Given
from penstock.host.sources import SourceError, Table
from penstock.models.derating import slower
from penstock.models.errors import RunError

from .design import AnalyticsDesign
from .measure import sample_of


def quicker(
    on_chip: AnalyticsDesign, args: Given, in_memory: Callable[[], AnalyticsDesign]
) -> bool:
    """Return whether a run takes less time with models in memory, in the design that `in_memory` makes, than with models on the chip.

    On the chip all of a model is loaded before a run and written behind it, in memory only the rows that are asked for; so it is tried where this
    may be more than a cycle for each tuple of the run. Where nothing says how many tuples that has, they may be many.
    """
    table, plan = args.data, on_chip.plan
    codes = sum(plan.buffers[n].rows * plan.buffers[n].cols for n in plan.roles.models)
    rows = args.rows or (table.rows if isinstance(table, Table) else 0)
    if 3 * codes <= rows * plan.epochs or not rows:
        return False
    try:
        other, first = in_memory(), _first(replace(args, data=None), rows, rows)
        return _extended(other, args, rows) < _cycles(on_chip, first, plan.epochs)
    except (KernelError, SourceError, RunError):
        return False  # rows of these models do not lie in memory, or are not there


def _extended(design: AnalyticsDesign, args: Given, rows: int) -> float:
    """Return about how many cycles a run takes whose rows lie in memory, from its first tuples: the others take as long as the later half of those."""
    epochs, sample = design.plan.epochs, sample_of(design.plan)
    if rows <= sample:
        first = _first(args, rows, rows)
        once, twice = (_cycles(design, first, count) for count in (1, 2))
        return once + (epochs - 1) * (twice - once)
    parts = [_first(args, rows, count) for count in (sample // 2, sample)]
    less, more = (_cycles(design, part, 1) for part in parts)
    few, some = (p.data.rows if isinstance(p.data, Table) else p.rows or 0 for p in parts)
    return more + (more - less) * (rows * epochs - some) / max(some - few, 1)


def _first(args: Given, rows: int, count: int) -> Given:
    """Return what is given for a run, but of about so many of its tuples."""
    table = args.data
    if not isinstance(table, Table):
        return Given(rows=count, options={"indices": args.option("indices", 0.0)})
    pages = max(1, len(table.pages) * count // rows)
    return replace(args, data=replace(table, pages=table.pages[:pages]))


def _cycles(design: AnalyticsDesign, args: Given, epochs: int) -> float:
    """Return the cycles of so many epochs, as long as those of a part that is less full. Raises RunError for rows that would end the run.

    The model has a port of their own for rows in memory. Where a board has one for all, either waits while the other passes: about as long as what
    is less takes.
    """
    plan = design.plan
    workload = design.workload(
        design.opened(replace(args, options={**args.options, "epochs": epochs}))
    )
    cycles = workload.model(design.memory)
    if cycles.error is not None:
        raise RunError(cycles.error)
    assert cycles.total is not None
    full = max(design.resources.shares(design.target).values())
    longer = slower(min(1.0, full), design.target)
    if plan.row_unit is None or design.target.ports > 1:
        return cycles.total * longer
    moved = cycles.counters["rows_fetched"] + cycles.counters["rows_written"]
    rows = moved * max(size for size, _ in plan.row_unit.sizes)
    pages = epochs * (workload.pages or 0) * plan.page_size
    return longer * (cycles.total + ceil(min(pages, rows) / design.memory.rate(plan.bus_bytes)))
