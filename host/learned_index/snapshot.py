"""Snapshots: an index's items, layout and engine in a file. Loading fits the models anew.

The file, all numbers little-endian:

    8 bytes    magic "PSTKLIDX"
    u32        version
    u64        length of the header
    header     JSON: layout, engine configuration, number of items
    lengths    i64 of each key, in order, then of each value
    texts      keys, then values
    32 bytes   SHA-256 of everything before

Values are stored as they are where they are None, bool, int, float, str or bytes; others need `encode` and `decode`. Nothing in a file is ever run.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import struct
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.inputs import MEMORY, Input, InputError
from ...models.qr.config import FitPlan
from ...sim.staging import staging, sync
from .layout import Layout
from .trainer import Trainer

if TYPE_CHECKING:
    from .index import LearnedIndex

MAGIC = b"PSTKLIDX"
VERSION = 4
_START = struct.Struct("<8sIQ")


class SnapshotError(InputError, ValueError):
    """A file that is no whole snapshot of this version, or an index that cannot be stored. Says which file and what is wrong."""


_FILE = Input(
    "a snapshot of a learned index", "", lambda what, _: SnapshotError(what), MEMORY, (0, MAGIC)
)

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


# files


def save(
    index: LearnedIndex, path: str | os.PathLike[str], encode: Callable[[Any], bytes] | None = None
) -> None:
    """Write a snapshot of the index. A file that is there is replaced at once and as a whole; whatever goes wrong, it stays as it was.

    Args:
        encode: makes bytes of a value, for values that are not None, bool, int, float, str or bytes. What it raises comes through.

    Raises SnapshotError for a value that cannot be stored or of which `encode` makes no bytes, OSError where the file cannot be written.
    """
    path = Path(path)
    items = list(index.walk())
    texts = [key for key, _ in items] + _values(path, [value for _, value in items], encode)
    header = json.dumps(
        {
            "layout": asdict(index.layout),
            "config": index.trainer.config.to_json(),
            "limit": index.trainer.limit,
            "deferred": index.deferred,
            "encoded": encode is not None,
            "items": len(items),
        }
    ).encode()
    lengths = np.fromiter(map(len, texts), dtype="<i8", count=len(texts)).tobytes()
    start = _START.pack(MAGIC, VERSION, len(header))
    _replace(path, [start, header, lengths, b"".join(texts)])


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
    digest = hashlib.sha256()
    with staging(f".{path.name}.new-", path.parent) as place, open(place / "new", "wb") as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
        os.replace(place / "new", path)
    with contextlib.suppress(OSError):  # the folder's entry too, where the system can
        sync(path.parent)


def load(
    index: LearnedIndex,
    path: str | os.PathLike[str],
    trainer: Trainer | None = None,
    decode: Callable[[bytes], Any] | None = None,
) -> None:
    """Make `index`, an object without a state, the index of a snapshot.

    Args:
        trainer: fits the models, now and later; without one the golden model of the snapshot's engine does.
        decode: the way back from `encode`. What it raises comes through.

    Raises SnapshotError for a file that cannot be read, is cut, damaged, of another version, or at odds with itself.
    """
    path = Path(path)
    data = _FILE.data(path)
    if len(data) < _START.size + 32:
        raise SnapshotError(f"{path} is cut short")
    _, version, length = _START.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(f"{path} is a snapshot of version {version}; this is version {VERSION}")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise SnapshotError(f"{path} is damaged or cut short: its checksum is wrong")
    with _FILE.parsing(path):
        header = _FILE.json_of(data[_START.size : _START.size + length], path)
        encoded, deferred, limit = (header[name] for name in ("encoded", "deferred", "limit"))
        if type(encoded) is not bool or type(deferred) is not bool or type(limit) is not int:
            raise ValueError("a field of another type")
        layout = Layout(**header["layout"])
        fallback = Trainer(FitPlan.from_json(header["config"]), limit=limit)
        keys, values = _texts(data[_START.size + length : -32], header["items"])
        contents = values if encoded else [_decode(text) for text in values]
    if encoded:
        if decode is None:
            raise SnapshotError(
                f"{path}: its values were stored with an `encode`; load() needs the `decode`"
            )
        contents = [decode(text) for text in values]
    used = fallback if trainer is None else trainer
    items = zip(keys, contents, strict=True)
    index.__init__(items, trainer=used, layout=layout, deferred=deferred)  # type: ignore[misc]


def _texts(data: bytes, items: Any) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values. Raises ValueError for lengths that are not those of the texts, and for keys out of order."""
    if type(items) is not int or not 0 <= items <= len(data) // 16:
        raise ValueError("another number of items")
    lengths = np.frombuffer(data, "<i8", 2 * items)
    body = data[16 * items :]
    ends = list(itertools.accumulate(lengths.tolist(), initial=0))
    if (lengths < 0).any() or ends[-1] != len(body):
        raise ValueError("texts of other lengths than their bytes")
    texts = [body[begin:end] for begin, end in itertools.pairwise(ends)]
    keys = texts[:items]
    if any(a >= b for a, b in itertools.pairwise(keys)):
        raise ValueError("keys out of order")
    return keys, texts[items:]
