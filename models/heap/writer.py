"""Writes heap pages: the bytes that a bulk load followed by VACUUM FREEZE leaves.

Order of tuples, padding, hint bits and header lengths follow PostgreSQL 15 (`access/heap/hio.c`, `access/common/heaptuple.c`,
`storage/page/bufpage.c`); with the options left alone a page equals the server's in all but LSN and transaction ids.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .packing import Rows, write_many
from .schema import Schema
from .values import DTYPES, Raw, scalars

Bytes = npt.NDArray[np.uint8]


def write_heap(
    schema: Schema,
    columns: Mapping[str, Any],
    *,
    nulls: Mapping[str, npt.ArrayLike] | None = None,
    natts: int | Sequence[int] | None = None,
    short: bool | Collection[str] = (),
) -> Bytes:
    """Pack rows into heap pages; return them as an array of shape (pages, schema.page_size).

    * `columns`: one entry for each column by name: numbers; for an array column a matrix (one row an array)
      or a list of arrays; for text a list of `str`. None in a list is NULL; a variable-length value may be
      `Raw`. A dropped column, or one past every row's `natts`, may be left out: NULL.
    * `nulls`: where a column is NULL, by name, as Boolean vectors.
    * `natts`: how many attributes the rows hold, for all rows or for each: rows written before a column was
      added hold fewer.
    * `short`: which array columns have the one-byte header when they fit (True: all): the server's choice
      unless the column is STORAGE PLAIN. Text always has it when it fits.

    Raises ValueError for a row that does not fit a page, a value outside its column's type, columns of
    different lengths, an unknown name.
    """
    rows = rows_of(schema, columns, nulls or {})
    count = len(rows[0].values) if rows else 0
    shorts = {c.name for c in schema.columns if c.is_array} if short is True else set(short or ())
    attributes = (
        np.full(count, len(schema.columns) if natts is None else natts, np.int64)
        if natts is None or isinstance(natts, int)
        else np.asarray(natts, np.int64)
    )
    if len(attributes) != count:
        raise ValueError(f"natts must have one entry for each of the {count} rows")
    return write_many(schema.page_size, rows, attributes, shorts)


def rows_of(
    schema: Schema, columns: Mapping[str, Any], nulls: Mapping[str, npt.ArrayLike]
) -> list[Rows]:
    """Check and convert the columns, in attribute order."""
    for name in [*columns, *nulls]:
        if name not in {c.name for c in schema.columns}:
            raise ValueError(f"the schema has no column {name!r}")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            "columns of different lengths: "
            + ", ".join(f"{name} has {n}" for name, n in lengths.items())
        )
    count = next(iter(lengths.values()), 0)
    result = []
    for column in schema.columns:
        values = columns.get(column.name)
        null = np.asarray(nulls.get(column.name, np.zeros(count, bool)), bool).copy()
        if null.shape != (count,):
            raise ValueError(
                f"nulls of column {column.name!r}: {null.shape} entries for {count} rows"
            )
        if values is None:
            result.append(Rows(column, [None] * count, np.ones(count, bool)))
            continue
        if not isinstance(values, np.ndarray) or values.dtype == object:
            values = list(values)
            null |= np.array([value is None for value in values], bool)
            if column.storage.length < 0:
                same = (
                    column.is_array
                    and not null.any()
                    and not any(isinstance(v, Raw) for v in values)
                )
                if (
                    same
                    and values
                    and len({np.shape(v) for v in values}) == 1
                    and np.ndim(values[0]) == 1
                ):
                    values = np.asarray(values)
            elif count:
                nothing: Any = 0 if column.type in DTYPES else bytes(column.storage.length)
                values = [nothing if value is None else value for value in values]
        if column.storage.length > 0 and count:
            values = scalars(column, values)
            if values.ndim != 1:
                raise ValueError(f"column {column.name!r} is {column.type}; its values are arrays")
        elif column.is_array and isinstance(values, np.ndarray):
            if values.ndim != 2:
                raise ValueError(
                    f"column {column.name!r} is {column.type}; its values have {values.ndim - 1} dimensions"
                )
            values = scalars(column, values)
        result.append(Rows(column, values, null))
    return result
