"""The options that commands share, and what they say put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

__all__ = ["Conflict", "Count", "Once", "Request", "common", "data", "fits", "job", "kernel_options", "plan_options"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Conflict(click.UsageError):
    """Options that cannot go together; `hint` says which to leave out."""

    def __init__(self, message: str, hint: str, context: click.Context | None = None) -> None:
        super().__init__(message, context or click.get_current_context(silent=True))
        self.hint = hint


class Once(click.Option):
    """An option with one value: given again with another one, it is a mistake rather than overridden."""

    def __init__(self, *names: Any, **options: Any) -> None:
        super().__init__(*names, **{**options, "multiple": True, "callback": _once})


def _once(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    values = list(dict.fromkeys(value or ()))
    if len(values) > 1:
        raise Conflict(f"{param.opts[0]} is given twice: {values[0]} and {values[1]}", "leave one of them out", ctx)
    return values[0] if values else None


@dataclass(frozen=True)
class Request:
    """One command line, read. What was not given is None, or empty."""

    kernel: str
    data: str | None = None
    rows: int | None = None
    seed: int | None = None
    dims: tuple[tuple[str, Any], ...] = ()
    bindings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    metas: tuple[tuple[str, str], ...] = ()
    init: tuple[tuple[str, Any], ...] = ()
    epochs: int | None = None
    target: str | None = None
    format: str | None = None
    memory: str | None = None
    threads: int | None = None
    lanes: int | None = None
    ports: int | None = None
    walkers: int | None = None
    on_null: str | None = None
    visibility: str | None = None
    groups: int | None = None
    refits: int | None = None
    new: int | None = None
    gone: int | None = None
    json: str | None = None
    verbose: int = 0
    quiet: bool = False

    @property
    def source(self) -> str | None:
        """The data source, with --seed in it where it is a random one (which then has none of its own)."""
        if self.data is None or not self.data.startswith("random:") or self.seed is None:
            return self.data
        return f"{self.data}{'' if self.data.endswith(':') else ','}seed={self.seed}"

    @property
    def plans(self) -> bool:
        """Whether anything was said about a plan."""
        return any(value is not None for value in (self.target, self.format, self.memory, self.threads, self.lanes, self.ports, self.walkers))


class _Pair(click.ParamType):
    """`name=value`; `read` turns the value's text into what it means."""

    name = "name=value"

    def __init__(self, form: str, read: Callable[[str], Any]) -> None:
        self.form, self.read = form, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, equals, text = (part.strip() for part in str(value).partition("="))
        if not equals or not name or not text:
            self.fail(f"{value!r} is not of the form {self.form}", param, ctx)
        return name, self.read(text)


