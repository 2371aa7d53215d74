"""Packs rows of any layout into pages, all at once: column by column, wherever each row's value comes to lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import page as p
from .schema import Column
from .values import DTYPES, Raw, array_body, dtype_of, varlena

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
#: the transaction that inserted all rows; they are frozen, so that nobody looks it up
_XMIN = 731
_TOGETHER = 1 << 14  # rows whose intermediate values stay in a processor's cache


@dataclass
class Rows:
    """The values of one column."""

    column: Column
    values: Any  #: numbers, or a matrix for arrays of one length; or a list with None for NULL
    null: npt.NDArray[np.bool_]

    def part(self, first: int, last: int) -> Rows:
        return Rows(self.column, self.values[first:last], self.null[first:last])


def stored_value(row: Rows, index: int, shorts: set[str]) -> bytes:
    """Return the value of one row as it is stored, `Raw` for the variable-length types."""
    value, column = row.values[index], row.column
    if column.storage.length > 0:
        return np.asarray(value, dtype_of(column.storage)).tobytes()
    if isinstance(value, Raw):
        return value
    if column.is_array:
        return varlena(array_body(value, column.storage.element or ""), column.name in shorts)
    return varlena(value.encode() if isinstance(value, str) else bytes(value))


def write_many(page_size: int, rows: list[Rows], natts: Numbers, shorts: set[str]) -> Bytes:
    """Return the pages of frozen rows that follow one another, each with a line pointer of its own."""
    count = len(natts)
    if not count:
        return np.zeros((0, page_size), np.uint8)
    held = rows[: int(natts.max())]
    laid = [
        _Laid.of(
            [row.part(first, first + _TOGETHER) for row in held],
            natts[first : first + _TOGETHER],
            shorts,
        )
        for first in range(0, count, _TOGETHER)
    ]
    length = np.concatenate([part.length for part in laid])
    rows_in, pages = _places(page_size, length)
    block, line, start = rows_in
    flat = pages.reshape(-1)
    for index, part in enumerate(laid):
        here = slice(index * _TOGETHER, (index + 1) * _TOGETHER)
        part.put(flat, start[here], block[here], line[here])
    heads = np.zeros(len(pages), p.PAGE_HEADER)
    heads["pd_flags"] = p.PD_ALL_VISIBLE
    heads["pd_lower"] = p.PAGE_HEADER_SIZE + np.bincount(block) * p.LP_SIZE
    heads["pd_upper"][block] = (
        start - block * page_size
    )  # of each page the last row, which lies lowest
    heads["pd_special"] = page_size
    heads["pd_pagesize_version"] = p.pagesize_version(page_size)
    pages[:, : p.PAGE_HEADER_SIZE] = heads.view(np.uint8).reshape(len(pages), -1)
    words = start - block * page_size | p.LP_NORMAL << 15 | length << 17
    flat.view("<u4")[(block * page_size + p.PAGE_HEADER_SIZE) // 4 + line] = words
    return pages


@dataclass
class _Laid:
    """Some rows' tuples as they will lie, whatever their pages: `present` says which row has which column's value."""

    natts: Numbers
    present: npt.NDArray[np.bool_]
    has_null: npt.NDArray[np.bool_]
    hoff: Numbers
    infomask: Numbers
    places: list[_Placed]
    length: Numbers

    @classmethod
    def of(cls, held: list[Rows], natts: Numbers, shorts: set[str]) -> _Laid:
        present = np.zeros((len(natts), len(held)), bool)
        for index, row in enumerate(held):
            present[:, index] = ~row.null & (natts > index)
        has_null = present.sum(axis=1) < natts
        hoff = p.TUPLE_HEADER_SIZE + np.where(has_null, -(-natts // 8), 0) + p.ALIGN - 1 & -p.ALIGN
        infomask = np.where(has_null, p.HEAP_HASNULL, 0)
        at, places = hoff.copy(), []
        for index, row in enumerate(held):
            value = _Placed.of(row, present[:, index], at, row.column.name in shorts)
            infomask |= value.infomask
            places.append(value)
        return cls(natts, present, has_null, hoff, infomask, places, at)

    def put(self, flat: Bytes, start: Numbers, block: Numbers, line: Numbers) -> None:
        """Write the tuples to `start` on; each is line `line` (from 0) of its block."""
        tuples = np.zeros(len(start), p.TUPLE_HEADER)
        tuples["t_xmin"] = _XMIN
        tuples["t_infomask"] = self.infomask | p.HEAP_XMIN_FROZEN | p.HEAP_XMAX_INVALID
        tuples["t_infomask2"] = self.natts
        tuples["t_hoff"] = self.hoff
        tuples["t_ctid_block_high"] = block >> 16
        tuples["t_ctid_block_low"] = block & 0xFFFF
        tuples["t_ctid_line"] = line + 1
        _scatter(flat, start, tuples.view(np.uint8).reshape(len(tuples), -1))
        if self.has_null.any():
            bits = np.packbits(self.present, axis=1, bitorder="little")
            for k in range(bits.shape[1]):
                some = np.nonzero(self.has_null & (self.natts > 8 * k))[0]
                flat[start[some] + p.TUPLE_BITMAP + k] = bits[some, k]
        for value in self.places:
            value.put(flat, start)


def _places(size: int, length: Numbers) -> tuple[tuple[Numbers, Numbers, Numbers], Bytes]:
    """Return each row's page, line (from 0) and address in the flattened pages, and the empty pages."""
    longest, most = int(length.max()), p.max_line_pointers(size)
    if p.align(longest) > p.max_tuple_size(size):
        raise ValueError(
            f"a row of {longest} bytes does not fit a page of {size}: the most is {p.max_tuple_size(size)}"
        )
    stride = (length + p.ALIGN - 1 & -p.ALIGN) + p.LP_SIZE
    sums = np.concatenate([[0], np.cumsum(stride)])
    firsts, first = [], 0
    while first < len(length):
        firsts.append(first)
        end = sums[first] + size - p.PAGE_HEADER_SIZE
        first += int(sums[first : first + most + 1].searchsorted(end, "right")) - 1
    starts, each = np.array(firsts), np.diff([*firsts, len(length)])
    blocks, row = np.arange(len(firsts)), np.arange(len(length))
    # a tuple begins as far below its page's end as the tuples from the page's first row to it are long
    ends = (blocks + 1) * size + sums[starts] - starts * p.LP_SIZE
    start = np.repeat(ends, each) - sums[1:] + (row + 1) * p.LP_SIZE
    pages = np.zeros((len(firsts), size), np.uint8)
    return (np.repeat(blocks, each), row - np.repeat(starts, each), start), pages


