"""`penstock score`."""

from dataclasses import replace
from typing import Any

import click

from penstock.cli.commandline import OUTPUT, Command
from penstock.cli.state import State
from penstock.commands.simulate import How, run_hardware, verdict
from penstock.engines.discovery import engine_named
from penstock.engines.options import Once


@click.pass_obj
def _score(state: State, **values: Any) -> int:
    """Score the rows of a table with what a run has learned; RUN is the folder that run.save wrote.

    F takes block, line pointer and score of each visible row, in row order; a skipped row's score is NULL. A backend that runs hardware is
    compared with the golden scores and the cycle model.
    """
    values["kernel"] = values.pop("run")
    rest = state.begin("score", values)
    from penstock.engines.base import Given
    from penstock.output import check_file, write_file
    from penstock.runs.run import Run, golden, model
    from penstock.runs.saved import used
    from penstock.scores.files import check_suffix, encoded
    from penstock.scores.scoring import (
        HOST,
        POLICIES,
        check_policies,
        on_host,
        score_design,
        score_table,
        scores_of,
    )

    asked, outcome, steps = state.asked, state.record, state.steps
    out = check_file(rest["out"])
    check_suffix(str(out))
    scoring = Run.load(asked.kernel).scoring
    policies = {name: rest[name] for name in POLICIES}
    check_policies(scoring, policies)
    with used(asked.kernel), steps.step("reading the table"):
        table = score_table(scoring, asked.source, rest["on_unseen"])
    backend = rest["backend"] or scoring.backend
    if backend == HOST:
        with used(asked.kernel), steps.step("scores"):
            scores = on_host(scoring, table, asked.source, **policies)
        write_file(out, encoded(str(out), scores))
        return 0
    with used(asked.kernel), steps.step("planning"):
        outcome.design = design = score_design(
            scoring, table, asked.source, asked.target, memory=asked.memory, **policies
        )
    hardware = backend != "golden"
    args = Given(table, asked.source)
    with used(asked.kernel), steps.step("golden run"):
        outcome.workload = workload = design.held(args) if hardware else design.workload(args)
        outcome.golden = golden(workload)
    if hardware and not outcome.golden.errors:
        with steps.step("cycle model"):
            outcome.model = model(workload, design.memory)
        outcome.rtl = run_hardware(state, design, How(backend, None, None, None))
        state.show(engine_named(design.engine_name).sections(outcome))
    code = verdict(state)
    if code == 0:
        done = replace(outcome.rtl or outcome.golden, design=design, workload=workload)
        write_file(out, encoded(str(out), scores_of(scoring.name, done)))
    return code


def _parameters() -> list[click.Parameter]:
    from penstock.engines.options import INPUTS

    null = click.Choice(["error", "skip"])
    return [
        click.Argument(("run",), metavar="RUN"),
        Once(("--data",), metavar="SRC", required=True, help="Rows to score, as for `simulate`."),
        Once(("--out",), metavar="F", required=True, help="F.csv, F.npz or F.parquet."),
        Once(
            ("--backend",),
            type=click.Choice(["host", "golden", "rtl", "netlist", "pysim"]),
            help="What computes the scores: NumPy in float64 (host), or the hardware's arithmetic, the same on all others.  "
            "[default: golden, for fits host]",
        ),
        Once(("--target",), metavar="T", help="What scores.  [default: what the training had]"),
        Once(("--memory",), metavar="latency=20,bytes=8", help="Timing of a memory port."),
        Once(
            ("--on-null",), type=null, help="What a NULL does.  [default: skip: its score is NULL]"
        ),
        Once(
            ("--on-unseen",),
            type=click.Choice(["error", "skip", "last"]),
            help="What a group or category does that was not learned from; last: the model's last row stands for it.  [default: error]",
        ),
        Once(
            ("--on-index",),
            type=null,
            help="What an index does that names no row of a model.  [default: error]",
        ),
        *(option.parameter() for option in INPUTS),
        *OUTPUT(),
    ]


COMMANDS = (Command("score", _score, _parameters()),)
