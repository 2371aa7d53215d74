"""Columns to indices: which columns of a table an index takes, and how far it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...models.heap.schema import INTEGERS, Column, Schema

if TYPE_CHECKING:
    from .bind import Binder
    from .kernel import Parameter

#: of a column by its name, how far its integers count (1 + the largest), and the most and the fewest elements of its arrays
Counts = Callable[[str], tuple[int, int, int]]


@dataclass(frozen=True)
class BoundIndex:
    """The columns of an index: for each its attribute index, what is added to its integers, and how far they count; how many places it has;
    whether each place is a column, or an element of an array that has one for each."""

    columns: tuple[tuple[int, int, int], ...]
    counts: int
    places: int
    apart: bool = False

    def with_places(self, schema: Schema) -> Schema:
        """Return the schema of a table whose arrays have an element for each place, if its array that this index takes has: without a
        default of another length, which no row holds then."""
        attribute = self.columns[0][0]
        if not self.apart or not schema.columns[attribute].is_array:
            return schema
        columns = list(schema.columns)
        column = columns[attribute]
        missing = column.missing if len(column.missing or ()) == self.places else None
        columns[attribute] = replace(column, length=self.places, missing=missing)
        return replace(schema, columns=tuple(columns))


def is_index(column: Column) -> bool:
    """Return whether a column holds integers that an index may take."""
    return not column.dropped and column.type in INTEGERS


def bind_indices(binder: Binder, counts: Counts | None) -> dict[str, BoundIndex]:
    """Return what each index takes; sizes of dimensions that nothing else says are settled. Raises KernelError."""
    indices = binder.kernel.of_kind("index")
    far: dict[str, list[int]] = {}
    for parameter in indices:
        far[parameter.name] = _far(binder, parameter, counts)
        name, *bag = parameter.dims
        if isinstance(name, str) and name not in binder.known:
            size = max(sum(far[parameter.name]), binder.dims.get(name, 1))
            if size > (largest := binder.kernel.largest(parameter, 0)):
                column = _columns(binder, parameter)[0][1].name
                raise binder.error(
                    "E307",
                    f"the index {parameter.name} counts {size:,} rows; the most are {largest:,}",
                    parameter.span,
                    hint=f"--categories {column} counts the numbers that there are; or give --dim {name}=SIZE, beyond which a row is an error",
                )
            if sum(far[parameter.name]):
                binder.dims[name] = size
        for places in bag:
            if isinstance(places, str) and places not in binder.dims:
                binder.dims[places] = _places(binder, parameter, counts)
    by_name = {}
    for parameter in indices:
        by_name[parameter.name] = _bound(binder, parameter, far[parameter.name], counts)
    return by_name


def _columns(binder: Binder, parameter: Parameter) -> list[tuple[int, Column]]:
    return [(n, binder.schema.columns[n]) for n in binder.takes[parameter.name].columns]


def _far(binder: Binder, parameter: Parameter, counts: Counts | None) -> list[int]:
    """Return how far each column counts: its categories, else its largest integer in the table, 0 where nothing says it."""
    sizes = []
    for _, column in _columns(binder, parameter):
        if column.labels is not None:
            sizes.append(len(column.labels))
        else:
            sizes.append(0 if counts is None else counts(column.name)[0])
    return sizes


def _places(binder: Binder, parameter: Parameter, counts: Counts | None) -> int:
    columns = _columns(binder, parameter)
    if len(columns) > 1 or not columns[0][1].is_array:
        return len(columns)
    return columns[0][1].length or (1 if counts is None else max(1, counts(columns[0][1].name)[1]))


def _fewest(column: Column, counts: Counts | None) -> int:
    """Return how many integers each row has at least, 0 where nothing says it or Striders do not read them."""
    if not column.is_array:
        return 1
    if column.type == "int2[]":
        return 0
    return column.length or (0 if counts is None else counts(column.name)[2])


def _bound(
    binder: Binder, parameter: Parameter, far: Sequence[int], counts: Counts | None
) -> BoundIndex:
    columns = _columns(binder, parameter)
    name, *bag = (d if isinstance(d, int) else binder.dims.get(d) for d in parameter.dims)
    if name is None:
        raise binder.unresolved(str(parameter.dims[0]), parameter)
    places = (bag[0] or 1) if bag else 1
    have = _places(binder, parameter, counts)
    if have > places or (not bag and columns[0][1].is_array):
        what = f"a bag of {places}" if bag else "one number"
        shown = ", ".join(column.name for _, column in columns)
        raise binder.error(
            "E614",
            f"the index {parameter.name} is {what}, and its columns have {have}: {shown}",
            parameter.span,
            hint=f'declare a bag that holds them, as in `{parameter.name}: ps.Index["n", {have}]` (as text: `index[n, {have}]`)',
        )
    if len(columns) == 1:
        apart = places == _fewest(columns[0][1], counts)
        return BoundIndex(((columns[0][0], 0, name),), name, places, apart)
    if any(column.is_array for _, column in columns):
        hint = f"bind one array, or several columns of numbers, with --bind {parameter.name}=…"
        message = f"the index {parameter.name} takes an array and other columns"
        raise binder.error("E614", message, parameter.span, hint=hint)
    if not all(far) or sum(far) > name:
        reason = (
            f"its columns count {sum(far):,} rows"
            if all(far)
            else "nothing says how far its columns count"
        )
        raise binder.error(
            "E614",
            f"the index {parameter.name} counts {name:,}, but {reason}",
            parameter.span,
            hint="give a table, whose largest integers say it; each column has rows of its own",
        )
    starts = [sum(far[:k]) for k in range(len(far))]
    parts = zip(columns, starts, far, strict=True)
    pieces = tuple((n, at, size) for (n, _), at, size in parts)
    return BoundIndex(pieces, name, places, len(pieces) == places)
