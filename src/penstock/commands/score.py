"""`penstock score`."""

from __future__ import annotations

from typing import Any

import click

from penstock.commandline import OUTPUT
from penstock.options import Once
from penstock.state import State

__all__ = ["COMMANDS"]


@click.pass_obj
def _score(state: State, **values: Any) -> int:
    """Score the rows of a table with what a run has learned; RUN is the folder that run.save wrote.

    F takes block, line pointer and score of each visible row, in row order; a skipped row's score is NULL.
    """
    values["kernel"] = values.pop("run")
    rest = state.begin("score", values)
    from penstock.output import check_file, write_file
    from penstock.run import Run, golden
    from penstock.scores import check_suffix, encoded
    from penstock.scoring import score_design, score_table, scores_of

    asked, outcome, steps = state.asked, state.record, state.steps
    out = check_file(rest["out"])
    check_suffix(str(out))
    scoring = Run.load(asked.kernel).scoring
    with steps.step("reading the table"):
        table = score_table(scoring, asked.source)
    policies = {name: rest[name] for name in ("on_null", "on_nan", "on_overflow")}
    with steps.step("planning"):
        outcome.design = design = score_design(
            scoring, table, asked.source, asked.target, memory=asked.memory, **policies
        )
    from penstock.engines.base import Given

    outcome.workload = workload = design.workload(Given(table, asked.source))
    with steps.step("golden run"):
        outcome.golden = found = golden(workload)
    if found.errors:
        return state.stop(workload.failure(found.errors[0]))
    from dataclasses import replace

    scores = scores_of(scoring.name, replace(found, design=design, workload=workload))
    write_file(out, encoded(str(out), scores))
    return 0


def _parameters() -> list[click.Parameter]:
    from penstock.options import INPUTS

    null = click.Choice(["error", "skip"])
    return [
        click.Argument(("run",), metavar="RUN"),
        Once(("--data",), metavar="SRC", required=True, help="Rows to score, as for `simulate`."),
        Once(("--out",), metavar="F", required=True, help="F.csv, F.npz or F.parquet."),
        Once(("--target",), metavar="T", help="What scores.  [default: what the training had]"),
        Once(("--memory",), metavar="latency=20,bytes=8", help="Timing of a memory port."),
        Once(
            ("--on-null",), type=null, help="What a NULL does.  [default: skip: its score is NULL]"
        ),
        *(option.parameter() for option in INPUTS),
        *OUTPUT(),
    ]


COMMANDS = (click.Command("score", callback=_score, params=_parameters(), help=_score.__doc__),)
