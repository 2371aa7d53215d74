"""Heap pages as pruning and updates leave them: line pointers of every kind, tuples in random order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.models.heap import page as p
from penstock.models.heap.packing import Rows, stored_value
from penstock.models.heap.schema import Schema
from penstock.models.heap.values import Raw
from penstock.models.heap.writer import rows_of
from testbench.visibility import VISIBILITY, Visibility

__all__ = ["random_slots", "write_pruned"]

Bytes = npt.NDArray[np.uint8]
#: kinds of line pointers for `slots`
_SLOTS = ("row", "dead", "unused", "redirect", "dead_stored")


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


def write_pruned(
    schema: Schema,
    columns: Mapping[str, Any],
    *,
    slots: Sequence[str] | None = None,
    shuffle: int | None = None,
    nulls: Mapping[str, npt.ArrayLike] | None = None,
    visibility: str | Sequence[str] = "frozen",
    natts: Sequence[int] | None = None,
    short: bool | Collection[str] = (),
    fillfactor: int = 100,
    first_block: int = 0,
    all_visible: bool | None = None,
) -> Bytes:
    """Pack rows one by one: what `penstock.models.heap.writer.write_heap` packs at once where they are frozen and none is gone.

    Parameters
    ----------
    slots
        The line pointers in order: "row" for the next row, "dead", "unused", "redirect" (to a row of the same page),
        "dead_stored" (dead, its tuple still there). Rows left at the end follow.
    visibility
        A name in `VISIBILITY`, for all rows or for each.
    fillfactor
        Percent of a page to fill, as the table option of that name.
    first_block
        The first page's number.
    all_visible
        The page flag; None sets it on pages whose rows are all frozen and that have no dead line pointer.
    shuffle
        A seed: tuples lie in random order within their page, as pruning may leave them. None: downwards in row order.

    Raises
    ------
    ValueError
        For slots of no known kind, or of more rows than there are.
    """
    rows = rows_of(schema, columns, nulls or {})
    count = len(rows[0].values) if rows else 0
    shorts = {c.name for c in schema.columns if c.is_array} if short is True else set(short or ())
    states = [visibility] * count if isinstance(visibility, str) else list(visibility)
    attributes = [len(rows)] * count if natts is None else list(natts)
    header = Header(schema.page_size, 731, 740, all_visible, fillfactor)
    return _write_any(header, rows, states, attributes, shorts, slots, shuffle, first_block)


def random_slots(
    rows: int, seed: int, *, dead: float = 0.1, unused: float = 0.1, redirect: float = 0.1
) -> list[str]:
    """Return `slots` for `write_heap` with line pointers of the other kinds strewn among `rows` rows at the given rates."""
    rng = np.random.default_rng(seed)
    slots: list[str] = []
    for _ in range(rows):
        while (draw := rng.random()) < dead + unused + redirect:
            slots.append(
                "dead" if draw < dead else "unused" if draw < dead + unused else "redirect"
            )
        slots.append("row")
    return slots


def _data(rows: list[Rows], index: int, natts: int, shorts: set[str]) -> tuple[bytes, bytes, int]:
    """Return a tuple's data, its null bitmap (empty without NULLs) and its `t_infomask` as far as values decide it."""
    data, infomask, bits = bytearray(), 0, []
    for row in rows[:natts]:
        bits.append(not row.null[index])
        if row.null[index]:
            continue
        value = stored_value(row, index, shorts)
        if isinstance(value, Raw):
            infomask |= p.HEAP_HASVARWIDTH | (p.HEAP_HASEXTERNAL if value.external else 0)
        if not (isinstance(value, Raw) and value.unaligned):
            data += bytes(p.align(len(data), row.column.storage.align) - len(data))
        data += value
    if all(bits):
        return bytes(data), b"", infomask
    return bytes(data), np.packbits(bits, bitorder="little").tobytes(), infomask | p.HEAP_HASNULL


