"""The text of a form: a Python expression of the records that it consists of, which is read back to an equal form.

* A record is written `Name(field=value, …)`. A field that has its default is left out.
* Formats, timings of memories and targets by their names: `format("fixed:8,8")`, `memory("latency=20,bytes=8")`, `target("small")`; places in a
  kernel by file, lines and columns: `at("linear.py:11:12-11:28")`.
* An array is `array("float64", (2, 3), [...])`, or one number in place of the list where all elements are that number.
* `...` stands for what a text cannot hold, such as a table, in a field whose metadata say `outside`: whoever reads the form gives it.

Nothing is evaluated: a record is one that the form's types name, and what was read is held against them.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import numpy as np

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import Span
from penstock.models.fields import hints_of, misfit
from penstock.models.memory import Dram, FixedLatency, parse_memory
from penstock.models.numerics.formats import Format, parse_format
from penstock.models.target import Target

#: the longest line, unless a single value is longer
_WIDTH = 150
_INDENT = "  "
Kind = TypeVar("Kind")


class FormError(ValueError):
    """A text is not that of a form."""


@dataclasses.dataclass
class _Block:
    """A value of several parts: `head` (a record's name, or nothing), what opens and closes it, and its parts, each with its name or none."""

    head: str
    ends: str
    parts: list[tuple[str, str | _Block]]

    def flat(self) -> str:
        inner = ", ".join(name + (p if isinstance(p, str) else p.flat()) for name, p in self.parts)
        alone = "," * (self.ends == "()" and not self.head and len(self.parts) == 1)
        return f"{self.head}{self.ends[0]}{inner}{alone}{self.ends[1]}"

    def lines(self, before: str, indent: str) -> Iterator[str]:
        """Yield the lines, the first of them behind `before`."""
        flat = self.flat()
        if len(indent) + len(before) + len(flat) < _WIDTH or not self.parts:
            yield f"{indent}{before}{flat}"
            return
        yield f"{indent}{before}{self.head}{self.ends[0]}"
        for name, part in self.parts:
            if isinstance(part, str):
                yield f"{indent}{_INDENT}{name}{part},"
            else:
                *most, last = part.lines(name, indent + _INDENT)
                yield from most
                yield f"{last},"
        yield f"{indent}{self.ends[1]}"


def written(form: Any) -> str:
    """Return a form as text, the same for the same form. Verilog is its own text."""
    if isinstance(form, str):
        return form
    block = _Writer().value(form)
    return (block if isinstance(block, str) else "\n".join(block.lines("", ""))) + "\n"


class _Writer:
    """Makes text of values. A text of several lines, such as the kernel's, stands once; it is `source` wherever it is meant again."""

    def __init__(self) -> None:
        self.source: str | None = None

    def value(self, value: Any) -> str | _Block:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Enum):
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, str) and "\n" in value:
            return self._lines(value)
        if value is None or isinstance(value, (bool, str, float)):
            return repr(value)  # inf and nan are names
        if isinstance(value, int):
            return repr(int(value))
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            ends = "()" if isinstance(value, tuple) else "[]"
            return _Block("", ends, [("", self.value(one)) for one in value])
        if isinstance(value, Mapping):
            pairs = [(f"{self._flat(k)}: ", self.value(one)) for k, one in value.items()]
            return _Block("", "{}", pairs)
        if isinstance(value, np.ndarray):
            return self._array(value)
        return _named(value) or self._record(value)

    def _flat(self, value: Any) -> str:
        block = self.value(value)
        return block if isinstance(block, str) else block.flat()

    def _lines(self, value: str) -> str:
        if value == self.source:
            return "source"
        self.source = self.source or value
        held = not value.endswith("'") and "'''" not in value and "\\" not in value
        plain = held and all(c.isprintable() or c == "\n" for c in value)
        return f"'''{value}'''" if plain else repr(value)

    def _array(self, value: np.ndarray) -> _Block:
        numbers = value.ravel().tolist()
        alike = len(numbers) > 1 and all(one == numbers[0] for one in numbers)
        items = self.value(numbers[0] if alike else numbers)
        parts = ("", repr(value.dtype.name)), ("", self._flat(tuple(value.shape))), ("", items)
        return _Block("array", "()", [*parts])

    def _record(self, value: Any) -> _Block:
        if hasattr(value, "_fields"):  # a named tuple
            pairs = [(f"{name}=", self.value(one)) for name, one in value._asdict().items()]
            return _Block(type(value).__name__, "()", pairs)
        if not dataclasses.is_dataclass(value):
            raise TypeError(f"a form holds a {type(value).__name__}, which has no text")
        fields = [(f, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init]
        parts = [(f"{f.name}=", self._field(f, one)) for f, one in fields if not _default(f, one)]
        return _Block(type(value).__name__, "()", parts)

    def _field(self, field: dataclasses.Field[Any], value: Any) -> str | _Block:
        outside = "outside" in field.metadata and not isinstance(value, str)
        return "..." if outside else self.value(value)


def _named(value: Any) -> str | None:
    """Return what has a text of its own already by that; None for others."""
    if isinstance(value, Target):
        return f'target("{value.name}")' if targets().get(value.name) == value else None
    if isinstance(value, Span):
        begin = f"{value.file}:{value.line}:{value.column}"
        return f"at({f'{begin}-{value.end_line}:{value.end_column}'!r})"
    kind = "format" if isinstance(value, Format) else "memory"
    if kind == "memory" and not isinstance(value, (FixedLatency, Dram)):
        return None
    text = value.name if isinstance(value, Format) else str(value)
    try:
        return f'{kind}("{text}")' if _NAMED[kind](text) == value else None
    except ValueError:
        return None


def _default(field: dataclasses.Field[Any], value: Any) -> bool:
    """Return whether a field has the value that it has where none is given."""
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    else:
        return False
    return type(value) is type(default) and bool(np.all(value == default))


def read(text: str, kind: type[Kind], outside: Mapping[str, Any] | None = None) -> Kind:
    """Return the form that a text describes; `outside`: by the field's name what stands where the text has `...`. Raises FormError."""
    if kind is str:
        return text  # type: ignore[return-value]  # Verilog
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise FormError(f"it is no text of a form: {problem}") from None
    form = _Reader(_records(kind), outside or {}).value(tree, kind)
    if not isinstance(form, kind) or (place := misfit(form, kind)) is not None:
        wrong = "" if not isinstance(form, kind) else place
        raise FormError(f"its {(wrong or '')[1:] or 'text'} is of another type")
    return form


def _has_fields(kind: type) -> bool:
    """Return whether a type is a record: a dataclass or a named tuple."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def _within(hint: Any) -> Iterator[type]:
    """Yield the records and enumerations that a type names, those within generics and unions too."""
    if isinstance(hint, type) and (_has_fields(hint) or issubclass(hint, Enum)):
        yield hint
    for inner in get_args(hint):
        yield from _within(inner)


def _named_records(form: Any) -> Mapping[str, tuple[type, ...]]:
    """Return the records of a form's types, and those that it names beside them, by name: some have one name."""
    known: dict[type, None] = {}
    todo = [*_within(form)]
    while todo:
        kind = todo.pop()
        if kind in known:
            continue
        known[kind] = None
        if _has_fields(kind):
            todo += (one for hint in hints_of(kind).values() for one in _within(hint))
            todo += getattr(kind, "untyped", ())
    return {k.__name__: tuple(o for o in known if o.__name__ == k.__name__) for k in known}


_records: Callable[[Any], Mapping[str, tuple[type, ...]]] = cache(_named_records)


@dataclasses.dataclass
class _Reader:
    """Makes values of a syntax tree; `records`: by their names."""

    records: Mapping[str, tuple[type, ...]]
    outside: Mapping[str, Any]
    source: str | None = None

    def value(self, node: ast.expr, hint: Any) -> Any:
        match node:
            case ast.Constant(value=value) if value is not ...:
                if self.source is None and isinstance(value, str) and "\n" in value:
                    self.source = value
                return value
            case ast.Name(id="source"):
                return self.source
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand, hint)
            case ast.Name(id="inf" | "nan" as name):
                return float(name)
            case ast.Attribute(value=ast.Name(id=name), attr=member):
                return self._record(name, hint)[member]  # type: ignore[index]  # an enumeration
            case ast.Tuple(elts=items):
                return tuple(self._items(items, hint))
            case ast.List(elts=items):
                return list(self._items(items, hint))
            case ast.Dict(keys=keys, values=values):
                kinds = (*_arguments(hint, Mapping), Any, Any)[:2]
                pairs = zip(keys, values, strict=True)
                return {self.value(k, kinds[0]): self.value(v, kinds[1]) for k, v in pairs if k}
            case ast.Call(func=ast.Name(id=name), args=items, keywords=keywords):
                return self._made(name, items, keywords, hint)
        raise FormError(f"line {node.lineno} holds what no form does")

    def _items(self, items: Sequence[ast.expr], hint: Any) -> Iterator[Any]:
        inner = _arguments(hint, Sequence) or (Any, ...)
        alike = len(inner) == 1 or inner[-1] is ...
        for n, item in enumerate(items):
            yield self.value(item, inner[0 if alike else min(n, len(inner) - 1)])

    def _made(
        self, name: str, items: Sequence[ast.expr], keywords: Sequence[ast.keyword], hint: Any
    ) -> Any:
        if name == "array" and len(items) == 3:
            return self._array(*items)
        if name in _NAMED and len(items) == 1:
            return self._named(name, self.value(items[0], str))
        kind = self._record(name, hint)
        hints = hints_of(kind)
        fields = {k.arg: self._field(k, hints) for k in keywords if k.arg}
        try:
            return kind(**fields)
        except (TypeError, ValueError) as problem:
            raise FormError(f"a {name} of it is none: {problem}") from None

    def _named(self, name: str, text: Any) -> Any:
        try:
            return _NAMED[name](text)
        except (AttributeError, LookupError, TypeError, ValueError) as problem:
            raise FormError(f"there is no {name} {text!r:.60}") from problem

    def _field(self, keyword: ast.keyword, hints: Mapping[str, Any]) -> Any:
        name = str(keyword.arg)
        if not (isinstance(keyword.value, ast.Constant) and keyword.value.value is ...):
            return self.value(keyword.value, hints.get(name, Any))
        if name not in self.outside:
            raise FormError(f"its {name} must be given beside the text")
        return self.outside[name]

    def _array(self, dtype: ast.expr, shape: ast.expr, items: ast.expr) -> np.ndarray:
        sizes = self.value(shape, Any)
        numbers = np.asarray(self.value(items, Any), self.value(dtype, str))
        if numbers.ndim == 0 or numbers.size == math.prod(sizes):
            return np.array(
                np.broadcast_to(numbers, sizes) if numbers.ndim == 0 else numbers.reshape(sizes)
            )
        raise FormError("an array of it has another number of elements than its shape")

    def _record(self, name: str, hint: Any) -> type:
        """Return the record of a name: of several that have it the one that the place's type names."""
        kinds = self.records.get(name, ())
        fitting = [kind for kind in kinds if kind in {*_within(hint)}] or kinds
        if len(fitting) != 1:
            raise FormError(f"there is no record {name} in such a form")
        return fitting[0]


def _span(text: str) -> Span:
    begin, _, end = text.rpartition("-")
    file, line, column = begin.rsplit(":", 2)
    return Span(file, int(line), int(column), *map(int, end.split(":")))


#: what makes values of the texts that they have
_NAMED: dict[str, Callable[[str], Any]] = {
    "memory": parse_memory,
    "format": parse_format,
    "target": lambda name: targets()[name],
    "at": _span,
}


def _arguments(hint: Any, kind: type) -> tuple[Any, ...]:
    """Return the types within a generic type of that kind; of a union, within its only such member."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for one in options:
        origin = get_origin(one)
        if isinstance(origin, type) and issubclass(origin, kind):
            return get_args(one)
    return ()
