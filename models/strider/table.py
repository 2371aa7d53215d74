"""Whole tables at once: pages whose tuples all look alike are walked with NumPy, the others one by one.

A page is *regular* when every line pointer is NORMAL and every tuple is visible, without null bitmap, with all needed attributes, and
has its arrays' headers where the table's first such tuple
has them; and when no value of it is an error. Nothing is decided here that `golden` would decide otherwise: a page
that fails any check is simply not regular.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import HardwareError
from ..heap import page as p
from ..heap.schema import TYPES
from ..numerics.policy import InputPolicy
from . import landing
from .config import WalkConfig
from .golden import array_header, walk_page
from .isa import short_possible
from .judge import RowCounts, count_rows, delivery, judge_rows
from .layout import Source

#: pages looked at together: bounds the memory that a table needs
_CHUNK = 2048


@dataclass
class Regular:
    """Which of some pages are regular, and where the values of their tuples lie."""

    pages: NDArray[np.bool_]  #: one for each page
    counts: NDArray[np.int64]  #: line pointers of each page (only meaningful where it is regular)
    #: addresses in the flattened pages of the regular pages' tuples' data, in row order
    data: NDArray[np.int64]
    #: offset of each used column's (first) value from there, by attribute index
    places: dict[int, int]
    #: how the tuples' values fit, by flat position; no columns where all fit whatever they are
    fits: NDArray[np.uint8]
    left: NDArray[np.bool_]  #: a value leaves the tuple out


def _gather(flat: NDArray[np.uint8], at: NDArray[np.int64], count: int) -> NDArray[np.uint8]:
    return np.lib.stride_tricks.sliding_window_view(flat, count)[at]


def _visible(infomask: NDArray[np.int64]) -> NDArray[np.bool_]:
    """`heap.page.visible_by_hints(infomask) is True`, for many."""
    inserted = (infomask & p.HEAP_XMIN_COMMITTED != 0) & (infomask & p.HEAP_MOVED == 0)
    locked = (
        infomask & (p.HEAP_XMAX_IS_MULTI | p.HEAP_XMAX_EXCL_LOCK | p.HEAP_XMAX_KEYSHR_LOCK)
        == p.HEAP_XMAX_EXCL_LOCK
    )
    return inserted & ((infomask & (p.HEAP_XMAX_INVALID | p.HEAP_XMAX_LOCK_ONLY) != 0) | locked)


def _shape(
    walk: WalkConfig, sample: bytes
) -> tuple[dict[int, int], list[tuple[int, bytes]], int] | None:
    """Places of the used columns, bytes that must stand at certain offsets, and the extent, as the tuple data `sample` suggests."""
    at, places, constants = 0, {}, []
    for index in range(walk.needed):
        kind = walk.schema.columns[index].storage
        used = bool(walk.sources(index))
        if kind.length > 0:
            at = p.align(at, kind.align)
            places[index] = at
            at += kind.length
            continue
        if not used:
            return None
        element, count = walk.element(index), walk.array_length(index)
        size = TYPES[element].length
        if at >= len(sample):
            return None
        short = bool(sample[at] & 1)
        if at % size and not short:
            constants.append((at, b"\0"))
            at = p.align(at, size)
            if at >= len(sample):
                return None
            short = bool(sample[at] & 1)
        if short and not short_possible(element, count):
            return None
        header = array_header(element, count, short)
        constants.append((at, header))
        places[index] = at + len(header)
        at = places[index] + count * size
    return places, constants, at


class _Tuples(NamedTuple):
    """Tuples that line pointers name, as far as those and the headers may be regular: `good`. Page, address in the flattened pages,
    length, and where the data begin in it."""

    block: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    hoff: NDArray[np.int64]
    good: NDArray[np.bool_]


def _fine(heads: NDArray[Any], size: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return whether each page's header is one, and how many line pointers it has then."""
    lower, upper, special = (
        heads[n].astype(np.int64) for n in ("pd_lower", "pd_upper", "pd_special")
    )
    fine = (
        (upper != 0)
        & (heads["pd_pagesize_version"] == p.pagesize_version(size))
        & (lower > p.PAGE_HEADER_SIZE)
        & (lower <= upper)
        & (upper <= special)
        & (special <= size)
        & (lower % p.LP_SIZE == 0)
        & (special % p.ALIGN == 0)
    )
    return fine, np.where(fine, (lower - p.PAGE_HEADER_SIZE) // p.LP_SIZE, 0)


def _tuples(
    walk: WalkConfig, pages: NDArray[np.uint8], heads: NDArray[Any], counts: NDArray[np.int64]
) -> _Tuples:
    """Look at all line pointers, and at the headers behind them."""
    most = int(counts.max())
    words = (
        np.ascontiguousarray(pages[:, p.PAGE_HEADER_SIZE : p.PAGE_HEADER_SIZE + most * p.LP_SIZE])
        .view("<u4")
        .astype(np.int64)
    )
    block, line = np.nonzero(np.arange(most) < counts[:, None])
    word = words[block, line]
    offset, flags, length = word & 0x7FFF, word >> 15 & 3, word >> 17
    good = (
        (flags == p.LP_NORMAL)
        & (offset % p.ALIGN == 0)
        & (offset >= heads["pd_upper"].astype(np.int64)[block])
        & (offset + length <= heads["pd_special"].astype(np.int64)[block])
        & (length >= p.PAGE_HEADER_SIZE)
    )
    start = block * walk.schema.page_size + np.where(good, offset, 0)
    # bytes 16 to 23: from ip_posid to t_hoff and what follows
    header = pages.reshape(-1).view("<u8")[start + 16 >> 3].astype(np.int64)
    natts = header >> 16 & p.HEAP_NATTS_MASK
    infomask = header >> 32 & 0xFFFF
    hoff = header >> 48 & 0xFF
    good &= (
        (infomask & p.HEAP_HASNULL == 0)
        & (natts >= walk.needed)
        & (natts <= len(walk.schema.columns))
        & (hoff % p.ALIGN == 0)
        & (hoff >= p.TUPLE_BITMAP)
        & (hoff <= length)
    )
    if walk.visibility != "all":
        good &= (heads["pd_flags"][block] & p.PD_ALL_VISIBLE != 0) | _visible(infomask)
    return _Tuples(block, start, length, hoff, good)


def classify(walk: WalkConfig, pages: NDArray[np.uint8]) -> Regular:
    """Find the regular pages among `pages` (contiguous, shape (pages, page_size))."""
    flat = pages.reshape(-1)
    heads = np.ascontiguousarray(pages[:, : p.PAGE_HEADER_SIZE]).view(p.PAGE_HEADER)[:, 0]
    fine, counts = _fine(heads, walk.schema.page_size)
    nothing = np.zeros((0, 0), np.uint8)
    none = Regular(
        np.zeros(len(pages), bool), counts, np.zeros(0, np.int64), {}, nothing, np.zeros(0, bool)
    )
    if not counts.any():
        return none
    tuples = _tuples(walk, pages, heads, counts)
    good, data = tuples.good, tuples.start + tuples.hoff
    if not good.any():
        return none
    k = int(np.argmax(good))
    shape = _shape(walk, flat[data[k] : tuples.start[k] + tuples.length[k]].tobytes())
    if shape is None:
        return none
    places, constants, extent = shape
    good &= tuples.hoff + extent <= tuples.length
    for at, expected in constants:
        here = np.nonzero(good)[0]
        if len(here):
            kind = f"V{len(expected)}"
            good[here] &= _gather(flat, data[here] + at, len(expected)).view(kind)[
                :, 0
            ] == np.frombuffer(expected, kind)
    regular = fine.copy()
    regular[tuples.block[~good]] = False
    rows = regular[tuples.block]
    index = Regular(regular, counts, data[rows], places, nothing, np.zeros(int(rows.sum()), bool))
    return _judged(walk, flat, index, tuples.block[rows])


def _judged(
    walk: WalkConfig, flat: NDArray[np.uint8], index: Regular, block: NDArray[np.int64]
) -> Regular:
    """Look at the values of regular pages: a page with an error is not regular. `block`: of each tuple."""
    if not landing.may_end(walk.types, walk.format, walk.layout.integers):
        return index
    index.fits = np.zeros((len(index.data), walk.positions), np.uint8)
    for s, element, raw in _raw(walk, flat, index):
        places = np.arange(s.position, s.position + s.count)
        index.fits[:, places] = landing.fits(
            element, raw, walk.format, places, walk.layout.integers
        )
    if not walk.judged:
        return index
    index.left, first = judge_rows(index.fits[:, delivery(walk)], walk.policy)
    if (first >= 0).any():
        index.pages[block[first >= 0]] = False
        rows = index.pages[block]
        index.data, index.fits, index.left = index.data[rows], index.fits[rows], index.left[rows]
    return index


def _raw(
    walk: WalkConfig, flat: NDArray[np.uint8], index: Regular
) -> Iterator[tuple[Source, str, NDArray[np.unsignedinteger]]]:
    """Yield each source, its element type and the stored patterns of all regular tuples' values."""
    for s in walk.layout.sources if len(index.data) else ():
        element = walk.element(s.column)
        size = TYPES[element].length
        raw = _gather(flat, index.data + index.places[s.column] + s.first * size, s.count * size)
        yield s, element, np.ascontiguousarray(raw).view(f"<u{size}")


def _values(walk: WalkConfig, flat: NDArray[np.uint8], index: Regular) -> NDArray[np.int64]:
    out = np.zeros((len(index.data), walk.positions), np.int64)
    for s, element, raw in _raw(walk, flat, index):
        places = np.arange(s.position, s.position + s.count)
        out[:, places] = landing.codes(element, raw, walk.format, places, walk.layout.integers)
    return out


def chunks(pages: NDArray[np.uint8]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The table in contiguous pieces, each with the index of its first page."""
    for first in range(0, len(pages), _CHUNK):
        yield first, np.ascontiguousarray(pages[first : first + _CHUNK])


def _lines(index: Regular, first: int) -> NDArray[np.int64]:
    """Return the page and the line pointer, both from 0, of each regular tuple; `first`: number of the first page."""
    counts = np.where(index.pages, index.counts, 0)
    pages = np.repeat(np.arange(len(counts)), counts)
    return np.stack(
        [first + pages, np.arange(len(pages)) - np.repeat(np.cumsum(counts) - counts, counts)]
    )


class Walked(NamedTuple):
    """What a walk returns: the tuples' codes, shape (tuples, positions), up to the first error; tuples of each page; what was left out
    and counted; the error or None."""

    codes: NDArray[np.int64]
    counts: NDArray[np.int64]
    total: RowCounts
    error: HardwareError | None


@dataclass
class _Gathered:
    """What a walk has found so far: `Walked`'s members, the codes in parts, and `walk_table`'s `places`. `order`: as of `delivery`."""

    parts: list[NDArray[np.int64]]
    counts: NDArray[np.int64]
    places: list[NDArray[np.int64]] | None
    order: NDArray[np.int64]
    policy: InputPolicy
    total: RowCounts = field(default_factory=RowCounts)

    def regular(
        self, index: Regular, values: NDArray[np.int64], where: NDArray[np.int64], rows: slice
    ) -> None:
        """Take some of the regular pages' tuples, which lie at `where`."""
        keep = ~index.left[rows]
        self.parts.append(values[rows][keep])
        if len(index.fits):
            judged = index.fits[rows][:, self.order]
            self.total.add(count_rows(judged, index.left[rows], self.policy))
        if self.places is not None:
            self.places.append(np.stack([*where[:, rows], keep.astype(np.int64)], axis=1))

    def other(
        self, page: NDArray[np.uint8], walk: WalkConfig, number: int, block: int
    ) -> HardwareError | None:
        """Take a page that is not regular; return the error that ends the walk."""
        rows: list[tuple[int, bool]] = []
        tuples, count, error = walk_page(page, walk, block, rows)
        if self.places is not None:
            self.places.append(np.array([(block, *row) for row in rows], np.int64).reshape(-1, 3))
        if tuples:
            self.parts.append(np.array(tuples))
        self.counts[number] = len(tuples)
        self.total.add(count)
        if error is not None:
            self.counts[number + 1 :] = 0
        return error

    def walked(self, error: HardwareError | None) -> Walked:
        return Walked(np.concatenate(self.parts), self.counts, self.total, error)


def walk_table(
    pages: NDArray[np.uint8],
    walk: WalkConfig,
    first_block: int = 0,
    block_stride: int = 1,
    places: list[NDArray[np.int64]] | None = None,
) -> Walked:
    """Walk all pages, as `golden.walk_page` does one.

    * `pages`: shape (pages, page_size).
    * `walk`: the table, the layout and the policies.
    * `first_block`, `block_stride`: page k is block first_block + k * block_stride.
    * `places`: takes arrays of shape (rows, 3), for each visible row its block, its line pointer and whether
      it is delivered.
    """
    none, counts = [np.zeros((0, walk.positions), np.int64)], np.zeros(len(pages), np.int64)
    gathered = _Gathered(none, counts, places, delivery(walk), walk.policy)
    steps, begin = np.array([[block_stride], [1]]), np.array([[first_block], [1]])
    for first, chunk in chunks(pages):
        index = classify(walk, chunk)
        values = _values(walk, chunk.reshape(-1), index)
        held = np.concatenate([[0], np.cumsum(np.where(index.pages, index.counts, 0))])
        kept = np.concatenate([[0], np.cumsum(~index.left)])
        gathered.counts[first : first + len(chunk)] = np.diff(kept[held])
        where = _lines(index, first) * steps + begin
        taken = 0  # regular tuples handed over, those left out among them
        for k in np.nonzero(~index.pages)[0].tolist():
            gathered.regular(index, values, where, slice(taken, int(held[k])))
            taken = int(held[k])
            block = first_block + (first + k) * block_stride
            error = gathered.other(chunk[k], walk, first + k, block)
            if error is not None:
                return gathered.walked(error)
        gathered.regular(index, values, where, slice(taken, len(values)))
    return gathered.walked(None)
