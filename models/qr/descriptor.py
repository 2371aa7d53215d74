"""Descriptors and memos' heads as the engine reads them, and the first thing wrong with them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ..errors import ErrorCode, HardwareCode
from .config import FitPlan
from .errors import FitError
from .job import Label, Method
from .layout import DESCRIPTOR_BYTES, HEAD_BYTES
from .memo_image import MAGIC
from .normal_equations import ROWS_MAX

__all__ = ["SPAN_MAX", "Descriptor", "check_descriptor", "check_head", "unpack_descriptor"]

#: most places of a group: labels are below it
SPAN_MAX = 1 << 31
_METHODS, _LABELS = list(Method), list(Label)


@dataclass(frozen=True)
class Descriptor:
    """A job's descriptor, field by field, as `image.pack_descriptor` writes it."""

    group: int
    prefix: int
    length: int
    flags: int
    rows: int
    span: int
    epoch: int
    limit: int
    inserted: int
    buried: int
    removed: int
    moved: int
    memo: int
    changes: int
    rows_at: int
    result: int


def unpack_descriptor(data: bytes) -> Descriptor:
    """The fields of a descriptor of 64 bytes."""
    numbers = struct.unpack_from("<IHBBIIIi4I", data)
    return Descriptor(
        *numbers,
        *(
            int.from_bytes(data[at : at + 6], "little")
            for at in range(DESCRIPTOR_BYTES - 24, DESCRIPTOR_BYTES, 6)
        ),
    )


def check_descriptor(d: Descriptor, config: FitPlan) -> HardwareCode:
    """Return the first of: QR_COLUMNS, QR_ROWS (rows, places), QR_DESCRIPTOR (flags, more changes than rows, addresses off bus words); else OK."""
    if not 2 <= d.length + 1 <= config.n_max:
        return FitError.QR_COLUMNS
    if d.rows > ROWS_MAX or d.span > SPAN_MAX:
        return FitError.QR_ROWS
    if d.flags & ~1 != _METHODS.index(config.method) << 1 | _LABELS.index(config.target) << 2:
        return FitError.QR_DESCRIPTOR
    if d.rows > d.span or (config.target is Label.RANK and d.rows != d.span):
        return FitError.QR_DESCRIPTOR
    if d.inserted + d.buried > d.rows or d.inserted + d.moved > d.rows or d.removed > ROWS_MAX:
        return FitError.QR_DESCRIPTOR
    if any(address % config.bus_bytes for address in (d.memo, d.changes, d.rows_at, d.result)):
        return FitError.QR_DESCRIPTOR
    return ErrorCode.OK


def check_head(head: bytes, d: Descriptor, config: FitPlan) -> HardwareCode:
    """Return what is wrong with the memo whose first 32 bytes these are, for a job that passed `check_descriptor`; the first of: QR_MEMO (not a memo of this
    engine), QR_WINDOW, QR_MEMO (epoch, rows); else OK. A full job's head gives it its offsets: epoch and rows mean nothing there.
    """
    magic, method, target, length, segments, prefix, zero, epoch, rows, live, end = struct.unpack(
        "<IBBBBHHIIIQ", head[:HEAD_BYTES]
    )
    expected = (
        MAGIC,
        _METHODS.index(config.method),
        _LABELS.index(config.target),
        int(config.incremental),
        0,
        0,
    )
    if (magic, method, target, segments, zero, end) != expected or live > rows:
        return FitError.QR_MEMO
    if (prefix, length) != (d.prefix, d.length):
        return FitError.QR_WINDOW
    return (
        ErrorCode.OK
        if d.flags & 1 or (epoch == d.epoch and rows + d.inserted - d.removed == d.rows)
        else FitError.QR_MEMO
    )
