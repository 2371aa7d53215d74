"""Writes heap pages: the bytes that a bulk load followed by VACUUM FREEZE leaves, or another state of its rows.

Order of tuples, padding, hint bits and header lengths follow PostgreSQL 15 (`access/heap/hio.c`, `access/common/heaptuple.c`,
`storage/page/bufpage.c`); with the options left alone a page equals the server's in all but LSN and transaction ids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import page as p
from .checksum import checksum
from .packing import Header, Rows, write_many
from .schema import Schema
from .values import DTYPES, Raw, array_body, scalars, varlena
from .visibility import VISIBILITY, Visibility

__all__ = ["VISIBILITY", "Visibility", "rows_of", "write_heap"]

Bytes = npt.NDArray[np.uint8]


def write_heap(
    schema: Schema,
    columns: Mapping[str, Any],
    *,
    nulls: Mapping[str, npt.ArrayLike] | None = None,
    visibility: str | Sequence[str] = "frozen",
    all_visible: bool | None = None,
    natts: int | Sequence[int] | None = None,
    short: bool | Collection[str] = (),
    fillfactor: int = 100,
    checksums: bool = False,
    first_block: int = 0,
    xmin: int = 731,
    xmax: int = 740,
) -> Bytes:
    """Pack rows into heap pages; return them as an array of shape (pages, schema.page_size).

    Parameters
    ----------
    columns
        One entry for each column by name: numbers; for an array column a matrix (one row an array) or a list of arrays; for text
        a list of `str`. None in a list is NULL; a variable-length value may be `Raw`. A dropped column, or one past every row's
        `natts`, may be left out: NULL.
    nulls
        Where a column is NULL, by name, as Boolean vectors.
    visibility
        A name in `VISIBILITY`, for all rows or for each.
    all_visible
        The page flag; None sets it on pages whose rows are all frozen and that have no dead line pointer.
    natts
        How many attributes the rows hold, for all rows or for each: rows written before a column was added hold fewer.
    short
        Which array columns have the one-byte header when they fit (True: all): the server's choice unless the column is STORAGE
        PLAIN. Text always has it when it fits.
    fillfactor
        Percent of a page to fill, as the table option of that name.
    checksums
        Fill in `pd_checksum`; the first page is block `first_block`.
    xmin, xmax
        Transaction numbers; `xmax` goes where the state has one.

    Raises
    ------
    ValueError
        For a row that does not fit a page, a value outside its column's type, columns of different lengths, an unknown name.
    """
    rows = rows_of(schema, columns, nulls or {})
    count = len(rows[0].values) if rows else 0
    shorts = {c.name for c in schema.columns if c.is_array} if short is True else set(short or ())
    states = visibility if isinstance(visibility, str) else list(visibility)
    attributes = (
        np.full(count, len(schema.columns) if natts is None else natts, np.int64)
        if natts is None or isinstance(natts, int)
        else np.asarray(natts, np.int64)
    )
    if (not isinstance(states, str) and len(states) != count) or len(attributes) != count:
        raise ValueError(f"visibility and natts must have one entry for each of the {count} rows")
    for state in ({states} if isinstance(states, str) else set(states)) - set(VISIBILITY):
        raise ValueError(f"unknown visibility {state!r}; known are {', '.join(VISIBILITY)}")
    uniform = (
        isinstance(visibility, str) and count > 0 and bool((attributes == attributes[0]).all())
    )
    plan = _fixed_plan(rows, int(attributes[0]), shorts) if uniform else None
    header = Header(schema.page_size, xmin, xmax, all_visible, fillfactor)
    if plan is not None:
        pages = _write_fixed(header, plan, count, str(visibility), first_block)
    else:
        pages = write_many(header, rows, states, attributes, shorts, first_block)
    if checksums:
        pages.view("<u2")[:, 4] = checksum(pages, first_block)
    return pages


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


# -- rows of one layout: all at once ---------------------------------------------------------------------------------------


@dataclass
class _Plan:
    """All rows have the same layout: constant bytes, and values at constant offsets from the tuple's start."""

    length: int
    hoff: int
    infomask: int
    natts: int
    constants: list[tuple[int, bytes]]
    values: list[tuple[int, npt.NDArray[Any]]]


