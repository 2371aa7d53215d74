"""Holding the best points of a sweep against the hardware, on few rows."""

from dataclasses import replace
from typing import Any

from penstock.engines.base import Given
from penstock.engines.discovery import engine_named
from penstock.host.sources import SourceError, Table
from penstock.runs.outcome import differences
from penstock.runs.run import carry_out, golden, model

from .grid import bad
from .points import Point, Task


def confirmed(task: Task, point: Point, rows: int) -> dict[str, Any]:
    """Return how a point ran on golden, model and RTL: `differs` says in what they do, "" for nothing.

    Raises KernelError (E906) where its run cannot be made as short as `rows`, and as `carry_out`.
    """
    args = _few(task, task.at(point), rows)
    design = task.design(point, args)
    workload = design.workload(args)
    if (workload.rows or 0) > rows:
        what = f"the run of {workload.rows:,} rows cannot be cut to {rows:,}"
        raise bad(what, f"give --confirm-rows {workload.rows}", "--confirm")
    runs = golden(workload), model(workload, design.memory), carry_out(design, workload, "rtl")
    wrong = differences(runs[0], runs[2])
    if not runs[2].errors and runs[1].cycles != runs[2].cycles:
        wrong.append(f"cycles: model {runs[1].cycles:,}, RTL {runs[2].cycles:,}")
    return {
        "key": point.key,
        "rows": workload.rows,
        "cycles": runs[2].cycles,
        "differs": "; ".join(wrong),
    }


def _few(task: Task, args: Given, rows: int) -> Given:
    """Return `args` with at most so many rows, where these can be fewer: the first pages of a table,
    random rows in place of assumed ones."""
    engine, few = engine_named(task.engine), min(rows, args.rows or rows)
    if isinstance(args.data, Table):
        table, pages = args.data, len(args.data.pages)
        while pages > 1 and Table(table.schema, table.pages[:pages]).rows > few:
            pages = pages // 2
        return replace(args, data=replace(table, pages=table.pages[:pages]), rows=None)
    if args.data is not None:
        return args
    if engine.data_optional:
        return replace(args, rows=few)
    source = f"random:rows={few},seed={args.seed or 1}"
    try:
        asked = replace(args, source=source, rows=None, seed=None)
        return replace(asked, data=engine.open(source, asked))
    except SourceError:  # an engine whose assumed rows can be run
        return replace(args, rows=few)
