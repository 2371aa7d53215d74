"""Descriptors and memos' heads, field by field, and what may be wrong with them: said once, of numbers and of hardware's signals."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import Any

from ..errors import HardwareCode
from .config import FitPlan
from .job import ROWS_MAX, Label, Method
from .shell import FitError

#: bytes of a descriptor's fields, in their order. `flags`: bit 0 full, bit 1 method, bit 2 target; behind `moved` byte addresses
DESCRIPTOR = {
    "group": 4,
    "prefix": 2,
    "length": 1,
    "flags": 1,
    "rows": 4,
    "span": 4,
    "epoch": 4,
    "limit": 4,
    "inserted": 4,
    "removed": 4,
    "moved": 4,
    "memo": 6,
    "changes": 6,
    "rows_at": 6,
    "result": 6,
}
#: of a memo's head; behind it come the offsets. `segments`: of the anchor, 0 or 1
HEAD = {
    "magic": 4,
    "method": 1,
    "target": 1,
    "length": 1,
    "segments": 1,
    "prefix": 2,
    "zero": 2,
    "epoch": 4,
    "rows": 4,
    "end": 12,
}
#: the one field that may be negative
SIGNED = "limit"
#: "QRM1", the first word of a memo
_MAGIC = 0x314D5251
#: in the order of their codes
METHODS, LABELS = list(Method), list(Label)
#: most places of a group: labels are below it
_SPAN_MAX = 1 << 31

#: conditions, and their codes: the first that holds counts
Faults = Iterable[tuple[Any, HardwareCode]]


def pack(fields: Mapping[str, int], values: Mapping[str, int]) -> bytes:
    """Bytes of fields, little-endian; what has no value is 0."""
    return b"".join(
        values.get(name, 0).to_bytes(size, "little", signed=name == SIGNED)
        for name, size in fields.items()
    )


def unpack(fields: Mapping[str, int], data: bytes) -> SimpleNamespace:
    """The fields that these bytes begin with."""
    record, at = SimpleNamespace(), 0
    for name, size in fields.items():
        part = data[at : at + size]
        setattr(record, name, int.from_bytes(part, "little", signed=name == SIGNED))
        at += size
    return record


def head_fields(config: FitPlan) -> dict[str, int]:
    """What the head of each memo of this engine's has."""
    return {
        "magic": _MAGIC,
        "method": METHODS.index(config.method),
        "target": LABELS.index(config.target),
        "segments": int(config.incremental),
        "zero": 0,
        "end": 0,
    }


def descriptor_faults(d: Any, config: FitPlan) -> Faults:
    """Columns, rows and places; then flags, more changes than rows, addresses off bus words."""
    kinds = METHODS.index(config.method) | LABELS.index(config.target) << 1
    addresses = d.memo | d.changes | d.rows_at | d.result
    return (
        ((d.length == 0) | (d.length >= config.n_max), FitError.QR_COLUMNS),
        ((d.rows > ROWS_MAX) | (d.span > _SPAN_MAX), FitError.QR_ROWS),
        (
            (d.flags >> 1 != kinds)
            | (d.rows != d.span if config.target is Label.RANK else d.rows > d.span)
            | (d.inserted + d.moved > d.rows)
            | (d.removed > ROWS_MAX)
            | (addresses & (config.bus_bytes - 1) != 0),
            FitError.QR_DESCRIPTOR,
        ),
    )


def head_faults(head: Any, d: Any, config: FitPlan) -> Faults:
    """Of a job whose descriptor is good: no memo of this engine, another window, another epoch or number of rows.

    A full job's head gives it its offsets: epoch and rows mean nothing there.
    """
    strange = reduce(or_, (getattr(head, n) != value for n, value in head_fields(config).items()))
    return (
        (strange, FitError.QR_MEMO),
        ((head.prefix != d.prefix) | (head.length != d.length), FitError.QR_WINDOW),
        (
            (d.flags & 1 == 0)
            & ((head.epoch != d.epoch) | (head.rows + d.inserted != d.rows + d.removed)),
            FitError.QR_MEMO,
        ),
    )
