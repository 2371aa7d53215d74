"""`penstock compile`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.commandline import BUS, OUTPUT, Command, grouped, parameters
from penstock.cli.state import State
from penstock.engines.options import Once
from penstock.errors import Conflict

if TYPE_CHECKING:
    from penstock.commands.job import Job


def _watch(job: Job, printed: tuple[str, ...], last: str | None) -> Callable[[str, Any], None]:
    """Return what prints the forms that are asked for, and ends compiling behind the `last` pass. Raises Conflict for a pass that there is not."""
    from penstock.passes.compiling import Stopped, passes_of
    from penstock.passes.form_text import written

    known = [one.name for one in passes_of(job.engine)]
    for flag, names in (("--print-after", printed), ("--stop-after", (last,) if last else ())):
        if wrong := next((name for name in names if name not in known), None):
            what = f"{flag} {wrong}: the engine {job.engine.name} has no such pass"
            raise Conflict(what, f"its passes are {', '.join(known)}")
    after = known[known.index(last) + 1 :] if last else []
    if late := next((name for name in printed if name in after), None):
        what = f"--print-after {late}: compiling stops after {last}, which is before it"
        raise Conflict(what, f"write --stop-after {late}")

    def watch(name: str, form: Any) -> None:
        if name in printed:
            print(written(form), end="", file=job.state.out.file)
        if name == last:
            job.kernel.warnings = list(getattr(form, "warnings", ()))
            raise Stopped

    return watch


@click.pass_obj
def _compile(state: State, **values: Any) -> None:
    """Write a kernel's hardware: Verilog, program and parameters, manifest.json.

    The data of --data give the schema and sizes; without them the kernel's own shapes do (--dim).
    """
    rest = state.begin("compile", values)
    if (rest["out"] is None) == (rest["stop_after"] is None):
        if rest["out"] is None:
            raise click.MissingParameter(param_hint="'--out'", param_type="option")
        hint = "leave --out out; --print-after writes the form to standard output"
        raise Conflict(f"--stop-after {rest['stop_after']} makes no design to be written", hint)
    from penstock.commands.job import Job
    from penstock.passes.compiling import Stopped

    job = Job.begin(state, "compile")
    watch = _watch(job, rest["print_after"], rest["stop_after"])
    try:
        _written(job, watch, rest["out"])
    except Stopped:
        job.warn()


def _written(job: Job, watch: Callable[[str, Any], None], out: str | None) -> None:
    """Compile the kernel, and write the design into the folder `out`."""
    from penstock.output import check_folder, earlier
    from penstock.targets import linked, target_named

    state, folder = job.state, None if out is None else Path(out)
    if folder is not None:
        check_folder(folder, earlier(folder))
    job = job.opened()
    asked = state.asked.target or job.engine.default_target
    design = job.compile(linked(target_named(asked), job.args.link), watch)
    if folder is not None:
        job.warn()
        design.check_ring()
        check_folder(folder, design.file_names())
    with state.steps.step("Verilog"):
        verilog = design.verilog  # made once, here
    watch("emit", verilog)
    assert folder is not None
    design.save(folder)
    state.record.folder = str(folder)
    names = design.file_names()
    state.record.files = {name: (folder / name).stat().st_size for name in names}
    state.show(job.engine.sections(state.record))


def _passes(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """Print the passes of all engines, and end."""
    if not asked:
        return
    from penstock.engines.discovery import engines
    from penstock.passes.compiling import passes_of
    from penstock.report.parts import Column, Grid
    from penstock.report.terminal import show

    columns = Column("engine"), Column("pass"), Column("does")
    rows = [
        ("" if n else engine.name, one.name, one.contract.partition("\n")[0])
        for engine in engines().values()
        for n, one in enumerate(passes_of(engine))
    ]
    show(ctx.obj.out, [Grid(columns, tuple(rows))])
    ctx.exit()


@grouped("Output")
def _out() -> list[click.Parameter]:
    text = "Folder for Verilog, program and manifest; made whole or not at all."
    return [Once(("--out",), metavar="DIR", help=text)]


@grouped("Passes")
def _between() -> list[click.Parameter]:
    return [
        click.Option(
            ("--passes",),
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_passes,
            help="List the passes from kernel to Verilog of each engine, and do nothing else.",
        ),
        click.Option(
            ("--print-after",),
            multiple=True,
            metavar="PASS",
            help="Print the form that a pass gives. Repeatable.",
        ),
        Once(("--stop-after",), metavar="PASS", help="End behind a pass; no --out then."),
    ]


COMMANDS = (Command("compile", _compile, parameters("compile", BUS, OUTPUT, _out, _between)),)
