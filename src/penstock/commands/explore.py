"""`penstock explore`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import Command, grouped, parameters
from penstock.cli.state import State
from penstock.engines.options import Count, Once, Pair

if TYPE_CHECKING:
    from penstock.report.parts import Part
    from penstock.runs.outcome import Outcome
    from penstock.sweeps.grid import Sweep


@click.pass_obj
def _explore(state: State, **values: Any) -> int:
    """Compute many designs of a kernel, for all targets, formats and values of options that are
    given, and show the best. --target and --format take several, with commas.

    What is computed is kept: the same command goes on where an earlier one was stopped.
    """
    rest = state.begin("model", values)
    from penstock.output import check_folder, write_folder
    from penstock.sweeps import results
    from penstock.sweeps.confirm import confirmed
    from penstock.sweeps.explore import computed
    from penstock.sweeps.points import code_of

    state.record.command, out = "explore", rest["out"]
    pareto = results.checked((rest["pareto"] or "seconds,lut").split(","))
    if out is not None:
        check_folder(out, results.FILES)
    sweep = _sweep(state, rest["sweep"])
    with state.steps.step(f"{len(sweep.points):,} points", len(sweep.points)) as advance:
        rows = computed(sweep, rest["jobs"], rest["dask"], advance, state.say)
    table = results.table_of(sweep, rows, pareto)
    records = table.to_pylist()
    held, points = [], {point.key: point for point in sweep.points}
    plans: dict[Any, Any] = {}
    for row in results.best(records, pareto):
        plans.setdefault((row["target"], row["format"], row["plan"]), row)
    for row in list(plans.values())[: rest["confirm"] or 0]:
        with state.steps.step(f"simulating {row['key'][:8]} on {row['target']}"):
            held.append(confirmed(sweep.task, points[row["key"]], rest["confirm_rows"] or 1000))
    shown = results.parts(sweep, records, pareto, held)
    state.show(shown)
    if out is not None:
        header: dict[str, Any] = {"kernel": state.asked.kernel, "engine": sweep.task.engine}
        header |= {"pareto": list(pareto), "confirmed": held}
        code = code_of(*sweep.task.modules)
        write_folder(out, results.files(table, header, lambda: _page(state.record, shown), code))
    results.check_any(records)
    return 3 if any(each["differs"] for each in held) else 0


def _page(outcome: Outcome, parts: list[Part]) -> str:
    from penstock.report.html import page  # not loaded where the cache has the page

    return page(outcome, parts)


def _sweep(state: State, pairs: tuple[tuple[str, str], ...]) -> Sweep:
    """Return what is asked for. Raises KernelError, Conflict, SourceError."""
    from penstock.commands.job import Job
    from penstock.dsl.core.diagnostics import Span, error
    from penstock.sweeps.grid import bad, listed, sweep_of
    from penstock.sweeps.points import Task

    asked = state.asked
    targets, formats = (listed(text) if text else [None] for text in (asked.target, asked.format))
    state.request = replace(asked, target=None, format=None)
    job = Job.begin(state, "model")
    if asked.data is None and asked.rows is None and not job.engine.data_optional:
        what = f"explore needs {job.engine.needs(job.kernel)}, or the number of rows"
        raise error(
            "E904", what, Span.whole("penstock explore"), hint="give --data SRC, or --rows N"
        )
    if len(dict(pairs)) < len(pairs):
        raise bad("an option is swept twice", "give all of its values at once")
    for form in formats:
        job.engine.allow(job.kernel, "model", replace(asked, format=form))
    task = Task(job.kernel, job.engine.name, job.opened().args)
    parts = [part or job.engine.default_target for part in targets]
    return sweep_of(task, parts, formats, dict(pairs))


@grouped("Sweep")
def _own() -> list[click.Parameter]:
    rows = "Assume N rows, as penstock model does."
    dask = "Compute on the workers of a running Dask scheduler, as in tcp://127.0.0.1:8786."
    sweep = "Values of an option of the engine, as in threads=1..16, 1..16:4 or 1,2,4. Repeatable."
    pareto = "Figures of which less is better.  [default: seconds,lut]"
    confirm = "Simulate the best N on few rows, and hold golden, model and RTL against each other."
    count = Count(1, 1 << 40)
    return [
        Once(("--rows",), type=count, metavar="N", help=rows),
        click.Option(
            ("--sweep",),
            multiple=True,
            type=Pair("threads=1..16", str),
            metavar="OPTION=VALUES",
            help=sweep,
        ),
        Once(("--pareto",), metavar="FIGURE,…", help=pareto),
        Once(("--confirm",), type=Count(1, 100), metavar="N", help=confirm),
        Once(("--confirm-rows",), type=count, metavar="N", help="Rows for that.  [default: 1000]"),
        Once(("--jobs",), type=Count(1, 1024), metavar="N", help="Processes.  [default: as cores]"),
        Once(("--dask",), metavar="ADDRESS", help=dask),
        Once(("--out",), metavar="DIR", help="Write points.parquet, .csv, .json and pareto.html."),
        click.Option(("-v", "--verbose"), count=True, help="Say what takes how long."),
        click.Option(("-q", "--quiet"), is_flag=True, help="Print errors only."),
    ]


COMMANDS = (Command("explore", _explore, parameters("model", _own)),)
