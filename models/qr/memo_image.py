"""A group's memo as bytes in memory, as `layout` orders them, and back."""

from __future__ import annotations

import struct

import numpy as np

from ..errors import HardwareCode
from ..numerics.formats import Codes
from .config import FitPlan
from .descriptor import HEAD, head_fields, pack, unpack
from .errors import FitError
from .job import Anchor, Integers, Memo, Method, Rows, Window
from .layout import ENTRY_BYTES, HEAD_BYTES, words

__all__ = ["pack_head", "pack_memo", "padded", "unpack_memo"]

#: err_min, err_max, least of a segment; bytes between them are zero
_SEGMENT = struct.Struct("<4xii8xi")


def padded(data: bytes, bus_bytes: int) -> bytes:
    """Fill up with zeros to bus words."""
    return data + bytes(-len(data) % bus_bytes)


def _head(config: FitPlan, window: Window, offsets: Rows, epoch: int = 0, rows: int = 0) -> bytes:
    own = {"length": window.length, "prefix": window.prefix, "epoch": epoch}
    fields = {**head_fields(config), **own, "rows": rows}
    return pack(HEAD, fields) + offsets.tobytes()


def pack_head(window: Window, offsets: Rows, config: FitPlan) -> bytes:
    """What stands at `memo` for a full job: the head of a memo of no rows, and the group's new offsets."""
    return padded(_head(config, window, offsets), config.bus_bytes)


def pack_memo(memo: Memo, config: FitPlan) -> bytes:
    """The memo: head (`descriptor.HEAD`) and offsets; c; the parts that `layout` names."""
    n, bus, anchor = memo.window.columns, config.bus_bytes, memo.anchor
    parts = [_head(config, memo.window, memo.offsets, memo.epoch, memo.rows)]
    parts.append(memo.right_hand_side.astype("<i8").tobytes())
    j, i = np.tril_indices(n)
    given = (
        np.stack([memo.sums, memo.squares], axis=1).ravel()
        if memo.gram is None
        else memo.gram[i, j]
    )
    each = bus // ENTRY_BYTES
    entries = np.zeros((words(len(given), each), each), dtype="<i8")
    entries.flat[: len(given)] = given
    whole = np.zeros((len(entries), bus), dtype=np.uint8)
    whole[:, : each * ENTRY_BYTES] = (
        entries.view(np.uint8).reshape(-1, each, 8)[:, :, :ENTRY_BYTES].reshape(len(entries), -1)
    )
    parts.append(whole.tobytes())
    if memo.d is not None and memo.u is not None:
        parts.append(np.where(i == j, memo.d[j], memo.u[i, j]).astype("<u4").tobytes())
    if anchor is not None:
        parts.append(anchor.weights.astype("<u4").tobytes())
        numbers = _SEGMENT.pack(anchor.err_min, anchor.err_max, anchor.least)
        parts.append(numbers + anchor.low.tobytes() + anchor.high.tobytes())
    return b"".join(padded(part, bus) for part in parts)


def _entries(data: bytes, count: int, bus_bytes: int) -> Integers:
    """The entries of AᵀA that bus words hold."""
    used = bus_bytes // ENTRY_BYTES * ENTRY_BYTES
    raw = np.frombuffer(data, dtype=np.uint8).reshape(-1, bus_bytes)[:, :used]
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
    length, n, at = head.length, head.length + 1, 0

    def take(count: int) -> bytes:
        nonlocal at
        part = data[at : at + count]
        at += -(-count // config.bus_bytes) * config.bus_bytes
        return part

    j, i = np.tril_indices(n)
    each = config.bus_bytes // ENTRY_BYTES
    givens = config.method is Method.GIVENS
    count = 2 * n if givens else len(i)
    size = HEAD_BYTES + length, 8 * n, config.bus_bytes * words(count, each), 4 * len(i) * givens
    if sum(-(-part // config.bus_bytes) * config.bus_bytes for part in size) > len(data):
        return FitError.QR_MEMO
    offsets = np.frombuffer(take(size[0])[HEAD_BYTES:], dtype=np.uint8)
    right_hand_side = np.frombuffer(take(size[1]), dtype="<i8").astype(np.int64)
    found = _entries(take(size[2]), count, config.bus_bytes)
    gram, d, u = None, None, None
    if givens:
        sums, squares = found[::2].copy(), found[1::2].copy()
        u = np.zeros((n, n), dtype=np.int64)
        u[i, j] = np.frombuffer(take(size[3]), dtype="<u4").astype(np.int64)
        d = np.diagonal(u).copy()
        np.fill_diagonal(u, 0)
    else:
        gram = np.zeros((n, n), dtype=np.int64)
        gram[i, j] = found
        sums, squares = gram[0].copy(), np.diagonal(gram).copy()
    anchor = None
    if config.incremental:
        weights, segment = take(4 * n), take(_SEGMENT.size + 2 * length)
        if len(segment) < _SEGMENT.size + 2 * length:
            return FitError.QR_MEMO
        anchor = _anchor(weights, segment, length)
    return Memo(
        config.method,
        config.target,
        Window(head.prefix, length),
        offsets,
        head.epoch,
        head.rows,
        sums,
        squares,
        right_hand_side,
        gram,
        d,
        u,
        anchor,
    )


def _anchor(weights: bytes, segment: bytes, length: int) -> Anchor:
    codes: Codes = np.frombuffer(weights, dtype="<u4").astype(np.int64)
    box = np.frombuffer(segment, dtype=np.uint8)[_SEGMENT.size :]
    err_min, err_max, least = _SEGMENT.unpack_from(segment)
    return Anchor(codes, err_min, err_max, least, box[:length], box[length:])