def _fixed_plan(rows: list[Rows], natts: int, shorts: set[str]) -> _Plan | None:
    """Lay one row out; None where rows differ in layout."""
    held = rows[:natts]
    for row in held:
        if row.null.any() and not row.null.all():
            return None
        if not row.null.all() and not isinstance(row.values, np.ndarray):
            return None
    bits = [not row.null.all() for row in held]
    plan = _Plan(0, 0, 0, natts, [], [])
    bitmap = b"" if all(bits) else np.packbits(bits, bitorder="little").tobytes()
    plan.hoff = p.align(p.TUPLE_HEADER_SIZE + len(bitmap))
    plan.infomask = p.HEAP_HASNULL if bitmap else 0
    plan.constants.append((p.TUPLE_BITMAP, bitmap))
    at = plan.hoff
    for row, present in zip(held, bits, strict=True):
        if not present:
            continue
        kind = row.column.storage
        if kind.length > 0:
            at = p.align(at, kind.align)
        else:
            plan.infomask |= p.HEAP_HASVARWIDTH
            element = DTYPES[kind.element or ""]
            body = array_body(np.zeros(row.values.shape[1], element), kind.element or "")
            value = varlena(body, row.column.name in shorts)
            at = at if value.unaligned else p.align(at, kind.align)
            lead = len(value) - row.values.shape[1] * element.itemsize
            plan.constants.append((at, bytes(value[:lead])))
            at += lead
        plan.values.append((at, row.values))
        at += row.values.nbytes // len(row.values)
    plan.length = at
    return plan


def _write_fixed(header: Header, plan: _Plan, count: int, state: str, first_block: int) -> Bytes:
    size, stride = header.page_size, p.align(plan.length)
    room = size - p.PAGE_HEADER_SIZE - header.reserve(plan.length)
    each = max(room // (stride + p.LP_SIZE), 1)
    blocks = -(-count // each)
    pages = np.zeros((blocks, size), np.uint8)
    # tuple i of a page ends i * stride bytes before the page does; a view, so that each value is written once
    places = pages[:, size - each * stride :].reshape(blocks, each, stride)[:, ::-1]
    whole, rest = divmod(count, each)

    def put(at: int, data: Bytes) -> None:
        width = data.shape[1]
        places[:whole, :, at : at + width] = data[: whole * each].reshape(whole, each, width)
        if rest:
            places[whole, :rest, at : at + width] = data[whole * each :]

    row = np.arange(count)
    tuples = header.tuples(count, plan.infomask, plan.natts, plan.hoff, VISIBILITY[state])
    block = first_block + row // each
    tuples["t_ctid_block_high"], tuples["t_ctid_block_low"], tuples["t_ctid_line"] = (
        block >> 16,
        block & 0xFFFF,
        row % each + 1,
    )
    put(0, tuples.view(np.uint8).reshape(count, -1))
    for at, constant in plan.constants:
        places[:, :, at : at + len(constant)] = np.frombuffer(constant, np.uint8)
    if rest:
        places[whole, rest:] = 0  # the last page may hold fewer
    for at, values in plan.values:
        if values.size:
            put(at, np.ascontiguousarray(values).reshape(count, -1).view(np.uint8))
    held = np.minimum(count - np.arange(blocks) * each, each)
    line = np.arange(each)
    words = size - (line + 1) * stride | p.LP_NORMAL << 15 | plan.length << 17
    pages[:, p.PAGE_HEADER_SIZE : p.PAGE_HEADER_SIZE + each * p.LP_SIZE] = (
        np.where(line < held[:, None], words, 0).astype("<u4").view(np.uint8)
    )
    visible = state == "frozen" if header.all_visible is None else header.all_visible
    heads = header.page(
        p.PAGE_HEADER_SIZE + held * p.LP_SIZE,
        size - held * stride,
        p.PD_ALL_VISIBLE if visible else 0,
        blocks,
    )
    pages[:, : p.PAGE_HEADER_SIZE] = heads.view(np.uint8).reshape(blocks, -1)
    return pages
