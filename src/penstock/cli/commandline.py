"""The parameters that commands share, and a command line that is read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich_click import RichCommand

from penstock.cli.completion import formats, kernels, targets
from penstock.engines.discovery import engines
from penstock.engines.options import Count, Once, Option, Request
from penstock.errors import Conflict

Parameters = Callable[[], list[click.Parameter]]


class Command(RichCommand):
    """A command that calls `callback`, whose docstring is its help; help shows options in the groups that `grouped` names."""

    def __init__(
        self, name: str, callback: Callable[..., Any], params: list[click.Parameter]
    ) -> None:
        super().__init__(name=name, callback=callback, params=params, help=callback.__doc__)


def grouped(title: str) -> Callable[[Parameters], Parameters]:
    """Decorate a function that makes parameters: help shows them under `title`."""

    def decorated(make: Parameters) -> Parameters:
        return lambda: [_under(title, parameter) for parameter in make()]

    return decorated


def _under(title: str, parameter: click.Parameter) -> click.Parameter:
    parameter.panel = title  # type: ignore[attr-defined]  # what rich-click reads
    return parameter


def KERNEL() -> list[click.Parameter]:
    return [click.Argument(("kernel",), metavar="KERNEL", shell_complete=kernels)]


@grouped("Data")
def DATA() -> list[click.Parameter]:
    return [
        Once(
            ("--data",),
            metavar="SRC",
            help="heap:FILE,SCHEMA.json, postgresql://…?table=NAME, "
            "FILE.csv, .npz or .parquet, or random:rows=1000,seed=1.",
        ),
        Once(("--seed",), type=Count(0, 1 << 63), metavar="N", help="Seed of random data."),
    ]


@grouped("Target and numbers")
def PLAN() -> list[click.Parameter]:
    engine_formats = "; ".join(engine.formats for engine in engines().values() if engine.formats)
    return [
        Once(
            ("--target",),
            metavar="T",
            shell_complete=targets,
            help="What to build for: a name that `penstock targets` lists, or a TOML file.  "
            "[default: small, for fits vu9p]",
        ),
        Once(
            ("--format",),
            metavar="F",
            shell_complete=formats,
            help=f"float32, bfloat16, float16 or fixed:I,F{engine_formats and f'; {engine_formats}'}.  "
            "[default: float32, for a fit over columns by the range of its values]",
        ),
        Once(
            ("--memory",),
            metavar="latency=20,bytes=8",
            help="Timing of a memory port, in cycles and bytes a cycle, or a DRAM: hbm2, ddr4-2400, "
            "sdr-166, or dram for the target's own.  [default: the target's]",
        ),
        Once(
            ("--link",),
            metavar="KIND",
            help="What joins host and device: uart, udp, xdma, or gbps=8,latency=10us.  "
            "[default: the target's]",
        ),
    ]


@grouped("Target and numbers")
def BUS() -> list[click.Parameter]:
    text = "Bytes that a memory port is wide: 4, 8, 16, 32 or 64.  [default: the target's]"
    return [Once(("--bus",), type=int, metavar="N", help=text)]


@grouped("Output")
def OUTPUT() -> list[click.Parameter]:
    return [
        Once(
            ("--json",),
            metavar="FILE",
            help="Write the report as JSON to FILE; - is standard output.",
        ),
        click.Option(
            ("-v", "--verbose"),
            count=True,
            metavar="",
            help="Say what takes how long; -vv shows where an internal error came from.",
        ),
        click.Option(("-q", "--quiet"), is_flag=True, help="Print errors only."),
    ]


@grouped("Output")
def REPORT() -> list[click.Parameter]:
    return [
        Once(
            ("--report",),
            metavar="FILE.html",
            help="Write the report with charts, as one page that needs no other file.",
        )
    ]


def parameters(command: str, *groups: Parameters) -> list[click.Parameter]:
    """Return the parameters of a command on a kernel: `KERNEL`, `DATA`, `PLAN` and those of `groups`, then the options of all
    engines; options of the same engines stand together."""
    shared = [parameter for group in (KERNEL, DATA, PLAN, *groups) for parameter in group()]
    options: dict[str, Option] = {}
    users: dict[str, list[str]] = {}
    for engine in engines().values():
        for option in engine.options.get(command, ()):
            if options.setdefault(option.name, option).flag != option.flag:
                raise ValueError(f"two engines have an option {option.name}")
            users.setdefault(option.name, []).append(engine.name)
    return [*shared, *(_under(_title(users[o.name], o), o.parameter()) for o in options.values())]


def _title(users: Sequence[str], option: Option) -> str:
    """Return what help shows an option under that these engines have."""
    if len(users) == len(engines()) and len(users) > 1:
        return f"Every engine: {_purpose(option)}"
    return f"{'Engines' if len(users) > 1 else 'Engine'} {', '.join(users)}: {_purpose(option)}"


def _purpose(option: Option) -> str:
    return "plan" if option.plans else "kernel and run"


def request(command: str, values: dict[str, Any]) -> tuple[Request, dict[str, Any]]:
    """Split a command's values into those that commands share and the rest."""
    known = {
        name: values.pop(name) for name in list(values) if name in Request.__dataclass_fields__
    }
    for name in ("json", "report"):
        if known.get(name) not in (None, "-"):
            from penstock.output import check_file

            check_file(Path(known[name]))
    check_page(known.get("report"), known.get("json"))
    options: dict[str, Any] = {}
    for engine in engines().values():
        for option in engine.options.get(command, ()):
            value = values.pop(option.name, None)
            # 0 is a value, as in --refits 0
            if value is None or value is False or value == ():
                continue
            options[option.name] = _gathered(option, value) if option.repeated else value
    _check_random(known.get("data"), known.get("rows") or values.get("rows"), known.get("seed"))
    return Request(**known, own=options), values


def check_page(report: str | None, json: str | None) -> None:
    """Raise Conflict unless a report with charts is to be HTML, in a file whose name says so."""
    if report is None:
        return
    if Path(report).suffix.lower() not in (".html", ".htm"):
        hint = (
            "write --report report.html"
            if report == "-"
            else f"write --report {Path(report).stem}.html"
        )
        raise Conflict(f"--report {report}: the page is HTML, in a file whose suffix says so", hint)
    if json is not None and json != "-" and Path(json).absolute() == Path(report).absolute():
        raise Conflict(f"--json and --report both write {report}", "name two files")


def _gathered(option: Option, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return repeated `name=value` options as one dictionary."""
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen and seen[name] != value:
            both = [",".join(v) if isinstance(v, tuple) else v for v in (seen[name], value)]
            message = f"{option.flag} {name} is given twice: {both[0]} and {both[1]}"
            raise Conflict(message, "leave one of them out")
        seen[name] = value
    return seen


def _check_random(source: str | None, rows: int | None, seed: int | None) -> None:
    """--rows takes the columns of a table and another number of rows; a random table has none but
    those that it is asked for. --seed is for one without."""
    if source is None or not source.startswith("random:"):
        return
    if seed is not None and "seed" in source:
        message = f"--seed {seed} and --data {source} both say which seed there is"
        raise Conflict(message, "leave one of them out")
    if rows is not None and "rows" in source:
        message = f"--rows {rows} and --data {source} both say how many rows there are"
        hint = "leave --data out: --rows assumes a table of the kernel's shapes"
        raise Conflict(message, hint)
