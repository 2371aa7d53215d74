"""`penstock compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.cli.commandline import BUS, OUTPUT, Command, parameters
from penstock.cli.state import State
from penstock.engines.options import Once


@click.pass_obj
def _compile(state: State, **values: Any) -> None:
    """Write a kernel's hardware: Verilog, program and parameters, manifest.json.

    The data of --data give the schema and sizes; without them the kernel's own shapes do (--dim).
    """
    folder = Path(state.begin("compile", values)["out"])
    from penstock.commands.job import Job
    from penstock.output import check_folder, earlier
    from penstock.targets import linked, target_named

    job = Job.begin(state, "compile")
    check_folder(folder, earlier(folder))
    job = job.opened()
    asked = state.asked.target or job.engine.default_target
    design = job.compile(linked(target_named(asked), job.args.link))
    job.warn()
    design.check_ring()
    check_folder(folder, design.file_names())
    with state.steps.step("Verilog"):
        design.verilog  # noqa: B018  made once, here
    design.save(folder)
    state.record.folder = str(folder)
    names = design.file_names()
    state.record.files = {name: (folder / name).stat().st_size for name in names}
    state.show(job.engine.sections(state.record))


def _out() -> list[click.Parameter]:
    text = "Folder for Verilog, program and manifest; made whole or not at all."
    return [Once(("--out",), required=True, metavar="DIR", help=text)]


COMMANDS = (Command("compile", _compile, parameters("compile", BUS, OUTPUT, _out)),)
