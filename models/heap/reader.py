"""Reads a table out of heap pages with NumPy alone: what host code looks at, and an independent check on the writer.

It judges a row by the page alone. Rows that the page shows to be deleted or never committed are left out; a row that the page
does not decide is an error here, as it is for the hardware.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from . import page as p
from .schema import TYPES, Column, Schema
from .values import DTYPES, Raw, dtype_of

_MOST_DIMENSIONS = 6  #: MAXDIM of PostgreSQL
#: types that are given as `str`
TEXTS = ("text", "varchar", "bpchar", "json", "xml")


def read_heap(schema: Schema, pages: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """Return the visible rows in page and line pointer order, by column name; dropped columns are left out.

    Numbers are an array of the column's type (masked where a row has NULL). An array column is a matrix, or, where its rows
    differ in length or some are NULL, a list of arrays and None; arrays of more dimensions have these, and NULL elements are
    masked. Text is a list of `str` and None, and any other type that no kernel
    can use a list of the `bytes` stored (of a varlena without its header) and None; a value of these types that is compressed or
    out of line comes as it is stored, as `Raw`.

    Raises ValueError for a page of another size or version, a row whose visibility the page does not decide, and a value that is
    stored compressed or out of line in a column that a kernel can use.
    """
    if pages.ndim != 2 or pages.shape[1] != schema.page_size:
        raise ValueError(
            f"pages of {schema.page_size} bytes are an array of shape (pages, {schema.page_size}), not {pages.shape}"
        )
    wanted = [(i, c) for i, c in enumerate(schema.columns) if not c.dropped]
    fast = _read_uniform(schema, wanted, pages)
    if fast is not None:
        return fast
    rows = []
    for block, page in enumerate(pages):
        for line, stored in _tuples(schema, block, page):
            try:
                rows.append(_values(schema, stored))
            except (IndexError, ValueError) as error:
                reason = (
                    str(error)
                    if type(error) is ValueError
                    else "its bytes make no row of this schema"
                )
                raise ValueError(f"block {block}, line pointer {line}: {reason}") from error
    return {column.name: _column(column, [row[i] for row in rows]) for i, column in wanted}


def _column(column: Column, values: list[Any]) -> Any:
    null = [value is None for value in values]
    if column.type in DTYPES:
        numbers = np.array([0 if value is None else value for value in values], DTYPES[column.type])
        return np.ma.masked_array(numbers, null) if any(null) else numbers
    if column.is_array and not any(null):
        if not values:
            return np.zeros((0, column.length or 0), DTYPES[column.storage.element or ""])
        if len({value.shape for value in values}) == 1:
            holed = any(isinstance(value, np.ma.MaskedArray) for value in values)
            return np.ma.stack(values) if holed else np.stack(values)
    return values


def _lines(schema: Schema, block: int, page: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the page's line pointers. A new page has none."""
    head = page[: p.PAGE_HEADER_SIZE].view(p.PAGE_HEADER)[0]
    if head["pd_upper"] == 0:
        return np.zeros(0, np.int64)
    if head["pd_pagesize_version"] != p.pagesize_version(schema.page_size):
        raise ValueError(
            f"block {block}: pd_pagesize_version is {head['pd_pagesize_version']:#06x}, not "
            f"{p.pagesize_version(schema.page_size):#06x} (pages of {schema.page_size} bytes, layout version 4)"
        )
    lower, upper, special = int(head["pd_lower"]), int(head["pd_upper"]), int(head["pd_special"])
    if not p.PAGE_HEADER_SIZE <= lower <= upper <= special <= schema.page_size:
        raise ValueError(
            f"block {block}: pd_lower {lower}, pd_upper {upper} and pd_special {special} are out of order"
        )
    count = (lower - p.PAGE_HEADER_SIZE) // p.LP_SIZE
    return (
        page[p.PAGE_HEADER_SIZE : p.PAGE_HEADER_SIZE + count * p.LP_SIZE]
        .view("<u4")
        .astype(np.int64)
    )


