"""Tables that a compiled design is to run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from penstock.host.sources import RandomOptions, SourceError, Table, are_stored, open_table
from penstock.models.errors import HardwareError
from penstock.models.heap.schema import Schema
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.golden import walk_page
from penstock.runs.failures import Failure, hardware_failure


class RowError(ValueError):
    """A row that cannot be scored, or learned from. `row`, from 1 on; `column`: what it is called;
    `element`: which of its array, from 0 on, None for one that is no array; both None where it is no
    value's fault; `doing`: what cannot be done with it."""

    def __init__(
        self,
        row: int,
        error: HardwareError,
        column: str | None,
        element: int | None,
        doing: str = "scored",
    ) -> None:
        super().__init__(row, error, column, element, doing)
        self.row, self.error = row, error
        self.column, self.element = column, element
        self.doing = doing

    @classmethod
    def at(
        cls, row: int, error: HardwareError, walk: WalkConfig, doing: str = "scored"
    ) -> RowError:
        """Return the error that a walk ended with."""
        return cls(row, error, *_column(error, walk), doing)

    def called(self, names: Sequence[str]) -> RowError:
        """Return the error with the names that the elements of the array have for the caller."""
        if self.element is None or not len(names):
            return self
        return RowError(self.row, self.error, str(names[self.element]), None, self.doing)

    def __str__(self) -> str:
        column = "" if self.column is None else f", column {self.column}"
        if self.element is not None:
            column += f"[{self.element + 1}]"
        code = self.error.code
        return f"row {self.row:,}{column} cannot be {self.doing}: {code.name}: {self.error.meaning}"


def table_failure(
    data: str | None, table: Table, error: HardwareError, walk: WalkConfig | None = None
) -> Failure:
    """Say what stopped a run; what we packed ourselves has rows, not blocks, for its user. `data`: the source as it was given;
    `walk`: how the table was walked, where the error may be about a value."""
    column = None
    if walk is not None:
        name, element = _column(_named(error, table, walk), walk)
        column = name if name is None or element is None else f"{name}[{element + 1}]"
    if data is not None and not are_stored(data) and error.line:
        return hardware_failure(error, f"{data}, row {_row(table, error):,}", column=column)
    if table.provenance is not None and table.provenance.way == "rows" and error.line:
        place = f"{table.name}, row {_row(table, error):,} as the server sent it"
        return hardware_failure(error, place, column=column)
    return hardware_failure(error, table.name, server=True, column=column)


def learning_error(
    table: Table, error: HardwareError, walk: WalkConfig, doing: str = "learned from"
) -> RowError:
    """Return what ended a run on a table that was packed here, as its user counts the rows."""
    return RowError.at(_row(table, error), _named(error, table, walk), walk, doing)


def _named(error: HardwareError, table: Table, walk: WalkConfig) -> HardwareError:
    """Return an error with its column, which hardware does not report of a NULL, a length or a shape."""
    if error.column or error.item or not error.line:
        return error
    again = walk_page(table.pages[error.block], walk, error.block)[2]
    return error if again is None or again != error else replace(error, column=again.column)


def _column(error: HardwareError, walk: WalkConfig) -> tuple[str | None, int | None]:
    """Return the column that an error is about, and which of its array's elements; None for what is not known."""
    place = walk.value_at(error.item) if error.item and not error.column else None
    if place is None:
        return error.column or None, None
    column = walk.schema.columns[place[0]]
    return column.name, place[1] if column.is_array else None


def _row(table: Table, error: HardwareError) -> int:
    """Return which row, from 1 on, an error in pages that were packed here is about."""
    return Table(table.schema, table.pages[: error.block]).rows + error.line


def _check(schema: Schema, walk: WalkConfig) -> None:
    """Raise SourceError where tables of this schema are not what the design was compiled for."""
    mine = walk.schema
    both = [
        (a, b)
        for i, (a, b) in enumerate(zip(schema.columns, mine.columns, strict=False))
        if i in walk.used
    ]
    stored = [[(c.type, c.dropped) for c in s.columns] for s in (schema, mine)]
    if schema.page_size != mine.page_size:
        what = f"its pages have {schema.page_size} bytes, the design's {mine.page_size}"
    elif stored[0] != stored[1]:
        what = _other_columns(schema, mine)
    elif any(
        a.length is not None and b.length is not None and a.length != b.length
        for a, b in zip(schema.columns, mine.columns, strict=True)
    ):
        what = "its arrays have other lengths than the design's"
    elif other := next(((a, b) for a, b in both if a.name != b.name), None):
        what = f"where it has the column {other[0].name!r}, the design has {other[1].name!r}"
    elif other := next(((a, b) for a, b in both if a.labels != b.labels), None):
        what = f"the categories of its column {other[0].name!r} have other numbers"
    elif other := next(((a, b) for a, b in both if a.missing != b.missing), None):
        what = f"rows older than its column {other[0].name!r} hold {_default(other[0].missing)} there, not {_default(other[1].missing)}"
    else:
        return
    raise SourceError(
        f"the table {schema.table} is not of the kind the design was compiled for: {what}",
        "compile the kernel for this table",
        code="E706",
    )


def _other_columns(schema: Schema, mine: Schema) -> str:
    """Return the first column whose type differs from the design's."""
    for ours, theirs in zip_longest(schema.columns, mine.columns):
        if ours is None:
            return f"it has no column {theirs.name!r}"
        if theirs is None:
            return f"it has one column more, {ours.name!r}"
        if (ours.type, ours.dropped) != (theirs.type, theirs.dropped):
            if ours.name == theirs.name:
                return f"its column {ours.name!r} is {ours.type}, the design's is {theirs.type}"
            return f"where it has the column {ours.name!r} ({ours.type}), the design has {theirs.name!r} ({theirs.type})"
    raise AssertionError("they have the same types")


def _default(missing: Any) -> str:
    return "NULL" if missing is None else str(missing)


def open_source(source: Any, *, pages: bool | None = None, **asked: Any) -> Table | Schema | str:
    """Return the table that a source names or is, see `host.sources.open_table`; a schema as it is,
    and the text itself for random rows, which need the kernel's sizes first. `pages`: insist on a
    server's own pages; `asked`: of its columns, as `open_table` takes it.

    Raises SourceError, for what is wrong with such a text as well.
    """
    if isinstance(source, Schema):
        return source
    if isinstance(source, str) and source.startswith("random:"):
        RandomOptions.parse(source.removeprefix("random:"))
        return source
    return open_table(source, pages=pages, **asked)


def packed_here(data: Any, source: Any) -> bool:
    """Return whether the pages of given data are packed by Penstock, which may choose their size.
    `source`: what the data were opened from."""
    return data is None or not are_stored(data if source is None else source)


def table_on(
    data: Any, source: Any, walk: WalkConfig, labels: tuple[str, ...], **asked: Any
) -> Table:
    """Return the table that a design runs on, in pages that it walks; `labels`: columns that a
    random table must make learnable; `asked`: of other columns, as `open_table` takes it.

    Raises SourceError for a source that cannot be read or has another schema than the design.
    """
    if data is None:
        hint = "give a source such as random:rows=1000, a dict of arrays or a frame"
        raise SourceError("a run needs a table", hint, code="E701")
    table = open_table(data, walk.schema, labels, **asked)
    if packed_here(data, source):
        table = table.paged(walk.schema.page_size)
    _check(table.schema, walk)
    return table
