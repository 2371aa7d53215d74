"""What a Strider delivers, straight from the bytes of the page and the schema: its specification.

Offsets and lengths are checked before they are used, in this order; the first check that fails names the error.

**Page.** `pd_upper = 0`: a new page, no tuples. `pd_pagesize_version` ≠ page size + 4: PAGE_VERSION. Not 24 ≤ `pd_lower` ≤ `pd_upper`
≤ `pd_special` ≤ page size, or `pd_lower` no multiple of 4, or `pd_special` none of 8: PAGE_BOUNDS. Checksums are the host's business.

**Line pointers**, all of them, 1 … (`pd_lower` − 24) / 4.

| flags | is | error |
| --- | --- | --- |
| UNUSED | passed over | LINE_FLAGS if its length is not 0 |
| REDIRECT | passed over: its target comes at its own place | LINE_FLAGS if its length is not 0 or its target is no line pointer of the page |
| DEAD | passed over, with or without storage | |
| NORMAL | a tuple | LINE_BOUNDS unless offset is a multiple of 8, ≥ `pd_upper`, offset + length ≤ `pd_special`, length ≥ 24 |

**Visibility**, from the page alone. With the policy `all`, or on a page flagged ALL_VISIBLE, every NORMAL tuple is visible. Else, by `t_infomask`:

| first that applies | the tuple is |
| --- | --- |
| a MOVED bit, or neither XMIN hint | TUPLE_VISIBILITY |
| XMIN_INVALID alone (aborted) | left out |
| XMAX_INVALID, XMAX_LOCK_ONLY, or EXCL_LOCK without KEYSHR_LOCK and IS_MULTI (locked, the old way) | visible |
| XMAX_IS_MULTI, or XMAX without a hint | TUPLE_VISIBILITY |
| XMAX_COMMITTED (deleted) | left out |

XMIN_COMMITTED counts as visible: a Strider has no snapshot. Whoever ships pages with younger transactions must freeze them, clear them or
fall back, as the reader of servers does.

**Tuple header** of a visible tuple: `natts` > columns of the schema: TUPLE_NATTS. `t_hoff` no multiple of 8, less than 23 + bitmap, or more
than the length: TUPLE_HEADER.

**Attributes**, in order, up to the last used one; what comes after it is not looked at.

| attribute | used | not used |
| --- | --- | --- |
| past `natts`, the schema has a missing value | that value, converted when the program was made | no check |
| past `natts` without one, or NULL | TUPLE_NULL; with `on_null = "skip"` the tuple is left out | no check |
| bool int2 int4 int8 float4 float8 | aligned, converted; TUPLE_LENGTH past the tuple's end | the same check |
| float4[] float8[] | as below | stepped over like text |
| text | not possible | stepped over, as below |

An array has one dimension, no NULL bitmap, the right element type, the expected length, lower bound 1, and a varlena length that fits exactly,
else ARRAY_SHAPE. Headers have 1 or 4 bytes. One that is compressed or out of line is TUPLE_EXTERNAL. Text is stepped over with headers of
1 and 4 bytes, compressed or on disk; other external kinds are TUPLE_EXTERNAL. What leaves the tuple is TUPLE_LENGTH.

**Values** of a tuple, when all of it was read (`strider.judge`): a value that the number format does not hold is VALUE_OVERFLOW or VALUE_NAN, unless
the policy of the walk goes on; with `on_nan = "skip"` a tuple with a NaN is left out, whatever else it holds. The first in the order of
delivery is reported, by its flat position.

**Integers** that name rows of a model are delivered as they are, dates as days since 2000-01-01, to the flat positions that the layout lists
with how far each counts. One that is negative or counts too far is VALUE_INDEX, in the same order; where `Integer.leaves`, the tuple is left out
and counted.

Padding: a byte other than 0 where an unaligned value might start is a 1-byte header if it is odd, else an error (ARRAY_SHAPE, or TUPLE_LENGTH
where the value is stepped over).

An error is reported after all tuples before it in row order were delivered, with the page's block number and the line pointer (0: page).
Lanes that no source fills hold 0 (until a port runs a program with another layout).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ErrorCode, HardwareCode, HardwareError
from ..heap import page as p
from ..heap.schema import TYPES, type_named
from ..numerics.policy import Unfit
from . import landing
from .config import WalkConfig
from .errors import PageError
from .judge import CODES, RowCounts, count_rows, delivery, judge_rows
from .layout import Source
from .program import missing_codes, missing_fits

Codes = NDArray[np.int64]


class Stop(Exception):
    """A check failed; `line` is 0 where it is about the whole page, `column` named where it is about one."""

    def __init__(self, code: HardwareCode, line: int = 0, column: str = "") -> None:
        super().__init__(code, line, column)
        self.code, self.line, self.column = code, line, column


class PageBytes:
    """A page that cannot be read outside. Raises AssertionError where a Strider tries."""

    def __init__(self, page: NDArray[np.uint8]) -> None:
        self.data = page.tobytes()

    def bytes(self, at: int, count: int) -> bytes:
        assert 0 <= at and at + count <= len(self.data), (
            f"read of {count} bytes at {at} leaves the page"
        )
        return self.data[at : at + count]

    def word(self, at: int, count: int) -> int:
        """The little-endian unsigned number in `count` bytes."""
        return int.from_bytes(self.bytes(at, count), "little")


def lines(page: PageBytes, size: int, version: int) -> int:
    """Check the page header; return the number of line pointers. `version`: `pd_pagesize_version`. Raises Stop."""
    lower, upper = page.word(12, 2), page.word(14, 2)
    special, stored = page.word(16, 2), page.word(18, 2)
    if upper == 0:
        return 0
    if stored != version:
        raise Stop(PageError.PAGE_VERSION)
    if (
        not p.PAGE_HEADER_SIZE <= lower <= upper <= special <= size
        or lower % p.LP_SIZE
        or special % p.ALIGN
    ):
        raise Stop(PageError.PAGE_BOUNDS)
    return (lower - p.PAGE_HEADER_SIZE) // p.LP_SIZE


def line_pointer(page: PageBytes, line: int, count: int) -> tuple[int, int, int]:
    """Return (offset, flags, length) of one of `count` line pointers. Raises Stop."""
    offset, flags, length = p.split_line_pointer(
        page.word(p.PAGE_HEADER_SIZE + p.LP_SIZE * (line - 1), 4)
    )
    if flags == p.LP_NORMAL:
        upper, special = page.word(14, 2), page.word(16, 2)
        if (
            offset % p.ALIGN
            or offset < upper
            or offset + length > special
            or length < p.PAGE_HEADER_SIZE
        ):
            raise Stop(PageError.LINE_BOUNDS, line)
    elif (flags == p.LP_UNUSED and length) or (
        flags == p.LP_REDIRECT and (length or not 1 <= offset <= count)
    ):
        raise Stop(PageError.LINE_FLAGS, line)
    return offset, flags, length


def check_header(columns: int, natts: int, nulls: bool, hoff: int, length: int) -> HardwareCode:
    """Return what the header of a visible tuple of `length` bytes has against it, OK if nothing."""
    if natts > columns:
        return PageError.TUPLE_NATTS
    least = p.TUPLE_BITMAP + (-(-natts // 8) if nulls else 0)
    return PageError.TUPLE_HEADER if hoff % p.ALIGN or not least <= hoff <= length else ErrorCode.OK


def array_header(element: str, count: int, short: bool) -> bytes:
    """The bytes before the elements of a one-dimensional array of `count` elements without NULL, lower bound 1."""
    total = count * TYPES[element].length + p.ARRAY_DATA
    head = (
        bytes([(total + 1) << 1 & 0xFF | 1])
        if short
        else (((total + 4) << 2) & 0xFFFFFFFF).to_bytes(4, "little")
    )
    return head + b"".join(v.to_bytes(4, "little") for v in (1, 0, TYPES[element].oid, count, 1))


class _Tuple:
    """One visible tuple: a cursor over its attributes."""

    def __init__(
        self, page: PageBytes, walk: WalkConfig, line: int, offset: int, length: int
    ) -> None:
        self.page, self.walk, self.line = page, walk, line
        self.end = offset + length
        self.natts = page.word(offset + 18, 2) & p.HEAP_NATTS_MASK
        self.nulls = bool(page.word(offset + 20, 2) & p.HEAP_HASNULL)
        self.bitmap = offset + p.TUPLE_BITMAP
        hoff = page.word(offset + 22, 1)
        wrong = check_header(len(walk.schema.columns), self.natts, self.nulls, hoff, length)
        if wrong:
            raise Stop(wrong, line)
        self.at = offset + hoff

    def present(self, index: int) -> bool:
        if index >= self.natts:
            return False
        return not self.nulls or bool(self.page.word(self.bitmap + index // 8, 1) >> index % 8 & 1)

    def fit(self, at: int, count: int) -> None:
        if at + count > self.end:
            raise Stop(PageError.TUPLE_LENGTH, self.line)

    def fixed(self, size: int, alignment: int) -> int:
        """Step over a value of `size` bytes (its padding as well); return its address."""
        at = p.align(self.at, alignment)
        self.fit(at, size)
        self.at = at + size
        return at

    def skip_varlena(self, alignment: int) -> None:
        self.fit(self.at, 1)
        first = self.page.word(self.at, 1)
        if not first & 1 and self.at % alignment:
            if first:  # padding that is not zero
                raise Stop(PageError.TUPLE_LENGTH, self.line)
            self.at = p.align(self.at, alignment)
            self.fit(self.at, 1)
            first = self.page.word(self.at, 1)
        if first == p.VARATT_EXTERNAL:
            self.fit(self.at, 2)
            if self.page.word(self.at + 1, 1) != 18:
                raise Stop(PageError.TUPLE_EXTERNAL, self.line)
            length, least = p.VARATT_EXTERNAL_SIZE, 1
        elif first & 1:
            length, least = first >> 1, 1
        else:
            self.fit(self.at, 4)
            length, least = self.page.word(self.at, 4) >> 2, 4
        if length < least:
            raise Stop(PageError.TUPLE_LENGTH, self.line)
        self.fit(self.at, length)
        self.at += length

    def array(self, element: str, count: int) -> int:
        """Check an array's header; step over it and return the address of its elements."""
        size = TYPES[element].length
        self.fit(self.at, 1)
        first = self.page.word(self.at, 1)
        if self.at % size and not first & 1:
            if first:
                raise Stop(PageError.ARRAY_SHAPE, self.line)
            self.at = p.align(self.at, size)
            self.fit(self.at, 1)
            first = self.page.word(self.at, 1)
        if first == p.VARATT_EXTERNAL or first & 3 == 2:
            raise Stop(PageError.TUPLE_EXTERNAL, self.line)
        expected = array_header(element, count, bool(first & 1))
        self.fit(self.at, len(expected))
        if self.page.bytes(self.at, len(expected)) != expected or (
            first & 1 and 21 + count * size > p.VARATT_SHORT_MAX
        ):
            raise Stop(PageError.ARRAY_SHAPE, self.line)
        at = self.at + len(expected)
        self.fit(at, count * size)
        self.at = at + count * size
        return at


