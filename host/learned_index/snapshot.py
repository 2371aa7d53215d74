"""Snapshots: an index in a file, with its models and their memos, so that loading fits nothing again.

The file, all numbers little-endian:

    8 bytes    magic "PSTKLIDX"
    u32        version
    u64        length of the header
    header     JSON: layout, engine configuration, and for each group its fields, arrays among them as [dtype, shape]
    arrays     those arrays, one after the other, in the header's order
    32 bytes   SHA-256 of everything before

Values are stored as they are where they are None, bool, int, float, str or bytes; others need `encode` and `decode`. Nothing in a file is ever run.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.qr.config import FitPlan
from ...models.qr.job import Anchor, Fit, Label, Memo, Method, Window
from .group import Group
from .layout import Layout
from .model import Model, Trainer
from .slots import Slots
from .sound import check_fit, check_groups, check_types

if TYPE_CHECKING:
    from .index import LearnedIndex

__all__ = ["MAGIC", "VERSION", "SnapshotError", "load", "save"]

MAGIC = b"PSTKLIDX"
VERSION = 3
_START = struct.Struct("<8sIQ")
#: names in files: they stay where a class or a field is renamed
_KINDS: dict[str, type] = {"Fit": Fit, "Memo": Memo, "Anchor": Anchor, "Window": Window}
_ENUMS: dict[str, type[Enum]] = {"Method": Method, "Target": Label}
_NAMES: dict[type, str] = {kind: name for name, kind in (_KINDS | _ENUMS).items()}
_KEYS = {"right_hand_side": "moments"}


class SnapshotError(ValueError):
    """A file that is no whole snapshot of this version, or an index that cannot be stored. Says which file and what is wrong."""


# values


def _encode(value: Any) -> bytes | None:
    """One value as a tag and its bytes; None for one that is of no type that can be stored."""
    if value is None:
        return b"n"
    if type(value) is bytes:
        return b"b" + value
    if type(value) is bool:
        return b"t" if value else b"f"
    if type(value) is int:
        return b"i" + value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if type(value) is float:
        return b"d" + struct.pack("<d", value)
    if type(value) is str:
        return b"s" + value.encode("utf-8", "surrogatepass")
    return None


def _decode(text: bytes) -> Any:
    tag, rest = text[:1], text[1:]
    if tag == b"i":
        return int.from_bytes(rest, "little", signed=True)
    if tag == b"d":
        return struct.unpack("<d", rest)[0]
    if tag == b"s":
        return rest.decode("utf-8", "surrogatepass")
    if tag == b"b":
        return rest
    return {b"n": None, b"t": True, b"f": False}[text]


# objects with arrays


class _Out:
    """Turns objects into JSON, arrays into a list."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def array(self, array: np.ndarray) -> dict[str, Any]:
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self.arrays.append(plain)
        return {"$array": [plain.dtype.str, list(plain.shape)]}

    def texts(self, texts: Sequence[bytes]) -> dict[str, Any]:
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return {
            "lengths": self.array(lengths),
            "bytes": self.array(np.frombuffer(b"".join(texts), dtype=np.uint8)),
        }

    def __call__(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, Enum):
            return {"$enum": _NAMES[type(value)], "value": value.value}
        if is_dataclass(value):
            return {
                "$kind": _NAMES[type(value)],
                **{_KEYS.get(f.name, f.name): self(getattr(value, f.name)) for f in fields(value)},
            }
        return value.item() if isinstance(value, np.generic) else value


