"""`penstock profile`: which rows of a kernel's models its table asks for most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import DATA, KERNEL, OUTPUT, Command
from penstock.cli.state import State
from penstock.engines.options import Count, Once
from penstock.report.parts import Column, Facts, Grid, Part

from .options import OPTIONS, POLICIES

if TYPE_CHECKING:
    import numpy as np

    from penstock.dsl.analytics.kernel import Kernel
    from penstock.dsl.analytics.lookups import Lookups
    from penstock.host.sources import Table
    from penstock.models.analytics.config import AnalyticsPlan, Op

#: shares of a model's rows that a store is tried with
_SHARES = (64, 32, 16)
#: lookups that the store is tried with, at most
_TRIED = 1_000_000


@click.pass_obj
def _profile(state: State, **values: Any) -> int:
    """Count the rows of models that a kernel asks for with its data, and train nothing.

    For each model: how many lookups and rows there are, which row is asked for most, and how often
    a store of hot rows would have them. --out writes the hottest rows of each model.
    """
    rest = state.begin("profile", values)
    from penstock.commands.job import Job
    from penstock.data.tables import table_failure
    from penstock.dsl.analytics.kernel import Kernel
    from penstock.errors import Conflict
    from penstock.host.sources import Table
    from penstock.models.errors import RunError

    from .hot import hottest

    job = Job.begin(state, "profile").opened()
    kernel, table = job.kernel, job.args.data
    if not isinstance(kernel, Kernel) or not isinstance(table, Table):
        hint = "give a kernel with rows and --data SRC, such as FILE.csv"
        raise Conflict("a profile is that of a kernel's rows on a table", hint)
    bindings, dims = job.args.option("bind", {}), job.args.option("dims", {})
    policies = {o.name: job.args.option(o.name) for o in POLICIES}
    try:
        lookups, sizes = profiled(kernel, table, bindings, dims, **policies)
    except RunError as problem:
        return state.stop(table_failure(state.asked.data, table, problem.error))
    if not lookups:
        raise Conflict(
            f"{kernel.name} reads and changes no rows by an index",
            "penstock simulate --profile shows what a kernel's lines cost",
        )
    for name, asked in lookups.items():
        state.show(_parts(name, sizes[name], asked))
    if rest["out"] is not None:
        try:
            Path(rest["out"]).write_text(
                hottest(kernel.name, lookups, sizes, rest["top"]), encoding="utf-8"
            )
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise Conflict(f"{rest['out']}: {reason}", "name a file that can be written") from None
    return 0


def profiled(
    kernel: Kernel,
    table: Table,
    bindings: Mapping[str, Sequence[str]] | None = None,
    dims: Mapping[str, int] | None = None,
    **policies: str | None,
) -> tuple[dict[str, Lookups], dict[str, int]]:
    """Return what a table asks of each model that is read or changed by row, and the models' rows.

    What an index counts is as `dims` says; else 1 + its largest value. `policies`: which tuples are left out, as in a run (`on_null`, …).

    Raises KernelError for columns that are no indices, and rows that values choose (E497), RunError for a row that there is not.
    """
    from penstock.dsl.analytics.lookups import check_by_integers
    from penstock.engines.base import Given
    from penstock.models.analytics.golden import rows_asked
    from penstock.models.analytics.indices import walk_port
    from penstock.models.errors import RunError
    from penstock.passes.compiling import compiled
    from penstock.targets import target_named

    from .arguments import front
    from .registration import AnalyticsEngine

    names = {
        d for kind in ("input", "output", "index") for p in kernel.of_kind(kind) for d in p.dims
    }
    free = (
        name for name in kernel.dim_names if name not in names
    )  # how wide rows are does not matter
    options = {"bind": bindings or {}, "dims": {**dict.fromkeys(free, 1), **(dims or {})}}
    args, engine = Given(table, table, options=options | policies), AnalyticsEngine()
    check_by_integers(front(kernel, args)[0])
    part = target_named(engine.default_target)
    plan: AnalyticsPlan = compiled(engine, kernel, part, args, search=False).plan  # type: ignore[attr-defined]
    if not plan.by_rows:
        return {}, {}
    port = walk_port(plan, table.pages)
    if port.error is not None:
        raise RunError(port.error)
    return _of_models(plan, rows_asked(plan, port.tuples), len(port.tuples))


def _of_models(
    plan: AnalyticsPlan, asked: Sequence[tuple[Op, np.ndarray]], tuples: int
) -> tuple[dict[str, Lookups], dict[str, int]]:
    """Return the lookups of each model, all that a batch reads before what it changes, and the models' rows."""
    import numpy as np

    from penstock.dsl.analytics.lookups import in_order

    lookups, sizes = {}, {}
    tables = dict.fromkeys(op.operands[0].buffer for op, _ in asked)
    for table in tables:
        name, parts = plan.buffers[table].name, []
        for changes in (False, True):
            rows = [
                of_op
                for op, of_op in asked
                if op.changes_rows == changes and op.operands[0].buffer == table
            ]
            parts.append(np.concatenate([np.zeros((tuples, 0), np.int64), *rows], axis=1))
        lookups[name] = in_order(parts, plan.merge_count or max(tuples, 1))
        sizes[name] = next(op.detail[0] for op, _ in asked if op.operands[0].buffer == table)
    return lookups, sizes


