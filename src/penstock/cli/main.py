"""The command line. Exit codes: 0 all equal, 1 the user's error, 2 ours, 3 the run worked but
backends disagree, 130 interrupted."""

import io
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich_click import RichGroup

from penstock.cli.state import State
from penstock.models import plugins


@click.group(
    cls=RichGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.option("--version", is_flag=True, help="Print the versions that a bug report needs.")
@click.pass_context
def program(context: click.Context, version: bool) -> None:
    """Penstock compiles kernels into FPGA hardware that works where the data live, and shows that
    it is right.

    KERNEL is file.py (file.py:name where it has several) or file.psk.
    """
    if version:
        from penstock.report.versions import versions

        click.echo(versions())
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())


def _add_commands() -> None:
    """Take up the shared commands, then those of the engines."""
    from penstock.boards.catalogue import targets
    from penstock.commands import commands
    from penstock.dsl.dialect import dialects
    from penstock.engines.discovery import engines

    for command in commands():
        program.add_command(command)
    for engine in engines().values():
        for command in engine.commands:
            if command.name not in program.commands:
                program.add_command(command)
    targets(), dialects()  # plug-ins that are left out are known then


with warnings.catch_warnings():  # `run` names them
    warnings.simplefilter("ignore")
    _add_commands()


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` without); return the exit code. Never raises for a user's
    mistake."""
    state = State()
    try:
        argv = list(sys.argv[1:] if arguments is None else arguments)
        if not {"-q", "--quiet"} & set(argv):
            for left in plugins.left_out():
                state.say(f"warning: {left}; mend or uninstall its package")
        result = program.main(args=argv, prog_name="penstock", standalone_mode=False, obj=state)
        code = int(result or 0)
    except BrokenPipeError:
        raise
    except SystemExit as stop:  # a pipe that nobody reads any more
        return stop.code if isinstance(stop.code, int) else 1
    except BaseException as problem:
        code = _failed(state, problem)
    try:
        _write_reports(state)
    except Exception as problem:
        code = _failed(state, problem)
    return code


def _failed(state: State, problem: BaseException) -> int:
    from penstock.runs.failures import failure

    request = state.request
    if request is not None and request.verbose > 1:
        text = "".join(traceback.format_exception(problem))
        state.err.print(text, end="", soft_wrap=True)
    return state.stop(failure(problem, request.data if request else None))


def _write_reports(state: State) -> None:
    request, outcome = state.request, state.outcome
    if request is None or outcome is None:
        return
    if request.json is not None:
        _write_json(state, request.json)
    if request.report is not None:
        from penstock.output import write_file
        from penstock.report.html import page

        write_file(request.report, page(outcome, state.report).encode())


def _write_json(state: State, place: str) -> None:
    import json

    from penstock.output import as_npz, write_file

    outcome, kept = state.record, None
    if place != "-" and outcome.large:
        kept = str(Path(place).with_suffix(".result.npz"))
        arrays: Any = outcome.result
        write_file(kept, as_npz(arrays))
    text = json.dumps(outcome.to_json(kept), indent=1, allow_nan=False) + "\n"
    if place == "-":
        click.echo(text, nl=False)
    else:
        write_file(place, text.encode())


def main() -> None:
    """Run the program's command line and exit. Ctrl-C before and after it is `__main__`'s."""
    from penstock.errors import RunWarning

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever a terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # for who works on Penstock, not for who uses it
        warnings.filterwarnings("default", "the cache ", UserWarning)
        warnings.simplefilter("default", RunWarning)
        warnings.showwarning = lambda message, *_, **__: click.echo(f"warning: {message}", err=True)
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        import os

        # what is still to be written goes nowhere, or the interpreter complains at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