class _In:
    """The way back. Raises ValueError, TypeError or KeyError for what is not there or not of its kind."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def array(self, value: Any, kind: type[np.generic]) -> np.ndarray:
        """A list of numbers of this kind."""
        array = self(value)
        if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
            raise ValueError(f"no list of {kind.__name__}")
        return array

    def texts(self, value: dict[str, Any]) -> list[bytes]:
        lengths = self.array(value["lengths"], np.int64)
        whole = self.array(value["bytes"], np.uint8).tobytes()
        ends = list(itertools.accumulate(lengths.tolist()))
        if (lengths < 0).any() or (ends[-1] if ends else 0) != len(whole):
            raise ValueError("texts of other lengths than their bytes")
        return [whole[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "$array" in value:
            dtype, shape = np.dtype(value["$array"][0]), tuple(value["$array"][1])
            size = math.prod(shape) * dtype.itemsize
            if any(type(count) is not int or count < 0 for count in shape) or self.at + size > len(
                self.data
            ):
                raise ValueError(f"an array of {shape}")
            array = np.frombuffer(self.data[self.at : self.at + size], dtype=dtype).reshape(shape)
            self.at += size
            return array.astype(dtype.newbyteorder("="))
        if "$enum" in value:
            return _ENUMS[value["$enum"]](value["value"])
        kind = _KINDS[value["$kind"]]
        return kind(**{f.name: self(value[_KEYS.get(f.name, f.name)]) for f in fields(kind)})


# files


def save(
    index: LearnedIndex, path: str | os.PathLike[str], encode: Callable[[Any], bytes] | None = None
) -> None:
    """Write a snapshot of the index. A file that is there is replaced at once and as a whole; whatever goes wrong, it stays as it was.

    Args:
        encode: makes bytes of a value, for values that are not None, bool, int, float, str or bytes. What it raises comes through.

    Raises SnapshotError for a value that cannot be stored or of which `encode` makes no bytes, OSError where the file cannot be written.
    """
    path, out = Path(path), _Out()
    groups = []
    for group in index._groups:
        assert group.model is not None
        values = _values(path, group.values + [group.buffer[key] for key in group.waiting], encode)
        slots = group.model.slots
        groups.append(
            {
                "pivot": out.texts([group.pivot]),
                "keys": out.texts(group.keys),
                "waiting": out.texts(group.waiting),
                "values": out.texts(values),
                "dead": out(np.array(sorted(group.dead), dtype=np.int64)),
                "longest": group.longest,
                "fit": out(group.model.fit),
                "slots": None if slots is None else out(slots.array()),
                "capacity": slots.capacity if slots else 0,
            }
        )
    header = json.dumps(
        {
            "layout": asdict(index.layout),
            "config": index.trainer.config.to_json(),
            "limit": index.trainer.limit,
            "deferred": index.deferred,
            "encoded": encode is not None,
            "groups": groups,
        }
    ).encode()
    _replace(
        path,
        [
            _START.pack(MAGIC, VERSION, len(header)),
            header,
            *(array.data.cast("B") if array.size else b"" for array in out.arrays),
        ],
    )


def _values(path: Path, values: list[Any], encode: Callable[[Any], bytes] | None) -> list[bytes]:
    texts = []
    for value in values:
        text = _encode(value) if encode is None else encode(value)
        if not isinstance(text, bytes):
            what = (
                "cannot be stored; give save() an `encode` and load() a `decode`"
                if encode is None
                else f"was made {type(text).__name__} by `encode`, which must make bytes"
            )
            raise SnapshotError(f"{path}: a value of type {type(value).__name__} {what}")
        texts.append(text)
    return texts


def _replace(path: Path, parts: list[Any]) -> None:
    """Write parts and their checksum beside the file, then put it in its place."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    digest = hashlib.sha256()
    # not tempfile, which makes files for oneself alone
    opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(opened, "wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    with contextlib.suppress(OSError):  # the folder's entry too, where the system can
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def load(
    index: LearnedIndex,
    path: str | os.PathLike[str],
    trainer: Trainer | None = None,
    decode: Callable[[bytes], Any] | None = None,
) -> None:
    """Make `index`, an object without a state, the index of a snapshot.

    Args:
        trainer: for the fits to come; where its engine differs from that of the snapshot all models are fitted anew. Without one it is the golden model of the
            snapshot's engine.
        decode: the way back from `encode`. What it raises comes through.

    Raises SnapshotError for a file that is cut, damaged, of another version, or at odds with itself, OSError where it cannot be read. Before keys
    are served each model is held against its keys.
    """
    path = Path(path)
    data = path.read_bytes()
    if len(data) < _START.size + 32 or data[:8] != MAGIC:
        raise SnapshotError(f"{path} is no snapshot of a learned index, or is cut short")
    _, version, length = _START.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(f"{path} is a snapshot of version {version}; this is version {VERSION}")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise SnapshotError(f"{path} is damaged or cut short: its checksum is wrong")
    try:
        header = json.loads(data[_START.size : _START.size + length])
        encoded, deferred, limit = (header[name] for name in ("encoded", "deferred", "limit"))
        if type(encoded) is not bool or type(deferred) is not bool or type(limit) is not int:
            raise ValueError("a field of another type")
        config = FitPlan.from_json(header["config"])
        check_types(config)
        layout = Layout(**header["layout"])
        own = Trainer(config, limit=limit)
        into = _In(memoryview(data)[_START.size + length : -32])
        groups = [
            _group(into, record, config, bytes if encoded else _decode)
            for record in header["groups"]
        ]
        check_groups(groups, config)
        if into.at != len(into.data):
            raise ValueError("arrays of nothing")
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        OverflowError,
        RecursionError,
        struct.error,
    ) as problem:
        raise SnapshotError(f"{path} does not hold what a snapshot holds: {problem}") from problem
    if encoded:
        if decode is None:
            raise SnapshotError(
                f"{path}: its values were stored with an `encode`; load() needs the `decode`"
            )
        for group in groups:
            group.values = [decode(value) for value in group.values]
            group.buffer = {key: decode(value) for key, value in group.buffer.items()}
    used = trainer if trainer is not None else own
    if used.config != config:
        for group, model in zip(
            groups,
            used.build([(group.keys, _narrow(group.model, used)) for group in groups]),
            strict=True,
        ):
            group.model = model
    index._adopt(used, layout, deferred, groups)


def _group(
    into: _In, record: dict[str, Any], config: FitPlan, decode: Callable[[bytes], Any]
) -> Group:
    [pivot], keys, waiting, values = (
        into.texts(record[name]) for name in ("pivot", "keys", "waiting", "values")
    )
    if len(values) != len(keys) + len(waiting):
        raise ValueError("keys without values")
    dead = into.array(record["dead"], np.int64).tolist()
    longest = record["longest"]
    capacity = record["capacity"]
    if type(longest) is not int or longest < 0 or type(capacity) is not int:
        raise ValueError("a group's number of another type")
    fit = into(record["fit"])
    slots = None if record["slots"] is None else into.array(record["slots"], np.int64)
    if not isinstance(fit, Fit):
        raise ValueError("a group without a fit")
    check_fit(fit, config)
    decoded = [decode(value) for value in values]
    group = Group(pivot, keys, decoded[: len(keys)], longest)
    group.dead = set(dead)
    group.waiting = waiting
    group.buffer = dict(zip(waiting, decoded[len(keys) :], strict=True))
    group.model = Model(fit, None if slots is None else Slots(slots.tolist(), capacity))
    return group


def _narrow(model: Model | None, trainer: Trainer) -> Window:
    assert model is not None
    return Window(model.window.prefix, min(model.window.length, trainer.longest))
