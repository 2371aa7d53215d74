"""The command line: `penstock check`, `compile`, `model`, `simulate`, `explain`, `targets`.

Exit codes: 0 all equal, 1 the user's error, 2 ours, 3 the run worked but backends disagree, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.options import Count, Once, Request, common, data, fits, job, kernel_options, plan_options, request

if TYPE_CHECKING:
    from penstock.failures import Failure
    from penstock.outcome import Outcome

__all__ = ["State", "main", "run"]


@dataclass
class State:
    """What `run` must know when a command fails on its way."""

    request: Request | None = None
    outcome: Outcome | None = None
    out: Console = field(default_factory=lambda: Console(highlight=False, markup=False))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, markup=False))

    def begin(self, command: str, values: dict[str, Any]) -> dict[str, Any]:
        """Note the command's options; return those that only it has."""
        from penstock.outcome import Outcome
        self.outcome = Outcome(command, values["kernel"])
        self.request, rest = request(values)
        if self.request.json == "-":            # standard output is the report's
            self.out = self.err
        return rest

    @property
    def asked(self) -> Request:
        """The command's options."""
        assert self.request is not None
        return self.request

    @property
    def record(self) -> Outcome:
        """What the command has found so far."""
        assert self.outcome is not None
        return self.outcome

    def show(self, table: Any) -> None:
        """Print a table unless --quiet is given."""
        if not self.asked.quiet:
            from penstock.report import show
            show(self.out, table)

    def say(self, text: str) -> None:
        """Print a diagnostic on standard error as it is, in colour on a terminal."""
        from rich.text import Text
        shown = Text("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text))
        shown.highlight_regex(r"(?m)^(internal )?error(\[\w+\])?", "bold red")
        shown.highlight_regex(r"(?m)^warning\[\w+\]", "bold yellow")
        shown.highlight_regex(r"(?m)^(hint|note):", "bold cyan")
        self.err.print(shown, soft_wrap=True)

    def stop(self, found: Failure) -> int:
        """Print a failure and keep it for the report; return its exit code."""
        if self.outcome is not None:
            self.outcome.errors += found.errors
        self.say(found.text)
        return found.exit_code


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.option("--version", is_flag=True, help="Print the versions that a bug report needs.")
@click.pass_context
def program(context: click.Context, version: bool) -> None:
    """Penstock compiles analytics kernels into FPGA hardware that trains on PostgreSQL pages, and shows that it is right.

    KERNEL is file.py (file.py:name where it has several) or file.psk.
    """
    if version:
        from penstock.versions import versions
        click.echo(versions())
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())


@program.command()
@kernel_options
@data
@plan_options
@common
@click.pass_obj
def check(state: State, **values: Any) -> None:
    """Look for mistakes in a kernel, and in how it goes with a table; build nothing.

    With --data, columns are bound and sizes settled; with --target or --format, the plan is made as well.
    """
    state.begin("check", values)
    from penstock.commands import check_kernel
    check_kernel(state)


@program.command()
@job
@click.option("--out", cls=Once, required=True, metavar="DIR", help="Folder for Verilog, program and manifest; made whole or not at all.")
@click.pass_obj
def compile(state: State, **values: Any) -> None:
    """Write a kernel's hardware: Verilog, program and parameters, manifest.json.

    The table of --data gives the schema and sizes; without it the kernel's own shapes do (--dim).
    """
    rest = state.begin("compile", values)
    from penstock.commands import compile_kernel
    compile_kernel(state, Path(rest["out"]))


@program.command()
@job
@fits
@click.option("--rows", cls=Once, type=Count(1, 1 << 40), metavar="N", help="Assume N rows, alike, of the kernel's own columns, or of those of --data SRC; "
              "for a fit over keys: N random keys.")
@click.option("--profile", is_flag=True, help="Show what each line of the kernel costs.")
@click.pass_obj
def model(state: State, **values: Any) -> int:
    """Predict the exact cycles of a run, its bound and resources, without a simulation."""
    rest = state.begin("model", values)
    from penstock.commands import predict
    return predict(state, rest["profile"])


@program.command()
@job
@fits
@click.option("--backend", cls=Once, type=click.Choice(["rtl", "netlist", "board", "golden", "model", "pysim"]),
              help="What runs: the engine alone, the engine as it is synthesised, or the whole device of a board, from its serial pins inwards; for a fit "
              "kernel also the golden model alone, or beside the cycle model, or Amaranth's simulator.  [default: rtl]")
