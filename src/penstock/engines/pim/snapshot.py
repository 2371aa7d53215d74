"""A request's states as bytes: a file of safetensors, with what they belong to.

`layers.N.state` (heads, columns, slices of dim_head, 32) has the bytes of each sub-chunk, as the banks hold them, of each layer that took a
token. The header's metadata have the rest as JSON, and a digest of all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.models.inputs import Input, InputError

Bytes = NDArray[np.uint8]
#: what the metadata call it, with the number of its form
_FORM = "penstock.session.3"
FORM = Input("that of a session", "", lambda *_: InputError("no session wrote it"))


def packed(tensors: Mapping[str, Bytes], note: Mapping[str, Any]) -> bytes:
    """Return arrays of bytes, and what is said of them."""
    table: dict[str, Any] = {}
    at = 0
    for name, array in tensors.items():
        ends = [at, at := at + array.nbytes]
        table[name] = {"dtype": "U8", "shape": list(array.shape), "data_offsets": ends}
    text, content = json.dumps(note), b"".join(array.tobytes() for array in tensors.values())
    metadata = {_FORM: text, "sha256": _digest(text, table, content)}
    head = json.dumps({"__metadata__": metadata, **table}).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + content


def unpacked(data: bytes) -> tuple[dict[str, Bytes], dict[str, Any]]:
    """Return what was packed. Raises InputError, with the reason, for anything else."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise InputError("it is no file of safetensors, or the beginning of one")
    content = data[8 + size :]
    with FORM.parsing(""):
        table = FORM.json_of(data[8 : 8 + size], "")
        metadata = table.pop("__metadata__")
        text, digest = metadata[_FORM], metadata["sha256"]
        if digest != _digest(text, table, content):
            raise InputError("bytes of it are missing, or others than were written")
        buffer, tensors = np.frombuffer(content, dtype=np.uint8), {}
        for name, entry in table.items():
            begin, end = entry["data_offsets"]
            tensors[name] = buffer[begin:end].reshape(entry["shape"])
        return tensors, FORM.json_of(text, "")


def _digest(text: str, table: Mapping[str, Any], content: bytes) -> str:
    return hashlib.sha256(json.dumps([text, table]).encode() + content).hexdigest()
