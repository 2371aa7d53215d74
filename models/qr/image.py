"""A job's data as bytes in memory, as `layout` orders them: what a driver writes and hardware reads, and back.

Everything is little-endian and padded to bus words with zeros. A group's memo lies behind the result of the job that wrote it; the next job reads it there and
writes result and memo elsewhere, so a job that fails leaves the old ones as they were.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import HardwareCode, HardwareError
from ..numerics.formats import Codes
from .config import FitPlan
from .descriptor import DESCRIPTOR, HEAD, LABELS, METHODS, head_fields, pack, unpack
from .job import Anchor, Fit, Integers, Job, Memo, Method, Rows, Window
from .layout import (
    ENTRY_BYTES,
    HEAD_BYTES,
    Places,
    Size,
    memo_parts,
    memo_words,
    place,
    result_words,
    row_stride,
    words,
)
from .shell import FitError

#: err_min, err_max, least of a segment; bytes between them are zero
_SEGMENT = struct.Struct("<4xii8xi")


def _padded(data: bytes, bus_bytes: int) -> bytes:
    """Fill up with zeros to bus words."""
    return data + bytes(-len(data) % bus_bytes)


def _head(config: FitPlan, window: Window, offsets: Rows, epoch: int = 0, rows: int = 0) -> bytes:
    numbers = {"length": window.length, "prefix": window.prefix, "epoch": epoch}
    fields = {**head_fields(config), **numbers, "rows": rows}
    return pack(HEAD, fields) + offsets.tobytes()


def pack_head(window: Window, offsets: Rows, config: FitPlan) -> bytes:
    """What stands at `memo` for a full job: the head of a memo of no rows, and the group's new offsets."""
    return _padded(_head(config, window, offsets), config.bus_bytes)


def pack_memo(memo: Memo, config: FitPlan) -> bytes:
    """The memo: head (`descriptor.HEAD`) and offsets; c; the parts that `layout` names."""
    n, bus, anchor = memo.window.columns, config.bus_bytes, memo.anchor
    parts = [_head(config, memo.window, memo.offsets, memo.epoch, memo.rows)]
    parts.append(memo.right_hand_side.astype("<i8").tobytes())
    j, i = np.tril_indices(n)
    both = memo.sums, memo.squares
    totals = np.stack(both, axis=1).ravel() if memo.gram is None else memo.gram[i, j]
    each = bus // ENTRY_BYTES
    entries = np.zeros((words(len(totals), each), each), dtype="<i8")
    entries.flat[: len(totals)] = totals
    beats = np.zeros((len(entries), bus), dtype=np.uint8)
    beats[:, : each * ENTRY_BYTES] = (
        entries.view(np.uint8).reshape(-1, each, 8)[:, :, :ENTRY_BYTES].reshape(len(entries), -1)
    )
    parts.append(beats.tobytes())
    if memo.d is not None and memo.u is not None:
        parts.append(np.where(i == j, memo.d[j], memo.u[i, j]).astype("<u4").tobytes())
    if anchor is not None:
        parts.append(anchor.weights.astype("<u4").tobytes())
        numbers = _SEGMENT.pack(anchor.err_min, anchor.err_max, anchor.least)
        parts.append(numbers + anchor.low.tobytes() + anchor.high.tobytes())
    return b"".join(_padded(part, bus) for part in parts)