@dataclass(frozen=True)
class _Attribute:
    """What the walk needs to know of one column."""

    index: int
    length: int
    alignment: int
    element: str
    size: int
    count: int
    sources: tuple[Source, ...]
    missing: Codes | None
    missing_fits: NDArray[np.uint8] | None


def _attributes(walk: WalkConfig) -> list[_Attribute]:
    attributes = []
    for index in range(walk.needed):
        kind = walk.schema.columns[index].storage
        sources = walk.sources(index)
        element = walk.element(index)
        size = kind.length if kind.length > 0 else type_named(element).length
        attributes.append(
            _Attribute(
                index,
                kind.length,
                kind.align,
                element,
                size,
                walk.array_length(index) if kind.length < 0 else 1,
                sources,
                missing_codes(walk, index) if sources else None,
                missing_fits(walk, index) if sources else None,
            )
        )
    return attributes


class _Values:
    """Values of a page's tuples, converted together at the end: one conversion a type instead of one a value."""

    def __init__(self, walk: WalkConfig) -> None:
        self.walk = walk
        self.count = 0  # complete tuples
        self.raw: dict[
            str, list[tuple[int, int, bytes]]
        ] = {}  # element type -> (flat index, elements, bytes)
        self.constants: list[tuple[int, Codes, NDArray[np.uint8]]] = []
        self._pieces: list[tuple[str, int, int, bytes]] = []
        self._constants: list[tuple[int, Codes, NDArray[np.uint8]]] = []

    def take(self, element: str, position: int, count: int, data: bytes) -> None:
        self._pieces.append((element, position, count, data))

    def constant(self, position: int, codes: Codes, fits: NDArray[np.uint8]) -> None:
        self._constants.append((position, codes, fits))

    def finish(self, complete: bool) -> None:
        """End the tuple: keep its values if it is `complete`, else forget them."""
        if complete:
            base = self.count * self.walk.positions
            for element, position, count, data in self._pieces:
                self.raw.setdefault(element, []).append((base + position, count, data))
            self.constants += [
                (base + position, codes, fits) for position, codes, fits in self._constants
            ]
            self.count += 1
        self._pieces, self._constants = [], []

    def codes(self) -> tuple[Codes, NDArray[np.uint8]]:
        """Return the tuples' codes, and how their values fit: both (tuples, flat positions)."""
        flat = np.zeros(self.count * self.walk.positions, dtype=np.int64)
        fits = np.zeros(self.count * self.walk.positions, dtype=np.uint8)
        for element, pieces in self.raw.items():
            counts = np.array([count for _, count, _ in pieces])
            starts = np.array([at for at, _, _ in pieces]) - (np.cumsum(counts) - counts)
            raw = np.frombuffer(
                b"".join(data for _, _, data in pieces), f"<u{TYPES[element].length}"
            )
            places = np.repeat(starts, counts) + np.arange(len(raw))
            how = element, raw, self.walk.format, places % self.walk.positions
            flat[places] = landing.codes(*how, self.walk.layout.integers)
            if landing.may_end([element], self.walk.format, self.walk.layout.integers):
                fits[places] = landing.fits(*how, self.walk.layout.integers)
        for at, codes, fit in self.constants:
            flat[at : at + len(codes)] = codes
            fits[at : at + len(codes)] = fit
        shape = (self.count, self.walk.positions)
        return flat.reshape(shape), fits.reshape(shape)


