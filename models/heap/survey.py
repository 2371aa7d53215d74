"""Looks over the arrays of many tuples at once: which are compressed or out of line, and how long they are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import page as p
from .schema import Schema

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Survey:
    """The tuples that NORMAL line pointers lead to, in page and line pointer order."""

    block: npt.NDArray[np.int64]
    line: npt.NDArray[np.int64]
    #: the tuple has a compressed or out-of-line value in an array column that a kernel can use
    packed: npt.NDArray[np.bool_]
    #: by such column, elements of its plain arrays: 0 for those that are not one-dimensional; the
    #: default of tuples older than the column is among them
    lengths: dict[str, set[int]]


def line_words(pages: Bytes) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Return the line pointers of all pages as a matrix, zeros behind a page's last, and how many each page has (a new page: none).

    Raises ValueError for a page whose header makes no sense.
    """
    pages = np.ascontiguousarray(pages)
    heads = pages[:, : p.PAGE_HEADER_SIZE].copy().view(p.PAGE_HEADER)[:, 0]
    lower, upper = heads["pd_lower"].astype(np.int64), heads["pd_upper"].astype(np.int64)
    wrong = (upper != 0) & (
        (lower < p.PAGE_HEADER_SIZE)
        | (lower > upper)
        | (upper > pages.shape[1])
        | (lower % p.LP_SIZE != 0)
    )
    if wrong.any():
        raise ValueError(f"block {int(np.argmax(wrong))}: the page header makes no sense")
    counts = np.where(upper == 0, 0, (lower - p.PAGE_HEADER_SIZE) // p.LP_SIZE)
    most = int(counts.max(initial=0))
    words = (
        pages[:, p.PAGE_HEADER_SIZE : p.PAGE_HEADER_SIZE + most * p.LP_SIZE]
        .copy()
        .view("<u4")
        .reshape(len(pages), most)
    )
    if (counts < most).any():
        words[np.arange(most) >= counts[:, None]] = 0
    return words, counts


def survey(schema: Schema, pages: Bytes) -> Survey:
    """Look over the tuples of `pages`, shape (pages, page_size)."""
    arrays = [i for i, c in enumerate(schema.columns) if c.is_array and c.is_usable]
    if not arrays:  # every tuple is as it must be
        none = np.zeros(0, np.int64)
        return Survey(none, none, np.zeros(0, bool), {})
    words, _ = line_words(pages)
    block, line = np.nonzero(words >> 15 & 3 == p.LP_NORMAL)
    packed = np.zeros(len(block), bool)
    if not len(block):
        return Survey(block, line + 1, packed, {})
    flat = np.ascontiguousarray(pages).reshape(-1)
    pairs = flat.view("<u2")
    quads = np.lib.stride_tricks.sliding_window_view(flat, 4)
    start = block * schema.page_size + (words[block, line] & 0x7FFF)
    natts = pairs[start + 18 >> 1].astype(np.int64) & p.HEAP_NATTS_MASK
    nulls = pairs[start + 20 >> 1] & p.HEAP_HASNULL != 0
    some_null = bool(nulls.any())
    at = start + flat[start + 22]
    last = len(flat) - 4
    lengths: dict[str, set[int]] = {}
    for index in range(arrays[-1] + 1):
        column, kind = schema.columns[index], schema.columns[index].storage
        present = natts > index
        if some_null:
            present &= ~nulls | (
                flat[np.minimum(start + p.TUPLE_BITMAP + index // 8, last)] >> index % 8 & 1 != 0
            )
        if kind.length > 0:
            at = np.where(present, (at + kind.align - 1 & -kind.align) + kind.length, at)
            continue
        place = np.minimum(at, last)
        place = np.minimum(
            np.where(flat[place] == 0, place + kind.align - 1 & -kind.align, place), last
        )  # padding
        first = flat[place]
        short = (first & 1 != 0) & (first != p.VARATT_EXTERNAL)
        external = first == p.VARATT_EXTERNAL
        size = np.where(
            short,
            first >> 1,
            np.where(external, p.VARATT_EXTERNAL_SIZE, quads[place].view("<u4")[:, 0] >> 2),
        ).astype(np.int64)
        if index in arrays:
            away = external | (first & 3 == 2)
            packed |= present & away
            plain = present & ~away
            body = np.minimum(place + np.where(short, 1, 4), last - 16)[plain]
            dims, count = (quads[body + k].view("<i4")[:, 0] for k in (0, 12))
            lengths[column.name] = set(np.unique(np.where(dims == 1, count, 0)).tolist())
            if isinstance(column.missing, list) and (natts <= index).any():
                lengths[column.name].add(len(column.missing))
        at = np.where(present, place + size, at)
    return Survey(block, line + 1, packed, lengths)
