"""`penstock model`."""

from typing import Any

import click

from penstock.cli.commandline import BUS, OUTPUT, REPORT, Command, grouped, parameters
from penstock.cli.state import State
from penstock.commands.costs import COSTS, check_costs, costs
from penstock.engines.options import Count, Once


@click.pass_obj
def _model(state: State, **values: Any) -> int:
    """Predict the exact cycles of a run, its bound and resources, without a simulation."""
    rest = state.begin("model", values)
    from penstock.commands.job import Job
    from penstock.dsl.core.diagnostics import Span, error
    from penstock.runs.run import golden, model

    job = Job.begin(state, "model")
    job.check_profile(rest["profile"])
    request, outcome = state.asked, state.record
    if request.data is None and request.rows is None and not job.engine.data_optional:
        needs = job.engine.needs(job.kernel)
        raise error(
            "E904",
            f"model needs {needs}, or the number of rows",
            Span.whole("penstock model"),
            hint="give --data SRC, or --rows N",
        )
    job = job.opened()
    design = job.compile()
    job.warn()
    outcome.workload = workload = design.held(job.args)
    check_costs(job, workload, rest)
    if workload.results_with_model:
        outcome.golden = golden(workload)
    with state.steps.step(f"cycles of {workload.rows or 0:,} rows"):
        outcome.model = model(workload, design.memory)
    if outcome.model.errors:
        return state.stop(workload.failure(outcome.model.errors[0]))
    state.show(job.engine.sections(outcome))
    if rest["profile"]:
        state.show(job.engine.profile(outcome))
    costs(job, rest)
    return 0


@grouped("Data")
def _own() -> list[click.Parameter]:
    rows = (
        "Assume N rows, alike, of the kernel's own columns, or of those of --data SRC; "
        "for a fit over keys: N random keys."
    )
    return [
        Once(("--rows",), type=Count(1, 1 << 40), metavar="N", help=rows),
        click.Option(("--profile",), is_flag=True, help="Show what each line costs."),
    ]


COMMANDS = (Command("model", _model, parameters("model", BUS, COSTS, OUTPUT, REPORT, _own)),)