def _parts(name: str, rows: int, asked: Lookups) -> list[Part]:
    """Return what is said of one model."""
    import numpy as np

    from penstock.models.rows.bound import best_fixed, busiest, fewest_fetched
    from penstock.models.rows.unit import Directory, RowTable

    trace = asked.rows
    if not len(trace):
        return [Facts.of(("model", name), ("lookups an epoch", "none"))]
    hottest, times = busiest(trace)
    facts = Facts.of(
        ("model", name),
        ("rows", f"{rows:,}, of which {len(np.unique(trace)):,} are asked for"),
        (
            "lookups an epoch",
            f"{len(trace):,}, of which {int(asked.changes.sum()):,} change the row",
        ),
        ("hottest row", f"{hottest:,}, in {times / len(trace):.1%} of the lookups"),
    )
    tried, table = trace[:_TRIED], []
    for share in _SHARES:
        lines = min(8 << max(0, (rows // share // 8).bit_length() - 1), rows)
        kept = max(lines - max(4, lines // 16), 0) if lines < rows else 0
        held = Directory(RowTable((name,), (1,), rows, lines, keeping=kept))
        for n, (row, change) in enumerate(
            zip(tried.tolist(), asked.changes.tolist(), strict=False), 1
        ):
            held.find(row, n, change)
        counts, fewest = held.counts, fewest_fetched(tried, lines)
        first = min(lines, len(np.unique(tried))) / len(tried)  # fixed rows come once, too
        hits = counts.hits / len(tried), best_fixed(tried, lines) - first, 1 - fewest / len(tried)
        table.append((f"{lines:,}", f"{lines / rows:.1%}", *(f"{h:.3f}" for h in hits)))
    names = ("lines", "of the rows", "row unit", "best fixed rows", "best of all")
    columns = tuple(Column(n, right=True) for n in names)
    caption = "hits a lookup; lines start empty, a batch is a lookup" + (
        f"; of the first {_TRIED:,} lookups" * (len(trace) > _TRIED)
    )
    return [facts, Grid(columns, tuple(dict.fromkeys(table)), caption=caption)]


COMMANDS = (
    Command(
        "profile",
        _profile,
        [
            *KERNEL(),
            *DATA(),
            *(option.parameter() for option in OPTIONS["profile"]),
            *OUTPUT(),
            Once(("--out",), metavar="FILE.json", help="Where to write the hottest rows."),
            click.Option(
                ("--top",),
                type=Count(1, 1 << 32),
                default=65_536,
                metavar="N",
                help="Rows of each model in it, at most.  [default: 65536]",
            ),
        ],
    ),
)
