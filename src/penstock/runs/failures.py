"""What went wrong, as a user sees it: one diagnostic and an exit code for every exception and every hardware error."""

import errno
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span, render
from penstock.hooks import Terminated
from penstock.models.errors import Error, HardwareError
from penstock.models.plugins import absent

USER, INTERNAL = 1, 2
DISAGREE, INTERRUPTED, TERMINATED = 3, 130, 143

_FULL = "make room, or choose folders on another disk: TMPDIR, where builds are made, and PENSTOCK_CACHE, where they are kept"
#: what to do about the system's refusals
_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EMFILE: "`ulimit -n` sets how many files may be open",
    errno.ENOMEM: "fewer rows will do, or penstock model --rows N",
}
#: what a message is about where it is not the data
_PLACES = {"E801": "simulation", "E831": "device", "E903": "output"}
_CACHE = "Penstock writes in $PENSTOCK_CACHE, else in ~/.cache/penstock, and in $TMPDIR, else in /tmp: can they be written, and is there room?"
_YOSYS = "Yosys runs in a process of its own and keeps its compiled code in $XDG_CACHE_HOME, else in ~/.cache: is there memory, and room?"
_OURS = "this is a defect in Penstock: please report it with the command, its input and `penstock --version`"


@dataclass(frozen=True)
class Failure:
    """A failed command: the text for standard error, the entries of the report's `errors`, the exit code, and the diagnostic where it is one."""

    text: str
    errors: tuple[dict[str, Any], ...]
    exit_code: int
    diagnostic: Diagnostic | None = None


def public(source: str) -> str:
    """Return a data source without its password."""
    return re.sub(
        r"(?i)(password=)[^&\s]*",
        r"\1***",
        re.sub(r"(://[^/@:]*):(?:[^/?\s]*|[^@]*)@", r"\1:***@", source),
    )


def _of(diagnostic: Diagnostic, source: str | None = None) -> Failure:
    entry = {
        "code": diagnostic.code,
        "message": diagnostic.message,
        "address": str(diagnostic.span),
        "hint": diagnostic.hint,
    }
    return Failure(render(diagnostic, source), (entry,), USER)


def _at(place: str, code: str, message: str, hint: str) -> Failure:
    return _of(Diagnostic(code, message, Span.whole(place), hint=hint))


def hardware_failure(
    error: HardwareError, table: str, server: bool = False, column: str | None = None
) -> Failure:
    """Return a hardware error as the user sees it.

    `table`: what the message calls the place: a table, or a row, token or workload; `server`: the pages are a PostgreSQL server's, so that block and
    line pointer name the row; `column`: the column, where `error` does not say it.
    """
    code = error.code
    # a code without a hint is a defect in Penstock (`models.errors.HardwareCode`)
    ours, hint = not code.hint, error.hint
    message = f"{code.name}: {error.meaning}"
    column = error.column or column
    place = table
    if server:
        line = f", line pointer {error.line}" if error.line else ""
        place = f"{table}, block {error.block}{line}"
    if column is not None:
        place += f", column {column}"
    if server and error.line and not ours:
        where = f"WHERE ctid = '({error.block},{error.line})'"
        hint += f"; in SQL the row is SELECT * FROM {table} {where}"
    diagnostic = Diagnostic(code.page, message, Span.whole(place), hint=_OURS if ours else hint)
    entry = {
        "code": code.name,
        "message": error.meaning,
        "address": f"({error.block},{error.line})",
        "block": error.block,
        "line": error.line,
        **({} if column is None else {"column": column}),
        "diagnostic": code.page,
    }
    return Failure(render(diagnostic), (entry,), INTERNAL if ours else USER, diagnostic)


def failure(problem: BaseException, data: str | None = None) -> Failure:
    """Return what an exception means to the user. `data`: the data source as it was typed."""
    if isinstance(problem, KernelError):
        return _of(problem.diagnostic, problem.source)
    if isinstance(problem, (click.Abort, KeyboardInterrupt)):
        # click makes an Abort of it
        by_signal = isinstance(problem, Terminated) or isinstance(problem.__context__, Terminated)
        ended = "terminated" if by_signal else "interrupted"
        return Failure(
            ended,
            ({"code": ended.upper(), "message": ended, "address": ""},),
            TERMINATED if by_signal else INTERRUPTED,
        )
    if isinstance(problem, click.ClickException):
        context = getattr(problem, "ctx", None)
        command = context.command_path if context is not None else "penstock"
        message = " ".join(problem.format_message().split()).rstrip(".")
        hint = getattr(problem, "hint", "") or f"{command} --help lists what it takes"
        if message.startswith("No such"):  # a command or an option of a plug-in's engine?
            hint += absent()
        if not isinstance(problem, Error):  # click's own begin with capitals
            message = message[:1].lower() + message[1:]
        return _at(command, "E902", message, hint)
    if isinstance(problem, Error) and problem.code:
        place = _PLACES.get(problem.code) or (public(data) if data else "--data")
        first, _, rest = problem.message.partition("\n")
        base = _at(place, problem.code, first.rstrip(":") if rest else first, problem.hint)
        return replace(base, text=base.text + (f"\n{rest}" if rest else ""))
    return _later(problem, data)


def _chosen_cache(problem: OSError) -> str:
    """Return what to do where the folder that PENSTOCK_CACHE names is what cannot be written; "" where it is not."""
    chosen, name = os.environ.get("PENSTOCK_CACHE"), problem.filename
    if not chosen or not isinstance(name, str):
        return ""
    cache, place = Path(chosen).absolute(), Path(name).absolute()
    if place != cache and cache not in place.parents and place not in cache.parents:
        return ""
    return f"PENSTOCK_CACHE is {chosen}: name a folder that this user, and nobody else, can write, or unset it"


def _later(problem: BaseException, data: str | None) -> Failure:
    """Exceptions of modules that not every command loads."""
    import sys

    yosys = sys.modules.get("amaranth._toolchain.yosys")
    if yosys is not None and isinstance(problem, yosys.YosysError):
        lines = str(problem).splitlines() or ["without a word"]
        return _at("simulation", "E801", f"Yosys failed: {lines[-1]}", _YOSYS)
    if isinstance(problem, MemoryError):
        hint = "fewer rows will do, or penstock model --rows N, which needs no table"
        place = public(data) if data else "memory"
        return _at(place, "E802", "there is not enough memory for this table", hint)
    if isinstance(problem, OSError):
        what = f"{problem.filename}: " if problem.filename else ""
        hint = _SYSTEM.get(problem.errno or 0) or _chosen_cache(problem) or _CACHE
        return _at("system", "E804", f"{what}{problem.strerror or problem}", hint)
    machine = sys.modules.get("penstock.sim.machine")
    if machine is not None and isinstance(problem, machine.Hung):
        report = str(getattr(problem, "report", problem))
        return Failure(
            f"internal error: the simulated hardware hung; {_OURS}\n{report}",
            ({"code": "HUNG", "message": report, "address": ""},),
            INTERNAL,
        )
    kind = f"{type(problem).__name__}: {problem}".rstrip(": ")
    first = kind.partition("\n")[0]
    return Failure(
        f"internal error: {first}; {_OURS} (-vv shows where)",
        ({"code": "INTERNAL", "message": kind, "address": ""},),
        INTERNAL,
    )
