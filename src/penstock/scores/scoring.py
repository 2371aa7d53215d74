"""Scores of new rows: a run's score, compiled for a table, on any backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span
from penstock.dsl.core.scores import evaluate
from penstock.engines.base import Design, Given
from penstock.engines.discovery import engine_of
from penstock.engines.score import ScoreError, Scoring, no_score
from penstock.errors import bad_value, not_one_of
from penstock.host.sources import Table, open_table
from penstock.models.heap.schema import Schema
from penstock.models.numerics.policy import ON_NAN, ON_OVERFLOW
from penstock.models.target import Target
from penstock.passes.compiling import compiled
from penstock.runs.run import BACKENDS as RUNS
from penstock.runs.run import Run
from penstock.scores.files import Scores
from penstock.targets import target_named

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.runs.failures import Failure

#: the backend that computes in float64
HOST = "host"
#: options of `predict` that the scores' design is compiled with
POLICIES: dict[str, tuple[str, ...]] = {
    "on_null": ("error", "skip"),
    "on_nan": ON_NAN,
    "on_overflow": ON_OVERFLOW,
    "on_unseen": ("error", "skip", "last"),
    "on_index": ("error", "skip"),
}
#: what computes scores
BACKENDS = (HOST, *(name for name in RUNS if name != "model"))


def check_policies(scoring: Scoring, policies: Mapping[str, Any]) -> None:
    """Raise OptionError for values that the policies of a run's scores do not have."""
    by_index = bool(scoring.kernel.graph.of_kind("index"))
    for name, value in policies.items():
        known = POLICIES[name] if by_index or name != "on_unseen" else POLICIES[name][:2]
        if value is not None and value not in known:
            raise not_one_of(name, value, known)
        if value is not None and name == "on_index" and not by_index:
            raise bad_value(name, "the kernel has no index")


def score_table(scoring: Scoring, source: Any, on_unseen: str | None = None) -> Table:
    """Return the table that a source holds, for scores; `on_unseen`: what a category does that was not learned, in place of the training's own.
    Raises SourceError; ScoreError (E632) for columns of other kinds."""
    learned = {c.name: c for c in scoring.schema.columns if not c.dropped}
    used = [learned[name] for names in scoring.columns.values() for name in names]
    # numbers of categories hold; without any, a server's own pages may serve
    random = isinstance(source, str) and source.startswith("random:")
    like = scoring.schema if random or any(c.labels is not None for c in used) else None
    indices = [n for v in scoring.kernel.graph.of_kind("index") for n in scoring.columns[v.name]]
    on_unseen = on_unseen or scoring.options.get("on_unseen", "error")
    unseen = "error" if on_unseen == "error" else "code"
    takes = {c.name: False for c in used}
    if scoring.groups is not None:
        takes[scoring.groups.column] = False
    table = open_table(source, like, (), indices=indices, unseen=unseen, used=takes)
    here = {c.name: c for c in table.schema.columns if not c.dropped}
    if scoring.groups is not None and scoring.groups.column not in here:
        raise _unfit(
            f"{table.name} has no column {scoring.groups.column}, which says whose models a row has"
        )
    for mine in used:
        name, other = mine.name, here.get(mine.name)
        if other is None:
            continue  # the binding says it, with what there is
        if mine.is_array != other.is_array:
            what = f"it has the type {other.type}, and {mine.type} was learned from"
        elif (
            mine.is_array
            and None not in (mine.length, other.length)
            and mine.length != other.length
        ):
            what = f"it has arrays of {other.length}, and {mine.length} were learned from"
        elif (mine.labels is None) != (other.labels is None):
            kinds = ("numbers", "categories")[:: 1 if mine.labels is None else -1]
            what = f"it holds {kinds[1]}, and {kinds[0]} were learned from"
        elif mine.labels != other.labels:
            what = "its categories have other numbers than those that were learned from"
        else:
            continue
        raise _unfit(f"the column {name} of {table.name} cannot be scored: {what}")
    if not table.rows:
        hint = "a table without rows has no scores: is it the right one?"
        raise _unfit(f"{table.name} has no rows to score", hint)
    return table


def _unfit(
    message: str, hint: str = "score rows with the columns that the run learned from"
) -> ScoreError:
    return ScoreError(Diagnostic("E632", message, Span.whole("--data"), hint=hint))


def score_design(
    scoring: Scoring,
    table: Table | Schema,
    source: Any,
    target: str | Path | Target | None = None,
    **options: Any,
) -> Design:
    """Return the design that scores tables of this schema; `options`: of its engine.

    Raises KernelError where columns are missing or have other types, and where it does not fit on the target; ScoreError (E631) for
    groups that have models of their own: hardware has one group's.
    """
    if scoring.groups is not None:
        why = f"each {scoring.groups.column} has models of its own, and hardware has one group's"
        hint = "leave backend out: the host scores all groups"
        raise no_score(f"{scoring.kernel.name} by {scoring.groups.column}", f"{why}", hint)
    part = scoring.target if target is None else target_named(target)
    settings = {name: value for name, value in options.items() if value is not None}
    chosen = {"bind": scoring.columns, **scoring.options, **settings}
    memory = chosen.pop("memory", None)
    args = Given(table, source, format=scoring.format, memory=memory, options=chosen)
    return compiled(engine_of(scoring.kernel), scoring.kernel, part, args)


