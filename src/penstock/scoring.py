"""Scores of new rows: a run's score, compiled for a table, on any backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.discovery import engine_of
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span
from penstock.engines.base import Design, Given
from penstock.engines.score import ScoreError, Scoring
from penstock.feasible import feasible
from penstock.host.sources import Table, open_table
from penstock.models.heap.schema import Schema
from penstock.models.target import Target
from penstock.scores import Scores
from penstock.targets import target_named

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.run import Run

__all__ = ["predict", "score_design", "score_table", "scores_of"]

#: options of `predict` that the scores' design is compiled with
_POLICIES = ("on_null", "on_nan", "on_overflow")


def score_table(scoring: Scoring, source: Any) -> Table:
    """Return the table that a source holds, for scores. Raises SourceError; ScoreError (E632) for columns of other kinds."""
    learned = {c.name: c for c in scoring.schema.columns if not c.dropped}
    used = [learned[name] for names in scoring.columns.values() for name in names]
    # numbers of categories hold; without any, a server's own pages may serve
    random = isinstance(source, str) and source.startswith("random:")
    like = scoring.schema if random or any(c.labels is not None for c in used) else None
    table = open_table(source, like, ())
    here = {c.name: c for c in table.schema.columns if not c.dropped}
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

    Raises KernelError where columns are missing or have other types, and where it does not fit on the target.
    """
    part = scoring.target if target is None else target_named(target)
    said = {name: value for name, value in options.items() if value is not None}
    chosen = {"bindings": scoring.columns, **scoring.options, **said}
    memory = chosen.pop("memory", None)
    given = Given(table, source, format=scoring.format, memory=memory, options=chosen)
    return feasible(engine_of(scoring.kernel), scoring.kernel, part, given)


def predict(
    scoring: Scoring,
    source: Any,
    backend: str = "golden",
    *,
    target: str | Path | Target | None = None,
    **options: Any,
) -> Scores:
    """Return the scores of a source's rows, see `Run.predict`."""
    policies = {name: options.pop(name) for name in _POLICIES if name in options}
    table = score_table(scoring, source)
    design = score_design(scoring, table, source, target, **policies)
    run = design.run(table, backend, **options)
    return scores_of(scoring.name, run)


def scores_of(name: str, run: Run) -> Scores:
    """Return the scores that a run computed. Raises KernelError where it ended with an error."""
    workload: Any = run.workload
    if run.errors:
        failure = workload.failure(run.errors[0])
        raise KernelError(failure.diagnostic) if failure.diagnostic else ValueError(failure.text)
    if run.result is None:
        raise ValueError("the cycle model computes no scores: take another backend")
    block, line, given = workload.places()
    values = np.ma.masked_all(len(block), np.float64)
    values[given] = run.result[name]
    return Scores(name, values, block, line, run)