def _tuples(schema: Schema, block: int, page: npt.NDArray[np.uint8]) -> list[tuple[int, bytes]]:
    """Return the visible tuples of a page with their line numbers."""
    all_visible = bool(page[10] & p.PD_ALL_VISIBLE)
    tuples = []
    for line, word in enumerate(_lines(schema, block, page), 1):
        offset, flags, length = p.split_line_pointer(int(word))
        if flags != p.LP_NORMAL:
            continue
        stored = page[offset : offset + length].tobytes()
        if length < p.TUPLE_HEADER_SIZE or len(stored) < length:
            raise ValueError(
                f"block {block}, line pointer {line}: a tuple of {length} bytes at {offset}"
            )
        seen = all_visible or p.visible_by_hints(int.from_bytes(stored[20:22], "little"))
        if seen is None:
            raise ValueError(
                f"block {block}, line pointer {line}: the page does not decide whether the row is visible; "
                "VACUUM (FREEZE) the table"
            )
        if seen:
            tuples.append((line, stored))
    return tuples


def _missing(column: Column) -> Any:
    if column.missing is not None and column.is_array:
        return np.asarray(column.missing, DTYPES[column.storage.element or ""])
    return column.missing


def _values(schema: Schema, stored: bytes) -> list[Any]:
    """Return one tuple's values in attribute order, None for NULL."""
    natts = int.from_bytes(stored[18:20], "little") & p.HEAP_NATTS_MASK
    nulls = (
        stored[p.TUPLE_BITMAP :]
        if int.from_bytes(stored[20:22], "little") & p.HEAP_HASNULL
        else None
    )
    data = stored[stored[22] :]
    at, out = 0, []
    for i, column in enumerate(schema.columns):
        kind = column.storage
        if i >= natts:
            out.append(_missing(column))
        elif nulls is not None and not nulls[i // 8] >> i % 8 & 1:
            out.append(None)
        elif kind.length > 0:
            at = p.align(at, kind.align)
            value = np.frombuffer(data, dtype_of(kind), 1, at)[0]
            out.append(value if column.type in DTYPES else value.tobytes())
            at += kind.length
        else:
            if data[at] == 0:  # padding: an aligned header follows
                at = p.align(at, kind.align)
            body, at = _varlena(column, data, at)
            plain = not column.dropped and not isinstance(
                body, Raw
            )  # a dropped column's type is a stand-in
            out.append(
                _array(column, body)
                if plain and column.is_array
                else body.decode()
                if plain and column.type in TEXTS
                else body
            )
    return out


def _varlena(column: Column, data: bytes, at: int) -> tuple[bytes, int]:
    """Return the value whose header lies at `at`, and where the next one may start."""
    first = data[at]
    if first & 1 and first != p.VARATT_EXTERNAL:
        return _held(data, at + 1, at + (first >> 1))
    if first & 3 and (column.dropped or not column.is_array):
        length = (
            p.VARATT_EXTERNAL_SIZE
            if first & 1
            else int.from_bytes(data[at : at + 4], "little") >> 2
        )
        body, at = _held(data, at, at + length)
        return Raw(body), at
    if first & 3:
        raise ValueError(
            f"column {column.name!r} holds a value that is {'out of line' if first & 1 else 'compressed'}; "
            f"ALTER TABLE … ALTER COLUMN … SET STORAGE PLAIN, then write the table anew"
        )
    return _held(data, at + 4, at + (int.from_bytes(data[at : at + 4], "little") >> 2))


def _held(data: bytes, start: int, end: int) -> tuple[bytes, int]:
    if not start <= end <= len(data):
        raise ValueError("a value reaches past the end of its row")
    return data[start:end], end


def _array(column: Column, body: bytes) -> npt.NDArray[Any]:
    element = TYPES[column.storage.element or ""]
    ndim, offset, oid = (int(v) for v in np.frombuffer(body, "<i4", 3))
    if oid != element.oid or not 0 <= ndim <= _MOST_DIMENSIONS:
        raise ValueError(
            f"column {column.name!r} holds an array of {ndim} dimensions, element type {oid}; only {element.name} is read"
        )
    if ndim == 0:
        return np.zeros(0, DTYPES[element.name])
    sizes = np.frombuffer(body, "<i4", ndim, 12).tolist()
    count, bounds = math.prod(sizes), 12 + 8 * ndim
    if min(sizes) < 0 or count > 8 * len(body):
        listed = " × ".join(map(str, sizes))
        raise ValueError(f"column {column.name!r} holds an array of {listed} elements")
    if not offset:
        return np.frombuffer(body, DTYPES[element.name], count, bounds).reshape(sizes)
    # a bit for each element, 1 where there is one; those that are NULL take no room. `offset` counts from the varlena's header on
    bitmap = np.frombuffer(body, np.uint8, -(-count // 8), bounds)
    present = np.unpackbits(bitmap, count=count, bitorder="little").astype(bool)
    numbers = np.zeros(count, DTYPES[element.name])
    numbers[present] = np.frombuffer(body, numbers.dtype, int(present.sum()), offset - 4)
    return np.ma.masked_array(numbers.reshape(sizes), ~present.reshape(sizes))


def _read_uniform(
    schema: Schema, wanted: list[tuple[int, Column]], pages: npt.NDArray[np.uint8]
) -> dict[str, Any] | None:
    """Read tables whose rows all look like the first one (same header bits, same array headers); None where they do not."""
    if not len(pages):
        return None
    pages = np.ascontiguousarray(pages)
    first = _lines(schema, 0, pages[0])
    heads = pages[:, : p.PAGE_HEADER_SIZE].copy().view(p.PAGE_HEADER)[:, 0]
    counts = (heads["pd_lower"].astype(np.int64) - p.PAGE_HEADER_SIZE) // p.LP_SIZE
    if not len(first) or counts.min() < 1 or counts.max() > p.max_line_pointers(schema.page_size):
        return None
    if np.any(heads["pd_pagesize_version"] != p.pagesize_version(schema.page_size)):
        return None
    most = int(counts.max())
    words = pages[:, p.PAGE_HEADER_SIZE : p.PAGE_HEADER_SIZE + most * p.LP_SIZE].copy().view("<u4")
    live = np.arange(most) < counts[:, None]
    block = np.nonzero(live)[0]
    lines = words[live].astype(np.int64)
    offset, length = lines & 0x7FFF, int(first[0]) >> 17
    if np.any(lines >> 15 != int(first[0]) >> 15) or (int(first[0]) >> 15 & 3) != p.LP_NORMAL:
        return None
    if offset.max() + length > schema.page_size or length < p.TUPLE_HEADER_SIZE:
        return None
    # gathering the tuples through a window view costs one pass over the pages
    windows = np.lib.stride_tricks.sliding_window_view(pages, length, axis=1)
    stored = windows[block, offset]
    same = stored[:, 18:23] == stored[0, 18:23]  # natts, flags, t_hoff
    infomask = int.from_bytes(stored[0, 20:22].tobytes(), "little")
    natts = int.from_bytes(stored[0, 18:20].tobytes(), "little") & p.HEAP_NATTS_MASK
    all_visible = bool(np.all(heads["pd_flags"] & p.PD_ALL_VISIBLE))
    if stored[0, 22] < p.align(p.TUPLE_HEADER_SIZE) or stored[0, 22] > length:
        return None
    if (
        not same.all()
        or infomask & p.HEAP_HASNULL
        or natts != len(schema.columns)
        or not (all_visible or p.visible_by_hints(infomask))
    ):
        return None
    return _columns(schema, wanted, stored)


def _columns(
    schema: Schema, wanted: list[tuple[int, Column]], stored: npt.NDArray[np.uint8]
) -> dict[str, Any] | None:
    """Take the wanted columns of rows of one length and one header; None where their arrays differ."""
    length = stored.shape[1]
    at, out = int(stored[0, 22]), {}
    for i, column in enumerate(schema.columns):
        kind, take = column.storage, (i, column) in wanted
        if kind.length > 0:
            at = p.align(at, kind.align)
            if at + kind.length > length:
                return None
            if take:
                values = stored[:, at : at + kind.length].copy().view(dtype_of(kind))[:, 0]
                out[column.name] = (
                    values if column.type in DTYPES else [value.tobytes() for value in values]
                )
            at += kind.length
            continue
        if not column.is_array or at >= length:
            return None
        start = at
        if stored[0, at] == 0:
            at = p.align(at, kind.align)
        try:
            body, at = _varlena(column, stored[0].tobytes(), at)
            values = _array(column, body)
        except (IndexError, ValueError):
            return None  # the other path says which row it is
        if values.ndim != 1 or isinstance(values, np.ma.MaskedArray):
            return None
        data = at - values.nbytes
        # padding and headers of all rows must be those of the first
        if len(body) != p.ARRAY_DATA + values.nbytes or np.any(
            stored[:, start:data] != stored[0, start:data]
        ):
            return None
        if take:
            out[column.name] = stored[:, data:at].copy().view(values.dtype)
    return out
