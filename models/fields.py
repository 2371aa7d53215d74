"""Records and plain data: whether these are of the types that fields declare, and a record's parts."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def _read(kind: Any) -> dict[str, Any]:
    """Return the types of a record's fields; what is known to type checkers alone is anything."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(kind, localns=unknown)
        except NameError as problem:
            if str(problem.name) in unknown:
                raise
            unknown[str(problem.name)] = Any


hints_of: Callable[[Any], dict[str, Any]] = cache(_read)


def misfit(value: Any, hint: Any, place: str = "") -> str | None:
    """Return the place of what is not of its type in a value; None where all is. A whole number is a number, and True is none."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (UnionType, Union):
        places = [misfit(value, one, place) for one in inner]
        return None if None in places else max(places, key=lambda place: len(place or ""))
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        kind = object  # what a value cannot be asked for
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind not in (bool, object)):
        return place
    for inside, one, where in _parts(value, kind, inner):
        if (wrong := misfit(inside, one, f"{place}{where}")) is not None:
            return wrong
    return None


def _parts(value: Any, kind: Any, inner: tuple[Any, ...]) -> Iterator[tuple[Any, Any, str]]:
    """Yield what a value consists of, each with its type and its place."""
    if hasattr(value, "__dataclass_fields__"):
        hints = hints_of(value.__class__)
        for field in dataclasses.fields(value):
            yield getattr(value, field.name), hints[field.name], f".{field.name}"
    elif kind is tuple and inner:
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(each) != len(value):
            yield None, tuple, ""
        else:
            yield from zip(value, each, (f"[{n}]" for n in range(len(value))), strict=True)
    elif issubclass(kind, Mapping) and inner:
        for key, one in value.items():
            yield key, inner[0], f"[{key!r:.40}]"
            yield one, inner[1], f"[{key!r:.40}]"
    elif issubclass(kind, Sequence) and inner:
        yield from ((one, inner[0], f"[{n}]") for n, one in enumerate(value))


def part_of(kind: Callable[..., Any], data: dict[str, Any]) -> Any:
    """Return a part of a record, whose fields stand among the record's in plain data, and take them out of these."""
    return kind(**{name: data.pop(name) for name in hints_of(kind) if name in data})