@click.option("--family", cls=Once, metavar="F", help="With --backend netlist: whose cells: ecp5, ice40, gowin.  [default: the target's]")
@click.option("--device", cls=Once, metavar="URL", help="With --backend board: a board that is connected, as in serial:/dev/ttyUSB0.")
@click.option("--waves", cls=Once, metavar="FILE", help="Write the run's waves (large; for short runs).")
@click.option("--profile", is_flag=True, help="Show what each line of the kernel costs.")
@click.pass_obj
def simulate(state: State, **values: Any) -> int:
    """Run the hardware in simulation and compare it with the golden model and the cycle model."""
    rest = state.begin("simulate", values)
    from penstock.commands import simulate as run_all
    return run_all(state, rest["profile"], rest["waves"], rest["backend"] or "rtl", rest["device"], rest["family"])


@program.command()
@click.argument("code", metavar="CODE")
@click.pass_obj
def explain(state: State, code: str) -> None:
    """Print the page of a diagnostic, such as E614 or TUPLE_NULL."""
    from penstock.dsl.codes import explain as page
    from penstock.failures import HARDWARE_PAGES
    text = page(HARDWARE_PAGES.get(code.strip().upper(), code))
    if state.out.is_terminal:
        from rich.markdown import Markdown
        state.out.print(Markdown(text))
    else:
        click.echo(text, nl=False)


@program.command()
@job
@click.option("--board", "board", cls=Once, required=True, metavar="B", help="What to build for; `penstock boards` lists them.")
@click.option("--out", cls=Once, required=True, metavar="DIR", help="Folder for bitstream, netlist and manifest; made whole or not at all.")
@click.option("--seeds", cls=Once, type=Count(1, 64), metavar="N", help="Placements to try; the fastest is taken.  [default: 1]")
@click.option("--clock", cls=Once, type=float, metavar="MHZ", help="The design's clock.  [default: what plans in this format reach on the board]")
@click.option("--jobs", cls=Once, type=Count(1, 64), metavar="N", help="Placements at a time.  [default: one a core]")
@click.option("--limit", cls=Once, type=Count(1, 100_000), metavar="MINUTES", help="End synthesis and placement after so long; at half of it, a placement is "
              "tried once more in another way.  [default: 120]")
@click.pass_obj
def build(state: State, **values: Any) -> None:
    """Make a board's bitstream, and report area and timing as placed, beside the estimate."""
    rest = state.begin("build", values)
    from penstock.building import build_board
    build_board(state, rest["board"], Path(rest["out"]), rest["seeds"] or 1, rest["clock"], rest["jobs"], rest["limit"])


@program.command("program")
@click.argument("folder", metavar="DIR")
@click.option("--board", "board", cls=Once, required=True, metavar="B", help="The board that is connected.")
@click.pass_obj
def load(state: State, folder: str, board: str) -> None:
    """Load the bitstream that `penstock build` wrote into DIR, with openFPGALoader."""
    from penstock.building import program_board
    program_board(state, board, Path(folder))


@program.command("boards")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_obj
def list_boards(state: State, as_json: bool) -> None:
    """List the boards: device, memory, link, what was shown of them."""
    from penstock.building import boards_json, boards_table
    from penstock.report import show
    if as_json:
        import json
        click.echo(json.dumps(boards_json(), indent=1))
    else:
        show(state.out, boards_table())


@program.command()
@click.pass_obj
def targets(state: State) -> None:
    """List what kernels can be compiled for."""
    from penstock.report import show, targets_table
    show(state.out, targets_table(state.out.width))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` without); return the exit code. Never raises for a user's mistake."""
    state = State()
    try:
        code = int(program.main(args=None if arguments is None else list(arguments), prog_name="penstock", standalone_mode=False, obj=state) or 0)
    except BrokenPipeError:
        raise
    except SystemExit as stop:                  # a pipe that nobody reads any more
        return stop.code if isinstance(stop.code, int) else 1
    except BaseException as problem:
        code = _failed(state, problem)
    try:
        _write_report(state)
    except Exception as problem:
        code = _failed(state, problem)
    return code


def _failed(state: State, problem: BaseException) -> int:
    from penstock.failures import failure
    request = state.request
    if request is not None and request.verbose > 1:
        state.err.print("".join(traceback.format_exception(problem)), end="", soft_wrap=True)
    return state.stop(failure(problem, request.data if request else None))


def _write_report(state: State) -> None:
    request, outcome = state.request, state.outcome
    if request is None or request.json is None or outcome is None:
        return
    import json

    from penstock.output import write_file
    kept = None
    if request.json != "-" and outcome.large:
        import io

        import numpy as np
        kept = str(Path(request.json).with_suffix(".result.npz"))
        memory = io.BytesIO()
        arrays: Any = outcome.result
        np.savez(memory, **arrays)
        write_file(kept, memory.getvalue())
    text = json.dumps(outcome.to_json(kept), indent=1, allow_nan=False) + "\n"
    if request.json == "-":
        click.echo(text, nl=False)
    else:
        write_file(request.json, text.encode())


def main() -> None:
    """The program `penstock`."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")         # they are for who works on Penstock, not for who uses it
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        import os
        # what is still to be written goes nowhere, or the interpreter complains at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