def _size(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text                         # the kernel says what is wrong with it


def _start(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _columns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _stack(*options: Decorator) -> Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function
    return decorate


class Count(click.IntRange):
    """A whole number in a range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            most = "" if self.max is None else f" to {self.max:,}"
            raise click.BadParameter(f"it must be a whole number from {self.min}{most}, not {value!r}", ctx, param) from None


kernel_options = _stack(
    click.argument("kernel", metavar="KERNEL"),
    click.option("--dim", "dims", multiple=True, type=_Pair("d=54", _size), metavar="D=SIZE", help="Size of a named dimension. Repeatable."),
    click.option("--bind", "bindings", multiple=True, type=_Pair("x=age,height", _columns), metavar="X=COLUMN,…", help="Columns of a variable. Repeatable."),
    click.option("--set", "metas", multiple=True, type=_Pair("rate=0.05", str), metavar="META=NUMBER", help="Value of a meta. Repeatable."),
    click.option("--init", multiple=True, type=_Pair("w=0.1", _start), metavar="W=FILE.npy", help="Start of a model: a .npy file or a number. Repeatable."),
    click.option("--epochs", cls=Once, type=Count(1, (1 << 31) - 1), metavar="N", help="Passes over the table."))

plan_options = _stack(
    click.option("--target", cls=Once, metavar="T", help="What to build for; `penstock targets` lists them.  [default: small]"),
    click.option("--format", cls=Once, metavar="F", help="float32, bfloat16, float16 or fixed:I,F.  [default: float32, for a fit over columns fixed:8,8]"),
    click.option("--memory", cls=Once, metavar="latency=20,bytes=8", help="Timing of a memory port, in cycles and bytes a cycle.  [default: the target's]"),
    click.option("--threads", cls=Once, type=Count(1, 256), metavar="N", help="Fix the plan's threads."),
    click.option("--lanes", cls=Once, type=Count(1, 128), metavar="N", help="Fix the plan's lanes."),
    click.option("--ports", cls=Once, type=Count(1, 32), metavar="N", help="Fix the plan's memory ports."),
    click.option("--walkers", cls=Once, type=Count(1, 64), metavar="N", help="Fix the plan's Striders a port."),
    click.option("--on-null", cls=Once, type=click.Choice(["error", "skip"]), help="What a NULL in a used column does.  [default: error]"),
    click.option("--visibility", cls=Once, type=click.Choice(["hints", "all"]), help="Judge tuples by their hint bits, or take all.  [default: hints]"))

data = _stack(
    click.option("--data", cls=Once, metavar="SRC",
                 help="heap:FILE,SCHEMA.json, postgresql://…?table=NAME, FILE.csv, .npz or .parquet, or random:rows=1000,seed=1."),
    click.option("--seed", cls=Once, type=Count(0, 1 << 63), metavar="N", help="Seed of a random table."))

fits = _stack(
    click.option("--groups", cls=Once, type=Count(1, 1 << 20), metavar="N", help="A fit kernel's groups of keys.  [default: 8]"),
    click.option("--refits", cls=Once, type=Count(0, 1 << 20), metavar="N", help="How often each group is fitted again.  [default: 4]"),
    click.option("--new", cls=Once, type=Count(0, 1 << 20), metavar="N", help="Keys that come to a group before each refit.  [default: 50]"),
    click.option("--gone", cls=Once, type=Count(0, 1 << 20), metavar="N", help="Keys that leave a group before each refit.  [default: 0]"))

common = _stack(
    click.option("--json", cls=Once, metavar="FILE", help="Write the report as JSON to FILE; - is standard output."),
    click.option("-v", "--verbose", count=True, help="Say what takes how long; -vv shows where an internal error came from."),
    click.option("-q", "--quiet", is_flag=True, help="Print errors only."))

job = _stack(kernel_options, data, plan_options, common)


def request(values: dict[str, Any]) -> tuple[Request, dict[str, Any]]:
    """Split a command's values into the shared ones and the rest."""
    known = {name: values.pop(name) for name in list(values) if name in Request.__dataclass_fields__}
    if known.get("json") not in (None, "-"):
        from penstock.output import check_file
        check_file(Path(known["json"]))
    for option, pairs in (("--dim", "dims"), ("--bind", "bindings"), ("--set", "metas"), ("--init", "init")):
        _check_twice(option, known[pairs])
    _check_random(known.get("data"), known.get("rows") or values.get("rows"), known.get("seed"))
    return Request(**known), values


def names(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return repeated `name=value` options as one dictionary."""
    return dict(pairs)


def _check_twice(option: str, pairs: Sequence[tuple[str, Any]]) -> None:
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen and seen[name] != value:
            shown = [",".join(v) if isinstance(v, tuple) else v for v in (seen[name], value)]
            raise Conflict(f"{option} {name} is given twice: {shown[0]} and {shown[1]}", "leave one of them out")
        seen[name] = value


def _check_random(source: str | None, rows: int | None, seed: int | None) -> None:
    """--rows takes the columns of a table and another number of rows; a random table has none but those that it is asked for. --seed is for one without."""
    if source is None or not source.startswith("random:"):
        return
    if seed is not None and "seed" in source:
        raise Conflict(f"--seed {seed} and --data {source} both say which seed there is", "leave one of them out")
    if rows is not None and "rows" in source:
        raise Conflict(f"--rows {rows} and --data {source} both say how many rows there are", "leave --data out: --rows assumes a table of the kernel's shapes")
