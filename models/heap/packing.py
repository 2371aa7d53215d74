"""Packs rows of any layout into pages, all at once: column by column, wherever each row's value comes to lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import page as p
from .schema import Column
from .values import DTYPES, Raw, array_body, dtype_of, varlena
from .visibility import VISIBILITY, Visibility

__all__ = ["Header", "Rows", "stored_value", "write_many"]

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
_TOGETHER = 1 << 14  # rows whose intermediate values stay in a processor's cache


@dataclass
class Rows:
    """One column: `values` is an array (numbers, or a matrix for arrays of one length) or a list with None for NULL."""

    column: Column
    values: Any
    null: npt.NDArray[np.bool_]

    def part(self, first: int, last: int) -> Rows:
        return Rows(self.column, self.values[first:last], self.null[first:last])


@dataclass
class Header:
    """What goes into the headers of all pages and tuples."""

    page_size: int
    xmin: int
    xmax: int
    all_visible: bool | None
    fillfactor: int

    def tuples(
        self, count: int, infomask: int, infomask2: int, hoff: int, state: Visibility
    ) -> npt.NDArray[Any]:
        out = np.zeros(count, p.TUPLE_HEADER)
        out["t_xmin"] = self.xmin
        out["t_xmax"] = self.xmax if state.xmax else 0
        out["t_infomask"], out["t_infomask2"], out["t_hoff"] = (
            infomask | state.infomask,
            infomask2 | state.infomask2,
            hoff,
        )
        return out

    def page(self, lower: Any, upper: Any, flags: Any, count: int) -> npt.NDArray[Any]:
        out = np.zeros(count, p.PAGE_HEADER)
        out["pd_lower"], out["pd_upper"], out["pd_flags"] = lower, upper, flags
        out["pd_special"], out["pd_pagesize_version"] = (
            self.page_size,
            p.pagesize_version(self.page_size),
        )
        return out

    def reserve(self, length: int) -> int:
        """Bytes to leave free on a page for `fillfactor` when a tuple of this length is about to go there."""
        if p.align(length) > p.max_tuple_size(self.page_size):
            raise ValueError(
                f"a row of {length} bytes does not fit a page of {self.page_size}: the most is "
                f"{p.max_tuple_size(self.page_size)}"
            )
        return self.page_size * (100 - self.fillfactor) // 100


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


def write_many(
    header: Header,
    rows: list[Rows],
    states: str | Sequence[str],
    natts: Numbers,
    shorts: set[str],
    first_block: int,
) -> Bytes:
    """Return the pages of rows that follow one another, each with a line pointer of its own. `states`: visibility, of all or of each."""
    count = len(natts)
    if not count:
        return np.zeros((0, header.page_size), np.uint8)
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
    block, line, start, pages = _places(header, length)
    flat = pages.reshape(-1)
    if isinstance(states, str):
        kind, frozen = VISIBILITY[states], np.full(count, states == "frozen")
        one = header.tuples(1, 0, 0, 0, kind)
        tuples = lambda here: one.repeat(len(natts[here]))
    else:
        names, state = np.unique(np.asarray(states), return_inverse=True)
        kinds = np.concatenate([header.tuples(1, 0, 0, 0, VISIBILITY[str(n)]) for n in names])
        tuples = lambda here: kinds[state[here]]
        frozen = (names == "frozen")[state]
    for index, part in enumerate(laid):
        here = slice(index * _TOGETHER, (index + 1) * _TOGETHER)
        part.put(flat, start[here], tuples(here), first_block + block[here], line[here])
    visible = np.ones(len(pages), bool)
    visible[block[~frozen]] = False
    if header.all_visible is not None:
        visible[:] = header.all_visible
    held_lines = np.bincount(block, minlength=len(pages))
    upper = np.full(len(pages), header.page_size)
    upper[block] = start - block * header.page_size  # of each page the last row, which lies lowest
    heads = header.page(
        p.PAGE_HEADER_SIZE + held_lines * p.LP_SIZE,
        upper,
        np.where(visible, p.PD_ALL_VISIBLE, 0),
        len(pages),
    )
    pages[:, : p.PAGE_HEADER_SIZE] = heads.view(np.uint8).reshape(len(pages), -1)
    words = start - block * header.page_size | p.LP_NORMAL << 15 | length << 17
    flat.view("<u4")[(block * header.page_size + p.PAGE_HEADER_SIZE) // 4 + line] = words
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

    def put(
        self, flat: Bytes, start: Numbers, tuples: npt.NDArray[Any], number: Numbers, line: Numbers
    ) -> None:
        """Write the tuples, with the headers `tuples`, to `start` on; each is line `line` (from 0) of block `number`."""
        tuples["t_infomask"] |= self.infomask.astype(np.uint16)
        tuples["t_infomask2"] |= self.natts.astype(np.uint16)
        tuples["t_hoff"] = self.hoff
        tuples["t_ctid_block_high"], tuples["t_ctid_block_low"], tuples["t_ctid_line"] = (
            number >> 16,
            number & 0xFFFF,
            line + 1,
        )
        _scatter(flat, start, tuples.view(np.uint8).reshape(len(tuples), -1))
        if self.has_null.any():
            bits = np.packbits(self.present, axis=1, bitorder="little")
            for k in range(bits.shape[1]):
                some = np.nonzero(self.has_null & (self.natts > 8 * k))[0]
                flat[start[some] + p.TUPLE_BITMAP + k] = bits[some, k]
        for value in self.places:
            value.put(flat, start)


def _places(header: Header, length: Numbers) -> tuple[Numbers, Numbers, Numbers, Bytes]:
    """Return each row's page, line (from 0) and address in the flattened pages, and the empty pages."""
    size, most = header.page_size, p.max_line_pointers(header.page_size)
    reserve = header.reserve(int(length.max()))
    stride = (length + p.ALIGN - 1 & -p.ALIGN) + p.LP_SIZE
    sums = np.concatenate([[0], np.cumsum(stride)])
    firsts, first = [], 0
    while first < len(length):
        firsts.append(first)
        # a full fillfactor still lets one tuple onto an empty page
        last = (
            first
            + int(
                sums[first : first + most + 1].searchsorted(
                    sums[first] + (size - p.PAGE_HEADER_SIZE - reserve), "right"
                )
            )
            - 1
        )
        first = min(max(last, first + 1), first + most)
    starts, each = np.array(firsts), np.diff([*firsts, len(length)])
    blocks, row = np.arange(len(firsts)), np.arange(len(length))
    # a tuple begins as far below its page's end as the tuples from the page's first row to it are long
    ends = (blocks + 1) * size + sums[starts] - starts * p.LP_SIZE
    start = np.repeat(ends, each) - sums[1:] + (row + 1) * p.LP_SIZE
    pages = np.zeros((len(firsts), size), np.uint8)
    return np.repeat(blocks, each), row - np.repeat(starts, each), start, pages


def _scatter(flat: Bytes, at: Numbers, values: Bytes) -> None:
    """Write row i of `values` to `at[i]` on."""
    width = values.shape[1]
    if width in (2, 4, 8) and not (at & width - 1).any():
        flat.view(f"<u{width}")[at // width] = values.view(f"<u{width}")[:, 0]
    elif len(at):  # each byte begins a window of that width
        np.ndarray((len(flat) - width + 1, width), np.uint8, flat.data, strides=(1, 1))[at] = values


@dataclass
class _Placed:
    """One column's values: `which` rows have one, `at` which offset in the tuple, and what bits of `t_infomask` they set.

    `data` is a matrix of bytes, a row a value, or the values' bytes one after another with their `sizes`.
    """

    which: Numbers
    at: Numbers
    data: Bytes
    infomask: Numbers
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