def _walk_tuple(
    cursor: _Tuple, walk: WalkConfig, attributes: list[_Attribute], values: _Values
) -> bool:
    """Give the tuple's values to `values`; False where a NULL leaves the tuple out. Raises Stop."""
    for a in attributes:
        try:
            if not _walk_attribute(cursor, walk, a, values):
                return False
        except Stop as stop:
            column = walk.schema.columns[a.index].name
            raise Stop(stop.code, stop.line, column) from None
    return True


def _walk_attribute(cursor: _Tuple, walk: WalkConfig, a: _Attribute, values: _Values) -> bool:
    if not cursor.present(a.index):
        if not a.sources:
            return True
        constants = a.missing if a.index >= cursor.natts else None
        if constants is None:
            if walk.layout.on_null == "skip":
                return False
            raise Stop(PageError.TUPLE_NULL, cursor.line)
        assert a.missing_fits is not None
        for s in a.sources:
            part = slice(s.first, s.first + s.count)
            values.constant(s.position, constants[part], a.missing_fits[part])
        return True
    if a.length < 0 and not a.sources:
        cursor.skip_varlena(a.alignment)
        return True
    at = cursor.array(a.element, a.count) if a.length < 0 else cursor.fixed(a.size, a.alignment)
    for s in a.sources:
        raw = cursor.page.bytes(at + s.first * a.size, s.count * a.size)
        values.take(a.element, s.position, s.count, raw)
    return True


