"""The options that commands share, what an engine's own options are made of, and a command line
that is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from penstock.errors import Conflict
from penstock.models.numerics.policy import ON_NAN, ON_OVERFLOW

__all__ = [
    "DATA",
    "INPUTS",
    "KERNEL",
    "OUTPUT",
    "PLAN",
    "REPORT",
    "TABLE",
    "Count",
    "Once",
    "Option",
    "Pair",
    "Request",
    "check_page",
    "parameters",
    "request",
]


class Once(click.Option):
    """An option with one value: given again with another one, it is a mistake, not overridden."""

    def __init__(self, *names: Any, **options: Any) -> None:
        super().__init__(*names, **{**options, "multiple": True, "callback": _once})


def _once(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    values = list(dict.fromkeys(value or ()))
    if len(values) > 1:
        message = f"{param.opts[0]} is given twice: {values[0]} and {values[1]}"
        raise Conflict(message, "leave one of them out", ctx)
    return values[0] if values else None


class Pair(click.ParamType):
    """`name=value`; `read` turns the value's text into what it means."""

    name = "name=value"

    def __init__(self, form: str, read: Callable[[str], Any]) -> None:
        self.form, self.read = form, read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, equals, text = (part.strip() for part in str(value).partition("="))
        if not equals or not name or not text:
            self.fail(f"{value!r} is not of the form {self.form}", param, ctx)
        return name, self.read(text)


class Count(click.IntRange):
    """A whole number in a range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            most = "" if self.max is None else f" to {self.max:,}"
            message = f"it must be a whole number from {self.min}{most}, not {value!r}"
            raise click.BadParameter(message, ctx, param) from None


@dataclass(frozen=True)
class Option:
    """An option of an engine's own.

    `flag`: as it is typed; `name`: in `Given.options`; `type` and `metavar`: as click has them;
    `repeated`: its values are pairs, gathered by name; `plans`: a plan depends on it; `flagged`: it
    has no value.
    """

    flag: str
    name: str
    type: Any
    metavar: str | None
    help: str
    repeated: bool = False
    plans: bool = False
    flagged: bool = False

    def parameter(self) -> click.Option:
        """Return what click reads."""
        if self.flagged:
            return click.Option((self.flag, self.name), is_flag=True, help=self.help)
        kind: type[click.Option] = click.Option if self.repeated else Once
        more = {"multiple": True} if self.repeated else {}
        names = (self.flag, self.name)
        return kind(names, type=self.type, metavar=self.metavar, help=self.help, **more)


def _size(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # the kernel says what is wrong with it


def _columns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


#: what data do that the number format does not hold (`models.numerics.policy.InputPolicy`)
INPUTS = (
    Option(
        "--on-overflow",
        "on_overflow",
        click.Choice(ON_OVERFLOW),
        None,
        "What a value beyond the format's range does.  [default: error]",
    ),
    Option(
        "--on-nan",
        "on_nan",
        click.Choice(ON_NAN),
        None,
        "What a NaN does, and an infinity in a format that has it.  [default: error]",
    ),
)
#: options of engines that read tables
TABLE = (
    Option(
        "--dim",
        "dims",
        Pair("d=54", _size),
        "D=SIZE",
        "Size of a named dimension. Repeatable.",
        repeated=True,
    ),
    Option(
        "--bind",
        "bindings",
        Pair("x=age,height", _columns),
        "X=COLUMN,…",
        "Columns of a variable. Repeatable.",
        repeated=True,
    ),
    Option(
        "--on-null",
        "on_null",
        click.Choice(["error", "skip"]),
        None,
        "What a NULL in a used column does.  [default: error]",
    ),
    Option(
        "--pages",
        "pages",
        None,
        None,
        "Insist on a server's own pages; without it, rows are read where pages cannot serve.",
        flagged=True,
    ),
)

Parameters = Callable[[], list[click.Parameter]]


def KERNEL() -> list[click.Parameter]:
    return [click.Argument(("kernel",), metavar="KERNEL")]


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


def PLAN() -> list[click.Parameter]:
    from penstock.discovery import engines

    own = "; ".join(engine.formats for engine in engines().values() if engine.formats)
    return [
        Once(
            ("--target",),
            metavar="T",
            help="What to build for; `penstock targets` lists them.  "
            "[default: small, for fits vu9p]",
        ),
        Once(
            ("--format",),
            metavar="F",
            help=f"float32, bfloat16, float16 or fixed:I,F{own and f'; {own}'}.  "
            "[default: float32, for a fit over columns by the range of its values]",
        ),
        Once(
            ("--memory",),
            metavar="latency=20,bytes=8",
            help="Timing of a memory port, in cycles and bytes a cycle, or a DRAM: hbm2, ddr4-2400, "
            "sdr-166, or dram for the target's own.  [default: the target's]",
        ),
    ]


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
            help="Say what takes how long; -vv shows where an internal error came from.",
        ),
        click.Option(("-q", "--quiet"), is_flag=True, help="Print errors only."),
    ]


def REPORT() -> list[click.Parameter]:
    return [
        Once(
            ("--report",),
            metavar="FILE.html",
            help="Write the report with charts, as one page that needs no other file.",
        )
    ]


def parameters(command: str, *groups: Parameters) -> list[click.Parameter]:
    """Return the parameters of a command: shared ones, then the options of all engines."""
    from penstock.discovery import engines

    shared = [parameter for group in groups for parameter in group()]
    own: dict[str, Option] = {}
    for engine in engines().values():
        for option in engine.options.get(command, ()):
            if own.setdefault(option.name, option).flag != option.flag:
                raise ValueError(f"two engines have an option {option.name}")
    return [*shared, *(option.parameter() for option in own.values())]


@dataclass(frozen=True)
class Request:
    """One command line, read. What was not given is None, or absent from `own`, the options of
    engines by name."""

    kernel: str
    data: str | None = None
    rows: int | None = None
    seed: int | None = None
    target: str | None = None
    format: str | None = None
    memory: str | None = None
    json: str | None = None
    report: str | None = None
    verbose: int = 0
    quiet: bool = False
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str | None:
        """The data source, with --seed in it where it is a random one (which then has none of its
        own)."""
        if self.data is None or not self.data.startswith("random:") or self.seed is None:
            return self.data
        return f"{self.data}{'' if self.data.endswith(':') else ','}seed={self.seed}"

    def plans(self, options: Sequence[Option]) -> bool:
        """Return whether anything was said about a plan; `options`: of the engine."""
        shared = (self.target, self.format, self.memory)
        own = (self.own.get(option.name) for option in options if option.plans)
        return any(value is not None for value in (*shared, *own))


def request(command: str, values: dict[str, Any]) -> tuple[Request, dict[str, Any]]:
    """Split a command's values into those that commands share and the rest."""
    from penstock.discovery import engines

    known = {
        name: values.pop(name) for name in list(values) if name in Request.__dataclass_fields__
    }
    for name in ("json", "report"):
        if known.get(name) not in (None, "-"):
            from penstock.output import check_file

            check_file(Path(known[name]))
    check_page(known.get("report"), known.get("json"))
    own: dict[str, Any] = {}
    for engine in engines().values():
        for option in engine.options.get(command, ()):
            value = values.pop(option.name, None)
            # 0 is a value, as in --refits 0
            if value is None or value is False or value == ():
                continue
            own[option.name] = _gathered(option, value) if option.repeated else value
    _check_random(known.get("data"), known.get("rows") or values.get("rows"), known.get("seed"))
    return Request(**known, own=own), values


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
