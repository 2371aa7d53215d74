"""What options are made of, those of several engines, and what was given of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from math import isfinite
from typing import Any

import click

from penstock.errors import Conflict, bad_value, not_one_of
from penstock.models.numerics.policy import ON_NAN, ON_OVERFLOW
from penstock.models.resources import AIM


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
        part = isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())
        try:
            if not part:
                return super().convert(value, param, ctx)
        except (click.BadParameter, TypeError, OverflowError):
            pass
        most = "" if self.max is None else f" to {self.max:,}"
        message = f"it must be a whole number from {self.min}{most}, not {value!r}"
        raise click.BadParameter(message, ctx, param)


class Bits(click.ParamType):
    """A whole number, which may be written in another base, as 0b0011."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(str(value), 0)
        except ValueError:
            self.fail(f"it is a number such as 3 or 0b0011, not {value!r}", param, ctx)


class Number(click.FloatRange):
    """A number in a range, which nothing that is no number is in."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            if isfinite(number := super().convert(value, param, ctx)):
                return number
        except (click.BadParameter, TypeError, OverflowError):
            pass
        message = f"it must be a number, {self._describe_range()}, not {value!r}"
        raise click.BadParameter(message, ctx, param)


class IPAddress(click.ParamType):
    """A device's IPv4 address, as its four bytes."""

    name = "address"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        hint = "four numbers, as in --ip-address 192.168.1.50"
        try:
            address = IPv4Address(value)
        except ValueError:
            raise Conflict(f"{value!r} is no IPv4 address", hint, ctx) from None
        special = address.is_multicast or address.is_loopback or address.is_unspecified
        if special or address.is_reserved:
            raise Conflict(f"{address} is no address of a device", hint, ctx)
        return address.packed


@dataclass(frozen=True)
class Option:
    """An option that an engine adds to the command line and to the functions of Python.

    * `name`: its key in `Given.options`.
    * `type`, `metavar`: as click takes them.
    * `repeated`: it may be given several times, as `name=value`; the values are gathered by name.
    * `plans`: the plan depends on it.
    * `forces`: it fixes what the planner chooses otherwise; where nothing fits, messages suggest leaving it out.
    * `flagged`: a switch, without a value.
    * `flag`: as it is typed; made from the name unless given.
    """

    name: str
    type: Any
    metavar: str | None
    help: str
    repeated: bool = False
    plans: bool = False
    forces: bool = False
    flagged: bool = False
    flag: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "flag", self.flag or f"--{self.name.replace('_', '-')}")

    def taken(self, value: Any) -> Any:
        """Return an option's value from Python as the command line reads it: a text of a type that is made of text is
        read. Raises OptionError for a value that the command line would refuse."""
        kind = self.type
        if isinstance(kind, click.Choice):
            if value is not None and value not in kind.choices:
                raise not_one_of(self.name, value, kind.choices)
        elif self.repeated:
            if not (value is None or isinstance(value, Mapping)):
                raise bad_value(self.name, f"it must give values by name, not {value!r}")
        elif value is not None and (isinstance(kind, click.ParamType) or isinstance(value, str)):
            # for a plain function or class, a value that is no text is already what it makes
            try:
                return click.types.convert_type(kind).convert(value, None, None)
            except click.BadParameter as problem:
                raise bad_value(self.name, problem.message) from None
        return value

    def parameter(self) -> click.Option:
        """Return what click reads."""
        if self.flagged:
            return click.Option((self.flag, self.name), is_flag=True, help=self.help)
        kind: type[click.Option] = click.Option if self.repeated else Once
        more = {"multiple": True} if self.repeated else {}
        names = (self.flag, self.name)
        return kind(names, type=self.type, metavar=self.metavar, help=self.help, **more)


def TRUST() -> click.Option:
    """Return the option of commands that take a folder, or a board's description, from wherever it comes."""
    text = "Run what is there, not compared with what Penstock makes: of yours, or whose maker you trust."
    return click.Option(("--trust",), is_flag=True, help=text)


def taken(known: Iterable[Option], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that Python gives as the command line takes them; those that are not `known` as they are.
    Raises OptionError for values that it does not take."""
    named = {option.name: option for option in known}
    return {name: named[name].taken(v) if name in named else v for name, v in options.items()}


class Law(click.ParamType):
    """How something is drawn: the exponent of `zipf:THETA`, 0 for `uniform`."""

    name = "LAW"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        if value == "uniform":
            return 0.0
        law, _, theta = str(value).partition(":")
        with suppress(ValueError):
            if law == "zipf" and 0 < float(theta) <= 8:
                return float(theta)
        self.fail(f"it must be uniform or zipf:THETA, as zipf:0.99, not {value!r}", param, ctx)


def _size(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # the kernel says what is wrong with it


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


#: how full the planner makes a part
FILL = Option(
    "fill",
    Number(0.01, 1.0),
    "SHARE",
    "How much of each of the part's resources the planner aims at; it takes more only where "
    f"nothing else fits.  [default: {AIM}]",
    plans=True,
)
#: of engines that read pages (`models.ring`)
RING = Option(
    "ring",
    Count(2, 1 << 20),
    "N",
    "Page slots a port, which the host fills during the run: for tables larger than memory.",
    plans=True,
)
#: what data do that the number format does not hold (`models.numerics.policy.InputPolicy`)
INPUTS = (
    Option(
        "on_overflow",
        click.Choice(ON_OVERFLOW),
        None,
        "What a value beyond the format's range does.  [default: error]",
    ),
    Option(
        "on_nan",
        click.Choice(ON_NAN),
        None,
        "What a NaN does, and an infinity in a format that has it.  [default: error]",
    ),
)
#: options of engines that read tables
TABLE = (
    Option(
        "dims",
        Pair("d=54", _size),
        "D=SIZE",
        "Size of a named dimension; max: what an index counts, 1 + the largest value. Repeatable.",
        repeated=True,
        flag="--dim",
    ),
    Option(
        "bind",
        Pair("x=age,height", names),
        "X=COLUMN,…",
        "Columns of a variable. Repeatable.",
        repeated=True,
    ),
    Option(
        "on_null",
        click.Choice(["error", "skip"]),
        None,
        "What a NULL in a used column does.  [default: error]",
    ),
    Option(
        "pages",
        bool,
        None,
        "Insist on a server's own pages; without it, rows are read where pages cannot serve.",
        flagged=True,
    ),
)


@dataclass(frozen=True)
class Request:
    """The options of one command line: those of all engines, and in `own` by name those of single engines. An option that was not given is None, or absent
    from `own`."""

    kernel: str
    data: str | None = None
    rows: int | None = None
    seed: int | None = None
    target: str | None = None
    format: str | None = None
    memory: str | None = None
    link: str | None = None
    bus: int | None = None
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
        """Return whether an option was given on which the plan depends; `options`: those of the engine."""
        shared = (self.target, self.format, self.memory, self.link, self.bus)
        values = (self.own.get(option.name) for option in options if option.plans)
        return any(value is not None for value in (*shared, *values))