@dataclass
class _Rows:
    """Rows of a page so far: of each whole tuple the line pointer and how many were left out before it; the line pointers of all that are
    visible; and how many were left out."""

    tuples: list[tuple[int, int]]
    visible: list[int]
    skipped: int = 0


def _walk_lines(page: PageBytes, walk: WalkConfig, values: _Values, rows: _Rows) -> None:
    """Walk the tuples that line pointers name. Raises Stop."""
    attributes, size = _attributes(walk), walk.schema.page_size
    count = lines(page, size, p.pagesize_version(size))
    everything = walk.visibility == "all" or bool(page.word(10, 2) & p.PD_ALL_VISIBLE)
    for line in range(1, count + 1):
        offset, flags, length = line_pointer(page, line, count)
        if flags != p.LP_NORMAL:
            continue
        seen = everything or p.visible_by_hints(page.word(offset + 20, 2))
        if seen is None:
            raise Stop(PageError.TUPLE_VISIBILITY, line)
        complete = seen and _walk_tuple(
            _Tuple(page, walk, line, offset, length), walk, attributes, values
        )
        values.finish(complete)
        if seen:
            rows.visible.append(line)
        if complete:
            rows.tuples.append((line, rows.skipped))
        rows.skipped += not complete


def walk_page(
    page: NDArray[np.uint8],
    walk: WalkConfig,
    block: int = 0,
    places: list[tuple[int, bool]] | None = None,
) -> tuple[list[Codes], RowCounts, HardwareError | None]:
    """Walk one page.

    * `page`: `page_size` bytes.
    * `walk`: the table, the layout and the policies.
    * `block`: the block number for the error report.
    * `places`: takes the line pointer of each visible row, and whether the row is delivered.

    Returns the tuples before the first error in row order, each an array of codes by flat position (0 where
    no source lands); what was left out and counted before it; and the error or None.
    """
    values, rows, error = _Values(walk), _Rows([], []), None
    try:
        _walk_lines(PageBytes(page), walk, values, rows)
    except Stop as stop:
        error = HardwareError(stop.code, block, stop.line, column=stop.column)
    codes, fits = values.codes()
    tuples, skipped = rows.tuples, rows.skipped
    lines = {line for line, _ in tuples}
    if not fits.any():
        if places is not None:
            places += [(line, line in lines) for line in rows.visible]
        return list(codes), RowCounts(skipped), error
    order = delivery(walk)
    judged = fits[:, order]
    left, first = judge_rows(judged, walk.policy)
    wrong = np.flatnonzero(first >= 0)
    if len(wrong):  # it comes before the error that stopped the walk
        row = int(wrong[0])
        position = int(order[first[row]])
        line, skipped = tuples[row]
        error = HardwareError(CODES[Unfit(fits[row, position])], block, line, position + 1)
        codes, judged, left = codes[:row], judged[:row], left[:row]
        lines = {line for line, _ in tuples[:row]}
    lines -= {tuples[row][0] for row in np.flatnonzero(left)}
    if places is not None:
        places += [(line, line in lines) for line in rows.visible]
    counts = count_rows(judged, left, walk.policy)
    counts.skipped += skipped
    return list(codes[~left]), counts, error