def _scatter(flat: Bytes, at: Numbers, values: Bytes) -> None:
    """Write row i of `values` to `at[i]` on."""
    width = values.shape[1]
    if width in (2, 4, 8) and not (at & width - 1).any():
        flat.view(f"<u{width}")[at // width] = values.view(f"<u{width}")[:, 0]
    elif len(at):  # each byte begins a window of that width
        np.ndarray((len(flat) - width + 1, width), np.uint8, flat.data, strides=(1, 1))[at] = values


@dataclass
class _Placed:
    """One column's values."""

    which: Numbers  #: rows that have one
    at: Numbers  #: offset in the tuple
    #: a matrix of bytes, a row a value; or the values' bytes one after another, with `sizes`
    data: Bytes
    infomask: Numbers  #: the bits of `t_infomask` that they set
    sizes: Numbers | None = None

    @classmethod
    def of(cls, row: Rows, present: npt.NDArray[np.bool_], at: Numbers, short: bool) -> _Placed:
        """Place the values, and move `at` behind them."""
        which, kind = np.nonzero(present)[0], row.column.storage
        infomask = np.zeros(len(present), np.int64)
        if not isinstance(row.values, np.ndarray):
            return cls._ragged(row, which, at, short, infomask)
        data = np.ascontiguousarray(row.values[which] if len(which) < len(present) else row.values)
        data = (
            data.reshape(len(which), -1).view(np.uint8).reshape(len(which), -1)
            if data.size
            else np.zeros((len(which), 0), np.uint8)
        )
        unaligned = False
        if kind.length < 0:
            infomask[which] = p.HEAP_HASVARWIDTH
            element, width = kind.element or "", row.values.shape[1]
            head = varlena(array_body(np.zeros(width, DTYPES[element]), element), short)
            unaligned = head.unaligned
            lead = np.frombuffer(head, np.uint8)[: len(head) - data.shape[1]]
            data = np.concatenate([np.broadcast_to(lead, (len(which), len(lead))), data], axis=1)
        place = at[which] if unaligned else at[which] + kind.align - 1 & -kind.align
        at[which] = place + data.shape[1]
        return cls(which, place, data, infomask)

    @classmethod
    def _ragged(
        cls, row: Rows, which: Numbers, at: Numbers, short: bool, infomask: Numbers
    ) -> _Placed:
        values = [
            stored_value(row, index, {row.column.name} if short else set())
            for index in which.tolist()
        ]
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        raw = np.fromiter((isinstance(v, Raw) for v in values), bool, len(values))
        unaligned = np.fromiter(
            (isinstance(v, Raw) and v.unaligned for v in values), bool, len(values)
        )
        external = np.fromiter(
            (isinstance(v, Raw) and v.external for v in values), bool, len(values)
        )
        infomask[which] = np.where(raw, p.HEAP_HASVARWIDTH, 0) | np.where(
            external, p.HEAP_HASEXTERNAL, 0
        )
        align = row.column.storage.align
        place = np.where(unaligned, at[which], at[which] + align - 1 & -align)
        at[which] = place + sizes
        return cls(which, place, np.frombuffer(b"".join(values), np.uint8), infomask, sizes)

    def put(self, flat: Bytes, start: Numbers) -> None:
        """Write the values into tuples that begin at `start`."""
        to = start[self.which] + self.at
        if self.sizes is None:
            if self.data.shape[1]:
                _scatter(flat, to, self.data)
            return
        begins = np.cumsum(self.sizes) - self.sizes
        flat[np.repeat(to - begins, self.sizes) + np.arange(len(self.data))] = self.data
