"""A table: its schema and its heap pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...models.heap.page import (
    LP_NORMAL,
    LP_SIZE,
    MAX_COLUMNS,
    PAGE_HEADER,
    PAGE_HEADER_SIZE,
    PAGE_SIZES,
)
from ...models.heap.reader import read_heap
from ...models.heap.schema import Column, Schema
from ...models.heap.values import DTYPES
from ...models.heap.writer import write_heap
from .errors import SourceError, table_error
from .provenance import NO_ARRAYS, UNREADABLE, Provenance
from .synthetic import RandomOptions, random_columns

#: what `write_heap` says of a row that needs larger pages
NO_FIT = "does not fit a page"


@dataclass(eq=False)
class Table:
    """A table as the hardware sees it."""

    schema: Schema
    pages: npt.NDArray[np.uint8]  #: bytes (pages, schema.page_size)
    name: str = "table"  #: its name in reports
    provenance: Provenance | None = None  #: how a server's table was read

    @cached_property
    def digest(self) -> str:
        """A digest of the schema and of every byte of the pages, in hexadecimal."""
        state = hashlib.sha256(json.dumps(self.schema.to_json(), sort_keys=True).encode())
        state.update(np.ascontiguousarray(self.pages).data)
        return state.hexdigest()

    @cached_property
    def rows(self) -> int:
        """How many line pointers hold a tuple, visible or not."""
        total = 0
        lowers = (
            np.ascontiguousarray(self.pages[:, :PAGE_HEADER_SIZE])
            .view(PAGE_HEADER)["pd_lower"][:, 0]
            .astype(np.int64)
        )
        lowers = np.clip(lowers, PAGE_HEADER_SIZE, self.schema.page_size)
        for lower in np.unique(lowers):  # pages with as many line pointers go together
            count = (int(lower) - PAGE_HEADER_SIZE) // LP_SIZE
            words = (
                self.pages[lowers == lower, PAGE_HEADER_SIZE : PAGE_HEADER_SIZE + count * LP_SIZE]
                .copy()
                .view("<u4")
            )
            total += int(np.count_nonzero(words >> 15 & 3 == LP_NORMAL))
        return total

    def columns(self) -> dict[str, Any]:
        """Read the visible rows, by column name (see `read_heap`). Raises SourceError where the pages do not tell."""
        try:
            return read_heap(self.schema, self.pages)
        except ValueError as error:
            raise SourceError(
                f"cannot read the rows of {self.name}: {error}",
                "penstock simulate names the block and line pointer, and what to do about them",
            ) from error

    def group_values(self, column: str) -> list[Any]:
        """Return a column of the visible rows as Python's values, None for NULL and the texts of categories."""
        cells, labels = self.columns()[column], self.schema.column(column).labels
        values: list[Any] = cells if isinstance(cells, list) else np.ma.asarray(cells).tolist()
        return values if labels is None else [v if v is None else labels[v] for v in values]

    def unusable(self, column: str) -> tuple[str, str] | None:
        """Return why a column cannot feed a kernel as it is, in words that follow its name, and what
        to do; None where there is no such column, or nothing is known against it."""
        left = dict(self.provenance.left_out) if self.provenance is not None else {}
        match = next((c for c in self.schema.columns if c.name == column and not c.dropped), None)
        packed = self.provenance is None or self.provenance.way == "packed"
        name_it = f"{'?' if packed else '&'}features={column}"
        if packed:
            name_it += f', in Python ps.open_table(…, features=["{column}"])'
        if column in left or (match is not None and not match.is_numeric):
            kind = left.get(column, match.type if match is not None else "")
            if kind == NO_ARRAYS:
                return f"has {NO_ARRAYS}", "give each row an array of as many numbers, none missing"
            if kind == UNREADABLE:
                return f"is {UNREADABLE}", "GRANT SELECT on it, or use other columns"
            if match is not None and match.type.startswith("numeric"):
                return f"is stored as {kind}", "without --pages the server makes float8 of it"
            return (
                f"has the type {kind}, which is not numeric",
                f"a date, a time, an enum or a text becomes a number where the source names it: {name_it}",
            )
        if match is None or not match.is_array or match.length is not None:
            return None
        lengths = sorted({len(v) for v in self.columns()[column] if v is not None})
        if lengths in ([], [0]):
            what = "no array in any row" if not lengths else "arrays without elements"
            return (
                f"has {what}",
                "every row of an array column must have the same length, 1 or more",
            )
        if len(lengths) < 2:
            return None
        return (
            f"has arrays of {lengths[0]} to {lengths[-1]} elements",
            "every row of an array column must have the same length; a query can cut them: ?query=SELECT …",
        )

    def paged(self, page_size: int) -> Table:
        """Return the table with its visible rows in pages of `page_size` bytes; itself where they are. Raises SourceError where they do not fit."""
        if page_size == self.schema.page_size:
            return self
        columns, schema = self.columns(), replace(self.schema, page_size=page_size)
        for name, values in columns.items():
            if _irregular(values):
                raise table_error(
                    f"{self.name}: array column {name!r} has NULL elements or several dimensions, "
                    f"which pages of {page_size} bytes are not written with",
                    "leave the column out: ?query=SELECT …",
                )
        nulls = {
            name: np.ma.getmaskarray(values)
            for name, values in columns.items()
            if isinstance(values, np.ma.MaskedArray)
        }
        try:
            return Table(
                schema,
                write_heap(
                    schema,
                    {name: np.ma.getdata(v) if name in nulls else v for name, v in columns.items()},
                    nulls=nulls,
                ),
                self.name,
            )
        except ValueError as error:
            raise table_error(f"{self.name}: {error}", "larger pages take longer rows") from error

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Any], name: str = "table", page_size: int | None = None
    ) -> Table:
        """Pack arrays into pages: a vector is a column of numbers, a matrix an array column with one row a tuple.

        float64 becomes float8, float32 and float16 float4, integers the smallest of int2, int4, int8 that holds their type, bool
        bool; strings become text. A matrix of integers becomes float4[] or float8[], whichever holds its values exactly. A
        masked array's masked values are NULL. Without `page_size`, pages have 8192 bytes or more where a row needs more.

        Raises SourceError for what cannot become a column.
        """
        return pack(columns, name, page_size)

    @classmethod
    def random(
        cls,
        schema: Schema,
        rows: int,
        seed: int = 1,
        task: str = "classification",
        labels: tuple[str, ...] = ("y",),
        counts: Mapping[str, int] | None = None,
    ) -> Table:
        """Make a table of random rows with something to learn (see `synthetic.random_columns`). The same schema and options give
        the same table. Pages are larger than the schema says where a row needs that.

        Raises SourceError for an array column without `length` and for rows that fit no page.
        """
        columns = random_columns(schema, RandomOptions(rows, seed, task), labels, counts)
        try:
            return cls(*in_pages(schema, columns), schema.table)
        except ValueError as error:
            raise table_error(
                f"random: {error}",
                "use smaller dimensions: a row lies in one page of at most 32 KB",
            ) from error