class _Page:
    """One page while it is filled: line pointers by kind, and tuples in row order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots: list[tuple[str, bytes, str]] = []  # kind, tuple, visibility
        self.used = p.PAGE_HEADER_SIZE

    def fits(self, length: int, reserve: int = 0) -> bool:
        # a full fillfactor still lets one tuple onto an empty page
        reserve = reserve if self.slots else 0
        return self.used + p.LP_SIZE + p.align(length) + reserve <= self.size and len(
            self.slots
        ) < p.max_line_pointers(self.size)

    def add(self, kind: str, stored: bytes = b"", state: str = "") -> None:
        self.slots.append((kind, stored, state))
        self.used += p.LP_SIZE + p.align(len(stored))

    def image(self, header: Header, block: int, rng: np.random.Generator | None) -> Bytes:
        out = np.zeros(self.size, np.uint8)
        stored = [i for i, slot in enumerate(self.slots) if slot[1]]
        if rng is not None:
            rng.shuffle(stored)
        words, upper = [p.line_pointer(0, p.LP_UNUSED, 0)] * len(self.slots), self.size
        for i in stored:
            kind, data, _ = self.slots[i]
            upper -= p.align(len(data))
            words[i] = p.line_pointer(
                upper, p.LP_DEAD if kind == "dead_stored" else p.LP_NORMAL, len(data)
            )
            head = np.frombuffer(data[: p.TUPLE_HEADER_SIZE], p.TUPLE_HEADER).copy()
            head["t_ctid_block_high"], head["t_ctid_block_low"], head["t_ctid_line"] = (
                block >> 16,
                block & 0xFFFF,
                i + 1,
            )
            out[upper : upper + len(data)] = np.frombuffer(
                head.tobytes() + data[p.TUPLE_HEADER_SIZE :], np.uint8
            )
        targets = [i for i, slot in enumerate(self.slots) if slot[0] == "row"]
        for i, (kind, _, _) in enumerate(self.slots):
            if kind == "dead" or (kind == "redirect" and not targets):
                words[i] = p.line_pointer(0, p.LP_DEAD, 0)
            elif kind == "redirect":
                later = [t for t in targets if t > i] or targets
                words[i] = p.line_pointer(later[0] + 1, p.LP_REDIRECT, 0)
                if len(targets) > 1:
                    targets.remove(later[0])
                at = words[later[0]] & 0x7FFF  # the target of a redirect is a heap-only tuple
                out[at + 18 : at + 20].view("<u2")[0] |= p.HEAP_ONLY_TUPLE
                out[at + 20 : at + 22].view("<u2")[0] |= p.HEAP_UPDATED
        kinds = {slot[0] for slot in self.slots}
        flags = p.PD_HAS_FREE_LINES if "unused" in kinds else 0
        frozen = not kinds & {"dead", "dead_stored"} and all(
            slot[2] == "frozen" for slot in self.slots if slot[0] == "row"
        )
        if frozen if header.all_visible is None else header.all_visible:
            flags |= p.PD_ALL_VISIBLE
        lower = p.PAGE_HEADER_SIZE + p.LP_SIZE * len(words)
        out[: p.PAGE_HEADER_SIZE] = header.page(lower, upper, flags, 1).view(np.uint8)
        out[p.PAGE_HEADER_SIZE : lower] = np.array(words, "<u4").view(np.uint8)
        return out


def _write_any(
    header: Header,
    rows: list[Rows],
    states: list[str],
    natts: list[int],
    shorts: set[str],
    slots: Sequence[str] | None,
    shuffle: int | None,
    first_block: int,
) -> Bytes:
    size, pages = header.page_size, [_Page(header.page_size)]
    order = list(slots or ())
    for kind in set(order) - set(_SLOTS):
        raise ValueError(f"unknown kind of line pointer {kind!r}; known are {', '.join(_SLOTS)}")
    if (extra := order.count("row") - len(states)) > 0:
        raise ValueError(f"slots name {extra} rows more than there are")
    order += ["row"] * (len(states) - order.count("row"))
    index = 0
    for kind in order:
        stored, state = b"", ""
        if kind == "row" or (kind == "dead_stored" and states):
            source = min(
                index, len(states) - 1
            )  # a dead tuple with storage holds what the next row does
            state = states[source]
            data, bitmap, infomask = _data(rows, source, natts[source], shorts)
            hoff = p.align(p.TUPLE_HEADER_SIZE + len(bitmap))
            head = (
                header.tuples(1, infomask, natts[source], hoff, VISIBILITY[state]).tobytes()
                + bitmap
            )
            stored = head.ljust(hoff, b"\0") + data
            index += kind == "row"
        if not pages[-1].fits(len(stored), header.reserve(len(stored))):
            pages.append(_Page(size))
        pages[-1].add(kind, stored, state)
    if not order:
        return np.zeros((0, size), np.uint8)
    rng = None if shuffle is None else np.random.default_rng(shuffle)
    return np.stack([page.image(header, first_block + i, rng) for i, page in enumerate(pages)])