def _entries(data: Rows, count: int, bus_bytes: int) -> Integers:
    """The entries of AᵀA that bus words hold."""
    raw = data.reshape(-1, bus_bytes)[:, : bus_bytes // ENTRY_BYTES * ENTRY_BYTES]
    wide = np.zeros((count, 8), dtype=np.uint8)
    wide[:, :ENTRY_BYTES] = raw.reshape(-1, ENTRY_BYTES)[:count]
    shift = 64 - 8 * ENTRY_BYTES
    return (wide.view("<i8")[:, 0].astype(np.int64) << shift) >> shift


def unpack_memo(data: bytes, config: FitPlan) -> Memo | HardwareCode:
    """The memo that these bytes are; QR_MEMO where they are none of this engine's."""
    if len(data) < HEAD_BYTES:
        return FitError.QR_MEMO
    head = unpack(HEAD, data)
    strange = any(getattr(head, name) != value for name, value in head_fields(config).items())
    if strange or not 2 <= head.length + 1 <= config.n_max:
        return FitError.QR_MEMO
    length, n = head.length, head.length + 1
    sizes = {k: config.bus_bytes * v for k, v in memo_parts(Size(n, 0), config).items()}
    if sum(sizes.values()) > len(data):
        return FitError.QR_MEMO
    cut = np.split(np.frombuffer(data, np.uint8), np.cumsum(list(sizes.values())))
    parts = dict(zip(sizes, cut, strict=False))
    j, i = np.tril_indices(n)
    gram, d, u = None, None, None
    if config.method is Method.GIVENS:
        entries = _entries(parts["gram"], 2 * n, config.bus_bytes)
        sums, squares = entries[::2].copy(), entries[1::2].copy()
        u = np.zeros((n, n), dtype=np.int64)
        u[i, j] = _codes(parts["factor"], len(i))
        d = np.diagonal(u).copy()
        np.fill_diagonal(u, 0)
    else:
        gram = np.zeros((n, n), dtype=np.int64)
        gram[i, j] = _entries(parts["gram"], len(i), config.bus_bytes)
        sums, squares = gram[0].copy(), np.diagonal(gram).copy()
    anchor = None
    if config.incremental:
        box = parts["segment"][_SEGMENT.size :]
        err_min, err_max, least = _SEGMENT.unpack_from(parts["segment"].tobytes())
        ends = box[:length], box[length : 2 * length]
        anchor = Anchor(_codes(parts["weights"], n), err_min, err_max, least, *ends)
    right_hand_side = parts["c"][: 8 * n].view("<i8").astype(np.int64)
    exact = head.rows, sums, squares, right_hand_side, gram
    window, offsets = Window(head.prefix, length), parts["head"][HEAD_BYTES:][:length]
    context = config.method, config.target, window, offsets, head.epoch
    return Memo(*exact, *context, d, u, anchor)


def _codes(data: Rows, count: int) -> Codes:
    return data[: 4 * count].view("<u4").astype(np.int64)


def pack_descriptor(job: Job, config: FitPlan, places: Places) -> bytes:
    """The fields of `descriptor.DESCRIPTOR`."""
    size = Size.of(job)
    flags = size.full | METHODS.index(config.method) << 1 | LABELS.index(config.target) << 2
    job_fields = {name: getattr(job, name) for name in ("group", "epoch", "limit")}
    more = {"flags": flags, "span": size.places, "rows_at": places.rows}
    fields = {**vars(places), **vars(size), **vars(job.window), **job_fields, **more}
    return _padded(pack(DESCRIPTOR, fields), config.bus_bytes)


def pack_changes(job: Job, config: FitPlan) -> bytes:
    """Records of inserted, removed and moved rows: new label, old label (4 bytes each; 0 where there is none, as of ranks), the row, padded to 4."""
    labels, gone = job.target_labels(), job.removed_labels
    if job.labels is None:
        gone = np.zeros(len(job.removed), dtype=np.int64)
    rows = [(labels[i], 0, job.rows[i]) for i in job.inserted]
    rows += [(0, old, row) for old, row in zip(gone, job.removed, strict=True)]
    rows += [
        (labels[i], old, job.rows[i]) for i, old in zip(job.moved, job.moved_from, strict=True)
    ]
    return _padded(
        b"".join(
            _padded(struct.pack("<II", new, old) + row.tobytes(), 4) for new, old, row in rows
        ),
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
    return _padded(rows.tobytes(), config.bus_bytes) + _padded(
        np.packbits(bits, bitorder="little").tobytes(), config.bus_bytes
    )


def pack_result(result: Fit | HardwareError, group: int, config: FitPlan) -> bytes:
    """Result of a job: group (4), code (4), err_min, err_max (4 each, signed), flags (4: bit 0 rescanned), zero (4), mask (8), weights (4 each); then the memo.

    After an error only the first word is written, with zeros behind the code.
    """
    if isinstance(result, HardwareError):
        return _padded(struct.pack("<II24x", group, int(result.code)), config.bus_bytes)
    mask = sum(
        1 << int(k) for k in np.flatnonzero(result.mask)
    )  # of 64 columns: beyond what an int64 holds
    head = struct.pack(
        "<IIiiIIQ", group, 0, result.err_min, result.err_max, int(result.rescanned), 0, mask
    )
    return _padded(head + result.weights.astype("<u4").tobytes(), config.bus_bytes)


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
    kept = np.array([mask >> k & 1 for k in range(columns)], dtype=bool)
    return Fit(group, weights, kept, low, high, bool(flags & 1), memo)


@dataclass(frozen=True)
class Placed:
    """Jobs of a run in memory."""

    base: int  #: where the memory begins
    memory: Rows  #: its bytes; the ring of descriptors comes first
    places: list[Places]  #: of each job
    sizes: list[int]  #: bytes of each job's result and new memo


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