def in_pages(
    schema: Schema, values: Mapping[str, Any], most: int = PAGE_SIZES[-1], **options: Any
) -> tuple[Schema, npt.NDArray[np.uint8]]:
    """Write rows (`write_heap`) into pages of the schema's size, or of a larger one, `most` at most,
    where a row needs it; return the schema with that size as well. Raises ValueError."""
    while True:
        try:
            return schema, write_heap(schema, values, **options)
        except ValueError as error:
            if NO_FIT not in str(error) or schema.page_size >= most:
                raise
            schema = replace(schema, page_size=2 * schema.page_size)


def _irregular(values: Any) -> bool:
    """Whether some array among a column's values has several dimensions or NULL elements."""
    cells, most = (values, 1) if isinstance(values, list) else ([values], 2)
    return any(
        isinstance(cell, np.ndarray)
        and (cell.ndim > most or (cell.ndim == most and isinstance(cell, np.ma.MaskedArray)))
        for cell in cells
    )


def integer_type(name: str, values: npt.NDArray[Any]) -> str:
    """Return the type of the server's that holds whole numbers of this NumPy type. Raises SourceError for what none holds."""
    if values.dtype.str[1:] == "u8" and values.size and int(values.max()) >= 1 << 63:
        raise table_error(
            f"column {name!r} has values of 2**63 and more, which no integer type holds",
            "convert it to float64; an index takes numbers below 2**63",
        )
    fitting = (kind for kind in ("int2", "int4") if np.can_cast(values.dtype, DTYPES[kind]))
    return next(fitting, "int8")


def _array_type(name: str, values: npt.NDArray[Any]) -> tuple[str, npt.NDArray[Any]]:
    if values.dtype.kind == "f":
        return (
            ("float4[]", values.astype("<f4"))
            if values.dtype.itemsize <= 4
            else ("float8[]", values.astype("<f8"))
        )
    for kind, dtype in (("float4[]", "<f4"), ("float8[]", "<f8")):
        converted = values.astype(dtype)
        bound = 2.0 ** (24 if dtype == "<f4" else 53)
        if not converted.size or np.abs(converted.astype(np.float64)).max() <= bound:
            return kind, converted
    raise table_error(
        f"array column {name!r} has integers beyond 2**53, which no float array holds",
        "scale the column",
    )


