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
from .descriptor import DESCRIPTOR, LABELS, METHODS, pack
from .errors import FitError
from .job import Fit, Job, Rows
from .layout import HEAD_BYTES, Places, Size, memo_words, place, result_words, row_stride
from .memo_image import pack_head, pack_memo, padded, unpack_memo

__all__ = [
    "Placed",
    "Places",
    "pack_changes",
    "pack_descriptor",
    "pack_result",
    "pack_rows",
    "place_jobs",
    "unpack_result",
]


def pack_descriptor(job: Job, config: FitPlan, places: Places) -> bytes:
    """The fields of `descriptor.DESCRIPTOR`."""
    size = Size.of(job)
    flags = size.full | METHODS.index(config.method) << 1 | LABELS.index(config.target) << 2
    counts = {name: getattr(size, name) for name in ("inserted", "removed", "moved")}
    at = {"memo": places.memo, "changes": places.changes, "rows_at": places.rows}
    fields = {
        "group": job.group,
        "prefix": job.window.prefix,
        "length": job.window.length,
        "flags": flags,
        "rows": size.rows,
        "span": size.places,
        "epoch": job.epoch,
        "limit": job.limit,
        **counts,
        **at,
        "result": places.result,
    }
    return padded(pack(DESCRIPTOR, fields), config.bus_bytes)


def pack_changes(job: Job, config: FitPlan) -> bytes:
    """Records of inserted, removed and moved rows: new label, old label (4 bytes each; 0 where there is none, as of ranks), the row, padded to 4."""
    labels, gone = job.target_labels(), job.removed_labels
    if job.labels is None:
        gone = np.zeros(len(job.gone), dtype=np.int64)
    rows = [(labels[i], 0, job.rows[i]) for i in job.inserted]
    rows += [(0, old, row) for old, row in zip(gone, job.gone, strict=True)]
    rows += [
        (labels[i], old, job.rows[i]) for i, old in zip(job.moved, job.moved_from, strict=True)
    ]
    return padded(
        b"".join(padded(struct.pack("<II", new, old) + row.tobytes(), 4) for new, old, row in rows),
        config.bus_bytes,
    )


def pack_rows(job: Job, config: FitPlan) -> bytes:
    """Rows in their places (by slot, or one behind the other), then one bit a place, lowest first: whether a row is in it."""
    size = Size.of(job)
    at = np.arange(len(job.rows)) if job.labels is None else job.labels
    rows = np.zeros((size.places, row_stride(job.window.length)), dtype=np.uint8)
    bits = np.zeros(size.places, dtype=np.uint8)
    rows[at, : job.window.length] = job.rows
    bits[at] = 1
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
    group, code, *bounds = struct.unpack_from("<IIii", data)
    low, high = bounds
    flags, mask = struct.unpack_from("<I4xQ", data, 16)
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
