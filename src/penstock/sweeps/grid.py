"""What is swept: targets, formats and values of options, and the points that they make."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import click

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.core.hints import closest
from penstock.engines.discovery import engine_named
from penstock.engines.options import Option
from penstock.targets import target_named

from .points import Point, Task, digest, plain

#: points of a sweep, at most
MOST = 100_000
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?::([1-9]\d{,17}))?")
#: what every engine takes and can be swept, beside its own options
_SHARED = {"memory": Option("memory", None, None, "")}


@dataclass(frozen=True)
class Sweep:
    """Points of one task, by key in order. `swept`: the values of each swept option, by its name."""

    task: Task
    points: tuple[Point, ...]
    swept: Mapping[str, tuple[Any, ...]]

    def asked(self, point: Point) -> dict[str, Any]:
        """Return what a row says of its point."""
        options = {**point.options, "memory": point.memory}
        asked = {"key": point.key, "target": point.target.name, "format": point.format}
        return asked | {name: options[name] for name in self.swept}


def bad(what: str, hint: str, place: str = "--sweep") -> KernelError:
    """Return the error for a sweep that cannot be made (E906)."""
    return error("E906", what, Span.whole(place), hint=hint)


def listed(text: str) -> list[str]:
    """Return the parts of a list with commas, in which `fixed:8,24` and `float:5,10` are one each."""
    return [part.strip() for part in re.findall(r"(?:fixed|float):\d+,\d+|[^,]+", text)]


def _values(name: str, values: Any, option: Option) -> list[Any]:
    """Return the values of a swept option. Raises KernelError (E906).

    `values`: a text, such as `1..16`, `1..16:4` or `1,2,4`, or with `|` between values that have commas themselves, `a=1,b=2|c=3`; or the values, one or
    several.
    """
    place, raw, form = f"--sweep {name}", [], f"as in --sweep {name}=1..16, 1..16:4 or 1,2,4"
    parts = values if isinstance(values, Iterable) else [values]
    if isinstance(values, str):
        parts = values.split("|" if "|" in values else ",")
    for part in parts:
        if not isinstance(part, str) or (part.strip() and ".." not in part):
            raw.append(part)
        elif match := _RANGE.fullmatch(part.strip()):
            several = range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))
            if not several:
                raise bad(f"the range {part.strip()} is empty", "its smaller end is first", place)
            _limited(len(several))
            raw += map(str, several)
        else:
            raise bad(f"{part.strip()!r} is neither a value nor a range", form, place)
    if not raw:
        raise bad(f"{name} has no values", form, place)
    kind = click.types.convert_type(option.type)
    try:
        return [kind.convert(each, None, None) for each in raw]
    except click.BadParameter as problem:
        text = " ".join(problem.message.split()).rstrip(".")
        hint = "`penstock model --help` has the option"
        raise bad(f"a value of {name}: {text}", hint, place) from None


def _different(values: Sequence[Any], place: str) -> Sequence[Any]:
    names = [str(getattr(value, "name", value)) for value in values]
    if not names or "" in names:
        raise bad("a name is missing", "as in --target vu9p,u55c", place)
    if twice := next((name for n, name in enumerate(names) if names.index(name) < n), None):
        raise bad(f"{twice} stands twice", "leave one of them out", place)
    return values


def _limited(count: int) -> None:
    if count > MOST:
        hint = "take fewer values, or several sweeps"
        raise bad(f"these are {count:,} points; a sweep has at most {MOST:,}", hint)


def sweep_of(
    task: Task, targets: Sequence[Any], formats: Sequence[Any], sweep: Mapping[str, Any]
) -> Sweep:
    """Return the sweep over all targets, formats and values of options.

    Raises KernelError: E906 for options that the engine does not have, or that are no single value,
    for ranges that are none, values that stand twice and too many points; E602 for a target.
    """
    engine, fixed = engine_named(task.engine), task.args.options
    options = {o.name: o for o in engine.options.get("model", ()) if not (o.repeated or o.flagged)}
    options |= _SHARED
    swept: dict[str, tuple[Any, ...]] = {}
    for flag, values in sweep.items():
        name, place = flag.lstrip("-").replace("-", "_"), f"--sweep {flag}"
        if name not in options:
            what = f"the engine {engine.name} has no option {flag} that can be swept"
            known = ", ".join(sorted(options))
            raise bad(what, closest(name, options) or f"those are {known}", place)
        if name in fixed or (name == "memory" and task.args.memory is not None):
            raise bad(f"{name} is swept, and fixed as well", "leave one of them out", place)
        swept[name] = tuple(_different(_values(name, values, options[name]), place))
    parts = _different([target_named(part) for part in targets], "--target")
    names = [form and str(getattr(form, "name", form)) for form in _different(formats, "--format")]
    _limited(len(parts) * len(names) * prod(map(len, swept.values())))
    task_key, points = task.digest(), []
    texts = {part.name: plain(part) for part in parts}
    for part, form, *chosen in product(parts, names, *swept.values()):
        settings = {**fixed, **dict(zip(swept, chosen, strict=True))}
        memory = settings.pop("memory", task.args.memory)
        key = digest([task_key, texts[part.name], form, plain(memory), plain(settings, True)])[:32]
        points.append(Point(key, part, form, memory, settings))
    return Sweep(task, tuple(sorted(points, key=lambda point: point.key)), swept)