def _column(name: str, values: Any) -> tuple[Column, Any, npt.NDArray[np.bool_] | None]:
    """Return the column's description, its values and where they are NULL."""
    null = np.ma.getmaskarray(values).copy() if isinstance(values, np.ma.MaskedArray) else None
    array = np.ma.getdata(values)
    if array.dtype.kind in "US":
        try:
            texts = [v.decode() if isinstance(v, bytes) else str(v) for v in array.tolist()]
        except UnicodeDecodeError as error:
            raise table_error(
                f"column {name!r} holds bytes that are no text in UTF-8", "leave the column out"
            ) from error
        return Column(name, "text"), texts, null
    if array.dtype.kind == "O" and all(v is None or isinstance(v, str) for v in array.flat):
        return Column(name, "text"), array.tolist(), null
    if array.dtype.kind == "O":
        raise table_error(
            f"column {name!r} holds Python objects, or arrays of different lengths",
            "every row of an array column must have the same length",
        )
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        raise table_error(
            f"column {name!r} has the type {array.dtype}, which no column can hold",
            "convert it to float64",
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim > 1:
        array = array.reshape(len(array), -1)  # a matrix a tuple: row by row
        if not array.shape[1]:
            raise table_error(f"array column {name!r} has no elements", "leave the column out")
        if null is not None and null.any():
            raise table_error(
                f"array column {name!r} has missing elements",
                "arrays with NULL elements are not supported",
            )
        kind, array = _array_type(name, array)
        return Column(name, kind, not_null=True, length=array.shape[1]), array, None
    if array.dtype.kind == "f":
        kind = "float8" if array.dtype.itemsize == 8 else "float4"
    else:
        kind = "bool" if array.dtype.kind == "b" else integer_type(name, array)
    if null is not None and not null.any():
        null = None
    return Column(name, kind, not_null=null is None), array, null


def check_count(columns: Collection[str], name: str) -> None:
    """Raise SourceError for more columns than a table has."""
    if len(columns) > MAX_COLUMNS:
        raise table_error(
            f"{name} has {len(columns)} columns; a table takes at most {MAX_COLUMNS}",
            "put the features into one array column: a matrix in an .npz file, or a list column in a .parquet file",
        )


def _check_rows(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> None:
    """Raise SourceError for columns that do not have the same rows, one at least."""
    for key, array in arrays.items():
        if array.ndim == 0:
            raise table_error(
                f"{key!r} of {name} is a single value, not a column",
                "every array needs one entry for each row",
            )
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise table_error(
            f"the columns of {name} have different lengths: {listed}",
            "every column needs one entry for each row",
        )
    if not next(iter(lengths.values())):
        raise table_error(f"{name} has no rows", "training needs at least one row")


def pack(
    columns: Mapping[str, Any],
    name: str,
    page_size: int | None = None,
    labels: Mapping[str, tuple[str, ...]] | None = None,
    arrays: Mapping[str, str] | None = None,
) -> Table:
    """See `Table.from_columns`. `labels`: what the numbers of a column of categories stand for; such
    a column may be a list of arrays, None for NULL. `arrays`: the types of columns that are lists of
    arrays of integers."""
    if not columns:
        raise table_error(
            f"{name} has no columns", "every array in it becomes a column; write some"
        )
    check_count(columns, name)
    labels, kinds = labels or {}, arrays or {}
    lists = {k: v for k, v in columns.items() if k in {*labels, *kinds} and isinstance(v, list)}
    arrays_of = {
        key: np.zeros(len(values))
        if key in lists
        else values
        if isinstance(values, np.ndarray)
        else np.asarray(values)
        for key, values in columns.items()
    }
    _check_rows(arrays_of, name)
    parts = [
        (Column(key, kinds[key]), lists[key], None)
        if key in kinds
        else (Column(key, "float4[]", length=len(labels[key])), lists[key], None)
        if key in lists
        else _column(key, array)
        for key, array in arrays_of.items()
    ]
    parts = [(replace(c, labels=labels.get(c.name)), data, null) for c, data, null in parts]
    values = {column.name: data for column, data, _ in parts}
    nulls = {column.name: null for column, _, null in parts if null is not None}
    schema = Schema(name, tuple(column for column, _, _ in parts), page_size or 8192)
    try:
        return Table(*in_pages(schema, values, page_size or PAGE_SIZES[-1], nulls=nulls), name)
    except ValueError as error:
        hint = "does every column hold what its type says?"
        if NO_FIT in str(error):
            hint = "use float32 in place of float64, or fewer columns"
        raise table_error(f"{name}: {error}", hint) from error