def predict(
    scoring: Scoring,
    source: Any,
    backend: str | None = None,
    *,
    target: str | Path | Target | None = None,
    **options: Any,
) -> Scores:
    """Return the scores of a source's rows, see `Run.predict`."""
    policies = {name: options.pop(name) for name in POLICIES if name in options}
    backend = backend or scoring.backend
    check_policies(scoring, policies)
    if backend not in BACKENDS:
        raise not_one_of("backend", backend, BACKENDS)
    table = score_table(scoring, source, policies.get("on_unseen"))
    if backend == HOST:
        return on_host(scoring, table, source, **policies)
    design = score_design(scoring, table, source, target, **policies)
    run = design.run(table, backend, **options)
    return scores_of(scoring.name, run)


def on_host(
    scoring: Scoring, table: Table, source: Any, on_null: str | None = None, **policies: Any
) -> Scores:
    """Return scores in float64, as NumPy computes them; a NaN is a NaN, with `on_nan="skip"` a NULL. Raises as `predict`."""
    loose = {"on_null": on_null or "skip", "on_nan": "pass", "on_overflow": "saturate"}
    # the engine's walk says which rows there are; float32 has a NaN that passes
    one = replace(scoring, format="float32", groups=None)
    design = score_design(one, table, source, **loose)
    if design.refused is not None:
        what, hint = "the host does not compute scores of rows of models", "backend golden does"
        raise KernelError(replace(design.refused, message=what, hint=hint))
    workload: Any = design.workload(Given(table, source))
    if (error := workload.unreadable()) is not None:
        _fail(workload.failure(error))
    block, line, mask = workload.places()
    columns, inputs, nan = table.columns(), {}, np.zeros(len(block), bool)
    for name, parts in scoring.columns.items():
        held = [_numbers(columns[part], len(block)) for part in parts]
        inputs[name] = np.concatenate(held, axis=1)
        nan |= np.isnan(inputs[name]).any(axis=1)
    if policies.get("on_nan") == "skip":
        mask = mask & ~nan
    values = np.ma.masked_all(len(block), np.float64)
    for part, of_rows in _parts(scoring, table, mask, loose["on_null"], policies):
        rows = {name: array[of_rows] for name, array in inputs.items()}
        values[of_rows] = evaluate(part.kernel.graph, rows)
    mask = ~np.ma.getmaskarray(values)
    result = {scoring.name: values[mask].data}
    run = Run(HOST, result, None, None, {}, design=design, workload=workload)
    return Scores(scoring.name, values, block, line, run)


def _parts(
    scoring: Scoring,
    table: Table,
    mask: np.ndarray,
    on_null: str,
    policies: Mapping[str, Any],
) -> Iterator[tuple[Scoring, np.ndarray]]:
    """Yield scorings and the rows that they are of; `mask`: rows that are scored."""
    if (groups := scoring.groups) is None:
        yield scoring, mask
        return
    keys = table.group_values(groups.column)
    number = {value: k for k, value in enumerate(groups.values)}
    which = np.array([number.get(value, -1) for value in keys])
    null = np.array([value is None for value in keys])
    for wrong, policy, what in (
        (mask & null, on_null, "is NULL"),
        (mask & ~null & (which < 0), policies.get("on_unseen"), "was not fitted"),
    ):
        if wrong.any() and policy != "skip":
            row = int(np.argmax(wrong))
            of = "" if null[row] else f" {keys[row]!r}"
            message = f"the group{of} in row {row + 1:,}, column {groups.column}, {what}"
            option = "--on-null skip" if null[row] else "--on-unseen skip"
            raise _unfit(
                message, f"{option} gives such rows NULL; there are {len(groups.values):,} groups"
            )
    for k in range(len(groups.values)):
        if (rows := mask & (which == k)).any():
            yield scoring.of_group(k), rows


def _numbers(column: Any, rows: int) -> np.ndarray:
    """Return a column as float64, shape (rows, elements), NaN for NULL."""
    if isinstance(column, list):  # arrays, None for a NULL
        width = max((len(v) for v in column if v is not None), default=1)
        column = [np.full(width, np.nan) if v is None else np.ma.filled(v, np.nan) for v in column]
    held = np.ma.filled(np.ma.masked_array(column, dtype=np.float64), np.nan)
    return np.asarray(held).reshape(rows, -1)


def scores_of(name: str, run: Run) -> Scores:
    """Return the scores that a run computed. Raises KernelError where it ended with an error."""
    workload: Any = run.workload
    if run.errors:
        _fail(workload.failure(run.errors[0]))
    if run.result is None:
        raise ValueError("the cycle model computes no scores: take another backend")
    block, line, mask = workload.places()
    values = np.ma.masked_all(len(block), np.float64)
    values[mask] = run.result[name]
    return Scores(name, values, block, line, run)


def _fail(failure: Failure) -> NoReturn:
    """Raise what a failed run means."""
    raise KernelError(failure.diagnostic) if failure.diagnostic else ValueError(failure.text)
