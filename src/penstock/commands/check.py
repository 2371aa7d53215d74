"""`penstock check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import BUS, OUTPUT, Command, parameters
from penstock.cli.state import State
from penstock.report.parts import Column, Grid, Part

if TYPE_CHECKING:
    from penstock.dsl.core.walks import Walked


@click.pass_obj
def _check(state: State, **values: Any) -> int:
    """Look for mistakes in a kernel, and in how it goes with its data; build nothing.

    With --data, columns are bound, sizes settled and the rows read: a NULL or a value that would
    end a run is named. With --target or --format, the plan is made as well. Of each named axis it says how often
    the kernel's values walk over it, and what forces more than one pass.
    """
    state.begin("check", values)
    from penstock.commands.job import Job

    job = Job.begin(state, "check").opened()
    request = state.asked
    design = job.compile() if job.engine.plans(job.kernel, request) else None
    parts = job.engine.check(job.kernel, job.args, design)
    job.warn()
    state.show([*parts, *_passes(job.kernel.walked)])
    wrong = job.engine.unreadable(job.kernel, job.args, design)
    if wrong is not None:
        return state.stop(wrong)
    if not request.quiet:
        state.out.print(f"{request.kernel}: the {job.kernel.title} {job.kernel.name} is fine")
    return 0


def _passes(walked: Sequence[Walked]) -> Iterable[Part]:
    """The passes over each axis, and what forces more than one."""
    if walked:
        columns = (Column("axis"), Column("passes", right=True), Column("forced by"))
        rows = tuple((one.axis, str(one.passes), ", ".join(one.forced_by)) for one in walked)
        yield Grid(columns, rows)


COMMANDS = (Command("check", _check, parameters("check", BUS, OUTPUT)),)
