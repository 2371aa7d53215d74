"""A job's data but for its memo (`memo_image`) as bytes in memory, as `layout` orders them: what a driver writes and hardware reads, and back.

Everything is little-endian and padded to bus words with zeros. A group's memo lies behind the result of the job that wrote it; the next job reads it there and
writes result and memo elsewhere, so a job that fails leaves the old ones as they were.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import HardwareCode, HardwareError
from .config import FitPlan
from .errors import FitError
from .job import Fit, Job, Rows
from .layout import (
    DESCRIPTOR_BYTES,
    HEAD_BYTES,
    Places,
    Size,
    memo_words,
    place,
    result_words,
    row_stride,
)
from .memo_image import LABELS, METHODS, pack_head, pack_memo, padded, unpack_memo

__all__ = [
    "LIVE",
    "Placed",
    "Places",
    "Record",
    "pack_changes",
    "pack_descriptor",
    "pack_result",
    "pack_rows",
    "place_jobs",
    "published",
    "unpack_changes",
    "unpack_result",
]

#: bit of a record's labels: the row was or is live
LIVE = 1 << 31


def pack_descriptor(job: Job, config: FitPlan, places: Places) -> bytes:
    """64 bytes: group (4), prefix (2), length (1), flags (1: bit 0 full, bit 1 method, bit 2 target), rows (4), span (4), epoch (4), limit (4, signed),
    numbers of inserted, buried, removed and moved rows (4 each), addresses of memo, changes, rows, result (6 each).
    """
    size = Size.of(job)
    flags = size.full | METHODS.index(config.method) << 1 | LABELS.index(config.target) << 2
    head = struct.pack(
        "<IHBBIIIi4I",
        job.group,
        job.window.prefix,
        job.window.length,
        flags,
        size.rows,
        size.places,
        job.epoch,
        job.limit,
        size.inserted,
        size.buried,
        size.removed,
        size.moved,
    )
    data = head + b"".join(
        address.to_bytes(6, "little")
        for address in (places.memo, places.changes, places.rows, places.result)
    )
    assert len(data) == DESCRIPTOR_BYTES
    return padded(data, config.bus_bytes)


def pack_changes(job: Job, config: FitPlan) -> bytes:
    """Records of inserted, buried, removed and moved rows: new label, old label (4 bytes each; 0 where there is none, as of ranks; bit 31: live), the row,
    padded to 4.
    """
    labels, alive = job.target_labels(), job.alive
    before, gone = np.zeros_like(labels), np.zeros(len(job.gone), dtype=np.int64)
    if job.labels is not None:
        before, gone = labels.copy(), job.removed_labels
        before[job.moved] = job.moved_from

    def marked(label: np.integer, live: np.bool_ | bool) -> int:
        return int(label) | (LIVE if live else 0)

    rows = [(marked(labels[i], alive[i]), 0, job.rows[i]) for i in job.inserted]
    rows += [
        (marked(labels[i], alive[i]), marked(before[i], True), job.rows[i]) for i in job.buried
    ]
    rows += [
        (0, marked(*old), row) for *old, row in zip(gone, job.gone_live, job.gone, strict=True)
    ]
    rows += [
        (marked(labels[i], alive[i]), marked(before[i], alive[i]), job.rows[i]) for i in job.moved
    ]
    return padded(
        b"".join(padded(struct.pack("<II", new, old) + row.tobytes(), 4) for new, old, row in rows),
        config.bus_bytes,
    )


@dataclass(frozen=True)
class Record:
    """One change as the engine's sums and bounds take it (target `slot`): c grows by value · a, AᵀA by sign · a aᵀ, the live rows by `live`.

    `label`: the row's label now; `came`: whether it is an inserted or moved live row, which the bounds look at.
    """

    value: int
    sign: int
    live: int
    label: int
    came: bool
    row: bytes


def unpack_changes(data: bytes, size: Size) -> list[Record]:
    """The records of a job of this size with target `slot`."""
    length = size.columns - 1
    records = []
    kinds = [size.inserted, size.buried, size.removed, size.moved]
    step = 8 + -(-length // 4) * 4
    for number, kind in enumerate(k for k, count in enumerate(kinds) for _ in range(count)):
        new, old = struct.unpack_from("<II", data, number * step)
        label = new & ~LIVE
        before = old & ~LIVE
        new_live = bool(new & LIVE)
        old_live = bool(old & LIVE)
        value, sign, live = [
            (label, 1, int(new_live)),
            (0, 0, -1),
            (-before, -1, -int(old_live)),
            (label - before, 0, 0),
        ][kind]
        records.append(
            Record(
                value,
                sign,
                live,
                label,
                kind in (0, 3) and new_live,
                data[number * step + 8 : number * step + 8 + length],
            )
        )
    return records


def pack_rows(job: Job, config: FitPlan) -> bytes:
    """Rows in their places (by slot, or one behind the other), then one bit a place, lowest first: whether a live row is in it."""
    size = Size.of(job)
    at = np.arange(len(job.rows)) if job.labels is None else job.labels
    rows = np.zeros((size.places, row_stride(job.window.length)), dtype=np.uint8)
    bits = np.zeros(size.places, dtype=np.uint8)
    rows[at, : job.window.length] = job.rows
    bits[at] = job.alive
    return padded(rows.tobytes(), config.bus_bytes) + padded(
        np.packbits(bits, bitorder="little").tobytes(), config.bus_bytes
    )


def pack_result(result: Fit | HardwareError, group: int, config: FitPlan) -> bytes:
    """Result of a job: group (4), code (4), err_min, err_max (4 each, signed), flags (4: bit 0 rescanned), zero (4), mask (8), weights (4 each); then the memo.

    After an error only the first word is written, with zeros behind the code.
    """
    if isinstance(result, HardwareError):
        return padded(struct.pack("<II24x", group, int(result.code)), config.bus_bytes)
    mask = sum(
        1 << int(k) for k in np.flatnonzero(result.mask)
    )  # of 64 columns: beyond what an int64 holds
    head = struct.pack(
        "<IIiiIIQ", group, 0, result.err_min, result.err_max, int(result.rescanned), 0, mask
    )
    return padded(head + result.weights.astype("<u4").tobytes(), config.bus_bytes)


def unpack_result(data: bytes, columns: int, config: FitPlan) -> Fit | HardwareCode:
    """The fit that these bytes (a result and the memo behind it) are, or the code that stands there."""
    group, code, low, high, flags, _, mask = struct.unpack_from("<IIiiIIQ", data)
    if code:
        return FitError(code)
    weights = np.frombuffer(data, dtype="<u4", count=columns, offset=HEAD_BYTES).astype(np.int64)
    begin = -(-(HEAD_BYTES + 4 * columns) // config.bus_bytes) * config.bus_bytes
    memo = unpack_memo(data[begin:], config)
    if isinstance(memo, HardwareCode):
        return memo
    return Fit(
        group,
        weights,
        np.array([mask >> k & 1 for k in range(columns)], dtype=bool),
        low,
        high,
        bool(flags & 1),
        memo,
    )


@dataclass(frozen=True)
class Placed:
    """Jobs of a run in memory.

    Parameters
    ----------
    base, memory
        Where the memory begins, and its bytes. The ring of descriptors comes first.
    places
        Of each job.
    sizes
        Bytes of each job's result and new memo.
    """

    base: int
    memory: Rows
    places: list[Places]
    sizes: list[int]


def place_jobs(jobs: Sequence[Job], config: FitPlan, base: int = 1 << 20) -> Placed:
    """Lay jobs out in memory as `layout.place` says."""
    bus, sizes = config.bus_bytes, [Size.of(job) for job in jobs]
    places = place(sizes, config, base)
    rooms = [bus * (result_words(size, config) + memo_words(size, config)) for size in sizes]
    parts = [pack_descriptor(job, config, at) for job, at in zip(jobs, places, strict=True)]
    for job, room in zip(jobs, rooms, strict=True):
        if job.memo is None:
            parts.append(pack_head(job.window, job.offsets, config))
        else:
            parts += [pack_memo(job.memo, config), pack_changes(job, config)]
        parts += [pack_rows(job, config), bytes(room)]
    content = np.frombuffer(b"".join(parts) or bytes(bus), dtype=np.uint8).copy()
    return Placed(base, content, places, rooms)


def published(
    placed: Placed, jobs: Sequence[Job], results: Sequence[Fit | HardwareError], config: FitPlan
) -> Rows:
    """The memory after the run: results and memos where the jobs wanted them; of an error just its result's head; all else as it was."""
    content = placed.memory.copy()
    for job, at, result in zip(jobs, placed.places, results, strict=True):
        data = pack_result(result, job.group, config)
        if not isinstance(result, HardwareError):
            data += pack_memo(result.memo, config)
        first = at.result - placed.base
        content[first : first + len(data)] = np.frombuffer(data, dtype=np.uint8)
    return content
